//! Images of zones in the store: small ones inside a record, big ones in a file of their own. Either is a sequence of frames: the length
//! of a chunk, the checksum of its number and octets (CRC-32C), and the chunk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::disk::{Disk, DiskFile, read_full};

/// How much of a file is written before it is synced: a sync of more would delay those of the journal.
const SYNC_LEN: u64 = 8 << 20;
const FRAME_HEAD_LEN: usize = 8;
/// How much of the disk a file must leave free: without room for a batch of the journal, no change of any zone is acknowledged.
const RESERVED_LEN: u64 = 8 << 20;

/// Starts the name of an image file; its number follows.
pub(super) const IMAGE_PREFIX: &str = "image-";
/// Ends the name of one that is damaged and kept for the operator. Nothing of zonda reads or removes it.
pub(super) const DAMAGED_SUFFIX: &str = ".damaged";

/// The name of an image file.
pub(super) fn image_file_name(number: u32) -> String {
    format!("{IMAGE_PREFIX}{number:08}")
}

/// The name that a damaged image is kept by; `None` if `file` is not that of an image.
pub(super) fn damaged_image_name(file: &str) -> Option<String> {
    file.starts_with(IMAGE_PREFIX).then(|| format!("{file}{DAMAGED_SUFFIX}"))
}

/// Writes an image; on any thread, as it may take long. One that is dropped before [`Self::finish`] removes its file. A finished one
/// that the store does not get leaves a file that the next start removes.
pub struct ImageWriter<D: Disk> {
    disk: Arc<D>,
    numbers: Arc<AtomicU32>,
    /// More octets than this get a file of their own.
    max_inline_len: usize,
    frames: Vec<u8>,
    chunk_count: u32,
    file: Option<(u32, D::File)>,
    written: u64,
    synced: u64,
}

/// A written image, which the store takes.
#[derive(Debug)]
pub enum StoredImage {
    /// Its frames.
    Inline(Vec<u8>),
    /// It is durable in the file with this number and of this length.
    File(u32, u64),
}

impl<D: Disk> ImageWriter<D> {
    pub(super) fn new(disk: Arc<D>, numbers: Arc<AtomicU32>, max_inline_len: usize) -> ImageWriter<D> {
        ImageWriter {
            disk,
            numbers,
            max_inline_len,
            frames: Vec::new(),
            chunk_count: 0,
            file: None,
            written: 0,
            synced: 0,
        }
    }

    /// Appends a chunk.
    pub fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.frames.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
        self.frames.extend_from_slice(&crc32c::crc32c_append(self.chunk_count, chunk).to_le_bytes());
        self.frames.extend_from_slice(chunk);
        self.chunk_count += 1;
        if self.frames.len() > self.max_inline_len { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        // Where nobody knows, the disk itself says that it is full.
        if self.disk.free_octets().unwrap_or(u64::MAX) < self.frames.len() as u64 + RESERVED_LEN {
            let problem = format!("an image must leave {} MiB of the disk to the journal", RESERVED_LEN >> 20);
            return Err(io::Error::new(io::ErrorKind::StorageFull, problem));
        }
        if self.file.is_none() {
            let number = self.numbers.fetch_add(1, Relaxed);
            self.file = Some((number, self.disk.create(&image_file_name(number))?));
        }
        let Some((_, file)) = &self.file else { return Ok(()) };
        file.write_at(&self.frames, self.written)?;
        self.written += self.frames.len() as u64;
        self.frames.clear();
        if self.written - self.synced > SYNC_LEN {
            file.sync()?;
            self.synced = self.written;
        }
        Ok(())
    }

    /// Ends the image. A file is durable then.
    pub fn finish(mut self) -> io::Result<StoredImage> {
        if self.file.is_some() {
            self.flush()?;
        }
        let Some((number, file)) = &self.file else {
            return Ok(StoredImage::Inline(std::mem::take(&mut self.frames)));
        };
        file.sync()?;
        self.disk.sync_directory()?;
        let image = StoredImage::File(*number, self.written);
        self.file = None;
        Ok(image)
    }
}

impl<D: Disk> Drop for ImageWriter<D> {
    fn drop(&mut self) {
        // Half an image on a full disk would keep it full.
        if let Some((number, _)) = self.file.take() {
            _ = self.disk.remove(&image_file_name(number));
        }
    }
}

