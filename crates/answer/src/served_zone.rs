//! A configured zone: its data if it is loaded, and who may transfer it.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wire::serial::is_later;
use wire::{Name, NameRef};
use zone::Zone;
use zone::encoded_change::EncodedChange;

use crate::zone_acls::ZoneAcls;

/// A configured zone.
pub struct ServedZone {
    /// Its data, if it is served.
    pub state: ZoneState,
    extras: Arc<ZoneExtras>,
    /// When a secondary zone expires, in seconds since 1970; 0 if this server is a primary.
    expires_at_s: AtomicU32,
    slot: u32,
}

// A server may have a million zones: with the counts of its `Arc` and the allocator's header this takes six times 16 octets.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ServedZone>() <= 72);

/// What a zone has besides its data. The zones of one policy share it, except those with a history.
#[derive(Default)]
pub struct ZoneExtras {
    /// Who may transfer it or announce changes.
    acls: Arc<ZoneAcls>,
    /// The changes that led to this version, for IXFR.
    history: CountedHistory,
}

/// The latest changes of a zone, each from the version that the previous one leads to.
pub type ZoneHistory = Vec<EncodedChange>;

/// How much of the histories to keep, in octets. The last change of a zone is kept in any case.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Of a zone.
    pub zone: u64,
    /// Of all zones together: above it, those that change keep their last change alone.
    pub total: u64,
}

/// The octets of all histories, with those of versions that are still in use.
static HISTORY_OCTETS: AtomicU64 = AtomicU64::new(0);

/// A history that is in [`HISTORY_OCTETS`] for as long as it lives.
#[derive(Default)]
struct CountedHistory(ZoneHistory);

impl CountedHistory {
    fn new(history: ZoneHistory) -> CountedHistory {
        let counted = CountedHistory(history);
        HISTORY_OCTETS.fetch_add(counted.octets(), Ordering::Relaxed);
        counted
    }

    fn octets(&self) -> u64 {
        self.0.iter().map(|change| change.as_bytes().len() as u64).sum()
    }
}

impl Drop for CountedHistory {
    fn drop(&mut self) {
        HISTORY_OCTETS.fetch_sub(self.octets(), Ordering::Relaxed);
    }
}

/// Whether a configured zone has data.
pub enum ZoneState {
    /// It is served.
    Loaded(Zone),
    /// The zone with this apex is not loaded: queries get SERVFAIL.
    Unavailable(Name),
    /// No primary of the zone with this apex could be reached for too long (RFC 1034 4.3.5): queries get SERVFAIL.
    Expired(Name),
}

impl ZoneExtras {
    /// These access lists and changes.
    pub fn new(acls: ZoneAcls, history: ZoneHistory) -> Arc<ZoneExtras> {
        Arc::new(ZoneExtras { acls: Arc::new(acls), history: CountedHistory::new(history) })
    }

    /// Who may transfer the zone or announce changes.
    pub fn acls(&self) -> &Arc<ZoneAcls> {
        &self.acls
    }

    /// The same access lists with other changes.
    fn with_history(self: &Arc<ZoneExtras>, history: ZoneHistory) -> Arc<ZoneExtras> {
        if history.is_empty() && self.history.0.is_empty() {
            return self.clone();
        }
        Arc::new(ZoneExtras { acls: self.acls.clone(), history: CountedHistory::new(history) })
    }
}

impl ServedZone {
    /// A zone that does not expire.
    pub fn new(state: ZoneState, extras: Arc<ZoneExtras>) -> ServedZone {
        ServedZone { state, extras, expires_at_s: AtomicU32::new(0), slot: 0 }
    }

    /// Sets the number of the zone for whoever publishes it. Its later versions have the same one.
    pub fn set_slot(&mut self, slot: u32) {
        self.slot = slot;
    }

    /// The number that [`Self::set_slot`] has set; 0 before.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// The same zone with another version, which these changes lead to. Without changes its history begins anew. A zone that nobody may
    /// transfer has none: a secondary of a million zones would need gigabytes for them.
    pub fn with_version(&self, version: Zone, changes: &[EncodedChange], limits: HistoryLimits) -> ServedZone {
        let is_kept = !changes.is_empty() && !self.acls().transfer.0.is_empty();
        let history = if is_kept { self.history_with(changes, limits) } else { ZoneHistory::new() };
        self.with_extras(ZoneState::Loaded(version), self.extras.with_history(history))
    }

