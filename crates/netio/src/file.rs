//! Opening files without side effects: a path is resolved (O_PATH) and examined before the file is opened.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A handle of the file at a path, not opened for reading (open(2), O_PATH). It refers to the same file whatever happens to the path.
pub struct PathHandle(File);

impl PathHandle {
    /// The file at `path`; follows symbolic links.
    pub fn at(path: &Path) -> io::Result<PathHandle> {
        OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).map(PathHandle)
    }

    /// The canonical path of the file.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        fs::read_link(self.in_proc())
    }

    /// Its metadata.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.0.metadata()
    }

    /// Whether it is a regular file with contents of its own: see [`is_regular`].
    pub fn is_regular_file(&self) -> io::Result<bool> {
        is_regular(&self.0, &self.0.metadata()?)
    }

    /// Opens the file for reading. Blocks on a FIFO without a writer: check the metadata first.
    pub fn open(&self) -> io::Result<File> {
        // Not O_NONBLOCK, which fails while another process holds a lease on the file (fcntl(2)).
        File::open(self.in_proc())
    }

    /// proc_pid_fd(5): a magic link to the file itself, independent of its path.
    fn in_proc(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Whether a file, which has this metadata, is a regular one with contents of its own. The kernel generates files of procfs, sysfs,
/// debugfs and tracefs when they are read: they are called regular with a size of 0, but some have no end, and others block.
pub fn is_regular(file: &File, metadata: &Metadata) -> io::Result<bool> {
    const GENERATED: [libc::c_long; 4] =
        [libc::PROC_SUPER_MAGIC, libc::SYSFS_MAGIC, libc::DEBUGFS_MAGIC, libc::TRACEFS_MAGIC];
    // File systems without a disk, such as those, have devices with the major number 0.
    if !metadata.is_file() || libc::major(metadata.dev()) != 0 {
        return Ok(metadata.is_file());
    }
    let mut filesystem = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the descriptor is open, and the pointer is valid for one `statfs`.
    if unsafe { libc::fstatfs(file.as_raw_fd(), filesystem.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fstatfs(2) has succeeded, so it has filled the structure.
    let filesystem = unsafe { filesystem.assume_init() };
    Ok(!GENERATED.contains(&(filesystem.f_type as libc::c_long)))
}

/// The octets that this user may still write to the file system of an open file.
pub fn free_space(file: &File) -> io::Result<u64> {
    let mut filesystem = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open, and the pointer is valid for one `statvfs`.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), filesystem.as_mut_ptr()) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fstatvfs(3) has succeeded, so it has filled the structure.
    let filesystem = unsafe { filesystem.assume_init() };
    Ok(filesystem.f_bavail.saturating_mul(filesystem.f_frsize))
}

/// Whether links of a path refer to each other without an end (or to more than 40 others, path_resolution(7)).
pub fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

/// Opens a directory. Fails for anything else, including a symbolic link to a directory.
pub fn open_directory(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Opens a file for reading and writing; if `create`, creates it with mode 0600. Fails for a symbolic link, and does not block on a
/// FIFO: check the metadata before use.
pub fn open_no_link(path: &Path, create: bool) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(create).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_handle_keeps_its_file() {
        let directory = std::env::temp_dir().join(format!("netio-file-{}", std::process::id()));
        fs::create_dir(&directory).expect("a writable directory for temporary files");
        let [file, other, link] = ["file", "other", "link"].map(|name| directory.join(name));
        fs::write(&file, "file").expect("a file");
        fs::write(&other, "other").expect("a file");
        symlink(&file, &link).expect("a link");
        let found = PathHandle::at(&link).expect("the file just written");
        assert_eq!(found.real_path().expect("procfs"), file.canonicalize().expect("the file just written"));
        fs::rename(&other, &file).expect("both are there");
        let mut text = String::new();
        found.open().and_then(|mut file| file.read_to_string(&mut text)).expect("it is held");
        assert_eq!(text, "file");
        fs::remove_dir_all(&directory).expect("the directory just made");
    }

    #[test]
    fn files_that_the_kernel_generates_are_not_regular() {
        let is_regular = |path: &str| PathHandle::at(Path::new(path)).and_then(|file| file.is_regular_file());
        for path in ["/proc/self/maps", "/proc", "/dev/null"] {
            assert!(!is_regular(path).expect("it is there"), "{path}");
        }
        assert!(is_regular("/proc/self/exe").expect("a link to this test"));
    }

    #[test]
    fn a_file_system_says_how_much_is_free() {
        let free = |path: &str| File::open(path).and_then(|file| free_space(&file)).expect("it is there");
        assert!(free("/proc") == 0 && free("/proc/self/exe") > 0);
    }

    #[test]
    fn missing_files_are_errors() {
        assert!(PathHandle::at(Path::new("/no/such/file")).is_err());
    }

    #[test]
    fn links_are_not_followed() {
        let directory = std::env::temp_dir().join(format!("netio-links-{}", std::process::id()));
        fs::create_dir(&directory).expect("a writable directory for temporary files");
        let [link, file] = ["link", "file"].map(|name| directory.join(name));
        assert!(open_no_link(&file, false).is_err());
        let made = open_no_link(&file, true).and_then(|file| file.metadata()).expect("a new file");
        assert_eq!(made.mode() & 0o777, 0o600);
        symlink(&file, &link).expect("a new link");
        assert!(open_no_link(&link, true).is_err() && open_directory(&file).is_err());
        fs::remove_file(&link).expect("the link");
        symlink(&directory, &link).expect("a new link");
        assert!(open_directory(&link).is_err() && open_directory(&directory).is_ok());
        fs::remove_dir_all(&directory).expect("the directory just made");
    }
}
