//! What the registry asks of the journal, which keeps zones across restarts. `persistence` implements it over the store.
//!
//! The journal of a zone is an image and the changes after it. The registry reports every version that it serves, in order, and asks for
//! stored versions when zones are added.

use std::io;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use wire::NameRef;
use zone::Zone;
use zone::encoded_change::EncodedChange;

use crate::storage::{ChangeRefused, StoreUsage, StoredImage, StoredZone, Timers, ZoneUsage};
use crate::zone_id::ZoneId;

/// Keeps zones across restarts. The default keeps nothing.
pub trait ZoneJournal: Send {
    /// Whether a change of this zone can be appended now.
    fn prepare(&mut self, _zone: ZoneId) -> Readiness {
        Readiness::Ready
    }

    /// Appends a change of the latest version. Returns its number if it has to be written to disk: numbers ascend, and
    /// [`JournalEvent::Durable`] reports when it is there.
    fn append_change(
        &mut self,
        _zone: ZoneId,
        _apex: NameRef<'_>,
        _change: &EncodedChange,
    ) -> Result<Option<u64>, JournalUnavailable> {
        Ok(None)
    }

    /// The zone has another version, which these changes lead to from the latest one, none if they are not known.
    fn replaced(&mut self, _zone: ZoneId, _version: &Zone, _changes: &[EncodedChange], _rule: StoreRule) {}

    /// Stores the latest version, which no change leads to and which is published once it is on disk: [`JournalOutcome::Stored`] follows, or
    /// [`JournalOutcome::Unavailable`]. `Ready` if there is nothing to wait for.
    fn store_version(&mut self, _zone: ZoneId, _version: &Zone) -> Readiness {
        Readiness::Ready
    }

    /// The version of [`ZoneJournal::store_version`], for which there was no [`JournalOutcome::Stored`] yet, will not be published: the one
    /// before it stays the latest. Returns false if that must be stored again.
    fn withdraw_version(&mut self, _zone: ZoneId) -> bool {
        false
    }

    /// The version that [`JournalOutcome::VersionNeeded`] asked for; `None` if there is none any more.
    fn write_image(&mut self, _zone: ZoneId, _version: Option<Zone>) {}

