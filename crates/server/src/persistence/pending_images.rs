//! Images that replace what is stored of zones: which zones wait for one, which are being written, and the changes meanwhile.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tracing::{error, info};
use zone::Zone;
use zone::encoded_change::EncodedChange;
use zone::image::ImageEncoder;

use crate::clock;
use crate::storage::disk::Disk;
use crate::storage::{ImageWriter, StoredImage};
use crate::write_help::write_help;
use crate::zone_id::ZoneId;

/// Images that are being written, or wait for room in the queue of the storage thread. Small ones are in memory then.
const MAX_ACTIVE: usize = 64;
/// The octets of changes that are collected while an image is written. With more, another image follows.
const MAX_LATER_LEN: usize = 1 << 20;
/// How long a zone waits after its image could not be written; twice as long after each attempt, as one may fill the disk for others.
const MIN_RETRY: Duration = Duration::from_secs(5);
/// The longest wait.
const MAX_RETRY: Duration = Duration::from_secs(600);

/// The images that are to be written.
#[derive(Default)]
pub struct PendingImages {
    /// In the order of their requests.
    waiting: VecDeque<ZoneId>,
    /// Zones in `waiting` that were removed or withdrawn. Another zone may have the slot by their turn.
    removed: HashSet<ZoneId>,
    active: HashMap<ZoneId, ActiveImage>,
    /// Zones whose changes wait for the image.
    with_changes: HashSet<ZoneId>,
    /// Zones whose latest version is not published before its image is on disk, and whether the image is needed for nothing else: what is
    /// stored leads to the version that is served.
    awaited: HashMap<ZoneId, bool>,
    /// Written images that the storage thread has no room for.
    blocked: VecDeque<ZoneId>,
    last_request: u64,
    /// Zones whose last image could not be written, in the same order in each run of a simulation.
    failures: BTreeMap<ZoneId, Failure>,
    /// When the first of them is due, or earlier.
    due: Option<Instant>,
}

/// The image of a zone could not be written.
struct Failure {
    delay: Duration,
    /// When it is tried again; `None` once the zone waits, or its image is being written.
    retry_at: Option<Instant>,
}

/// An image that is being written.
#[derive(Default)]
struct ActiveImage {
    request: u64,
    /// `None` until the registry has passed it on.
    version: Option<Zone>,
    image: Option<StoredImage>,
    /// The changes since its version.
    later: Vec<EncodedChange>,
    later_len: usize,
    /// The zone was replaced by a version that `later` does not lead to.
    is_outdated: bool,
}

/// What to do with an image.
pub enum ImageStep {
    /// Append it.
    Append,
    /// Remove it: nobody needs it.
    Discard(StoredImage),
    /// It will be written again later. What waits for it is refused.
    Failed {
        /// Whether changes, or a version that is to be published, wait for it.
        is_waited_for: bool,
    },
    /// Nothing.
    Nothing,
}

/// What happened while an image was written.
#[derive(Default)]
pub struct EndedImage {
    /// The changes that follow it.
    pub later: Vec<EncodedChange>,
    /// Another image is needed.
    pub is_outdated: bool,
    /// Changes wait for it.
    pub has_waiting_changes: bool,
    /// The image is that of a version which is to be published.
    pub is_awaited: bool,
}

impl PendingImages {
    /// A zone needs an image.
    pub fn request(&mut self, zone: ZoneId) {
        // One that was withdrawn has its place still: with two of them, the next removal would leave one.
        if !self.removed.remove(&zone) {
            self.waiting.push_back(zone);
        }
    }

    /// The next zone whose image is to be written; `None` while enough are. [`Self::begin`] or [`Self::remove`] must follow.
    pub fn next(&mut self) -> Option<ZoneId> {
        if self.active.len() >= MAX_ACTIVE {
            return None;
        }
        loop {
            let Some(zone) = self.waiting.pop_front() else {
                // A million zones may have waited.
                self.waiting = VecDeque::new();
                return None;
            };
            if !self.removed.remove(&zone) {
                self.active.insert(zone, ActiveImage::default());
                return Some(zone);
            }
        }
    }

