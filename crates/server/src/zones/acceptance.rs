//! Decides whether a new version of a zone may be published: its size, its digest (ZONEMD), its signatures, an external command.
//!
//! Zone files, transfers and changes are all checked here. Most checks visit the whole zone, so that the writer never runs them
//! itself: see [`needs_pool`]. A version that is refused changes nothing: the one served before stays.

use std::borrow::Borrow;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use zone::change::{Applied, ChangeError, ChangeRules, ChangeSet};
use zone::dnssec::{self, SignatureError, SignatureRules, SignatureScope, SignatureStatus};
use zone::encoded_change::EncodedChange;
use zone::zonemd::{self, ZonemdStatus};
use zone::{Denial, Zone};

use super::check_command::{self, CommandError};
use super::known_sizes::size_of;
use crate::clock;
use crate::config::value::{DnssecCheck, DnssecScope, ZonemdMode};
use crate::config::{DnssecPolicy, ZoneLimits, ZonePolicy};

/// A version that is to be published.
#[derive(Clone, Copy)]
pub struct CandidateVersion<'z> {
    /// The version served now.
    pub base: Option<&'z Zone>,
    /// The new version.
    pub version: &'z Zone,
    /// How it was made.
    pub origin: VersionOrigin,
}

/// How a version was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionOrigin {
    /// All of it was read or transferred.
    Whole,
    /// By changes of the version served.
    Changes,
}

/// Why a version is not published.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
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
    /// Its ZONEMD record was made for another version (RFC 8976 4).
    #[error("its ZONEMD record is for serial {0}, not for this version")]
    DigestSerial(u32),
    /// Validators would not accept it (RFC 4035 5.3).
    #[error(transparent)]
    Signatures(#[from] SignatureError),
    /// The version before was signed.
    #[error("it has no DNSKEY records, and the version served is signed; `dnssec-check = \"off\"` accepts it")]
    Unsigned,
    /// The external command does not accept it.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A bug.
    #[error("zonda panicked while checking it; this is a bug, please report it")]
    Panicked,
}

/// What is said about a version that is published.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Remark {
    /// A later version may exceed a limit.
    #[error("it has {value} {what}, which is close to the limit: `{key}` is {limit}")]
    NearLimit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        value: u64,
        /// The key of the limit.
        key: &'static str,
        /// The limit.
        limit: u64,
    },
    /// None of the known digests can be checked.
    #[error("its ZONEMD records have no known scheme and algorithm: its digest is not checked")]
    UnknownDigest,
    /// The change did not replace the ZONEMD record.
    #[error("the change made its ZONEMD record stale: the record is removed")]
    StaleDigest,
    /// The signatures cannot be checked (RFC 6840 5.2).
    #[error("none of its DNSKEY records has a known algorithm: its signatures are not checked")]
    UnknownAlgorithm,
    /// Its signatures are bad, and it is published all the same.
    #[error("validators will not accept it: {0}")]
    Signatures(SignatureError),
    /// The version before was signed.
    #[error("it has no DNSKEY records, and the version before was signed")]
    Unsigned,
}

/// Whether the checks of changes may take long: those of the default settings do not.
pub fn needs_pool(policy: &ZonePolicy) -> bool {
    let ZoneLimits { max_records, max_bytes, max_shrink_percent, .. } = policy.limits;
    let has_limits = max_records > 0 || max_bytes > 0 || max_shrink_percent > 0;
    let has_checks = policy.zonemd == ZonemdMode::Always || policy.dnssec.check != DnssecCheck::Off;
    has_limits || has_checks || has_command(policy)
}

/// Whether an external command checks the zone: it may take very long.
pub fn has_command(policy: &ZonePolicy) -> bool {
    !policy.check_command.arguments.is_empty()
}

/// The number of the external command, if one checks the zone: the same for zones with the same arguments.
pub fn command_lane(policy: &ZonePolicy) -> Option<u64> {
    has_command(policy).then(|| FixedState::default().hash_one(&policy.check_command.arguments))
}