/// Reads an image chunk by chunk; on any thread.
pub struct ImageReader<F> {
    source: Arc<ImageSource<F>>,
    at: u64,
    end: u64,
    chunk_count: u32,
}

/// The file that has an image.
struct ImageSource<F> {
    file: Arc<F>,
    /// For messages.
    name: String,
}

/// A frame whose chunk was not read yet; any thread can do that.
pub struct ImageFrame<F> {
    source: Arc<ImageSource<F>>,
    /// Where its chunk starts.
    at: u64,
    len: u32,
    checksum: u32,
    /// The number of its chunk.
    number: u32,
}

/// Why an image cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageReadError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {error}")]
    Io {
        /// Its name.
        file: String,
        /// The reason.
        error: io::Error,
    },
    /// A checksum is wrong.
    #[error("{file}: the image is damaged at offset {offset}")]
    Damaged {
        /// The name of the file.
        file: String,
        /// Where.
        offset: u64,
    },
    /// The file is too short or too long. So a damaged frame cannot ask for more memory than the image had octets.
    #[error("{file}: the image is damaged: the file has {len} octets instead of {expected}")]
    Length {
        /// The name of the file.
        file: String,
        /// How long it is.
        len: u64,
        /// How long it was.
        expected: u64,
    },
}

impl ImageReadError {
    /// The name of the file.
    pub fn file(&self) -> &str {
        match self {
            ImageReadError::Io { file, .. }
            | ImageReadError::Damaged { file, .. }
            | ImageReadError::Length { file, .. } => file,
        }
    }
}

impl<F: DiskFile> ImageReader<F> {
    pub(super) fn new(file: Arc<F>, name: String, start: u64, end: u64) -> ImageReader<F> {
        ImageReader { source: Arc::new(ImageSource { file, name }), at: start, end, chunk_count: 0 }
    }

    /// The name of the file that it is in.
    pub fn file_name(&self) -> &str {
        &self.source.name
    }

    /// The octets that are left.
    pub fn remaining(&self) -> u64 {
        self.end - self.at
    }

    /// The next frame, which is in the image as a whole; `None` after the last.
    pub fn next_frame(&mut self) -> Result<Option<ImageFrame<F>>, ImageReadError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut head = [0; FRAME_HEAD_LEN];
        self.source.read(&mut head, self.at)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3] = head;
        let (len, checksum) = (u32::from_le_bytes([l0, l1, l2, l3]), u32::from_le_bytes([c0, c1, c2, c3]));
        let at = self.at + FRAME_HEAD_LEN as u64;
        if at + u64::from(len) > self.end {
            return Err(self.source.damaged(self.at));
        }
        let frame = ImageFrame { source: self.source.clone(), at, len, checksum, number: self.chunk_count };
        self.at = at + u64::from(len);
        self.chunk_count += 1;
        Ok(Some(frame))
    }

    /// Replaces `chunk` by the next one; returns false after the last.
    pub fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<bool, ImageReadError> {
        let Some(frame) = self.next_frame()? else { return Ok(false) };
        frame.read(chunk)?;
        Ok(true)
    }
}

impl<F: DiskFile> ImageFrame<F> {
    /// Replaces `chunk` by that of this frame.
    pub fn read(&self, chunk: &mut Vec<u8>) -> Result<(), ImageReadError> {
        chunk.resize(self.len as usize, 0);
        self.source.read(chunk, self.at)?;
        if crc32c::crc32c_append(self.number, chunk) != self.checksum {
            return Err(self.source.damaged(self.at));
        }
        Ok(())
    }
}

impl<F: DiskFile> ImageSource<F> {
    fn read(&self, out: &mut [u8], at: u64) -> Result<(), ImageReadError> {
        let read = read_full(&*self.file, out, at);
        let read = read.map_err(|error| ImageReadError::Io { file: self.name.clone(), error })?;
        if read < out.len() { Err(self.damaged(at)) } else { Ok(()) }
    }

    fn damaged(&self, offset: u64) -> ImageReadError {
        ImageReadError::Damaged { file: self.name.clone(), offset }
    }
}
