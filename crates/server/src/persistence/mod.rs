//! Persistence: keeps zones across restarts, as the [`ZoneJournal`] of the registry, in the [`crate::storage::Store`].
//!
//! All of this runs on the writer thread and never waits. Images are written and read in pools; records are appended by the storage
//! thread. A zone is stored as an image, and then as the changes after it. While its image is being written, changes wait or are
//! collected. If the disk fails, transferred zones and files go on being served, and their images are written once it works again.

mod appending;
mod kept_owners;
mod open_store;
mod pending_images;
mod recovered_zones;
mod restore;
mod stored_zones;
#[cfg(test)]
mod tests;
mod timer_batch;
mod waiting_timers;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use tracing::warn;
use wire::{Name, NameRef};
use zone::encoded_change::EncodedChange;
use zone::{Zone, image};

use crate::printable::printable_path;
use crate::state_dir::StateDir;
use crate::storage::disk::{Disk, StateFolder};
use crate::storage::{
    AppendRecord, CommitLimits, DueImage, Recovery, StorageEvent, StorageHandle, StorageThread, Store, StoreError,
    StoreLimits, StoreUsage, StoredZone, Timers, ZoneUsage,
};
use crate::write_help::write_help;
use crate::zone_id::ZoneId;
use crate::zones::journal::{
    JournalEvent, JournalOutcome, JournalUnavailable, LatestVersion, Readiness, StoreRule, ZoneJournal,
};
use crate::zones::work_pool::WorkPool;
use kept_owners::KeptOwners;
use open_store::open_store;
use pending_images::{PendingImages, write_image};
use recovered_zones::RecoveredZones;
use restore::{RestoreJob, Restorer};
use stored_zones::StoredZones;
use timer_batch::TimerBatch;

/// Sends events to the writer.
type EventSink = Arc<dyn Fn(JournalEvent) + Send + Sync>;

/// The most threads that write images: more would compete with answering.
const IMAGE_THREADS: usize = 2;
/// A zone whose file can be read again is stored if it takes more octets in memory than this: see [`StoreRule::IfLarge`].
const MIN_FILE_ZONE_LEN: usize = 256 << 10;

/// Why the journal cannot be opened. The message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Its folder cannot be opened.
    #[error("the folder {path} cannot be used: {error}; {help}. Without this folder zones are read and transferred anew, and changes by updates are lost", path = printable_path(.path), help = write_help(.error, "it"))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// It cannot be read.
    #[error("the journal in {path} cannot be read: {error}; {help}, or move the folder away: then zones are read and transferred anew, and changes by updates are lost", path = printable_path(.path), help = unreadable_help(error))]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The reason.
        error: StoreError,
    },
    /// Another version of zonda has written it, and it cannot be renamed.
    #[error("the journal in {path} has images of format {format} instead of {own}, of another version of zonda, and the folder cannot be renamed: {error}; {help}, use that version, or move the folder away: then zones are read and transferred anew, and changes by updates are lost", path = printable_path(.path), own = image::FORMAT_VERSION, help = write_help(.error, "the state-dir"))]
    OtherFormat {
        /// The folder.
        path: PathBuf,
        /// The format of its images.
        format: u16,
        /// The reason.
        error: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start the storage thread: {0}")]
    Thread(io::Error),
}

fn unreadable_help(error: &StoreError) -> &'static str {
    match error.error.kind() {
        io::ErrorKind::PermissionDenied => "correct the owner, permissions and hard links of the file",
        _ => "repair the disk, use the version of zonda that wrote it",
    }
}

/// Keeps zones in the store.
pub struct Persistence<D: Disk = StateFolder> {
    storage: StorageHandle<D>,
    events: EventSink,
    stored: StoredZones,
    images: PendingImages,
    timers: TimerBatch,
    /// Removals that the queue of the storage thread had no room for.
    removals: Vec<(StoredZone, Name)>,
    /// What was stored before the start and is not restored yet.
    recovered: RecoveredZones,
    /// The zones whose stored versions could not be read, and are kept until the next start.
    unread: HashMap<ZoneId, StoredZone>,
    owners: KeptOwners,
    outcomes: Vec<JournalOutcome>,
    image_pool: WorkPool<()>,
    restorer: Arc<Restorer<D>>,
}