/// Checks a version, also by the external command; returns remarks about it, or why it is refused.
pub fn check_all(candidate: CandidateVersion<'_>, policy: &ZonePolicy) -> Result<Vec<Remark>, Rejection> {
    let remarks = check(candidate, policy)?;
    run_command(candidate.version, policy)?;
    Ok(remarks)
}

/// Asks the external command, if there is one.
pub fn run_command(version: &Zone, policy: &ZonePolicy) -> Result<(), Rejection> {
    if has_command(policy) {
        check_command::run(&policy.check_command, version)?;
    }
    Ok(())
}

/// As [`check_all`], but without the external command.
pub fn check(candidate: CandidateVersion<'_>, policy: &ZonePolicy) -> Result<Vec<Remark>, Rejection> {
    let mut remarks = check_limits(candidate, &policy.limits)?;
    remarks.extend(check_digest(candidate, policy.zonemd)?);
    remarks.extend(check_signatures(candidate, policy.dnssec)?);
    Ok(remarks)
}

/// A version that changes lead to.
pub struct AcceptedChange {
    /// The version, and its difference from the one before.
    pub applied: Applied,
    /// What is said about it.
    pub remarks: Vec<Remark>,
}

/// Why a change is not published.
#[derive(Debug)]
pub enum ChangeRejection {
    /// It does not fit the zone.
    Invalid(ChangeError),
    /// The new version may not be published.
    Rejected(Rejection),
}

/// More owners than this below changed zone cuts or DNAMEs take the writer too long: each may get new flags.
const MAX_INLINE_OWNERS: usize = 500;

/// Whether applying changes takes long although they have few records: many owners are below zone cuts or DNAMEs that they change.
pub fn is_long<C: Borrow<ChangeSet>>(base: &Zone, changes: impl IntoIterator<Item = C>) -> bool {
    let mut left = MAX_INLINE_OWNERS;
    changes.into_iter().any(|change| {
        let count = change.borrow().owners_below_cuts(base, left);
        let is_long = count > left;
        left = left.saturating_sub(count);
        is_long
    })
}

/// Applies a change and checks the result.
pub fn apply(
    base: &Zone,
    change: ChangeSet,
    rules: ChangeRules,
    policy: &ZonePolicy,
) -> Result<AcceptedChange, ChangeRejection> {
    let applied = base.apply(change, rules).map_err(ChangeRejection::Invalid)?;
    let (applied, stale) = without_stale_digest(base, applied);
    let candidate = CandidateVersion { base: Some(base), version: &applied.zone, origin: VersionOrigin::Changes };
    let remarks = check_all(candidate, policy).map_err(ChangeRejection::Rejected)?;
    Ok(AcceptedChange { applied, remarks: stale.into_iter().chain(remarks).collect() })
}

/// RFC 8976 4: a ZONEMD record for another serial helps nobody; the server cannot let it stay as if it knew better.
pub fn without_stale_digest(base: &Zone, applied: Applied) -> (Applied, Option<Remark>) {
    match applied.zone.without_stale_digest() {
        None => (applied, None),
        Some(zone) => {
            let change = EncodedChange::between(base, &zone);
            (Applied { zone, change, ..applied }, Some(Remark::StaleDigest))
        }
    }
}

/// A limit of the configuration, and what it limits.
struct Limit {
    what: &'static str,
    key: &'static str,
    limit: u64,
}

/// From this part of a limit on, a version is close to it: an operator should know before one is refused.
const NEAR_PERCENT: u64 = 90;
/// Zones are close to lower limits by design.
const MIN_REMARKED_LIMIT: u64 = 1000;

impl Limit {
    /// Refuses a value over the limit. Remarks on one that is close to it, unless `before`, the value of the version before, was, too.
    fn check(self, value: u64, before: impl FnOnce() -> Option<u64>) -> Result<Option<Remark>, Rejection> {
        let Limit { what, key, limit } = self;
        if value > limit {
            return Err(Rejection::TooLarge { what, value, key, limit });
        }
        let is_near = |value: u64| limit >= MIN_REMARKED_LIMIT && value >= limit * NEAR_PERCENT / 100;
        let is_new = is_near(value) && !before().is_some_and(is_near);
        Ok(is_new.then_some(Remark::NearLimit { what, value, key, limit }))
    }
}

