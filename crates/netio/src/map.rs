//! The content of a file as a slice: small files are read, large ones mapped.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::slice;

/// From this size on a file is mapped: below, reading is as quick and has no hazard.
const MAP_FROM: u64 = 1 << 20;

/// The octets of a file.
///
/// A large file is mapped: **if somebody cuts it shorter meanwhile, touching what is gone ends the process** (SIGBUS), and what
/// is written into it may show. Replace files by renaming a new one into place, as every careful program does, and neither happens.
pub struct Contents(Kind);

enum Kind {
    Read(Vec<u8>),
    Mapped(Map),
}

impl Contents {
    /// The content of the file at `path`; what is no regular file (a pipe, a terminal) is read to its end.
    pub fn open(path: &Path) -> io::Result<Contents> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_file() && metadata.len() >= MAP_FROM {
            return Ok(Contents(Kind::Mapped(Map::new(&file, metadata.len())?)));
        }
        let mut octets = Vec::with_capacity(metadata.len() as usize);
        file.read_to_end(&mut octets)?;
        Ok(Contents(Kind::Read(octets)))
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Read(octets) => octets,
            // SAFETY: `Map` holds a readable map of that length until it is dropped. That nobody cuts the file shorter
            // cannot be had from the kernel and is asked of the user above.
            Kind::Mapped(map) => unsafe { slice::from_raw_parts(map.start.as_ptr(), map.len) },
        }
    }
}

struct Map {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a read-only map belongs to the process, not to a thread.
unsafe impl Send for Map {}
// SAFETY: as above; nobody writes through it.
unsafe impl Sync for Map {}

impl Map {
    fn new(file: &File, len: u64) -> io::Result<Map> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a fresh map at a place of the kernel's choice; nothing that exists is touched.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the map just made. Advice only: that it fails does not matter.
        unsafe { libc::madvise(start, len, libc::MADV_SEQUENTIAL) };
        let start = NonNull::new(start.cast()).expect("the kernel maps nothing at 0 unless it is asked to");
        Ok(Map { start, len })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the map made in `new`, which nothing borrows any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(len: usize) -> bool {
        let path = std::env::temp_dir().join(format!("netio-map-{}-{len}", std::process::id()));
        let octets: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        std::fs::write(&path, &octets).expect("a writable folder for temporary files");
        let contents = Contents::open(&path).expect("the file just written");
        std::fs::remove_file(&path).expect("the file just written");
        assert!(*contents == octets[..], "{len} octets");
        matches!(contents.0, Kind::Mapped(_))
    }

    #[test]
    fn small_files_are_read_and_large_ones_mapped() {
        let threshold = MAP_FROM as usize;
        assert_eq!(
            [0, 5, threshold - 1, threshold, threshold + 4097].map(round_trip),
            [false, false, false, true, true]
        );
    }

    #[test]
    fn what_is_no_file_is_read_or_refused() {
        assert!(Contents::open(Path::new("/dev/null")).expect("always there").is_empty());
        assert!(Contents::open(Path::new("/")).is_err());
        assert!(Contents::open(Path::new("/no/such/file")).is_err());
    }
}
