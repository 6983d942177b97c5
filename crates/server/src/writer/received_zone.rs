//! A zone that was transferred: built and checked in the pool before the writer serves it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wire::serial::is_later;
use zone::change::{ChangeError, ChangeRules};
use zone::encoded_change::{EncodedChange, EncodedRecord};
use zone::transfer_receiver::{Received, TransferReceiver};
use zone::version_edit::is_digest;
use zone::{CheckMode, Finding, Zone};

use super::receive_memory::MemoryShare;
use crate::config::ZonePolicy;
use crate::transfer::engine::TransferReport;
use crate::transfer::session::{SinkError, TransferSink};
use crate::zone_id::ZoneId;
use crate::zones::acceptance::{self, CandidateVersion, Rejection, Remark, VersionOrigin};

/// Receives a transfer, and says which versions are accepted.
pub struct ZoneReceiver {
    /// Receives the records. Hundreds wait for their first message, and are moved on the way to the writer.
    pub receiver: Box<TransferReceiver>,
    /// Whether a version with an earlier or equal serial is accepted: the zone has expired, or the operator forces it.
    pub accepts_any_serial: bool,
    /// The memory that it takes, unless the zone has `max-bytes`.
    pub memory: Option<MemoryShare>,
}

/// A version that may be served.
pub struct ReceivedVersion {
    /// The zone.
    pub zone: Zone,
    /// The changes that lead to it, none if the whole zone was transferred.
    pub changes: Vec<EncodedChange>,
    /// Warnings about its records, and about those that each of the changes led to.
    pub findings: Vec<Finding>,
    /// What the checks say about it.
    pub remarks: Vec<Remark>,
}

impl ReceivedVersion {
    fn new(zone: Zone, findings: Vec<Finding>) -> ReceivedVersion {
        ReceivedVersion { zone, changes: Vec::new(), findings, remarks: Vec::new() }
    }

    /// Adds warnings about another change. Those about the apex are the same after each one.
    fn add_findings(&mut self, warnings: Vec<Finding>) {
        for warning in warnings {
            if self.findings.len() < MAX_FINDINGS && !self.findings.contains(&warning) {
                self.findings.push(warning);
            }
        }
    }
}

/// The warnings that are kept of all changes of a transfer, of which a few are logged.
const MAX_FINDINGS: usize = 200;

/// The result of building and checking a transferred zone.
pub struct FinishedTransfer {
    pub(super) zone: ZoneId,
    /// The version that it continues from.
    pub(super) base: Option<Zone>,
    /// The settings that it was transferred with.
    pub(super) policy: Arc<ZonePolicy>,
    pub(super) result: Result<ReceivedVersion, ReceivedError>,
    pub(super) report: TransferReport,
}

/// Why a transferred version is not served.
#[derive(Debug, thiserror::Error)]
pub enum ReceivedError {
    /// The changes do not fit the version served: the whole zone is needed.
    #[error("the changes do not fit the version served: {0}")]
    DoesNotFit(ChangeError),
    /// The changes do not lead to the version of the primary (RFC 8976 4): the whole zone is needed.
    #[error("after the changes, {0}")]
    LeadsElsewhere(Rejection),
    /// The new version would be invalid.
    #[error("the zone is invalid: {0}")]
    Invalid(String),
    /// A version before the last of the changes would be: the last one may be sound, and the whole zone is needed.
    #[error("the changes lead through an invalid version: {0}")]
    InvalidBetween(String),
    /// It is not newer than the version served.
    #[error("its serial {new} is not later than {old}, which is served; `zonda zone retransfer` accepts it")]
    NotLater {
        /// The serial served.
        old: u32,
        /// The serial received.
        new: u32,
    },
    /// It may not be published.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// A bug: building or checking it panicked.
    #[error("zonda panicked while building the zone; this is a bug, please report it")]
    Panicked,
}

impl ReceivedError {
    /// Whether the zone itself may be sound, although these changes are not.
    pub fn needs_whole_zone(&self) -> bool {
        matches!(self, Self::DoesNotFit(_) | Self::LeadsElsewhere(_) | Self::InvalidBetween(_))
    }
}