fn check_limits(
    CandidateVersion { base, version, .. }: CandidateVersion<'_>,
    limits: &ZoneLimits,
) -> Result<Vec<Remark>, Rejection> {
    let ZoneLimits { max_records, max_bytes, max_shrink_percent, nsec3_max_iterations, .. } = *limits;
    let mut remarks = Vec::new();
    if let Denial::Nsec3(chain) = version.denial() {
        let key = "nsec3-max-iterations";
        let limit = Limit { what: "NSEC3 iterations", key, limit: nsec3_max_iterations.into() };
        limit.check(chain.iterations().into(), || None)?;
    }
    if max_bytes > 0 {
        let limit = Limit { what: "octets in memory", key: "max-bytes", limit: max_bytes.into() };
        let before = || base.map(|base| base.heap_size() as u64);
        remarks.extend(limit.check(version.heap_size() as u64, before)?);
    }
    if max_records == 0 && max_shrink_percent == 0 {
        return Ok(remarks);
    }
    // The next version is counted from this one.
    let (before, counts) = (base.map(|base| size_of(base, None)), size_of(version, base));
    if max_records > 0 {
        let limit = Limit { what: "records", key: "max-records", limit: max_records.into() };
        remarks.extend(limit.check(counts.records, || before.map(|before| before.records))?);
    }
    if let Some((base, before)) = base.zip(before).filter(|_| max_shrink_percent > 0) {
        // Names that others replace count, too: a version of other names is as wrong as one without names.
        let percent = (version.missing_names(base) * 100).div_ceil(before.names.max(1));
        if percent > max_shrink_percent.into() {
            return Err(Rejection::Shrinks { percent, limit: max_shrink_percent });
        }
    }
    Ok(remarks)
}

/// RFC 8976 4: compares the digest of the zone with its ZONEMD records. A zone without such records passes.
fn check_digest(candidate: CandidateVersion<'_>, mode: ZonemdMode) -> Result<Option<Remark>, Rejection> {
    match (mode, candidate.origin) {
        (ZonemdMode::Off, _) | (ZonemdMode::FullTransfers, VersionOrigin::Changes) => return Ok(None),
        (ZonemdMode::FullTransfers | ZonemdMode::Always, _) => (),
    }
    match zonemd::verify(candidate.version) {
        ZonemdStatus::Verified | ZonemdStatus::Absent => Ok(None),
        ZonemdStatus::Unsupported => Ok(Some(Remark::UnknownDigest)),
        ZonemdStatus::Mismatch => Err(Rejection::Digest),
        ZonemdStatus::OtherSerial(serial) => Err(Rejection::DigestSerial(serial)),
    }
}

/// RFC 4035 5.3: whether validators accept the zone.
fn check_signatures(
    CandidateVersion { base, version, .. }: CandidateVersion<'_>,
    policy: DnssecPolicy,
) -> Result<Option<Remark>, Rejection> {
    let is_refused = match policy.check {
        DnssecCheck::Off => return Ok(None),
        DnssecCheck::Warn => false,
        DnssecCheck::Refuse => true,
    };
    let scope = match policy.scope {
        DnssecScope::Apex => SignatureScope::Apex,
        DnssecScope::Zone => SignatureScope::Zone,
    };
    let now_s = clock::real().as_secs();
    match dnssec::verify(version, SignatureRules { now_s, min_validity_s: policy.min_validity_s, scope }) {
        Ok(SignatureStatus::Valid) => Ok(None),
        Ok(SignatureStatus::UnknownAlgorithm) => Ok(Some(Remark::UnknownAlgorithm)),
        Ok(SignatureStatus::Unsigned) if base.is_some_and(Zone::is_signed) => match is_refused {
            true => Err(Rejection::Unsigned),
            false => Ok(Some(Remark::Unsigned)),
        },
        Ok(SignatureStatus::Unsigned) => Ok(None),
        Err(error) if is_refused => Err(error.into()),
        Err(error) => Ok(Some(Remark::Signatures(error))),
    }
}
