//! Opening the files that a configuration, a folder or the command line names: only what ends is read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// How much is read of a stream, in octets.
const MAX_STREAM_LEN: u64 = 256 << 20;

/// Opens a file for reading. What may not end is refused, unless it is named as a stream.
pub fn open(path: &Path) -> io::Result<File> {
    match may_not_end(path) && !is_stream(path) {
        true => Err(io::Error::other("it is no regular file")),
        false => File::open(path),
    }
}

/// Reads a file as [`open`] opens it; a stream that is too long is an error.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let limit = if may_not_end(path) { MAX_STREAM_LEN } else { u64::MAX };
    let mut octets = Vec::new();
    match open(path)?.take(limit).read_to_end(&mut octets)? as u64 == limit {
        true => Err(io::Error::other(format!("it has more than {} MiB", MAX_STREAM_LEN >> 20))),
        false => Ok(octets),
    }
}

/// Whether reading may take for ever, or all memory: a pipe has no end before somebody writes to it, some devices have none at
/// all.
fn may_not_end(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Whether a path names what the shell has opened for this process: then a pipe is meant.
fn is_stream(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd")
}
