//! What happened last to each secondary zone, for `zonda zone status`: 16 octets per zone, as there may be a million.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::interned::Interned;
use crate::transfer::engine::TransferReport;
use crate::transfer::session::ExchangeCounts;
use crate::zone_id::ZoneId;
use crate::zone_status::{self, rfc3339};

/// The last transfer of each zone, and why it is not current.
#[derive(Default)]
pub(super) struct LastTransfers {
    /// By the index of the zone.
    slots: Vec<Slot>,
    /// The counts that have no room in their slots, by index.
    large: HashMap<u32, Counts>,
    /// The primaries that the slots name, each once.
    primaries: Interned<SocketAddr>,
    /// What is wrong with the zones that have trouble, by index.
    troubles: HashMap<u32, Trouble>,
}

/// The last transfer of one zone.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Seconds since 1970; 0 if there was none.
    ended_at_s: u32,
    serial: u32,
    counts: SmallCounts,
    /// The lowest octet of the generation: a slot is emptied when its zone is removed, so that no older one is left.
    generation: u8,
}

const _: () = assert!(size_of::<Slot>() <= 16, "a million zones take 16 MB");

impl Slot {
    fn empty(zone: ZoneId) -> Slot {
        Slot { generation: zone.generation as u8, ..Slot::default() }
    }

    fn is_of(&self, zone: ZoneId) -> bool {
        self.generation == zone.generation as u8
    }
}

/// What was transferred, if it was little: else it is in [`LastTransfers::large`].
#[derive(Clone, Copy, Default)]
struct SmallCounts {
    /// As octets, so that another one fits beside them.
    octets: [u8; 2],
    duration_ms: [u8; 2],
    records: u8,
    primary: u8,
    /// The number of messages, and [`IS_IXFR`].
    messages: u8,
}

/// The transfer was an IXFR.
const IS_IXFR: u8 = 0x80;

/// What was transferred.
#[derive(Clone, Copy)]
struct Counts {
    octets: u64,
    records: u64,
    messages: u64,
    duration_ms: u64,
    /// The number of the primary in [`LastTransfers::primaries`].
    primary: u32,
}

impl SmallCounts {
    /// `None` if they have no room.
    fn of(counts: &Counts) -> Option<SmallCounts> {
        Some(SmallCounts {
            octets: u16::try_from(counts.octets).ok()?.to_ne_bytes(),
            records: counts.records.try_into().ok()?,
            duration_ms: u16::try_from(counts.duration_ms).ok()?.to_ne_bytes(),
            primary: counts.primary.try_into().ok()?,
            messages: u8::try_from(counts.messages).ok().filter(|messages| messages & IS_IXFR == 0)?,
        })
    }
}

impl From<SmallCounts> for Counts {
    fn from(small: SmallCounts) -> Counts {
        Counts {
            octets: u16::from_ne_bytes(small.octets).into(),
            records: small.records.into(),
            messages: (small.messages & !IS_IXFR).into(),
            duration_ms: u16::from_ne_bytes(small.duration_ms).into(),
            primary: small.primary.into(),
        }
    }
}

#[derive(Default)]
struct Trouble {
    /// Why the last transfer failed.
    failure: Option<Box<str>>,
    /// Why the zone is not current.
    problem: Option<Box<str>>,
}

impl LastTransfers {
    /// The last transfer of a zone, and why it is not current.
    pub(super) fn get(&self, zone: ZoneId) -> (Option<zone_status::LastTransfer>, Option<String>) {
        let slot = self.slots.get(zone.index as usize).filter(|slot| slot.is_of(zone));
        let Some(slot) = slot else { return (None, None) };
        let trouble = self.troubles.get(&zone.index);
        let problem = trouble.and_then(|trouble| trouble.problem.as_deref()).map(str::to_owned);
        let failure = trouble.and_then(|trouble| trouble.failure.as_deref()).map(str::to_owned);
        let report = (slot.ended_at_s != 0).then(|| self.report(zone, slot, failure));
        (report, problem)
    }

    /// A version was transferred and is served. A whole zone in response to IXFR is an AXFR (RFC 1995 4).
    pub(super) fn succeeded(&mut self, zone: ZoneId, report: &TransferReport, is_ixfr: bool, serial: u32, now_s: u32) {
        self.put_report(zone, report, is_ixfr, serial, now_s);
        self.troubles.remove(&zone.index);
    }

