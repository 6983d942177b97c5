//! Reads the stored version of a zone: its image, and the changes after it.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use answer::MAX_HISTORY;
use tracing::{error, warn};
use wire::{Name, NameRef};
use zone::Zone;
use zone::change::{ChangeError, ChangeRules};
use zone::encoded_change::{EncodedChange, EncodedChangeError};
use zone::image::{self, ImageError};

use super::EventSink;
use super::recovered_zones::RestorableZone;
use crate::storage::disk::{Disk, DiskFile};
use crate::storage::{ChangeReader, ImageReadError, ImageReader, StorageHandle, Store, StoredZone};
use crate::zone_id::ZoneId;
use crate::zones::journal::{JournalEvent, RestoredZone};
use crate::zones::work_pool::WorkPool;

/// Why a stored version cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is no image.
    #[error("the store has no image of it")]
    NoImage,
    /// The store cannot be read, or is damaged.
    #[error(transparent)]
    Read(#[from] ImageReadError),
    /// The image is not valid.
    #[error("its image: {0}")]
    Image(#[from] ImageError),
    /// A change is not valid.
    #[error("a stored change: {0}")]
    Change(#[from] EncodedChangeError),
    /// A change is for another version.
    #[error("the stored changes do not fit its image: {0}")]
    DoesNotFit(ChangeError),
    /// The result is another zone or version.
    #[error("its image and changes do not lead to serial {0}")]
    WrongVersion(u32),
    /// A bug.
    #[error("zonda panicked while reading it; this is a bug, please report it")]
    Panicked,
}

impl RestoreError {
    /// Why what is stored is kept; `None` if it is damaged or gone.
    fn reason_to_keep(&self) -> Option<KeepReason> {
        match self {
            RestoreError::Read(ImageReadError::Io { error, .. }) if error.kind() != ErrorKind::NotFound => {
                Some(KeepReason::Unreadable)
            }
            RestoreError::Read(_) | RestoreError::NoImage => None,
            // All checksums were right.
            RestoreError::Image(_)
            | RestoreError::Change(_)
            | RestoreError::DoesNotFit(_)
            | RestoreError::WrongVersion(_)
            | RestoreError::Panicked => Some(KeepReason::NotUnderstood),
        }
    }

    /// Whether another attempt may succeed: the disk fails, or descriptors or memory are short.
    fn may_pass(&self) -> bool {
        use ErrorKind::{IsADirectory, NotFound, Other, PermissionDenied};
        match self {
            RestoreError::Read(ImageReadError::Io { error, .. }) => {
                !matches!(error.kind(), NotFound | Other | IsADirectory | PermissionDenied)
            }
            _ => false,
        }
    }
}

/// Why a stored version that cannot be served is kept.
enum KeepReason {
    /// Not its octets were wrong, but reading them has failed.
    Unreadable,
    /// Its octets are as they were written: a bug, or another version of zonda has written them.
    NotUnderstood,
}

impl KeepReason {
    fn help(&self) -> &'static str {
        match self {
            KeepReason::Unreadable => {
                "it is kept, and nothing else is stored of the zone, so that updates are refused, until zonda starts again; correct the \
                 disk or the permissions of the journal, and restart zonda; the zone is read from its file or transferred meanwhile"
            }
            KeepReason::NotUnderstood => {
                "it is kept, and nothing else is stored of the zone, so that updates are refused; start the version of zonda that wrote it, \
                 and please report this; to give it up, remove the zone from the configuration, reload, and add it again; the zone is read \
                 from its file or transferred meanwhile"
            }
        }
    }
}

/// What the readers of stored versions share.
pub struct Restorer<D: Disk> {
    storage: StorageHandle<D>,
    events: EventSink,
    pool: WorkPool<()>,
    threads: usize,
    /// When the disk failed first.
    failed_at: OnceLock<Instant>,
}

/// After a first failure, versions are read again for so long: without its stored version, a zone is read from its file or transferred. A
/// disk that fails for all zones must not delay them for longer.
const RETRY_FOR: Duration = Duration::from_secs(5);
/// The pause before all but the first of these attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

impl<D: Disk> Restorer<D> {
    /// Reads versions on at most so many threads, and reports them to `events`.
    pub fn new(storage: StorageHandle<D>, events: EventSink, threads: usize) -> Restorer<D> {
        let pool = WorkPool::new(threads, |_, _| ());
        Restorer { storage, events, pool, threads, failed_at: OnceLock::new() }
    }

    /// The disk has failed for long.
    #[cfg(test)]
    pub fn end_retries(&self) {
        _ = self.failed_at.set(Instant::now() - RETRY_FOR);
    }
}

/// A zone whose stored version is to be read.
pub struct RestoreJob {
    /// The zone.
    pub zone: ZoneId,
    /// Its name.
    pub apex: Name,
    /// What is stored of it.
    pub recovered: RestorableZone,
    /// How many octets of earlier changes are wanted.
    pub max_history_len: u64,
    /// How many attempts have failed.
    pub failures: u32,
}

impl RestoreJob {
    /// Starts to read it. False if the storage thread has ended.
    pub fn begin<D: Disk>(self, restorer: Arc<Restorer<D>>) -> bool {
        let storage = restorer.storage.clone();
        let read = storage.read(move |store| {
            store.limit_history(self.recovered.number, self.max_history_len);
            let stored = open(store, self.recovered.number, self.recovered.serial, self.max_history_len);
            let of_job = restorer.clone();
            restorer.pool.submit(move || self.finish(of_job, stored));
        });
        // The queue has more room than zones are read at once, so that this fails only if the thread has ended.
        read.is_ok()
    }

    fn finish<D: Disk>(mut self, restorer: Arc<Restorer<D>>, stored: StoredVersion<D>) {
        let (image, changes) = (stored.image_file(), stored.changes.remaining());
        let restored = match without_panic(|| read(self.apex.as_ref(), stored, restorer.threads)) {
            Ok((version, history)) => Some(Box::new(RestoredZone { version, history, timers: self.recovered.timers })),
            Err(error) if error.may_pass() && self.may_retry(&restorer) => {
                if self.failures == 0 {
                    warn!(zone = %self.apex, %error, "the stored version of the zone is read again");
                } else {
                    thread::sleep(RETRY_PAUSE);
                }
                self.failures += 1;
                let (zone, events) = (self.zone, restorer.events.clone());
                if !self.begin(restorer) {
                    events(JournalEvent::Unreadable(zone));
                }
                return;
            }
            Err(error) => {
                let (zone, serial, image) = (&self.apex, self.recovered.serial, image.as_deref());
                if let Some(reason) = error.reason_to_keep() {
                    let help = reason.help();
                    error!(%zone, serial, image, changes, %error, help, "the stored version of the zone cannot be read");
                    return (restorer.events)(JournalEvent::Unreadable(self.zone));
                }
                let kept_as = image.and_then(|image| restorer.storage.set_image_aside(image));
                let kept_as = kept_as.as_deref();
                let help = "it is read from its file or transferred again; what updates have changed is lost, unless a backup of the \
                            state-dir has it";
                error!(%zone, serial, image, kept_as, changes, %error, help, "the stored version of the zone cannot be used, and is removed");
                None
            }
        };
        (restorer.events)(JournalEvent::Restored(self.zone, restored));
    }

    fn may_retry<D: Disk>(&self, restorer: &Restorer<D>) -> bool {
        let failed_at = restorer.failed_at.get_or_init(Instant::now);
        self.failures == 0 || failed_at.elapsed() < RETRY_FOR
    }
}

/// A bug in this code must not keep the zone from being read from its file.
fn without_panic<T>(read: impl FnOnce() -> Result<T, RestoreError>) -> Result<T, RestoreError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or(Err(RestoreError::Panicked))
}