    /// Returns the job that writes the image of this version, and passes the number of the request and the result to `done`.
    pub fn begin<D: Disk, F: FnOnce(u64, io::Result<StoredImage>) + Send + 'static>(
        &mut self,
        zone: ZoneId,
        version: Zone,
        mut writer: ImageWriter<D>,
        done: F,
    ) -> impl FnOnce() + Send + 'static + use<D, F> {
        self.last_request += 1;
        let request = self.last_request;
        let image = ActiveImage { request, version: Some(version.clone()), ..ActiveImage::default() };
        self.active.insert(zone, image);
        move || {
            let write = || write_image(version, |chunk| writer.push(chunk)).and_then(|()| writer.finish());
            // A bug in this code must not keep the zone from ever being stored again.
            let written = catch_unwind(AssertUnwindSafe(write));
            done(request, written.unwrap_or_else(|_| Err(io::Error::other("zonda panicked"))));
        }
    }

    /// Adds changes of a zone that waits or is being written. Without changes, another version has replaced it.
    pub fn add_later(&mut self, zone: ZoneId, changes: &[EncodedChange]) {
        if let Some(is_optional) = self.awaited.get_mut(&zone) {
            *is_optional = false;
        }
        // Of a zone that waits, the version at its turn is written.
        let Some(image) = self.active.get_mut(&zone).filter(|image| image.version.is_some()) else { return };
        image.later_len += changes.iter().map(|change| change.as_bytes().len()).sum::<usize>();
        image.is_outdated |= changes.is_empty() || image.later_len > MAX_LATER_LEN;
        if image.is_outdated {
            image.later.clear();
        } else {
            image.later.extend_from_slice(changes);
        }
    }

    /// Changes of a zone wait for its image.
    pub fn add_waiting_changes(&mut self, zone: ZoneId) {
        self.with_changes.insert(zone);
    }

    /// The latest version of a zone is published once its image is on disk. The image must have been requested, for nothing else if
    /// `is_optional`.
    pub fn await_image(&mut self, zone: ZoneId, is_optional: bool) {
        self.awaited.insert(zone, is_optional);
    }

    /// The version of [`Self::await_image`] will not be published. Returns whether its image is not needed any more, with the image if it was
    /// written.
    pub fn withdraw(&mut self, zone: ZoneId) -> Option<Option<StoredImage>> {
        let is_optional = self.awaited.remove(&zone)?;
        is_optional.then(|| self.remove(zone))
    }

    /// The result of a job.
    pub fn written(&mut self, zone: ZoneId, request: u64, result: io::Result<StoredImage>) -> ImageStep {
        let image = self.active.get_mut(&zone).filter(|image| image.request == request);
        match (image, result) {
            (None, Ok(image)) => ImageStep::Discard(image),
            (None, Err(_)) => ImageStep::Nothing,
            (Some(active), Ok(image)) => {
                active.image = Some(image);
                if self.failures.remove(&zone).is_some() {
                    let zone = active.version.as_ref().map(|version| version.apex().to_string());
                    info!(zone, "the image of the zone can be written again");
                }
                ImageStep::Append
            }
            (Some(active), Err(error)) => {
                if !self.failures.contains_key(&zone) {
                    let zone = active.version.as_ref().map(|version| version.apex().to_string());
                    let help = write_help(&error, "the state-dir");
                    error!(zone, %error, help, "cannot write the image of the zone: it is served, but not kept if zonda is restarted");
                }
                self.active.remove(&zone);
                self.retry_later(zone);
                ImageStep::Failed { is_waited_for: self.with_changes.remove(&zone) | self.awaited.contains_key(&zone) }
            }
        }
    }

    /// Takes a written image, and its version.
    pub fn take_written(&mut self, zone: ZoneId) -> Option<(StoredImage, Zone)> {
        let active = self.active.get_mut(&zone)?;
        active.image.take().zip(active.version.clone())
    }

    /// Whether another image must follow the one that is being written.
    pub fn is_outdated(&self, zone: ZoneId) -> bool {
        self.active.get(&zone).is_some_and(|image| image.is_outdated)
    }

    /// There is no room for a written image now.
    pub fn block(&mut self, zone: ZoneId, image: StoredImage) {
        if let Some(active) = self.active.get_mut(&zone) {
            active.image = Some(image);
            self.blocked.push_back(zone);
        }
    }

    /// How many written images wait for room.
    pub fn blocked_count(&self) -> usize {
        self.blocked.len()
    }

    /// A written image that there may be room for now.
    pub fn next_blocked(&mut self) -> Option<ZoneId> {
        self.blocked.pop_front()
    }

    /// The image was appended.
    pub fn end(&mut self, zone: ZoneId) -> EndedImage {
        let has_waiting_changes = self.with_changes.remove(&zone);
        let ActiveImage { later, is_outdated, .. } = self.active.remove(&zone).unwrap_or_default();
        // Otherwise the next image is that of the version.
        let is_awaited = !is_outdated && self.awaited.remove(&zone).is_some();
        EndedImage { later, is_outdated, has_waiting_changes, is_awaited }
    }

    /// Forgets a zone that was requested; returns its image if it was written.
    pub fn remove(&mut self, zone: ZoneId) -> Option<StoredImage> {
        self.with_changes.remove(&zone);
        self.awaited.remove(&zone);
        let failure = self.failures.remove(&zone);
        match self.active.remove(&zone) {
            Some(active) => active.image,
            None => {
                // One that waits for its next attempt has no place among the others.
                if failure.is_none_or(|failure| failure.retry_at.is_none()) {
                    self.removed.insert(zone);
                }
                None
            }
        }
    }

    //----------- a failing disk ---------------------------------------------------

    /// The image of a zone could not be written.
    fn retry_later(&mut self, zone: ZoneId) {
        let failure = self.failures.entry(zone);
        let failure = failure.and_modify(|failure| failure.delay = (2 * failure.delay).min(MAX_RETRY));
        let failure = failure.or_insert(Failure { delay: MIN_RETRY, retry_at: None });
        let retry_at = clock::now() + failure.delay;
        failure.retry_at = Some(retry_at);
        self.due = Some(self.due.map_or(retry_at, |due| due.min(retry_at)));
    }

    /// Whether the last image of a zone could not be written. It is tried again.
    pub fn is_failing(&self, zone: ZoneId) -> bool {
        self.failures.contains_key(&zone)
    }

    /// Whether the last image of any zone could not be written.
    pub fn are_failing(&self) -> bool {
        !self.failures.is_empty()
    }

    /// When to try again.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Tries again what is due.
    pub fn retry(&mut self, now: Instant) {
        self.due = None;
        for (zone, failure) in &mut self.failures {
            let Some(retry_at) = failure.retry_at else { continue };
            if retry_at <= now {
                failure.retry_at = None;
                self.waiting.push_back(*zone);
            } else {
                self.due = Some(self.due.map_or(retry_at, |due| due.min(retry_at)));
            }
        }
    }

    /// Whether no image is to be written now.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.active.is_empty()
    }
}

