//! Single rules of the scheduler, one event at a time.

mod notify;
mod primaries;
mod retransfer;

use std::net::IpAddr;

use super::*;

const TIMERS: SoaTimers = SoaTimers { refresh_s: 1000, retry_s: 100, expire_s: 10_000 };
const A: PrimaryId = PrimaryId(0);
const B: PrimaryId = PrimaryId(1);

fn id(index: u32) -> ZoneId {
    ZoneId { index, generation: 7 }
}

fn peers(count: u8) -> Vec<PeerConfig> {
    (1..=count).map(|last| PeerConfig::plain(([192, 0, 2, last], 53).into())).collect()
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn scheduler() -> RefreshScheduler {
    RefreshScheduler::new(RefreshLimits::default(), 1)
}

fn version(serial: u32, check_at_s: u32, expires_at_s: u32) -> Option<ZoneVersion> {
    Some(ZoneVersion { serial, timers: TIMERS, stored: Some(StoredTimers { check_at_s, expires_at_s }) })
}

fn actions(scheduler: &mut RefreshScheduler, now_s: u32) -> Vec<RefreshAction> {
    std::iter::from_fn(|| scheduler.next_action(now_s)).collect()
}

fn probe(zone: u32, primary: PrimaryId) -> RefreshAction {
    RefreshAction::Probe { zone: id(zone), primary }
}

fn transfer(zone: u32, primary: PrimaryId, from_serial: Option<u32>) -> RefreshAction {
    RefreshAction::Transfer { zone: id(zone), primary, from_serial, not_before: from_serial }
}

fn answer(serial: u32) -> ProbeResult {
    ProbeResult::Answer { serial, expire_s: None }
}

/// A scheduler whose zone 0 has serial 5 and is checked at 1000 at the latest, with this many primaries.
fn with_served_zone(primaries: u8) -> RefreshScheduler {
    let mut scheduler = scheduler();
    scheduler.restored_checks.second = 1000;
    scheduler.add(id(0), &peers(primaries), TimerLimits::default(), version(5, 1000, 5000), 500);
    assert_eq!(actions(&mut scheduler, 999), []);
    scheduler
}

#[test]
fn a_new_zone_is_transferred_then_checked_by_its_timers() {
    let mut scheduler = scheduler();
    scheduler.add(id(0), &peers(1), TimerLimits::default(), None, 100);
    assert_eq!(actions(&mut scheduler, 100), [transfer(0, A, None)]);
    assert!(scheduler.transfer_result(id(0), A, TransferResult::Delivered, 101));
    let stored = scheduler.published(id(0), 9, TIMERS, None, 102).expect("the zone is known");
    assert!((1002..=1102).contains(&stored.check_at_s) && stored.expires_at_s == 10_102, "{stored:?}");
    assert_eq!((actions(&mut scheduler, 1001), scheduler.next_time()), (vec![], Some(stored.check_at_s)));
    assert_eq!(actions(&mut scheduler, 1102), [probe(0, A)]);
    scheduler.probe_result(id(0), A, answer(9), 1103);
    assert!(matches!(actions(&mut scheduler, 1103)[..], [RefreshAction::Refreshed { timers, .. }]
        if timers.expires_at_s == 11_103));
}

#[test]
fn rfc_1034_4_3_5_a_failed_check_is_repeated_after_retry_and_the_zone_expires() {
    let mut scheduler = with_served_zone(1);
    let failed = RefreshAction::CheckFailed { zone: id(0), reason: CheckFailure::NoAnswer };
    let (mut now_s, mut times) = (1000, Vec::new());
    let mut has_expired = false;
    while now_s < 6000 {
        for action in actions(&mut scheduler, now_s) {
            match action {
                RefreshAction::Probe { .. } => {
                    times.push(now_s);
                    scheduler.probe_result(id(0), A, ProbeResult::Refused, now_s);
                }
                RefreshAction::Expire { .. } => {
                    has_expired = true;
                    assert_eq!(now_s, 5000);
                }
                other => assert_eq!(other, failed),
            }
        }
        now_s += 1;
    }
    assert!(has_expired);
    let gaps: Vec<u32> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let ranges = [90..=101, 180..=201, 360..=401, 720..=801, 900..=1001];
    assert!(ranges.iter().zip(&gaps).all(|(range, gap)| range.contains(gap)), "{gaps:?}");
}

/// `max-refresh-s` shortens REFRESH alone; and some zones have RETRY above REFRESH.
#[test]
fn a_failed_check_is_repeated_after_refresh_if_retry_is_longer() {
    let mut scheduler = RefreshScheduler::new(RefreshLimits::default(), 1);
    let timers = SoaTimers { refresh_s: 20, retry_s: 7200, expire_s: 100_000 };
    let version = ZoneVersion { serial: 5, timers, stored: None };
    scheduler.add(id(0), &peers(1), TimerLimits::default(), Some(version), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [probe(0, A)]);
    scheduler.probe_result(id(0), A, ProbeResult::Refused, 1000);
    actions(&mut scheduler, 1000);
    assert!(scheduler.next_time().is_some_and(|at_s| at_s <= 1021), "{:?}", scheduler.next_time());
}

/// The times between checks that fail, of a zone with this version.
fn retry_gaps(limits: TimerLimits, version: Option<ZoneVersion>) -> Vec<u32> {
    let (mut scheduler, mut times) = (scheduler(), Vec::new());
    scheduler.add(id(0), &peers(2), limits, version, 1000);
    for now_s in 1000..3000 {
        let probes = actions(&mut scheduler, now_s);
        let probes = probes.iter().filter(|action| matches!(action, RefreshAction::Probe { .. })).count();
        if probes > 0 {
            times.push(now_s);
            [A, B].into_iter().for_each(|primary| scheduler.probe_result(id(0), primary, ProbeResult::Refused, now_s));
        }
    }
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// `min-retry-s` and `max-retry-s`, whether the zone has data or not.
#[test]
fn failed_checks_are_repeated_within_the_limits() {
    let frequent = SoaTimers { refresh_s: 3, retry_s: 2, expire_s: 100_000 };
    for version in [None, Some(ZoneVersion { serial: 5, timers: frequent, stored: None })] {
        let slow = TimerLimits { retry_s: (60, 1000), ..TimerLimits::default() };
        let gaps = retry_gaps(slow, version);
        assert!(gaps.len() > 2 && gaps.iter().all(|gap| *gap >= 60), "{gaps:?}");
    }
    for version in [None, Some(ZoneVersion { serial: 5, timers: TIMERS, stored: None })] {
        let fast = TimerLimits { retry_s: (2, 10), ..TimerLimits::default() };
        let gaps = retry_gaps(fast, version);
        assert!(gaps.len() > 100 && gaps.iter().all(|gap| *gap <= 10), "{gaps:?}");
    }
}

#[test]
fn an_expired_zone_accepts_any_serial() {
    let mut scheduler = with_served_zone(1);
    actions(&mut scheduler, 1000);
    scheduler.probe_result(id(0), A, answer(4), 1001);
    let failed = RefreshAction::CheckFailed { zone: id(0), reason: CheckFailure::OlderSerial };
    assert_eq!(actions(&mut scheduler, 1001), [failed]);
    let mut expired = actions(&mut scheduler, 5000);
    assert!(expired.contains(&RefreshAction::Expire { zone: id(0) }) && expired.contains(&probe(0, A)), "{expired:?}");
    scheduler.probe_result(id(0), A, answer(4), 5001);
    expired = actions(&mut scheduler, 5001);
    assert_eq!(expired, [transfer(0, A, None)]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 5002);
    scheduler.published(id(0), 4, TIMERS, None, 5002);
    assert_eq!(scheduler.status(id(0)).map(|status| (status.serial, status.is_expired)), Some((Some(4), false)));
}

#[test]
fn an_expired_zone_is_served_again_if_the_primary_has_its_serial() {
    let mut scheduler = scheduler();
    scheduler.add(id(0), &peers(1), TimerLimits::default(), version(5, 10, 90), 100);
    assert_eq!(actions(&mut scheduler, 100), [RefreshAction::Expire { zone: id(0) }, probe(0, A)]);
    scheduler.probe_result(id(0), A, answer(5), 101);
    assert!(matches!(actions(&mut scheduler, 101)[..], [RefreshAction::Refreshed { timers, .. }]
        if timers.expires_at_s == 10_101));
}

#[test]
fn stored_times_count_the_time_without_the_server_and_survive_a_wrong_clock() {
    let mut scheduler = scheduler();
    let limits = TimerLimits::default();
    scheduler.add(id(0), &peers(1), limits, version(5, 900, 5000), 1000);
    scheduler.add(id(2), &peers(1), limits, version(5, 900, 4000), 1000);
    scheduler.restored_checks.second = u32::MAX;
    scheduler.add(id(1), &peers(1), limits, version(5, u32::MAX, u32::MAX), 1000);
    let at_start = actions(&mut scheduler, 1000);
    assert_eq!(at_start, [probe(2, A), probe(0, A)], "the nearest expiry first");
    let status = scheduler.status(id(1)).expect("known");
    assert_eq!((status.check_at_s, status.expires_at_s), (Some(2000), 11_000));
}

/// A NOTIFY may have come while the server was down.
#[test]
fn a_restored_zone_is_checked_soon_though_its_refresh_is_not_due() {
    let mut scheduler = scheduler();
    scheduler.add(id(0), &peers(1), TimerLimits::default(), version(5, 1900, 5000), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [probe(0, A)]);
}

/// After a time longer than REFRESH, all zones are overdue.
#[test]
fn overdue_zones_of_a_restart_are_checked_at_a_bounded_rate_unless_they_expire_soon() {
    let mut scheduler = scheduler();
    for index in 0..5000 {
        let expires_at_s = if index == 4999 { 1010 } else { 5000 };
        scheduler.add(id(index), &peers(1), TimerLimits::default(), version(5, 10, expires_at_s), 1000);
    }
    let mut checked = |now_s| {
        let mut zones = Vec::new();
        while let Some(action) = scheduler.next_action(now_s) {
            if let RefreshAction::Probe { zone, primary } = action {
                zones.push(zone.index);
                scheduler.probe_result(zone, primary, answer(5), now_s);
            }
        }
        zones
    };
    let first = checked(1000);
    assert!(first.contains(&4999) && first.len() == 1001, "{}", first.len());
    let counts: Vec<usize> = (1001..=1005).map(|now_s| checked(now_s).len()).collect();
    assert_eq!(counts, [1000, 1000, 1000, 999, 0]);
}

/// A big server needs months for four billion arrivals.
#[test]
fn the_order_of_arrival_has_no_end() {
    let limits = RefreshLimits { transfers_per_primary: 1, ..RefreshLimits::default() };
    let mut scheduler = RefreshScheduler::new(limits, 1);
    scheduler.arrivals = u32::MAX.into();
    for index in [1, 0] {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), None, 1000);
    }
    assert_eq!(actions(&mut scheduler, 1000), [transfer(1, A, None)]);
}