impl Persistence<StateFolder> {
    /// Opens the journal in the state-dir, or creates it. `events` gets the events for the writer.
    pub fn open(
        state_dir: &StateDir,
        limits: StoreLimits,
        events: impl Fn(JournalEvent) + Send + Sync + Clone + 'static,
    ) -> Result<(Persistence, StorageThread), JournalError> {
        let (store, recovery) = open_store(state_dir, limits)?;
        Persistence::start(store, recovery, events).map_err(JournalError::Thread)
    }

    /// Starts the storage thread. `events` gets the events for the writer.
    fn start(
        store: Store<StateFolder>,
        recovery: Recovery,
        events: impl Fn(JournalEvent) + Send + Sync + Clone + 'static,
    ) -> io::Result<(Persistence, StorageThread)> {
        let (thread, storage) = StorageThread::start(store, CommitLimits::default(), journal_events(events.clone()))?;
        Ok((Persistence::new(storage, recovery, events), thread))
    }
}

/// What the storage thread does with its events: passes them to the writer.
pub(crate) fn journal_events<D: Disk>(
    events: impl Fn(JournalEvent) + Send + 'static,
) -> impl FnMut(StorageEvent<D>) + Send + 'static {
    move |event| {
        events(match event {
            StorageEvent::Durable(number) => JournalEvent::Durable(number),
            StorageEvent::Refused { zone, error } => JournalEvent::Refused(zone, error),
            StorageEvent::ImageDue(due) => {
                JournalEvent::ImageDue(due.zone(), Box::new(move |latest| write_due_image(due, latest)))
            }
        });
    }
}

/// Writes an image, and appends it.
fn write_due_image<D: Disk>(mut due: DueImage<D>, latest: LatestVersion) -> io::Result<()> {
    let LatestVersion { version, max_history_len } = latest;
    let (apex, serial) = (version.apex().to_owned(), version.serial());
    write_image(version, |chunk| due.push(chunk))?;
    due.finish(apex, serial, max_history_len)
}

impl<D: Disk> Persistence<D> {
    /// Keeps zones in the store that `storage` sends to, and whose events [`journal_events`] passes on.
    pub(crate) fn new(
        storage: StorageHandle<D>,
        recovery: Recovery,
        events: impl Fn(JournalEvent) + Send + Sync + 'static,
    ) -> Persistence<D> {
        for damage in &recovery.damages {
            warn!("the journal is damaged: {damage}");
        }
        if recovery.more_damages > 0 {
            warn!(more = recovery.more_damages, "the journal is damaged in more places");
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let (recovered, owners, superseded) = RecoveredZones::new(recovery);
        let events: EventSink = Arc::new(events);
        Persistence {
            restorer: Arc::new(Restorer::new(storage.clone(), events.clone(), threads)),
            storage,
            events,
            stored: StoredZones::default(),
            images: PendingImages::default(),
            timers: TimerBatch::default(),
            removals: superseded,
            recovered,
            unread: HashMap::new(),
            owners,
            outcomes: Vec::new(),
            image_pool: WorkPool::new(IMAGE_THREADS, |_, _| ()),
        }
    }
}

impl<D: Disk> Persistence<D> {
    /// Stores nothing of a zone from now on; returns the number of what is stored of it.
    fn dissociate(&mut self, zone: ZoneId) -> Option<StoredZone> {
        if self.stored.is_pending(zone)
            && let Some(image) = self.images.remove(zone)
        {
            self.storage.discard(image);
        }
        self.timers.take(zone);
        self.stored.remove(zone)
    }
}

impl<D: Disk> ZoneJournal for Persistence<D> {
    fn prepare(&mut self, zone: ZoneId) -> Readiness {
        if self.is_unread(zone) {
            return Readiness::Unavailable;
        }
        if self.stored.is_pending(zone) || self.stored.number(zone).is_none() {
            if self.images.is_failing(zone) {
                return Readiness::Unavailable;
            }
            self.request_image(zone);
            self.images.add_waiting_changes(zone);
            return Readiness::Preparing;
        }
        Readiness::Ready
    }

