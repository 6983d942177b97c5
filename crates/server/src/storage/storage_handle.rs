//! What the rest of the server has of the storage thread: the handle that sends to it, and what it reports.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use wire::Name;

use super::commit_queue::{Append, AppendError, AppendRecord, CommitQueue, Request};
use super::disk::{Disk, StateFolder};
use super::image_file::{ImageWriter, StoredImage, damaged_image_name};
use super::store::{ChangeRefused, ImageBase, Store, StoredZone};
use super::zone_index::ZoneNumbers;

/// What the storage thread reports.
pub enum StorageEvent<D: Disk = StateFolder> {
    /// Everything up to this number is durable, except what was refused before.
    Durable(u64),
    /// A change was refused. The zone needs a new image, as a [`ImageBase::Replacement`].
    Refused {
        /// The zone.
        zone: StoredZone,
        /// The reason.
        error: ChangeRefused,
    },
    /// An image of the zone's newest version is to be written, on another thread.
    ImageDue(DueImage<D>),
}

/// Sends to the storage thread. A clone sends to the same one.
pub struct StorageHandle<D: Disk = StateFolder> {
    pub(super) queue: Arc<CommitQueue<D>>,
    pub(super) numbers: Arc<ZoneNumbers>,
    pub(super) disk: Arc<D>,
    pub(super) image_numbers: Arc<AtomicU32>,
    pub(super) inline_image_len: usize,
}

impl<D: Disk> Clone for StorageHandle<D> {
    fn clone(&self) -> StorageHandle<D> {
        StorageHandle {
            queue: self.queue.clone(),
            numbers: self.numbers.clone(),
            disk: self.disk.clone(),
            image_numbers: self.image_numbers.clone(),
            inline_image_len: self.inline_image_len,
        }
    }
}

impl<D: Disk> StorageHandle<D> {
    /// Takes a number for a new zone.
    pub fn add_zone(&self) -> StoredZone {
        StoredZone(self.numbers.take())
    }

    /// Queues a record. It is durable once [`StorageEvent::Durable`] reports the number that this returns, or a later one.
    pub fn append(&self, append: Append) -> Result<u64, AppendError> {
        self.queue.append(append).map_err(|(error, _)| error)
    }

    /// As [`Self::append`]; returns the record if the queue does not take it.
    pub fn append_or_return(&self, append: Append) -> Result<u64, Box<Append>> {
        self.queue.append(append).map_err(|(_, append)| append)
    }

    /// A writer for an image that is to be appended.
    pub fn image_writer(&self) -> ImageWriter<D> {
        ImageWriter::new(self.disk.clone(), self.image_numbers.clone(), self.inline_image_len)
    }

    /// Removes an image that is not to be appended.
    pub fn discard(&self, image: StoredImage) {
        self.queue.end_image(Request::Discard(image));
    }

    /// Renames the file of a damaged image, which would be removed with its zone; returns its new name. `None` if a journal file has the
    /// image, or the file cannot be renamed.
    pub fn set_image_aside(&self, file: &str) -> Option<String> {
        let kept_as = damaged_image_name(file)?;
        self.disk.rename(file, &kept_as).ok()?;
        Some(kept_as)
    }

    /// Runs `read` on the storage thread between two batches: it is to open a reader, for use on another thread.
    pub fn read(&self, read: impl FnOnce(&mut Store<D>) + Send + 'static) -> Result<(), AppendError> {
        self.queue.read(Box::new(read))
    }
}

/// An image that is due. It is asked for again later if it is dropped before [`DueImage::finish`].
pub struct DueImage<D: Disk = StateFolder> {
    zone: StoredZone,
    /// Tells apart what was asked for before the zone was replaced or removed, and after.
    request: u64,
    writer: Option<ImageWriter<D>>,
    queue: Arc<CommitQueue<D>>,
}

impl<D: Disk> DueImage<D> {
    pub(super) fn new(zone: StoredZone, request: u64, writer: ImageWriter<D>, queue: Arc<CommitQueue<D>>) -> Self {
        DueImage { zone, request, writer: Some(writer), queue }
    }

    /// The zone.
    pub fn zone(&self) -> StoredZone {
        self.zone
    }

    /// Writes a chunk.
    pub fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| writer.push(chunk))
    }

    /// Ends the image, of the version with this serial, and appends it. Of the changes before it, at most `max_history_len` octets are
    /// kept.
    pub fn finish(mut self, name: Name, serial: u32, max_history_len: u64) -> io::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        match writer.finish() {
            Ok(image) => {
                let base = ImageBase::Snapshot { max_history_len };
                let record = AppendRecord::Image { serial, base, image, timers: None };
                self.queue.end_image(Request::DueImage(self.request, Append { zone: self.zone, name, record }));
                Ok(())
            }
            Err(error) => {
                self.queue.end_image(Request::ImageFailed(self.request));
                Err(error)
            }
        }
    }
}

impl<D: Disk> Drop for DueImage<D> {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            self.queue.end_image(Request::ImageFailed(self.request));
        }
    }
}