#[test]
fn rfc_7314_4_the_expire_option_limits_the_lifetime() {
    let mut scheduler = with_served_zone(1);
    actions(&mut scheduler, 1000);
    scheduler.probe_result(id(0), A, ProbeResult::Answer { serial: 5, expire_s: Some(100) }, 1000);
    let expires_at = |scheduler: &RefreshScheduler| scheduler.status(id(0)).map(|status| status.expires_at_s);
    assert_eq!(expires_at(&scheduler), Some(5000), "the later of both");
    actions(&mut scheduler, 1000);
    scheduler.refresh(id(0), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [probe(0, A)]);
    scheduler.probe_result(id(0), A, ProbeResult::Answer { serial: 5, expire_s: Some(u32::MAX) }, 1000);
    assert_eq!(expires_at(&scheduler), Some(11_000), "EXPIRE of the SOA record at most");
    scheduler.published(id(0), 6, TIMERS, Some(50), 1000);
    assert_eq!(expires_at(&scheduler), Some(1050));
}

/// A rebuild may end while a transfer is built on the version before it.
#[test]
fn a_version_that_is_outdated_when_it_arrives_is_no_failure_of_its_primary() {
    let mut scheduler = with_served_zone(1);
    actions(&mut scheduler, 1000);
    scheduler.probe_result(id(0), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, Some(5))]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 1000);
    scheduler.outdated(id(0));
    assert_eq!(actions(&mut scheduler, 1000), [probe(0, A)]);
    scheduler.probe_result(id(0), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, Some(5))], "it is tried again");
}