    fn append_change(
        &mut self,
        zone: ZoneId,
        apex: NameRef<'_>,
        change: &EncodedChange,
    ) -> Result<Option<u64>, JournalUnavailable> {
        if self.is_unread(zone) {
            return Err(JournalUnavailable);
        }
        if self.stored.is_pending(zone) {
            self.images.add_later(zone, std::slice::from_ref(change));
            return Ok(None);
        }
        let Some(number) = self.stored.number(zone) else {
            self.request_image(zone);
            return Ok(None);
        };
        let appended = self.append(number, apex, AppendRecord::Change(change.clone()));
        appended.map(Some).map_err(|_| JournalUnavailable)
    }

    fn replaced(&mut self, zone: ZoneId, version: &Zone, changes: &[EncodedChange], rule: StoreRule) {
        if self.is_unread(zone) {
            return;
        }
        if self.stored.is_pending(zone) {
            return self.images.add_later(zone, changes);
        }
        match self.stored.number(zone) {
            Some(number) if !changes.is_empty() => self.append_changes(zone, number, version.apex(), changes),
            None if rule == StoreRule::IfLarge && version.heap_size() < MIN_FILE_ZONE_LEN => (),
            _ => self.request_image(zone),
        }
    }

    fn store_version(&mut self, zone: ZoneId, version: &Zone) -> Readiness {
        if self.images.is_failing(zone) || self.is_unread(zone) {
            return Readiness::Unavailable;
        }
        let is_optional = !self.stored.is_pending(zone);
        self.replaced(zone, version, &[], StoreRule::Always);
        self.images.await_image(zone, is_optional);
        Readiness::Preparing
    }

    fn withdraw_version(&mut self, zone: ZoneId) -> bool {
        let Some(image) = self.images.withdraw(zone) else { return false };
        image.into_iter().for_each(|image| self.storage.discard(image));
        self.timers.forget_waiting(zone);
        self.stored.clear_pending(zone);
        self.start_images();
        true
    }

    fn write_image(&mut self, zone: ZoneId, version: Option<Zone>) {
        let Some(version) = version else {
            self.images.remove(zone);
            self.timers.forget_waiting(zone);
            return self.stored.clear_pending(zone);
        };
        let (writer, events) = (self.storage.image_writer(), self.events.clone());
        let job = self.images.begin(zone, version, writer, move |request, image| {
            events(JournalEvent::ImageWritten(zone, request, image));
        });
        self.image_pool.submit(job);
    }

    fn set_timers(&mut self, zone: ZoneId, apex: NameRef<'_>, timers: Timers) {
        if self.is_unread(zone) {
            return;
        }
        let (is_pending, number) = (self.stored.is_pending(zone), self.stored.number(zone));
        if timers.is_of_secondary() && is_pending && number.is_none() {
            return self.timers.put_with_image(zone, timers);
        }
        if timers.is_of_secondary() || is_pending {
            return self.timers.put(zone, apex.to_owned(), timers);
        }
        // The state of a file must be stored before the changes that follow.
        let Some(number) = number else { return };
        // Those of a secondary, which the zone was until now, would be written later and win.
        self.timers.take(zone);
        if self.append(number, apex, AppendRecord::Timers(timers)).is_err() {
            self.timers.put(zone, apex.to_owned(), timers);
        }
    }

    fn removed(&mut self, zone: ZoneId, apex: NameRef<'_>) {
        let stored = self.dissociate(zone).or_else(|| self.unread.remove(&zone));
        let restorable = self.recovered.take(apex).map(|recovered| recovered.number);
        if let Some(number) = stored.or(restorable) {
            self.removals.push((number, apex.to_owned()));
            self.retry();
        }
    }

