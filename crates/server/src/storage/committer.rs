//! Group commit: appends what is queued in batches, with one sync per batch; retries while the disk fails; asks for images and compacts
//! the log between batches. A state machine: [`super::StorageThread`] runs it, and simulations do.
//!
//! While the disk fails, one batch is kept in memory and the rest waits in the queue, so memory is bounded. Nothing is acknowledged.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::commit_queue::{Append, AppendRecord, CommitQueue, Request};
use super::disk::Disk;
use super::limits::CommitLimits;
use super::storage_handle::{DueImage, StorageEvent, StorageHandle};
use super::store::{ImageBase, Store, StoreError, StoredZone};
use crate::write_help::write_help;

/// When [`Committer::step`] is to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// At once.
    Now,
    /// At this time, or when something is queued.
    At(Instant),
    /// At this time: the disk fails.
    RetryAt(Instant),
    /// When something is queued.
    WhenQueued,
}

/// The help if the folder of the journal is not in its place.
const FOLDER_HELP: &str =
    "put the folder back; a start without it reads and transfers zones anew, and changes by updates are lost";

/// The state machine.
pub struct Committer<D: Disk> {
    store: Store<D>,
    queue: Arc<CommitQueue<D>>,
    limits: CommitLimits,
    on_event: Box<dyn FnMut(StorageEvent<D>) + Send>,
    /// The number of the last request that was appended, and of the last one that is durable.
    appended: u64,
    durable: u64,
    outage: Option<Outage>,
    images: ImageRequests,
    /// Compaction, or the removal of files, has failed: no attempt before this time.
    compacts_at: Option<Instant>,
}

/// The disk fails.
struct Outage {
    since: Instant,
    delay: Duration,
    retry_at: Instant,
}

/// The images that are due.
#[derive(Default)]
struct ImageRequests {
    waiting: VecDeque<StoredZone>,
    /// Those that are being written, by the number of the request.
    active: HashMap<u64, StoredZone>,
    /// The valid request of each zone.
    current: HashMap<StoredZone, u64>,
    postponed: VecDeque<(Instant, StoredZone)>,
    last: u64,
}

impl<D: Disk> Committer<D> {
    /// A committer, and the handle that sends to it.
    pub fn new(
        store: Store<D>,
        limits: CommitLimits,
        on_event: impl FnMut(StorageEvent<D>) + Send + 'static,
    ) -> (Committer<D>, StorageHandle<D>) {
        let queue = Arc::new(CommitQueue::new(limits));
        let handle = StorageHandle {
            queue: queue.clone(),
            numbers: store.numbers.clone(),
            disk: store.disk.clone(),
            image_numbers: store.image_numbers.clone(),
            inline_image_len: store.limits.inline_image_len,
        };
        let committer = Committer {
            store,
            queue,
            limits,
            on_event: Box::new(on_event),
            appended: 0,
            durable: 0,
            outage: None,
            images: ImageRequests::default(),
            compacts_at: None,
        };
        (committer, handle)
    }

    pub(super) fn queue(&self) -> &CommitQueue<D> {
        &self.queue
    }

    /// Appends a batch and makes it durable. Then asks for images.
    pub fn step(&mut self, now: Instant) -> NextStep {
        for read in self.queue.take_reads() {
            read(&mut self.store);
        }
        match &self.outage {
            Some(outage) if now < outage.retry_at => return NextStep::RetryAt(outage.retry_at),
            Some(_) => (),
            None => self.append_batch(now),
        }
        let compacts = self.outage.is_none() && self.compact(now);
        self.commit(now);
        if let Some(outage) = &self.outage {
            return NextStep::RetryAt(outage.retry_at);
        }
        self.ask_for_images(now);
        if compacts && self.compacts_at.is_none() || self.queue.len() > 0 {
            return NextStep::Now;
        }
        let postponed = self.images.postponed.front().map(|(time, _)| *time);
        postponed.into_iter().chain(self.compacts_at).min().map_or(NextStep::WhenQueued, NextStep::At)
    }

    /// Writes all that is queued, with one attempt only if the disk fails: the process ends.
    pub fn flush(&mut self, now: Instant) {
        loop {
            self.commit(now);
            if self.outage.is_some() || self.queue.len() == 0 {
                break;
            }
            self.append_batch(now);
        }
        let lost = self.queue.len() as u64 + (self.appended - self.durable);
        if lost > 0 {
            tracing::error!(lost, "the journal could not be written before zonda stopped: `lost` records are lost");
        }
        // All that was acknowledged is durable without it.
        _ = self.store.close();
    }

    //----------- appending --------------------------------------------------------

    fn append_batch(&mut self, now: Instant) {
        let mut batch = Vec::new();
        let last = self.queue.take_batch(&mut batch);
        for request in batch {
            match request {
                Request::Append(append) => self.append(append),
                Request::DueImage(request, append) => match self.images.end(request) {
                    Some(zone) => {
                        if !self.append_image(append) {
                            // The version is not in the log: the caller could not append what leads to it.
                            self.images.postponed.push_back((now + self.limits.image_retry, zone));
                        }
                    }
                    None => self.discard(&append.record),
                },
                Request::Discard(image) => self.store.discard_image(&image),
                Request::ImageFailed(request) => {
                    if let Some(zone) = self.images.end(request) {
                        self.images.postponed.push_back((now + self.limits.image_retry, zone));
                    }
                }
            }
        }
        self.appended = last;
    }

