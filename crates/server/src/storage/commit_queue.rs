//! The queue of the storage thread: what waits to be appended, in order, and what waits to be read. Bounded; nobody waits to enter it.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wire::Name;
use zone::encoded_change::EncodedChange;

use super::disk::Disk;
use super::image_file::StoredImage;
use super::limits::CommitLimits;
use super::store::{ImageBase, Store, StoredZone};
use super::timers::Timers;

/// A record for the journal.
#[derive(Debug)]
pub struct Append {
    /// The zone.
    pub zone: StoredZone,
    /// Its apex in lower case.
    pub name: Name,
    /// What to append.
    pub record: AppendRecord,
}

/// What to append to the journal for a zone.
#[derive(Debug)]
pub enum AppendRecord {
    /// A change of the newest version.
    Change(EncodedChange),
    /// An image.
    Image {
        /// The serial of the version.
        serial: u32,
        /// How it relates to the changes before it.
        base: ImageBase,
        /// The image.
        image: StoredImage,
        /// The timers of the version, which a crash does not separate from it.
        timers: Option<Timers>,
    },
    /// New timers.
    Timers(Timers),
    /// The zone is no longer configured.
    Removed,
}

/// Why the queue does not take something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The disk is slower than the changes, or cannot be written at all.
    #[error("the queue of the journal is full; try again later")]
    QueueFull,
    /// The storage thread has ended.
    #[error("the journal is closed")]
    Closed,
}

/// Something to be appended.
pub(super) enum Request {
    Append(Append),
    /// An image that was due, with the number that asked for it.
    DueImage(u64, Append),
    /// A due image that could not be written.
    ImageFailed(u64),
    /// An image that is not needed any more.
    Discard(StoredImage),
}

/// Runs on the storage thread.
pub(super) type Read<D> = Box<dyn FnOnce(&mut Store<D>) + Send>;

/// The queue.
pub(super) struct CommitQueue<D: Disk> {
    state: Mutex<QueueState<D>>,
    wake: Condvar,
    limits: CommitLimits,
}

struct QueueState<D: Disk> {
    requests: VecDeque<Request>,
    /// The octets of `requests`.
    octets: usize,
    reads: VecDeque<Read<D>>,
    /// The number of the last request.
    last: u64,
    is_closed: bool,
}

impl Request {
    /// About the octets of memory that it takes.
    fn len(&self) -> usize {
        match self {
            Request::ImageFailed(_) | Request::Discard(_) => size_of::<Request>(),
            Request::Append(append) | Request::DueImage(_, append) => append.len(),
        }
    }
}

impl Append {
    /// About the octets of memory that it takes in the queue.
    fn len(&self) -> usize {
        size_of::<Request>()
            + match &self.record {
                AppendRecord::Change(change) => change.as_bytes().len(),
                AppendRecord::Image { image: StoredImage::Inline(frames), .. } => frames.len(),
                _ => 0,
            }
    }
}

impl<D: Disk> CommitQueue<D> {
    pub(super) fn new(limits: CommitLimits) -> CommitQueue<D> {
        let state =
            QueueState { requests: VecDeque::new(), octets: 0, reads: VecDeque::new(), last: 0, is_closed: false };
        CommitQueue { state: Mutex::new(state), wake: Condvar::new(), limits }
    }

    /// Queues a record unless there are too many; returns its number, or the record.
    pub(super) fn append(&self, append: Append) -> Result<u64, (AppendError, Box<Append>)> {
        let mut state = self.lock();
        let len = append.len();
        // One that exceeds the bound by itself is taken when it is the only one.
        let is_full = !state.requests.is_empty()
            && (state.requests.len() >= self.limits.max_queued || state.octets + len > self.limits.max_queued_octets);
        match (state.is_closed, is_full) {
            (true, _) => Err((AppendError::Closed, Box::new(append))),
            (_, true) => Err((AppendError::QueueFull, Box::new(append))),
            _ => Ok(self.push(&mut state, Request::Append(append))),
        }
    }

    /// Queues the outcome of a due image, of which there are `max_images` at most.
    pub(super) fn end_image(&self, request: Request) {
        let mut state = self.lock();
        if !state.is_closed {
            self.push(&mut state, request);
        }
    }

    fn push(&self, state: &mut QueueState<D>, request: Request) -> u64 {
        state.octets += request.len();
        state.requests.push_back(request);
        state.last += 1;
        self.wake.notify_one();
        state.last
    }

    /// Queues a read unless there are too many.
    pub(super) fn read(&self, read: Read<D>) -> Result<(), AppendError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(AppendError::Closed);
        }
        if state.reads.len() >= self.limits.max_queued {
            return Err(AppendError::QueueFull);
        }
        state.reads.push_back(read);
        self.wake.notify_one();
        Ok(())
    }

    /// Moves the requests of a batch to `batch`; returns the number of the last one so far.
    pub(super) fn take_batch(&self, batch: &mut Vec<Request>) -> u64 {
        let mut state = self.lock();
        let mut octets = 0;
        while octets < self.limits.max_batch_octets
            && batch.len() < self.limits.max_batch
            && let Some(request) = state.requests.pop_front()
        {
            octets += request.len();
            batch.push(request);
        }
        state.octets -= octets;
        if state.requests.is_empty() {
            // A burst, such as the first transfer of all zones, would otherwise keep its memory.
            state.requests.shrink_to(self.limits.max_batch);
        }
        state.last - state.requests.len() as u64
    }

    pub(super) fn take_reads(&self) -> VecDeque<Read<D>> {
        std::mem::take(&mut self.lock().reads)
    }

    /// How many requests wait.
    pub(super) fn len(&self) -> usize {
        self.lock().requests.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Takes nothing any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        // Whoever waits for a read sees that there will be none.
        state.reads.clear();
        self.wake.notify_one();
    }

    /// Waits until `end`, or until there is something to do. Requests count as such unless the disk fails.
    pub(super) fn wait(&self, end: Option<Instant>, counts_requests: bool) {
        let mut state = self.lock();
        while !state.is_closed && state.reads.is_empty() && (state.requests.is_empty() || !counts_requests) {
            let Some(end) = end else {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
