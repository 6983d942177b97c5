//! Opens the files that a configuration, a folder or the command line names, and refuses files without an end.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use netio::file::PathHandle;

/// The maximum length of a stream, in octets.
const MAX_STREAM_LEN: u64 = 256 << 20;

/// Opens a file for reading. Pipes, devices and files of /proc are refused, unless the path names a stream of this process.
pub fn open(path: &Path) -> io::Result<File> {
    match may_not_end(path) && !is_stream(path) {
        true => Err(io::Error::other("it is not a regular file")),
        false => File::open(path),
    }
}

/// Reads a file that [`open`] accepts; a stream that is too long is an error.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(path, if may_not_end(path) { MAX_STREAM_LEN } else { u64::MAX })
}

/// As [`read`]; more than `limit` octets are an error.
pub fn read_at_most(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    let len = open(path)?.take(limit.saturating_add(1)).read_to_end(&mut octets)?;
    match len as u64 <= limit {
        true => Ok(octets),
        false if limit >> 20 > 0 => Err(io::Error::other(format!("it is longer than {} MiB", limit >> 20))),
        false => Err(io::Error::other(format!("it is longer than {} KiB", limit >> 10))),
    }
}

/// Whether reading may take forever, or all memory: a pipe has no end until its writer closes it, and some devices and some
/// files of /proc and /sys have none.
fn may_not_end(path: &Path) -> bool {
    let is_regular = |file: PathHandle| Ok(file.metadata()?.is_dir() || file.is_regular_file()?);
    PathHandle::at(path).and_then(is_regular).is_ok_and(|is_regular| !is_regular)
}

/// Whether a path names a stream that the shell opened for this process, which may be a pipe.
fn is_stream(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_the_kernel_generates_are_refused() {
        for path in ["/proc/self/maps", "/proc/version", "/proc/self/cwd/../proc/version", "/dev/zero"] {
            let path = Path::new(path);
            if path.exists() {
                let error = read(path).expect_err("it may have no end").to_string();
                assert_eq!(error, "it is not a regular file", "{path:?}");
            }
        }
    }

    #[test]
    fn a_file_that_is_too_long_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, [b'x'; 1025]).expect("a file");
        assert_eq!(read_at_most(&path, 1025).expect("it fits").len(), 1025);
        let error = read_at_most(&path, 1024).expect_err("one octet too many").to_string();
        assert_eq!(error, "it is longer than 1 KiB");
    }

    #[test]
    fn regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        for text in ["", "text"] {
            let path = folder.path().join("file");
            std::fs::write(&path, text).expect("a file");
            assert_eq!(read(&path).expect("a regular file"), text.as_bytes());
        }
    }
}