    fn history_with(&self, changes: &[EncodedChange], limits: HistoryLimits) -> ZoneHistory {
        let is_full = HISTORY_OCTETS.load(Ordering::Relaxed) > limits.total;
        let max_octets = if is_full { 0 } else { limits.zone };
        let mut history = Cow::Borrowed(&self.extras.history.0);
        for change in changes {
            history = Cow::Owned(extend_history(&history, change.clone(), max_octets));
        }
        history.into_owned()
    }

    /// The same zone with a version that has the same content.
    pub fn with_rebuilt(&self, version: Zone) -> ServedZone {
        self.with_extras(ZoneState::Loaded(version), self.extras.clone())
    }

    /// The same zone with the access lists of `extras`. A secondary keeps the time when it expires.
    pub fn with_acls(&self, state: ZoneState, extras: &Arc<ZoneExtras>, is_secondary: bool) -> ServedZone {
        let served = self.with_extras(state, extras.with_history(self.extras.history.0.clone()));
        if !is_secondary {
            served.set_expiry(0);
        }
        served
    }

    fn with_extras(&self, state: ZoneState, extras: Arc<ZoneExtras>) -> ServedZone {
        let expires_at_s = AtomicU32::new(self.expires_at_s.load(Ordering::Relaxed));
        ServedZone { state, extras, expires_at_s, slot: self.slot }
    }

    /// The zone with this apex, which has expired.
    pub fn expired(&self) -> ServedZone {
        let extras = self.extras.with_history(ZoneHistory::new());
        ServedZone { slot: self.slot, ..ServedZone::new(ZoneState::Expired(self.apex().to_owned()), extras) }
    }

    /// Who may transfer it or announce changes.
    pub fn acls(&self) -> &Arc<ZoneAcls> {
        self.extras.acls()
    }

    /// The apex.
    pub fn apex(&self) -> NameRef<'_> {
        match &self.state {
            ZoneState::Loaded(zone) => zone.apex(),
            ZoneState::Unavailable(apex) | ZoneState::Expired(apex) => apex.as_ref(),
        }
    }

    /// The zone, if it is served.
    pub fn zone(&self) -> Option<&Zone> {
        match &self.state {
            ZoneState::Loaded(zone) => Some(zone),
            ZoneState::Unavailable(_) | ZoneState::Expired(_) => None,
        }
    }

    /// The changes since the version with this serial; `None` if they are not known.
    pub fn changes_since(&self, serial: u32) -> Option<&[EncodedChange]> {
        let history = &self.extras.history.0;
        let first = history.iter().position(|change| change.from_serial() == serial)?;
        Some(&history[first..])
    }

    /// Sets when a secondary zone expires, in seconds since 1970. Each successful refresh moves it, without a publication.
    pub fn set_expiry(&self, at_s: u32) {
        self.expires_at_s.store(at_s, Ordering::Relaxed);
    }

    /// The seconds until the zone expires (RFC 7314 3.2): of a primary (3.1), the EXPIRE field of the SOA record.
    pub(crate) fn expire_s(&self, zone: &Zone, now_s: u32) -> u32 {
        match self.expires_at_s.load(Ordering::Relaxed) {
            0 => zone.expire_s(),
            at_s => at_s.saturating_sub(now_s),
        }
    }
}

/// The history after one more change: the latest changes that lead to it without a gap, within these limits.
pub fn extend_history(history: &ZoneHistory, change: EncodedChange, max_octets: u64) -> ZoneHistory {
    let mut octets = change.as_bytes().len() as u64;
    let mut next = change.from_serial();
    let earlier = history.iter().rev().take(MAX_HISTORY - 1).take_while(|earlier| {
        let continues = earlier.to_serial() == next && is_later(earlier.to_serial(), earlier.from_serial());
        next = earlier.from_serial();
        octets += earlier.as_bytes().len() as u64;
        continues && octets <= max_octets
    });
    let mut list: Vec<EncodedChange> = earlier.cloned().collect();
    list.reverse();
    list.push(change);
    list
}

