//! Files opened without side effects: what a path leads to is known before it is opened.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that was found but not opened for reading: whatever happens to its path, it stays the same file.
pub struct PathHandle(File);

impl PathHandle {
    /// The file that a path leads to, through links.
    pub fn at(path: &Path) -> io::Result<PathHandle> {
        OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).map(PathHandle)
    }

    /// Its path without links and `..`.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        fs::read_link(self.in_proc())
    }

    /// Its metadata.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Opens it for reading. Waits for the other end of a pipe: look at its metadata first.
    pub fn open(&self) -> io::Result<File> {
        // Without O_NONBLOCK, with which it fails while another process holds a lease of the file (fcntl(2)).
        File::open(self.in_proc())
    }

    /// proc_pid_fd(5): a link to the file itself, not to its path.
    fn in_proc(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Opens a folder. Fails where there is something else, a symbolic link to a folder included.
pub fn open_directory(path: &Path) -> io::Result<File> {
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
    use std::io::Read;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_found_file_stays_the_same() {
        let folder = std::env::temp_dir().join(format!("netio-file-{}", std::process::id()));
        fs::create_dir(&folder).expect("a writable folder for temporary files");
        let [file, other, link] = ["file", "other", "link"].map(|name| folder.join(name));
        fs::write(&file, "file").expect("a file");
        fs::write(&other, "other").expect("a file");
        symlink(&file, &link).expect("a link");
        let found = PathHandle::at(&link).expect("the file just written");
        assert_eq!(found.real_path().expect("procfs"), file.canonicalize().expect("the file just written"));
        fs::rename(&other, &file).expect("both are there");
        let mut text = String::new();
        found.open().and_then(|mut file| file.read_to_string(&mut text)).expect("it is held");
        assert_eq!(text, "file");
        fs::remove_dir_all(&folder).expect("the folder just made");
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert!(PathHandle::at(Path::new("/no/such/file")).is_err());
    }

    #[test]
    fn links_are_not_followed() {
        let folder = std::env::temp_dir().join(format!("netio-links-{}", std::process::id()));
        fs::create_dir(&folder).expect("a writable folder for temporary files");
        let [link, file] = ["link", "file"].map(|name| folder.join(name));
        assert!(open_no_link(&file, false).is_err());
        let made = open_no_link(&file, true).and_then(|file| file.metadata()).expect("a new file");
        assert_eq!(made.mode() & 0o777, 0o600);
        symlink(&file, &link).expect("a new link");
        assert!(open_no_link(&link, true).is_err() && open_directory(&file).is_err());
        fs::remove_file(&link).expect("the link");
        symlink(&folder, &link).expect("a new link");
        assert!(open_directory(&link).is_err() && open_directory(&folder).is_ok());
        fs::remove_dir_all(&folder).expect("the folder just made");
    }
}
