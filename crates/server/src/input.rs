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
    let limit = if may_not_end(path) { MAX_STREAM_LEN } else { u64::MAX };
    let mut octets = Vec::new();
    match open(path)?.take(limit).read_to_end(&mut octets)? as u64 == limit {
        true => Err(io::Error::other(format!("it is longer than {} MiB", MAX_STREAM_LEN >> 20))),
        false => Ok(octets),
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
    fn regular_files_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        for text in ["", "text"] {
            let path = folder.path().join("file");
            std::fs::write(&path, text).expect("a file");
            assert_eq!(read(&path).expect("a regular file"), text.as_bytes());
        }
    }
}