    /// A transfer failed, or its version was not served.
    pub(super) fn failed(&mut self, zone: ZoneId, report: &TransferReport, failure: &str, problem: &str, now_s: u32) {
        self.put_report(zone, report, report.from_serial.is_some(), 0, now_s);
        let trouble = Trouble { failure: Some(failure.into()), problem: Some(problem.into()) };
        self.troubles.insert(zone.index, trouble);
    }

    /// The zone is not current.
    pub(super) fn set_problem(&mut self, zone: ZoneId, problem: &str) {
        self.prepare(zone);
        self.troubles.entry(zone.index).or_default().problem = Some(problem.into());
    }

    /// The zone is current.
    pub(super) fn clear_problem(&mut self, zone: ZoneId) {
        let is_known = self.slots.get(zone.index as usize).is_some_and(|slot| slot.is_of(zone));
        if !is_known {
            return;
        }
        let Some(trouble) = self.troubles.get_mut(&zone.index) else { return };
        trouble.problem = None;
        if trouble.failure.is_none() {
            self.troubles.remove(&zone.index);
        }
    }

    /// The zone was removed.
    pub(super) fn forget(&mut self, zone: ZoneId) {
        if self.slots.get(zone.index as usize).is_some_and(|slot| slot.is_of(zone)) {
            self.clear(zone);
        }
    }

