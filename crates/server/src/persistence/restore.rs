//! Reads the stored version of a zone: its image, and the changes after it.

use tracing::error;
use wire::NameRef;
use zone::change::{ChangeError, ChangeRules};
use zone::encoded_change::{EncodedChange, EncodedChangeError};
use zone::image::{self, ImageError};
use zone::{CheckMode, Zone};

use crate::storage::disk::{Disk, DiskFile};
use crate::storage::{ChangeReader, ImageReadError, ImageReader, Store, StoredZone};

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
}

/// What is to be read of a zone.
pub struct StoredVersion<D: Disk> {
    image: Option<Result<ImageReader<D::File>, ImageReadError>>,
    changes: ChangeReader<D::File>,
    history: ChangeReader<D::File>,
    serial: u32,
}

/// The most changes before an image that are read for IXFR: as many as the server keeps in memory.
const MAX_HISTORY: usize = 256;

/// Shorter images are decoded by one thread.
const MIN_PARALLEL_LEN: u64 = 1 << 20;

/// Opens the version of a zone with this serial, its newest one, and at most so many octets of changes before its image.
pub fn open<D: Disk>(store: &Store<D>, zone: StoredZone, serial: u32, max_history_len: u64) -> StoredVersion<D> {
    StoredVersion {
        image: store.image(zone),
        changes: store.changes_after_image(zone),
        history: store.changes_before_image(zone, MAX_HISTORY, max_history_len),
        serial,
    }
}

/// Reads a version and the changes that led to it; logs an error.
pub fn read_or_log<D: Disk>(
    apex: NameRef<'_>,
    stored: StoredVersion<D>,
    threads: usize,
) -> Option<(Zone, Vec<EncodedChange>)> {
    let read = read(apex, stored, threads);
    read.inspect_err(|error| {
        let help = "it is read from its file or transferred again; changes by updates since then are lost";
        error!(zone = %apex, %error, help, "the stored version of the zone cannot be used");
    })
    .ok()
}

fn read<D: Disk>(
    apex: NameRef<'_>,
    stored: StoredVersion<D>,
    threads: usize,
) -> Result<(Zone, Vec<EncodedChange>), RestoreError> {
    let StoredVersion { image, changes, history, serial } = stored;
    let mut image = image.ok_or(RestoreError::NoImage)??;
    // Threads pay off for images of megabytes.
    let threads = if image.remaining() > MIN_PARALLEL_LEN { threads } else { 1 };
    let base = image::decode(threads, |chunk| Ok::<_, RestoreError>(image.next_chunk(chunk)?))?;
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
    let rules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: u16::MAX };
    let apply = |base: &Zone, change: &EncodedChange| base.apply(change.to_change_set(), rules);
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