    fn keep_unread(&mut self, zone: ZoneId) {
        if let Some(number) = self.dissociate(zone) {
            self.unread.insert(zone, number);
        }
    }

    fn is_unread(&self, zone: ZoneId) -> bool {
        self.unread.contains_key(&zone)
    }

    fn is_restorable(&self, apex: NameRef<'_>) -> bool {
        self.recovered.contains(apex)
    }

    fn stored_timers(&self, apex: NameRef<'_>) -> Option<Timers> {
        self.recovered.timers(apex)
    }

    fn stored_owner(&self, apex: NameRef<'_>) -> Option<u32> {
        self.owners.catalog(apex)
    }

    fn keep_owner(&mut self, apex: NameRef<'_>, catalog: u32) {
        self.put_owner(apex, catalog);
    }

    fn forget_owner(&mut self, apex: NameRef<'_>) {
        self.drop_owner(apex);
    }

    fn restore(&mut self, zone: ZoneId, apex: NameRef<'_>, max_history_len: u64) -> bool {
        let Some(recovered) = self.recovered.take(apex) else { return false };
        self.stored.set_number(zone, recovered.number);
        RestoreJob { zone, apex: apex.to_owned(), recovered, max_history_len, failures: 0 }.begin(self.restorer.clone())
    }

    fn forget_others(&mut self, is_there: &dyn Fn(NameRef<'_>) -> bool) {
        self.removals.extend(self.recovered.take_all());
        self.retain_owners(is_there);
        self.retry();
    }

    fn forget_stored(&mut self, apex: NameRef<'_>) {
        if let Some(recovered) = self.recovered.take(apex) {
            self.removals.push((recovered.number, apex.to_owned()));
            self.retry();
        }
    }

    fn slot_of(&self, event: &JournalEvent) -> Option<u32> {
        match event {
            JournalEvent::ImageDue(zone, _) => self.stored.slot_of(*zone),
            _ => None,
        }
    }

    fn report_zones(&self, zones: &[ZoneId], reply: SyncSender<Vec<Option<ZoneUsage>>>) {
        let numbers: Vec<_> = zones.iter().map(|zone| self.stored.number(*zone)).collect();
        // Without room for it, the reply is dropped; and a client may have left.
        _ = self.storage.read(move |store| {
            _ = reply.try_send(numbers.into_iter().map(|number| store.zone_usage(number?)).collect());
        });
    }

    fn report_usage(&self, reply: SyncSender<StoreUsage>) {
        let images_fail = self.images.are_failing();
        _ = self.storage.read(move |store| {
            let usage = store.usage();
            _ = reply.try_send(StoreUsage { is_failing: usage.is_failing || images_fail, ..usage });
        });
    }

    fn handle(&mut self, event: JournalEvent, latest: Option<LatestVersion>) {
        match event {
            // It does not end a pause: a disk that has room for changes may have none for an image.
            JournalEvent::Durable(_) => self.retry(),
            JournalEvent::ImageDue(_, write) => self.start_due_image(write, latest),
            JournalEvent::Refused(zone, error) => {
                warn!(%error, "the journal has refused a change; this is a bug, please report it");
                self.outcomes.extend(self.stored.slot_of(zone).map(JournalOutcome::Refused));
            }
            JournalEvent::ImageWritten(zone, request, image) => self.image_written(zone, request, image),
            // For the registry.
            JournalEvent::Restored(..) | JournalEvent::Unreadable(_) => (),
        }
    }

    fn next_outcome(&mut self) -> Option<JournalOutcome> {
        self.outcomes.pop()
    }

    fn due(&self) -> Option<Instant> {
        self.timers.due().into_iter().chain(self.images.due()).min()
    }

    fn tick(&mut self, now: Instant) {
        if self.timers.due().is_some_and(|due| due <= now) {
            self.flush_timers();
        }
        if self.images.due().is_some_and(|due| due <= now) {
            self.images.retry(now);
            self.retry();
        }
    }

    fn flush(&mut self) -> bool {
        self.flush_timers();
        self.retry();
        !self.images.is_empty()
    }
}