    /// Makes a slot for a zone, and clears it if another zone had the index before.
    fn prepare(&mut self, zone: ZoneId) {
        let index = zone.index as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::default());
        }
        if !self.slots[index].is_of(zone) {
            self.clear(zone);
        }
    }

    /// Nothing is known of this zone, nor of the one that had its index before.
    fn clear(&mut self, zone: ZoneId) {
        self.put(zone, Slot::empty(zone), None);
        self.troubles.remove(&zone.index);
    }

    fn put_report(&mut self, zone: ZoneId, report: &TransferReport, is_ixfr: bool, serial: u32, now_s: u32) {
        self.prepare(zone);
        let ExchangeCounts { octets, messages, duration_ms, .. } = report.counts;
        let (primary, _) = self.primaries.acquire(report.primary);
        let counts = Counts { octets, records: report.records, messages, duration_ms, primary };
        let small = SmallCounts::of(&counts);
        let large = small.is_none().then_some(counts);
        let mut counts = small.unwrap_or_default();
        counts.messages |= if is_ixfr { IS_IXFR } else { 0 };
        self.put(zone, Slot { ended_at_s: now_s.max(1), serial, counts, ..Slot::empty(zone) }, large);
    }

    /// Fills the slot of a zone. What was in it uses its primary no more.
    fn put(&mut self, zone: ZoneId, slot: Slot, large: Option<Counts>) {
        let old = std::mem::replace(&mut self.slots[zone.index as usize], slot);
        let old_large = match large {
            Some(counts) => self.large.insert(zone.index, counts),
            None => self.large.remove(&zone.index),
        };
        if old.ended_at_s != 0 {
            self.primaries.release(old_large.unwrap_or(old.counts.into()).primary);
        }
    }

    fn report(&self, zone: ZoneId, slot: &Slot, failure: Option<String>) -> zone_status::LastTransfer {
        let counts = self.large.get(&zone.index).copied().unwrap_or(slot.counts.into());
        zone_status::LastTransfer {
            kind: if slot.counts.messages & IS_IXFR == 0 { "axfr" } else { "ixfr" }.into(),
            primary: self.primaries.get(counts.primary).map(SocketAddr::to_string).unwrap_or_default(),
            ended_at: rfc3339(slot.ended_at_s.into()),
            serial: failure.is_none().then_some(slot.serial),
            messages: counts.messages,
            octets: counts.octets,
            records: counts.records,
            seconds: counts.duration_ms as f64 / 1000.0,
            failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(octets: u64) -> TransferReport {
        let counts = ExchangeCounts { octets, messages: 2, duration_ms: 1500, expire_s: None };
        let primary = "192.0.2.1:53".parse().expect("an address");
        TransferReport { primary, from_serial: Some(6), counts, records: 3, failure: None }
    }

    #[test]
    fn the_last_transfer_of_a_zone_is_reported() {
        let (mut last, zone) = (LastTransfers::default(), ZoneId { index: 9, generation: 1 });
        assert_eq!(last.get(zone), (None, None));
        last.succeeded(zone, &report(5 << 32 | 7), true, 7, 1_795_348_800);
        let (Some(transfer), None) = last.get(zone) else { panic!("a transfer without a problem") };
        assert_eq!((transfer.kind.as_str(), transfer.primary.as_str()), ("ixfr", "192.0.2.1:53"));
        assert_eq!((transfer.octets, transfer.messages, transfer.records), (5 << 32 | 7, 2, 3));
        assert_eq!((transfer.ended_at.as_str(), transfer.seconds), ("2026-11-22T12:00:00Z", 1.5));
        assert_eq!((transfer.serial, transfer.failure), (Some(7), None));
        assert_eq!(last.large.len(), 1);
        last.succeeded(zone, &report(8), true, 7, 1_795_348_800);
        assert_eq!((last.get(zone).0.map(|transfer| transfer.octets), last.large.len()), (Some(8), 0));
        last.succeeded(zone, &report(1 << 16), true, 7, 1_795_348_800);
        last.forget(zone);
        assert_eq!(last.large.len(), 0);
        for (messages, records, large) in [(127, 255, 0), (128, 255, 1), (127, 256, 1)] {
            let report = report(9);
            let counts = ExchangeCounts { messages, ..report.counts };
            last.succeeded(zone, &TransferReport { counts, records, ..report }, false, 7, 1_795_348_800);
            let transfer = last.get(zone).0.expect("a transfer");
            assert_eq!((transfer.kind.as_str(), transfer.messages, transfer.records), ("axfr", messages, records));
            assert_eq!(last.large.len(), large, "{messages} messages, {records} records");
        }
    }

    #[test]
    fn a_failure_stays_until_the_next_transfer_and_a_problem_until_the_zone_is_current() {
        let (mut last, zone) = (LastTransfers::default(), ZoneId { index: 0, generation: 0 });
        last.set_problem(zone, "no answer");
        assert_eq!(last.get(zone), (None, Some("no answer".into())));
        last.failed(zone, &report(1), "reset", "the last transfer failed: reset", 5);
        let failure_of = |last: &LastTransfers| last.get(zone).0.and_then(|transfer| transfer.failure);
        assert_eq!(failure_of(&last).as_deref(), Some("reset"));
        last.clear_problem(zone);
        assert_eq!((failure_of(&last).as_deref(), last.get(zone).1), (Some("reset"), None));
        last.succeeded(zone, &report(1), false, 7, 6);
        assert_eq!((failure_of(&last), last.troubles.len()), (None, 0));
    }

    #[test]
    fn a_zone_does_not_inherit_what_happened_to_another() {
        let (mut last, old) = (LastTransfers::default(), ZoneId { index: 0, generation: 0 });
        last.failed(old, &report(1), "reset", "reset", 5);
        let new = ZoneId { index: 0, generation: 1 };
        assert_eq!(last.get(new), (None, None));
        last.forget(old);
        assert_eq!((last.get(old), last.get(ZoneId { index: 0, generation: 256 })), ((None, None), (None, None)));
        last.set_problem(new, "no answer");
        assert_eq!((last.get(new), last.get(old)), ((None, Some("no answer".into())), (None, None)));
    }

    /// Otherwise the table grows with every primary that there ever was.
    #[test]
    fn primaries_that_no_zone_was_transferred_from_last_are_dropped() {
        let mut last = LastTransfers::default();
        let zones = [(0, 0), (1, 0), (1, 1)].map(|(index, generation)| ZoneId { index, generation });
        let from = |host: u16, octets| {
            let primary = SocketAddr::from(([192, 0, 2, 1], host));
            TransferReport { primary, ..report(octets) }
        };
        // More than an octet can number, some with counts that have no room in their slots.
        for host in 1..1000 {
            last.succeeded(zones[0], &from(host, u64::from(host) << 10), false, 7, 5);
            last.failed(zones[1], &from(host + 1, 9), "reset", "reset", 5);
        }
        let primary_of = |last: &LastTransfers, zone| last.get(zone).0.map(|transfer| transfer.primary);
        assert_eq!(last.primaries.len(), 2);
        assert_eq!(primary_of(&last, zones[0]).as_deref(), Some("192.0.2.1:999"));
        assert_eq!(primary_of(&last, zones[1]).as_deref(), Some("192.0.2.1:1000"));
        // The next zone with the index.
        last.set_problem(zones[2], "no answer");
        assert_eq!((last.primaries.len(), primary_of(&last, zones[2])), (1, None));
        (0..2).for_each(|_| last.forget(zones[0]));
        assert_eq!((last.primaries.len(), last.large.len()), (0, 0));
    }
}