/// The most records of a transfer that the writer builds and checks itself: a fraction of a millisecond, and less than to wake another
/// thread if there are few, as in most zones of a hosting provider.
const MAX_QUICK_RECORDS: u64 = 256;

impl TransferSink for ZoneReceiver {
    /// A bug in this code must not end the transfer thread, and with it the refreshes of all zones.
    fn receive(&mut self, message: &[u8]) -> Result<bool, SinkError> {
        let receive = || TransferSink::receive(&mut *self.receiver, message);
        let received = catch_unwind(AssertUnwindSafe(receive));
        let is_complete = received.unwrap_or_else(|_| Err(SinkError::Contents(ReceivedError::Panicked.to_string())))?;
        if let Some(memory) = &mut self.memory {
            let grown = memory.grow_to(self.receiver.memory());
            grown.map_err(|error| SinkError::Contents(error.to_string()))?;
        }
        Ok(is_complete)
    }

    fn current_serial(&self) -> Option<u32> {
        self.receiver.current_serial()
    }

    fn records(&self) -> u64 {
        TransferSink::records(&*self.receiver)
    }
}

/// Builds the version and checks it; `base` is the version it continues from. A bug in this code must not keep the zone from
/// being transferred ever again, as the transfer thread waits for the result.
pub fn finish(
    receiver: ZoneReceiver,
    base: Option<&Zone>,
    policy: &Arc<ZonePolicy>,
) -> Result<ReceivedVersion, ReceivedError> {
    without_panic(|| receiver.finish(base, policy))
}

fn without_panic<T>(build: impl FnOnce() -> Result<T, ReceivedError>) -> Result<T, ReceivedError> {
    catch_unwind(AssertUnwindSafe(build)).unwrap_or(Err(ReceivedError::Panicked))
}

impl ZoneReceiver {
    /// Whether [`finish`] takes so short, with this base, that the writer may call it.
    pub fn is_quick(&self, base: Option<&Zone>, policy: &ZonePolicy) -> bool {
        TransferSink::records(self) <= MAX_QUICK_RECORDS
            && !acceptance::needs_pool(policy)
            && !base.is_some_and(|base| {
                acceptance::is_long(base, self.receiver.changes().iter().map(EncodedChange::to_change_set))
            })
    }

    fn finish(mut self, base: Option<&Zone>, policy: &Arc<ZonePolicy>) -> Result<ReceivedVersion, ReceivedError> {
        let odd = self.receiver.take_findings();
        let received = self.receiver.finish().map_err(|error| ReceivedError::Invalid(error.to_string()))?;
        // Transferred zones are accepted as leniently as zone files.
        let rules = policy.change_rules(CheckMode::Lenient);
        let (mut version, is_full) = match received {
            Received::Full { zone, findings } => (ReceivedVersion::new(zone, findings), true),
            Received::Changes(changes) => (apply_changes(base, changes, rules)?, false),
            Received::SoaOnly { serial } => {
                let old = base.map_or(serial, Zone::serial);
                return Err(ReceivedError::NotLater { old, new: serial });
            }
        };
        if let Some(base) = base.filter(|_| !self.accepts_any_serial) {
            check_serial(base, &version.zone)?;
        }
        version.findings.extend(odd);
        let origin = if is_full { VersionOrigin::Whole } else { VersionOrigin::Changes };
        let checked = acceptance::check_all(CandidateVersion { base, version: &version.zone, origin }, policy);
        version.remarks.extend(checked.map_err(|rejection| match rejection {
            Rejection::Digest if !is_full => ReceivedError::LeadsElsewhere(rejection),
            rejection => rejection.into(),
        })?);
        Ok(version)
    }
}