#[test]
fn raised_limits_of_the_intervals_apply_with_the_next_check() {
    let mut scheduler = scheduler();
    let low = TimerLimits { refresh_s: (2, 50), expire_s: (60, 300), ..TimerLimits::default() };
    scheduler.add(id(0), &peers(1), low, version(5, 1000, 5000), 1000);
    for (limits, check_s, expire_s) in [(low, 50, 300), (TimerLimits::default(), 1000, 10_000), (low, 50, 300)] {
        scheduler.reconfigure(id(0), &peers(1), limits);
        scheduler.refresh(id(0), 1000);
        assert_eq!(actions(&mut scheduler, 1000), [probe(0, A)]);
        scheduler.probe_result(id(0), A, answer(5), 1000);
        let status = scheduler.status(id(0)).expect("known");
        assert_eq!(status.expires_at_s, 1000 + expire_s);
        assert!(status.check_at_s.is_some_and(|at_s| at_s > 1000 + check_s * 9 / 10 - 1 && at_s <= 1001 + check_s));
        actions(&mut scheduler, 1000);
    }
}

#[test]
fn removed_and_reconfigured_zones_ignore_late_results() {
    let mut scheduler = with_served_zone(1);
    actions(&mut scheduler, 1000);
    scheduler.reconfigure(id(0), &peers(2)[1..], TimerLimits::default());
    assert_eq!(actions(&mut scheduler, 1000), [RefreshAction::PrimaryUnused(A), probe(0, B)]);
    scheduler.probe_result(id(0), B, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, B, Some(5))]);
    scheduler.remove(id(0));
    assert_eq!(actions(&mut scheduler, 1000), [RefreshAction::PrimaryUnused(B)]);
    assert!(scheduler.status(id(0)).is_none() && scheduler.next_time().is_none());
}