    /// Keeps the timers of a zone, if the zone is stored. They are written soon, not at once.
    fn set_timers(&mut self, _zone: ZoneId, _apex: NameRef<'_>, _timers: Timers) {}

    /// Whether versions are there after a restart.
    fn keeps_versions(&self) -> bool {
        true
    }

    /// The zone is no longer configured, or its stored version is useless: nothing of it is kept.
    fn removed(&mut self, _zone: ZoneId, _apex: NameRef<'_>) {}

    /// The stored version of this zone could not be read, and the next start may be able to: it is kept as it is, and nothing else is stored
    /// of the zone until then.
    fn keep_unread(&mut self, _zone: ZoneId) {}

    /// Whether the stored version of this zone is kept unread.
    fn is_unread(&self, _zone: ZoneId) -> bool {
        false
    }

    /// Whether a version of this zone was stored before the start, and [`ZoneJournal::restore`] was not called for it.
    fn is_restorable(&self, _apex: NameRef<'_>) -> bool {
        false
    }

    /// The timers of a zone that was stored before the start, as long as [`ZoneJournal::is_restorable`].
    fn stored_timers(&self, _apex: NameRef<'_>) -> Option<Timers> {
        None
    }

    /// The fingerprint of the catalog that [`ZoneJournal::keep_owner`] was called with last, before or after the start.
    fn stored_owner(&self, _apex: NameRef<'_>) -> Option<u32> {
        None
    }

    /// Keeps which catalog, by its fingerprint, a zone is a member of, whether the zone is stored or not.
    fn keep_owner(&mut self, _apex: NameRef<'_>, _catalog: u32) {}

    /// The zone is gone, and so is its owner.
    fn forget_owner(&mut self, _apex: NameRef<'_>) {}

    /// Starts to read the stored version of a zone, with at most so many octets of earlier changes: a [`JournalEvent::Restored`]
    /// follows. Returns false if there is none.
    fn restore(&mut self, _zone: ZoneId, _apex: NameRef<'_>, _max_history_len: u64) -> bool {
        false
    }

    /// The start is complete: what is stored of zones that were not added is removed. Owners are kept of the zones that are there.
    fn forget_others(&mut self, _is_there: &dyn Fn(NameRef<'_>) -> bool) {}

    /// The zone with this name was not added, and will not be: as [`ZoneJournal::forget_others`].
    fn forget_stored(&mut self, _apex: NameRef<'_>) {}

    /// Handles an event. `latest` is the latest version of the zone that it is about.
    fn handle(&mut self, _event: JournalEvent, _latest: Option<LatestVersion>) {}

    /// Reports what the journal has of these zones, in their order, unless the disk takes too long.
    fn report_zones(&self, _zones: &[ZoneId], _reply: SyncSender<Vec<Option<ZoneUsage>>>) {}

    /// Reports what the journal has of all zones, unless the disk takes too long.
    fn report_usage(&self, _reply: SyncSender<StoreUsage>) {}

    /// The slot of the zone whose latest version [`ZoneJournal::handle`] needs for this event.
    fn slot_of(&self, _event: &JournalEvent) -> Option<u32> {
        None
    }

    /// What the registry must do, after any other call; `None` if there is nothing.
    fn next_outcome(&mut self) -> Option<JournalOutcome> {
        None
    }

    /// When [`ZoneJournal::tick`] must be called.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does what is due.
    fn tick(&mut self, _now: Instant) {}

    /// Passes on all that waits, as the daemon stops. Returns whether images are still being written.
    fn flush(&mut self) -> bool {
        false
    }
}

/// The latest version of a zone.
pub struct LatestVersion {
    /// The version.
    pub version: Zone,
    /// The most octets of earlier changes to keep.
    pub max_history_len: u64,
}

/// Keeps nothing.
pub struct NoJournal;

impl ZoneJournal for NoJournal {
    fn keeps_versions(&self) -> bool {
        false
    }
}

/// Whether a change can be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// The version before it is being written: a [`JournalOutcome`] says when it can.
    Preparing,
    /// The disk fails.
    Unavailable,
}

/// The journal takes nothing now: the disk fails or is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal cannot be written")]
pub struct JournalUnavailable;

/// Which zones are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRule {
    /// Always: there is no file that the zone could be read from.
    Always,
    /// If reading its file takes longer than reading its image.
    IfLarge,
}

/// What threads of the journal report to the writer.
pub enum JournalEvent {
    /// Everything up to this number is durable (`StorageEvent::Durable`).
    Durable(u64),
    /// A change was refused (`StorageEvent::Refused`).
    Refused(StoredZone, ChangeRefused),
    /// An image of the newest version is to be written.
    ImageDue(StoredZone, WriteDueImage),
    /// The image with this number, which replaces what is stored of a zone, was written, or could not be.
    ImageWritten(ZoneId, u64, io::Result<StoredImage>),
    /// A stored version was read; `None` if that is impossible, which was logged.
    Restored(ZoneId, Option<Box<RestoredZone>>),
    /// A stored version could not be read, which was logged. It may be sound: [`ZoneJournal::keep_unread`] is to be called.
    Unreadable(ZoneId),
}

/// Writes the image of a version that `StorageEvent::ImageDue` asked for, in a pool. If it is dropped, that is asked for again.
pub type WriteDueImage = Box<dyn FnOnce(LatestVersion) -> io::Result<()> + Send>;

/// What the registry has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalOutcome {
    /// Call [`ZoneJournal::write_image`] with the latest version of this zone.
    VersionNeeded(ZoneId),
    /// Changes of this zone that waited for [`Readiness::Ready`] are to be tried again.
    Ready(ZoneId),
    /// The version of [`ZoneJournal::store_version`] has this number, as a change has: see [`ZoneJournal::append_change`].
    Stored(ZoneId, u64),
    /// Changes of this zone that waited are refused, and so is a version that was to be stored.
    Unavailable(ZoneId),
    /// The journal has refused changes of the zone in this slot that are not published yet: they are not durable.
    Refused(u32),
}

/// A version of a zone that was stored.
pub struct RestoredZone {
    /// The version.
    pub version: Zone,
    /// The changes that led to it, for IXFR.
    pub history: Vec<EncodedChange>,
    /// Its timers.
    pub timers: Option<Timers>,
}