/// RFC 1995 4: applies the changes one after the other.
fn apply_changes(
    base: Option<&Zone>,
    changes: Vec<EncodedChange>,
    rules: ChangeRules,
) -> Result<ReceivedVersion, ReceivedError> {
    let invalid = || ReceivedError::Invalid("there is no version that the changes apply to".into());
    let mut version = ReceivedVersion::new(base.ok_or_else(invalid)?.clone(), Vec::new());
    let last = changes.len().saturating_sub(1);
    for (number, change) in changes.into_iter().enumerate() {
        // This server may have removed a stale digest before.
        let apex = version.zone.apex();
        let is_known =
            |record: &EncodedRecord<'_>| version.zone.has_digest() || !is_digest(apex, record.owner, record.rtype);
        let applied =
            version.zone.apply(change.to_change_set_removing(is_known), rules).map_err(|error| match error {
                ChangeError::Invalid(_) if number < last => ReceivedError::InvalidBetween(error.to_string()),
                ChangeError::Invalid(_) => ReceivedError::Invalid(error.to_string()),
                ChangeError::NoSuchRecord(..) => ReceivedError::DoesNotFit(error),
            })?;
        // A digest may be stale between two changes.
        let (applied, remark) = match number == last {
            true => acceptance::without_stale_digest(&version.zone, applied),
            false => (applied, None),
        };
        version.zone = applied.zone;
        version.changes.push(applied.change);
        version.add_findings(applied.warnings);
        version.remarks.extend(remark);
    }
    Ok(version)
}

fn check_serial(base: &Zone, new: &Zone) -> Result<(), ReceivedError> {
    let (old, new) = (base.serial(), new.serial());
    if is_later(new, old) { Ok(()) } else { Err(ReceivedError::NotLater { old, new }) }
}

#[cfg(test)]
mod tests {
    use wire::message::{Flags, Message, Record};
    use wire::{Class, Name, Rtype};

    use super::*;
    use crate::transfer::engine::RequestedTransfer;
    use crate::transfer::primary::SizeLimits;
    use crate::writer::receive_memory::ReceiveMemory;
    use crate::writer::transfer_thread::new_receiver;

    const MIB: u64 = 1 << 20;