#[test]
fn a_reconfiguration_without_other_primaries_or_limits_changes_nothing() {
    let mut scheduler = with_served_zone(1);
    scheduler.reconfigure(id(0), &peers(1), TimerLimits::default());
    assert_eq!(actions(&mut scheduler, 999), []);
    actions(&mut scheduler, 1000);
    scheduler.probe_result(id(0), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, Some(5))]);
    scheduler.reconfigure(id(0), &peers(1), TimerLimits::default());
    assert_eq!(actions(&mut scheduler, 1000), []);
    assert!(scheduler.transfer_result(id(0), A, TransferResult::Delivered, 1001));
    scheduler.published(id(0), 6, TIMERS, None, 1001);
    scheduler.remove(id(0));
    assert_eq!(actions(&mut scheduler, 1001), [RefreshAction::PrimaryUnused(A)], "its group has no other use");
}

#[test]
fn received_zones_wait_for_the_writer_in_bounded_number() {
    let limits = RefreshLimits { delivered: 3, ..RefreshLimits::default() };
    let mut scheduler = RefreshScheduler::new(limits, 1);
    for index in 0..10 {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), None, 1000);
    }
    let started = actions(&mut scheduler, 1000).len() as u32;
    assert_eq!(started, 10, "the limit counts what is received");
    (0..3).for_each(|index| assert!(scheduler.transfer_result(id(index), A, TransferResult::Delivered, 1000)));
    scheduler.retransfer(id(0), 1000);
    scheduler.add(id(10), &peers(1), TimerLimits::default(), None, 1000);
    assert_eq!(actions(&mut scheduler, 1000), []);
    scheduler.published(id(0), 1, TIMERS, None, 1000);
    assert_eq!(actions(&mut scheduler, 1000).len(), 2);
}

/// A command may take minutes. Zones without one must wait neither for it nor for zones that do.
#[test]
fn zones_that_wait_for_external_commands_delay_no_others() {
    let limits =
        RefreshLimits { transfers_per_primary: 4, delivered: 4, delivered_to_command: 4, ..RefreshLimits::default() };
    let mut scheduler = RefreshScheduler::new(limits, 1);
    let with_command = SecondaryLimits { command: Some(7), ..SecondaryLimits::default() };
    for index in 0..20 {
        scheduler.add(id(index), &peers(1), with_command, version(5, 10, 5000), 1000);
    }
    let mut delivered = Vec::new();
    while let Some(action) = scheduler.next_action(1000) {
        match action {
            RefreshAction::Probe { zone, primary } => scheduler.probe_result(zone, primary, answer(6), 1000),
            RefreshAction::Transfer { zone, primary, .. } => {
                assert!(scheduler.transfer_result(zone, primary, TransferResult::Delivered, 1000));
                delivered.push(zone);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(delivered.len(), 4, "the others wait for the command");
    // Both ways to a transfer: without and with a comparison of serials.
    scheduler.add(id(20), &peers(1), TimerLimits::default(), None, 1000);
    scheduler.add(id(21), &peers(1), TimerLimits::default(), version(5, 10, 5000), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [probe(21, A), transfer(20, A, None)]);
    scheduler.probe_result(id(21), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(21, A, Some(5))]);
    // Another command has room of its own.
    let with_another = SecondaryLimits { command: Some(14), ..SecondaryLimits::default() };
    scheduler.add(id(22), &peers(1), with_another, None, 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(22, A, None)]);
    // The end of a command makes room, even if the zone has none configured any more: the primary has one of four transfers left.
    scheduler.reconfigure(delivered[0], &peers(1), TimerLimits::default());
    scheduler.rejected(delivered[0], false, 1000);
    let started = actions(&mut scheduler, 1000);
    let transfers = started.iter().filter(|action| matches!(action, RefreshAction::Transfer { .. }));
    assert_eq!(transfers.count(), 1, "{started:?}");
}