/// Passes the image of a version to `push`, chunk by chunk.
pub fn write_image(version: Zone, mut push: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut encoder, mut chunk) = (ImageEncoder::new(version), Vec::new());
    while encoder.next_chunk(&mut chunk) {
        push(&chunk)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a later zone in the same slot would count as stored, and get two images: the second one without the changes
    /// after the first.
    #[test]
    fn a_zone_that_is_removed_while_it_waits_gets_no_turn() {
        let mut images = PendingImages::default();
        let [removed, next] = [1, 2].map(|generation| ZoneId { index: 5, generation });
        images.request(removed);
        assert!(images.remove(removed).is_none());
        images.request(next);
        assert_eq!((images.next(), images.next()), (Some(next), None));
        assert!(images.remove(next).is_none() && images.is_empty() && images.removed.is_empty());
    }

    #[test]
    fn a_zone_that_is_withdrawn_twice_gets_no_turn() {
        let mut images = PendingImages::default();
        let zone = ZoneId { index: 5, generation: 1 };
        for _ in 0..2 {
            images.request(zone);
            images.await_image(zone, true);
            assert!(images.withdraw(zone).is_some_and(|image| image.is_none()));
        }
        assert_eq!(images.next(), None);
        assert!(images.is_empty() && images.removed.is_empty());
    }
}