/// What is to be read of a zone.
struct StoredVersion<D: Disk> {
    image: Option<Result<ImageReader<D::File>, ImageReadError>>,
    changes: ChangeReader<D::File>,
    history: ChangeReader<D::File>,
    serial: u32,
}

impl<D: Disk> StoredVersion<D> {
    /// The name of the file that its image is in.
    fn image_file(&self) -> Option<String> {
        let file = match self.image.as_ref()? {
            Ok(image) => image.file_name(),
            Err(error) => error.file(),
        };
        Some(file.to_owned())
    }
}

/// Shorter images are decoded by one thread.
const MIN_PARALLEL_LEN: u64 = 1 << 20;

/// Opens the version of a zone with this serial, its newest one, and at most so many octets of changes before its image.
fn open<D: Disk>(store: &Store<D>, zone: StoredZone, serial: u32, max_history_len: u64) -> StoredVersion<D> {
    StoredVersion {
        image: store.image(zone),
        changes: store.changes_after_image(zone),
        history: store.changes_before_image(zone, MAX_HISTORY, max_history_len),
        serial,
    }
}

/// Reads a version and the changes that led to it.
fn read<D: Disk>(
    apex: NameRef<'_>,
    stored: StoredVersion<D>,
    threads: usize,
) -> Result<(Zone, Vec<EncodedChange>), RestoreError> {
    let StoredVersion { image, changes, history, serial } = stored;
    let mut image = image.ok_or(RestoreError::NoImage)??;
    // Threads pay off for images of megabytes.
    let threads = if image.remaining() > MIN_PARALLEL_LEN { threads } else { 1 };
    let next_frame = || Ok::<_, RestoreError>(image.next_frame()?);
    let base = image::decode(threads, next_frame, |frame, chunk| Ok(frame.read(chunk)?))?;
    let changes = read_changes(changes)?;
    let version = apply_all(base, &changes)?;
    if version.apex() != apex || version.serial() != serial {
        return Err(RestoreError::WrongVersion(serial));
    }
    // Without its history a zone can be served.
    let mut history = read_changes(history).unwrap_or_default();
    history.extend(changes);
    Ok((version, history))
}

/// Applies changes at once, which costs less than one after the other.
fn apply_all(base: Zone, changes: &[EncodedChange]) -> Result<Zone, RestoreError> {
    // What was served before is served again, whatever the configuration says now.
    let apply = |base: &Zone, change: &EncodedChange| base.apply(change.to_change_set(), ChangeRules::ACCEPTED_BEFORE);
    let Some(condensed) = EncodedChange::condense(changes) else { return Ok(base) };
    if let Ok(applied) = apply(&base, &condensed) {
        return Ok(applied.zone);
    }
    changes.iter().try_fold(base, |base, change| {
        apply(&base, change).map(|applied| applied.zone).map_err(RestoreError::DoesNotFit)
    })
}

fn read_changes(mut reader: ChangeReader<impl DiskFile>) -> Result<Vec<EncodedChange>, RestoreError> {
    let mut changes = Vec::with_capacity(reader.remaining());
    while let Some(change) = reader.next_change()? {
        changes.push(EncodedChange::from_bytes(change.bytes.into())?);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_does_not_pass() {
        let result: Result<(), RestoreError> = without_panic(|| panic!("a test"));
        assert!(matches!(result, Err(RestoreError::Panicked)));
        assert!(!RestoreError::Panicked.may_pass());
    }
}
