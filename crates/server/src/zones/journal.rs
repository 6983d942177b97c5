//! What the registry asks of the journal, which keeps zones across restarts. `persistence` implements it over the store.
//!
//! The journal of a zone is an image and the changes after it. The registry reports every version that it serves, in order, and asks for
//! stored versions when zones are added.

use std::sync::Arc;

use wire::NameRef;
use zone::Zone;
use zone::encoded_change::EncodedChange;

use crate::storage::{StorageEvent, StoredImage, Timers};
use crate::zone_id::ZoneId;

/// Keeps zones across restarts.
pub trait ZoneJournal: Send {
    /// Whether a change of this zone, whose latest version this is, can be appended now.
    fn prepare(&mut self, _zone: ZoneId, _latest: &Zone) -> Readiness {
        Readiness::Ready
    }

    /// Appends a change, which leads to `version`. Returns its number if it has to be written to disk: numbers ascend, and
    /// [`StorageEvent::Durable`] reports when it is there.
    fn append_change(
        &mut self,
        _zone: ZoneId,
        _change: &EncodedChange,
        _version: &Zone,
    ) -> Result<Option<u64>, JournalUnavailable> {
        Ok(None)
    }

    /// The zone has another version, which these changes lead to from the latest one, none if they are not known.
    fn replaced(&mut self, _zone: ZoneId, _version: &Zone, _changes: &[EncodedChange], _rule: StoreRule) {}

    /// Keeps the timers or the fingerprint of a zone, unless nothing else is stored of it. They are written soon, not at once.
    fn set_timers(&mut self, _zone: ZoneId, _apex: NameRef<'_>, _timers: Timers) {}

    /// The zone is no longer configured: nothing of it is kept.
    fn removed(&mut self, _zone: ZoneId, _apex: NameRef<'_>) {}

    /// Whether a version of this zone was stored before the start, and [`ZoneJournal::restore`] was not called for it.
    fn is_restorable(&self, _apex: NameRef<'_>) -> bool {
        false
    }

    /// Starts to read the stored version of a zone: a [`JournalEvent::Restored`] follows. Returns false if there is none.
    fn restore(&mut self, _zone: ZoneId, _apex: NameRef<'_>) -> bool {
        false
    }

    /// The start is complete: what is stored of zones that were not added is removed.
    fn forget_others(&mut self) {}

    /// Handles an event that is not for the registry. `latest` is the latest version of the zone that it is about.
    fn handle(&mut self, _event: JournalEvent, _latest: Option<&Zone>) -> JournalOutcome {
        JournalOutcome::Nothing
    }

    /// The zone that an event is about.
    fn zone_of(&self, _event: &JournalEvent) -> Option<ZoneId> {
        None
    }
}

/// Keeps nothing.
pub struct NoJournal;

impl ZoneJournal for NoJournal {}

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
    /// Always: there is no file that it could be read from.
    Always,
    /// If reading its file takes longer than reading its image.
    IfLarge,
}

/// What threads of the journal report to the writer.
pub enum JournalEvent {
    /// From the storage thread.
    Storage(StorageEvent),
    /// An image that replaces what is stored of a zone was written; `None` if it could not be, which was logged.
    ImageWritten(ZoneId, u64, Option<StoredImage>),
    /// A stored version was read; `None` if that is impossible, which was logged.
    Restored(ZoneId, Option<Box<RestoredZone>>),
}

/// What the registry has to do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalOutcome {
    /// Nothing.
    Nothing,
    /// Changes of this zone that waited for [`Readiness::Ready`] are to be tried again.
    Ready(ZoneId),
    /// Changes of this zone that waited are refused.
    Unavailable(ZoneId),
    /// The journal has refused changes of this zone that are not published yet: they are not durable.
    Refused(ZoneId),
}

/// A version of a zone that was stored.
pub struct RestoredZone {
    /// The version.
    pub version: Zone,
    /// The changes that led to it, for IXFR.
    pub history: Arc<[EncodedChange]>,
    /// Its timers, or the fingerprint of its files.
    pub timers: Option<Timers>,
}
