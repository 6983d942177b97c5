//! What happened last to each secondary zone, for `zonda zone status`: 36 octets per zone, as there may be a million.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::transfer::engine::TransferReport;
use crate::zone_id::ZoneId;
use crate::zone_status::{self, rfc3339};

/// The last transfer of each zone, and why it is not current.
#[derive(Default)]
pub(super) struct LastTransfers {
    /// By the index of the zone.
    slots: Vec<Slot>,
    /// The primaries that the slots name, each once.
    primaries: Vec<SocketAddr>,
    numbers: HashMap<SocketAddr, u32>,
    /// What is wrong with the zones that have trouble, by index.
    troubles: HashMap<u32, Trouble>,
}

/// The last transfer of one zone.
#[derive(Clone, Copy, Default)]
struct Slot {
    generation: u32,
    /// Seconds since 1970; 0 if there was none.
    ended_at_s: u32,
    serial: u32,
    records: u32,
    messages: u32,
    duration_ms: u32,
    /// Its index in [`LastTransfers::primaries`].
    primary: u32,
    octets_low: u32,
    octets_high: u16,
    is_ixfr: bool,
}

const _: () = assert!(size_of::<Slot>() <= 36, "a million zones take 36 MB");

#[derive(Default)]
struct Trouble {
    /// Why the last transfer failed.
    failure: Option<Box<str>>,
    /// Why the zone is not current.
    problem: Option<Box<str>>,
}

impl LastTransfers {
    /// The last transfer of a zone, and why it is not current.
    pub(super) fn get(&self, zone: ZoneId) -> (Option<zone_status::TransferReport>, Option<String>) {
        let slot = self.slots.get(zone.index as usize).filter(|slot| slot.generation == zone.generation);
        let Some(slot) = slot else { return (None, None) };
        let trouble = self.troubles.get(&zone.index);
        let problem = trouble.and_then(|trouble| trouble.problem.as_deref()).map(str::to_owned);
        let failure = trouble.and_then(|trouble| trouble.failure.as_deref()).map(str::to_owned);
        let report = (slot.ended_at_s != 0).then(|| self.report(slot, failure));
        (report, problem)
    }

    /// A version was transferred and is served. A whole zone in response to IXFR is an AXFR (RFC 1995 4).
    pub(super) fn succeeded(&mut self, zone: ZoneId, report: &TransferReport, is_ixfr: bool, serial: u32, now_s: u32) {
        let slot = Slot { serial, is_ixfr, ..self.slot_of(zone, report, now_s) };
        *self.slot(zone) = slot;
        self.troubles.remove(&zone.index);
    }

    /// A transfer failed, or its version was not served.
    pub(super) fn failed(&mut self, zone: ZoneId, report: &TransferReport, failure: &str, problem: &str, now_s: u32) {
        let slot = self.slot_of(zone, report, now_s);
        *self.slot(zone) = slot;
        let trouble = Trouble { failure: Some(failure.into()), problem: Some(problem.into()) };
        self.troubles.insert(zone.index, trouble);
    }

    /// The zone is not current.
    pub(super) fn set_problem(&mut self, zone: ZoneId, problem: &str) {
        self.slot(zone);
        self.troubles.entry(zone.index).or_default().problem = Some(problem.into());
    }

    /// The zone is current.
    pub(super) fn clear_problem(&mut self, zone: ZoneId) {
        let is_known = self.slots.get(zone.index as usize).is_some_and(|slot| slot.generation == zone.generation);
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
        if self.slots.get(zone.index as usize).is_some_and(|slot| slot.generation == zone.generation) {
            self.troubles.remove(&zone.index);
        }
    }

    /// The slot of a zone; empty if another zone had the index before.
    fn slot(&mut self, zone: ZoneId) -> &mut Slot {
        let index = zone.index as usize;
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::default());
        }
        let slot = &mut self.slots[index];
        if slot.generation != zone.generation {
            *slot = Slot { generation: zone.generation, ..Slot::default() };
            self.troubles.remove(&zone.index);
        }
        slot
    }

    fn slot_of(&mut self, zone: ZoneId, report: &TransferReport, now_s: u32) -> Slot {
        let counts = report.counts;
        Slot {
            generation: zone.generation,
            ended_at_s: now_s.max(1),
            serial: 0,
            records: saturated(report.records),
            messages: saturated(counts.messages),
            duration_ms: saturated(counts.duration_ms),
            primary: self.number(report.primary),
            octets_low: counts.octets as u32,
            octets_high: (counts.octets >> 32) as u16,
            is_ixfr: report.from_serial.is_some(),
        }
    }

    fn number(&mut self, primary: SocketAddr) -> u32 {
        let primaries = &mut self.primaries;
        *self.numbers.entry(primary).or_insert_with(|| {
            primaries.push(primary);
            primaries.len() as u32 - 1
        })
    }

    fn report(&self, slot: &Slot, failure: Option<String>) -> zone_status::TransferReport {
        zone_status::TransferReport {
            kind: if slot.is_ixfr { "ixfr" } else { "axfr" }.into(),
            primary: self.primaries[slot.primary as usize].to_string(),
            ended_at: rfc3339(slot.ended_at_s.into()),
            serial: failure.is_none().then_some(slot.serial),
            messages: slot.messages.into(),
            octets: u64::from(slot.octets_high) << 32 | u64::from(slot.octets_low),
            records: slot.records.into(),
            seconds: f64::from(slot.duration_ms) / 1000.0,
            failure,
        }
    }
}

fn saturated(value: u64) -> u32 {
    value.try_into().unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::session::ExchangeCounts;

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
        last.set_problem(new, "no answer");
        assert_eq!((last.get(new), last.get(old)), ((None, Some("no answer".into())), (None, None)));
    }
}
