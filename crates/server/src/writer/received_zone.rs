//! A zone that was transferred: built and checked in the pool before the writer serves it.

use std::sync::Arc;

use wire::serial::is_later;
use zone::change::{ChangeError, ChangeRules};
use zone::encoded_change::EncodedChange;
use zone::transfer_receiver::{Received, TransferReceiver};
use zone::zonemd::{self, ZonemdStatus};
use zone::{CheckMode, Denial, Finding, Zone};

use crate::config::value::ZonemdMode;
use crate::config::{ZoneLimits, ZonePolicy};
use crate::transfer::session::TransferSink;

/// Receives a transfer, and says which versions are accepted.
pub struct ZoneReceiver {
    /// Receives the records.
    pub receiver: TransferReceiver,
    /// Whether a version with an earlier or equal serial is accepted: the zone has expired, or the operator forces it.
    pub accepts_any_serial: bool,
}

/// A version that may be served.
pub struct ReceivedVersion {
    /// The zone.
    pub zone: Zone,
    /// The changes that lead to it, none if the whole zone was transferred.
    pub changes: Vec<EncodedChange>,
    /// Warnings.
    pub findings: Vec<Finding>,
}

/// Why a transferred version is not served.
#[derive(Debug, thiserror::Error)]
pub enum ReceivedError {
    /// The changes do not fit the version served: the whole zone is needed.
    #[error("the changes do not fit the version served: {0}")]
    DoesNotFit(ChangeError),
    /// The new version would be invalid.
    #[error("the zone is invalid: {0}")]
    Invalid(String),
    /// It is not newer than the version served.
    #[error("its serial {new} is not later than {old}, which is served; `zonda zone retransfer` accepts it")]
    NotLater {
        /// The serial served.
        old: u32,
        /// The serial received.
        new: u32,
    },
    /// It exceeds a limit of the configuration.
    #[error("it has {value} {what}, and `{key}` is {limit}")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        value: u64,
        /// The key of the limit.
        key: &'static str,
        /// The limit.
        limit: u64,
    },
    /// Too many names would vanish.
    #[error("it removes {percent} percent of the names, and `max-shrink-percent` is {limit}")]
    Shrinks {
        /// The share of names that would be removed.
        percent: u64,
        /// The limit.
        limit: u8,
    },
    /// Its digest is wrong (RFC 8976 4).
    #[error("its digest does not match its ZONEMD record: it is incomplete or was changed on the way")]
    Digest,
}

impl TransferSink for ZoneReceiver {
    fn receive(&mut self, message: &[u8]) -> Result<bool, String> {
        TransferSink::receive(&mut self.receiver, message)
    }

    fn current_serial(&self) -> Option<u32> {
        self.receiver.current_serial()
    }

    fn records(&self) -> u64 {
        TransferSink::records(&self.receiver)
    }
}

impl ZoneReceiver {
    /// Builds the version and checks it. `base` is the version it continues from.
    pub fn finish(self, base: Option<&Zone>, policy: &Arc<ZonePolicy>) -> Result<ReceivedVersion, ReceivedError> {
        let received = self.receiver.finish().map_err(|error| ReceivedError::Invalid(error.to_string()))?;
        let (version, is_full) = match received {
            Received::Full { zone, findings } => (ReceivedVersion { zone, changes: Vec::new(), findings }, true),
            Received::Changes(changes) => (apply_changes(base, changes, policy)?, false),
            Received::SoaOnly { serial } => {
                let old = base.map_or(serial, Zone::serial);
                return Err(ReceivedError::NotLater { old, new: serial });
            }
        };
        if let Some(base) = base.filter(|_| !self.accepts_any_serial) {
            check_serial(base, &version.zone)?;
        }
        check_limits(base, &version.zone, &policy.limits)?;
        let is_digest_checked = match policy.zonemd {
            ZonemdMode::Off => false,
            ZonemdMode::FullTransfers => is_full,
            ZonemdMode::Always => true,
        };
        if is_digest_checked && zonemd::verify(&version.zone) == ZonemdStatus::Mismatch {
            return Err(ReceivedError::Digest);
        }
        Ok(version)
    }
}

/// RFC 1995 4: applies the changes one after the other.
fn apply_changes(
    base: Option<&Zone>,
    changes: Vec<EncodedChange>,
    policy: &ZonePolicy,
) -> Result<ReceivedVersion, ReceivedError> {
    let invalid = || ReceivedError::Invalid("there is no version that the changes apply to".into());
    let mut version =
        ReceivedVersion { zone: base.ok_or_else(invalid)?.clone(), changes: Vec::new(), findings: Vec::new() };
    // Transferred zones are accepted as leniently as zone files.
    let rules =
        ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: policy.limits.nsec3_max_iterations };
    for change in changes {
        let applied = version.zone.apply(change.to_change_set(), rules).map_err(|error| match error {
            ChangeError::Invalid(_) => ReceivedError::Invalid(error.to_string()),
            ChangeError::NoSuchRecord(..) => ReceivedError::DoesNotFit(error),
        })?;
        version.zone = applied.zone;
        version.changes.push(applied.change);
        version.findings = applied.warnings;
    }
    Ok(version)
}

fn check_serial(base: &Zone, new: &Zone) -> Result<(), ReceivedError> {
    let (old, new) = (base.serial(), new.serial());
    if is_later(new, old) { Ok(()) } else { Err(ReceivedError::NotLater { old, new }) }
}

fn check_limits(base: Option<&Zone>, new: &Zone, limits: &ZoneLimits) -> Result<(), ReceivedError> {
    let ZoneLimits { max_records, max_bytes, max_shrink_percent, nsec3_max_iterations, .. } = *limits;
    let check = |what, value: u64, key, limit: u64| match limit > 0 && value > limit {
        true => Err(ReceivedError::TooLarge { what, value, key, limit }),
        false => Ok(()),
    };
    if let Denial::Nsec3(chain) = new.denial() {
        let (value, limit) = (u64::from(chain.iterations()), u64::from(nsec3_max_iterations));
        if value > limit {
            let (what, key) = ("NSEC3 iterations", "nsec3-max-iterations");
            return Err(ReceivedError::TooLarge { what, value, key, limit });
        }
    }
    // Counting visits every record.
    if max_records > 0 {
        check("records", new.counts().records, "max-records", max_records.into())?;
    }
    if max_bytes > 0 {
        check("octets in memory", new.heap_size() as u64, "max-bytes", max_bytes.into())?;
    }
    let Some(base) = base.filter(|_| max_shrink_percent > 0) else { return Ok(()) };
    let (before, after) = (base.counts().names, new.counts().names);
    let percent = before.saturating_sub(after) * 100 / before.max(1);
    match percent > u64::from(max_shrink_percent) {
        true => Err(ReceivedError::Shrinks { percent, limit: max_shrink_percent }),
        false => Ok(()),
    }
}
