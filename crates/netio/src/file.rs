//! Opening what others may have put links in the place of.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a folder. Fails where there is something else, a symbolic link to a folder included.
pub fn open_folder(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Opens a file for reading and writing, or makes it for this user alone if `create`. Fails where there is a symbolic link, and
/// waits for no other end of a pipe: look at its metadata before it is used.
pub fn open_no_link(path: &Path, create: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(create).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn links_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("netio-file-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a writable folder for temporary files");
        let [link, file] = ["link", "file"].map(|name| folder.join(name));
        assert!(open_no_link(&file, false).is_err());
        let made = open_no_link(&file, true).and_then(|file| file.metadata()).expect("a new file");
        assert_eq!(made.mode() & 0o777, 0o600);
        symlink(&file, &link).expect("a new link");
        assert!(open_no_link(&link, true).is_err() && open_folder(&file).is_err());
        std::fs::remove_file(&link).expect("the link");
        symlink(&folder, &link).expect("a new link");
        assert!(open_folder(&link).is_err() && open_folder(&folder).is_ok());
        std::fs::remove_dir_all(&folder).expect("the folder just made");
    }
}