/// The most changes in a history: each change copies the list.
pub const MAX_HISTORY: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::{Acl, AclEntry};
    use zone::load::load_text;

    fn zone_of(serial: u32) -> Zone {
        let apex: Name = "z.".parse().expect("a name");
        let text = format!("z. 60 SOA a. b. {serial} 1 1 1 1\nz. 60 NS a.\nn{serial}.z. 60 A 192.0.2.1\n");
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
    }

    fn change(from: u32, to: u32) -> EncodedChange {
        EncodedChange::between(&zone_of(from), &zone_of(to))
    }

    /// The serials that changes are known from.
    fn known(history: &ZoneHistory) -> Vec<u32> {
        history.iter().map(EncodedChange::from_serial).collect()
    }

    #[test]
    fn a_history_has_no_gap_and_is_bounded() {
        let mut history = extend_history(&Vec::new(), change(1, 2), u64::MAX);
        for serial in 2..400 {
            history = extend_history(&history, change(serial, serial + 1), u64::MAX);
        }
        assert_eq!(known(&history), (400 - MAX_HISTORY as u32..400).collect::<Vec<_>>());
        let one = change(400, 401).as_bytes().len();
        assert_eq!(known(&extend_history(&history, change(400, 401), 3 * one as u64)), [398, 399, 400]);
        assert_eq!(known(&extend_history(&history, change(400, 401), 1)), [400], "a change is never refused");
        assert_eq!(known(&extend_history(&history, change(500, 501), u64::MAX)), [500], "there is a gap");
        let back = extend_history(&history, change(400, 7), u64::MAX);
        assert_eq!(known(&extend_history(&back, change(7, 8), u64::MAX)), [7], "RFC 1995 4: serials increase");
    }

    #[test]
    fn changes_are_found_by_the_serial_of_the_client() {
        let served = ServedZone::new(ZoneState::Loaded(zone_of(4)), Arc::default());
        assert!(served.changes_since(4).is_none());
        let extras = ZoneExtras::new(ZoneAcls::default(), vec![change(1, 2), change(2, 3), change(3, 4)]);
        let served = ServedZone::new(ZoneState::Loaded(zone_of(4)), extras);
        assert_eq!(served.changes_since(2).map(<[EncodedChange]>::len), Some(2));
        assert!(served.changes_since(4).is_none() && served.changes_since(9).is_none());
    }

    #[test]
    fn a_history_is_kept_if_somebody_may_transfer_the_zone_and_all_have_room() {
        let serials = |entries: &[AclEntry], total| {
            let acls = ZoneAcls { transfer: Acl(entries.to_vec()), ..ZoneAcls::default() };
            let limits = HistoryLimits { zone: u64::MAX, total };
            let first = ServedZone::new(ZoneState::Loaded(zone_of(1)), ZoneExtras::new(acls, ZoneHistory::new()));
            let served = first.with_version(zone_of(2), &[change(1, 2)], limits);
            let served = served.with_version(zone_of(3), &[change(2, 3)], limits);
            [1, 2].map(|serial| served.changes_since(serial).is_some())
        };
        let anybody = [AclEntry::default()];
        assert_eq!(serials(&anybody, u64::MAX), [true, true]);
        assert_eq!(serials(&anybody, 0), [false, true]);
        assert_eq!(serials(&[], u64::MAX), [false, false]);
    }

    #[test]
    fn later_versions_have_the_same_slot() {
        let mut first = ServedZone::new(ZoneState::Loaded(zone_of(4)), Arc::default());
        first.set_slot(7);
        let later = [
            first.with_version(zone_of(5), &[], HistoryLimits { zone: 0, total: 0 }),
            first.with_rebuilt(zone_of(4)),
            first.with_acls(ZoneState::Loaded(zone_of(4)), &Arc::default(), true),
            first.expired(),
        ];
        assert_eq!(later.map(|zone| zone.slot()), [7; 4]);
    }

    #[test]
    fn other_access_lists_change_neither_history_nor_expiry_of_a_secondary() {
        let extras = ZoneExtras::new(ZoneAcls::default(), vec![change(3, 4)]);
        let served = ServedZone::new(ZoneState::Loaded(zone_of(4)), extras);
        served.set_expiry(1000);
        let secondary = served.with_acls(ZoneState::Loaded(zone_of(4)), &Arc::default(), true);
        assert_eq!((secondary.expire_s(&zone_of(4), 900), secondary.changes_since(3).is_some()), (100, true));
        let primary = served.with_acls(ZoneState::Loaded(zone_of(4)), &Arc::default(), false);
        assert_eq!(primary.expire_s(&zone_of(4), 900), 1, "the EXPIRE field of the SOA record");
    }
}