    /// RDATA that no other number has.
    fn text(number: u32) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(number.into());
        std::iter::once(99).chain(std::iter::repeat_with(|| random.u8(..)).take(99)).collect()
    }

    fn response(number: u32, owner: impl Fn(u32) -> String) -> Vec<u8> {
        let record = |owner: String, rtype, rdata: Vec<u8>| {
            let owner: Name = owner.parse().expect("a name");
            Record { owner, rtype, class: Class::IN, ttl: 1, rdata }
        };
        let answer = match number {
            0 => vec![record("z.".into(), Rtype::SOA, [&[0, 0][..], &[0; 20]].concat())],
            _ => (0..500).map(|n| number * 500 + n).map(|n| record(owner(n), Rtype::TXT, text(n))).collect(),
        };
        Message { flags: Flags { response: true, ..Flags::default() }, answer, ..Message::default() }.to_wire()
    }

    /// The error that ends a transfer without an end, and the octets that were received.
    fn endless(limits: SizeLimits, memory: &Arc<ReceiveMemory>, owner: impl Fn(u32) -> String) -> (String, u64) {
        let apex: Name = "z.".parse().expect("a name");
        let transfer = RequestedTransfer { apex: apex.as_ref(), from_serial: None, not_before: None, limits };
        let (mut receiver, mut octets) = (new_receiver(transfer, 100 * MIB, memory), 0);
        for number in 0.. {
            let message = response(number, &owner);
            octets += message.len() as u64;
            if let Err(error) = TransferSink::receive(&mut receiver, &message) {
                return (error.to_string(), octets);
            }
        }
        unreachable!("it has an end")
    }

    #[test]
    fn a_transfer_without_an_end_is_ended_by_the_memory_that_is_left() {
        let memory = ReceiveMemory::new(|| Ok(20 * MIB));
        let owners: [fn(u32) -> String; 3] =
            [|n| format!("{n:08}.z."), |n| format!("{:08}.z.", n.wrapping_mul(2_654_435_769)), |_| "same.z.".into()];
        for owner in owners {
            let (error, octets) = endless(SizeLimits::default(), &memory, owner);
            assert!(error.contains("more than 10485760 octets of memory") && octets < 30 * MIB, "{octets}: {error}");
        }
        // Records of other zones are skipped, and take no memory.
        let (error, octets) = endless(SizeLimits::default(), &memory, |n| format!("{n}.y."));
        assert!(error.contains("more than the memory of this machine") && octets < 110 * MIB, "{octets}: {error}");
    }

    #[test]
    fn a_transfer_without_an_end_is_ended_by_the_limits_of_its_zone() {
        let memory = ReceiveMemory::new(|| Ok(0));
        let limits = SizeLimits { max_records: 1000, max_bytes: 1 << 20 };
        let (error, _) = endless(limits, &memory, |n| format!("{n}.z."));
        assert_eq!(error, "the primary sent more than 1000 records (help: raise max-records)");
        let (error, octets) = endless(SizeLimits { max_records: 0, ..limits }, &memory, |n| format!("{n}.z."));
        assert!(error.ends_with("(help: raise max-bytes)") && octets < 40 * MIB, "{octets}: {error}");
    }

    /// After a failed IXFR, it would be rejected in the end.
    #[test]
    fn a_whole_zone_with_an_earlier_serial_is_not_received() {
        let (apex, memory): (Name, _) = ("z.".parse().expect("a name"), ReceiveMemory::new(|| Ok(0)));
        let received = |not_before| {
            let limits = SizeLimits::default();
            let transfer = RequestedTransfer { apex: apex.as_ref(), from_serial: None, not_before, limits };
            let mut receiver = new_receiver(transfer, 100 * MIB, &memory);
            TransferSink::receive(&mut receiver, &response(0, |_| unreachable!("the SOA record alone")))
        };
        assert_eq!(received(Some(1)), Err(SinkError::EarlierSerial { theirs: 0, ours: 1 }));
        assert_eq!(received(None), Ok(false));
    }

    fn zone(serial: u32, records: &str) -> Zone {
        let apex: Name = "z.".parse().expect("a name");
        let text = format!("z. 60 SOA . . {serial} 1 1 1 1\nz. 60 NS ns.other.\n{records}");
        zone::load::load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
    }

    /// Otherwise the secondary would be stuck with what it has until it expires, or its primary forgets the changes.
    #[test]
    fn changes_that_lead_through_an_invalid_version_are_given_up_for_the_whole_zone() {
        let (address, alias) = ("www.z. 60 A 192.0.2.1\n", "www.z. 60 CNAME .\n");
        let broken = || EncodedChange::between(&zone(1, ""), &zone(2, alias));
        let repaired = EncodedChange::between(&zone(2, address), &zone(3, ""));
        let rules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 0 };
        let error = |changes| apply_changes(Some(&zone(1, address)), changes, rules).err().expect("it is invalid");
        assert!(error(vec![broken(), repaired]).needs_whole_zone());
        assert!(!error(vec![broken()]).needs_whole_zone(), "the whole zone would be invalid, too");
    }

    #[test]
    fn warnings_of_all_changes_are_reported_once() {
        let unproved = "z. 60 NSEC3PARAM 1 0 0 -\n";
        let below_cut = format!("{unproved}sub.z. 60 NS ns.other.\nx.sub.z. 60 TXT x\n");
        let zones = [zone(1, unproved), zone(2, &below_cut), zone(3, &format!("{below_cut}www.z. 60 A 192.0.2.1\n"))];
        let changes = zones.windows(2).map(|pair| EncodedChange::between(&pair[0], &pair[1])).collect();
        let rules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 0 };
        let version = apply_changes(Some(&zones[0]), changes, rules).expect("good changes");
        let messages: Vec<_> = version.findings.iter().map(|finding| finding.message.as_str()).collect();
        let expected = [
            "a record below a delegation is not an address: x.sub.z.",
            "the zone has NSEC3PARAM, but no NSEC3 records: z.",
        ];
        assert_eq!(messages, expected);
    }

    #[test]
    fn a_panic_is_a_failed_transfer() {
        let result: Result<(), ReceivedError> = without_panic(|| panic!("a test"));
        assert!(matches!(result, Err(ReceivedError::Panicked)));
    }
}