    fn append(&mut self, append: Append) {
        let (zone, name) = (append.zone, append.name.as_ref());
        match append.record {
            AppendRecord::Change(change) => {
                let serials = (change.from_serial(), change.to_serial());
                if let Err(error) = self.store.append_change(zone, name, serials, change.as_bytes()) {
                    (self.on_event)(StorageEvent::Refused { zone, error });
                }
            }
            AppendRecord::Image { base, .. } => {
                if base == ImageBase::Replacement {
                    self.images.current.remove(&zone);
                }
                self.append_image(append);
            }
            AppendRecord::Timers(timers) => _ = self.store.append_timers(zone, name, timers),
            AppendRecord::Removed => {
                self.images.current.remove(&zone);
                self.store.remove(zone, name);
            }
        }
    }

    /// Returns whether the store took the image.
    fn append_image(&mut self, append: Append) -> bool {
        let (zone, name) = (append.zone, append.name.as_ref());
        let AppendRecord::Image { serial, base, image, timers } = append.record else { return false };
        // A crash may leave only the start of a batch. A secondary without its times counts as expired; a file with the state of a version
        // that was read from it would not be read again.
        let (earlier, later) = match timers {
            Some(timers) if timers.is_of_secondary() => (Some(timers), None),
            timers => (None, timers),
        };
        if let Some(timers) = earlier {
            self.store.append_timers(zone, name, timers);
        }
        let is_taken = self.store.append_image(zone, name, serial, base, &image).is_some();
        if let Some(timers) = later {
            self.store.append_timers(zone, name, timers);
        }
        is_taken
    }

    fn discard(&mut self, record: &AppendRecord) {
        if let AppendRecord::Image { image, .. } = record {
            self.store.discard_image(image);
        }
    }

    //----------- making durable ---------------------------------------------------

    fn commit(&mut self, now: Instant) {
        let result = self.store.sync();
        if let Err(error) = &result
            && self.store.pending_len() > 0
        {
            return self.begin_outage(now, error);
        }
        if self.durable < self.appended {
            self.durable = self.appended;
            (self.on_event)(StorageEvent::Durable(self.durable));
        }
        // After the event: whoever reads in the log that the disk works may send a change at once, and the writer must know it, too.
        self.end_outage(now);
        if let Err(error) = result {
            // All is durable, only files that are not needed could not be removed.
            self.pause_compaction(now, &error);
        }
    }

    fn begin_outage(&mut self, now: Instant, error: &StoreError) {
        let (since, delay) = match &self.outage {
            Some(outage) => (outage.since, (outage.delay * 2).min(self.limits.max_retry)),
            None => {
                let help = match error.action {
                    super::store::FOUND => FOLDER_HELP.into(),
                    _ => write_help(&error.error, "the state-dir"),
                };
                tracing::error!(
                    %error,
                    help,
                    "cannot write the journal: no change is acknowledged until this works again"
                );
                (now, self.limits.min_retry)
            }
        };
        self.outage = Some(Outage { since, delay, retry_at: now + delay });
    }

    fn end_outage(&mut self, now: Instant) {
        if let Some(outage) = self.outage.take() {
            let outage_s = now.saturating_duration_since(outage.since).as_secs_f64();
            tracing::info!(outage_s, "the journal can be written again: nothing acknowledged was lost");
        }
    }

    //----------- between batches --------------------------------------------------

    /// Takes a step of compaction; returns whether there was one.
    fn compact(&mut self, now: Instant) -> bool {
        if self.compacts_at.is_some_and(|time| now < time) {
            return false;
        }
        self.compacts_at = None;
        match self.store.compact(self.limits.compaction_step) {
            Ok(has_work) => has_work,
            Err(error) => {
                self.pause_compaction(now, &error);
                false
            }
        }
    }

    fn pause_compaction(&mut self, now: Instant, error: &StoreError) {
        if self.compacts_at.is_none() {
            tracing::warn!(%error, "cannot remove old parts of the journal, which grows until this works again");
        }
        self.compacts_at = Some(now + self.limits.image_retry);
    }

    fn ask_for_images(&mut self, now: Instant) {
        while let Some((_, zone)) = self.images.postponed.front().copied().filter(|(time, _)| *time <= now) {
            self.images.postponed.pop_front();
            self.store.postpone_image(zone);
        }
        self.images.waiting.extend(self.store.take_due_images());
        while self.images.active.len() < self.limits.max_images
            && let Some(zone) = self.images.waiting.pop_front()
        {
            if !self.store.is_image_due(zone) {
                continue;
            }
            let request = self.images.begin(zone);
            let image = DueImage::new(zone, request, self.store.image_writer(), self.queue.clone());
            (self.on_event)(StorageEvent::ImageDue(image));
        }
    }
}

impl ImageRequests {
    /// Returns the number of a new request.
    fn begin(&mut self, zone: StoredZone) -> u64 {
        self.last += 1;
        self.active.insert(self.last, zone);
        self.current.insert(zone, self.last);
        self.last
    }

    /// Ends a request; returns its zone unless that was replaced or removed since.
    fn end(&mut self, request: u64) -> Option<StoredZone> {
        let zone = self.active.remove(&request)?;
        if self.current.get(&zone) != Some(&request) {
            return None;
        }
        self.current.remove(&zone);
        Some(zone)
    }
}
