//! Several primaries of a zone: which is asked, and what a dead or slow one delays.

use super::*;

#[test]
fn the_highest_serial_of_all_primaries_wins() {
    let mut scheduler = with_served_zone(2);
    assert_eq!(actions(&mut scheduler, 1000), [probe(0, A), probe(0, B)]);
    scheduler.probe_result(id(0), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), []);
    scheduler.probe_result(id(0), B, answer(7), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, B, Some(5))]);
    // The transfer fails, so the other one has its turn, although its serial is lower.
    scheduler.transfer_result(id(0), B, TransferResult::ZoneFailed, 1001);
    assert_eq!(actions(&mut scheduler, 1001), [probe(0, A), probe(0, B)]);
    scheduler.probe_result(id(0), B, answer(7), 1002);
    scheduler.probe_result(id(0), A, answer(6), 1002);
    assert_eq!(actions(&mut scheduler, 1002), [transfer(0, A, Some(5))]);
}

/// RFC 7314 4 is about secondaries that copy from each other; the answer of a primary without the option renews the whole lifetime.
#[test]
fn rfc_7314_4_a_primary_without_the_expire_option_renews_the_zone_beside_one_that_has_it() {
    for (options, expires_at_s) in
        [([None, Some(10)], 11_000), ([Some(10), None], 11_000), ([Some(10), Some(6000)], 7000)]
    {
        let mut scheduler = with_served_zone(2);
        actions(&mut scheduler, 1000);
        for (primary, expire_s) in [A, B].into_iter().zip(options) {
            scheduler.probe_result(id(0), primary, ProbeResult::Answer { serial: 5, expire_s }, 1000);
        }
        assert!(
            matches!(actions(&mut scheduler, 1000)[..], [RefreshAction::Refreshed { timers, .. }]
            if timers.expires_at_s == expires_at_s),
            "{options:?}"
        );
    }
}

/// Secondaries of each other would keep a zone alive if they waited for a dead primary at each check, and counted from the end of that.
#[test]
fn rfc_7314_4_the_expire_option_counts_from_the_arrival_of_the_answer() {
    for (waited_s, is_served) in [(8, true), (10, false)] {
        let mut scheduler = with_served_zone(2);
        actions(&mut scheduler, 11_001);
        let answer = ProbeResult::Answer { serial: 5, expire_s: Some(10) };
        scheduler.probe_result(id(0), A, answer, 11_001);
        scheduler.probe_result(id(0), B, ProbeResult::Timeout, 11_001 + waited_s);
        let actions = actions(&mut scheduler, 11_001 + waited_s);
        let refreshed = actions.iter().find_map(|action| match action {
            RefreshAction::Refreshed { timers, .. } => Some(timers.expires_at_s),
            _ => None,
        });
        assert_eq!(refreshed, is_served.then_some(11_011), "{actions:?}");
    }
}

/// RFC 1034 4.3.5: RETRY applies when all have failed.
#[test]
fn after_a_failed_transfer_every_other_primary_is_tried_at_once_and_each_once() {
    let rejects: [fn(&mut RefreshScheduler, PrimaryId); 2] = [
        |scheduler, primary| _ = scheduler.transfer_result(id(0), primary, TransferResult::ZoneFailed, 1000),
        |scheduler, primary| {
            scheduler.transfer_result(id(0), primary, TransferResult::Delivered, 1000);
            scheduler.rejected(id(0), false, 1000);
        },
    ];
    let all = [A, B, PrimaryId(2)];
    for reject in rejects {
        let mut scheduler = with_served_zone(3);
        for round in 0..2 {
            let now_s = if round == 0 { 1000 } else { 1101 };
            for primary in all {
                assert_eq!(actions(&mut scheduler, now_s), all.map(|primary| probe(0, primary)));
                all.iter().for_each(|primary| scheduler.probe_result(id(0), *primary, answer(6), now_s));
                assert_eq!(actions(&mut scheduler, now_s), [transfer(0, primary, Some(5))]);
                reject(&mut scheduler, primary);
            }
            let failed = RefreshAction::CheckFailed { zone: id(0), reason: CheckFailure::Transfer };
            assert_eq!(actions(&mut scheduler, now_s), [failed]);
        }
    }
}

/// RFC 1995 2: several servers may have the address of a primary, and the one that sends the transfer has an older version.
#[test]
fn an_older_serial_in_a_transfer_is_as_one_in_an_answer_to_a_soa_query() {
    let mut scheduler = with_served_zone(2);
    let older = TransferResult::Current { serial: 4, expire_s: None };
    for primary in [A, B] {
        assert_eq!(actions(&mut scheduler, 1000), [probe(0, A), probe(0, B)]);
        [A, B].into_iter().for_each(|primary| scheduler.probe_result(id(0), primary, answer(6), 1000));
        assert_eq!(actions(&mut scheduler, 1000), [transfer(0, primary, Some(5))]);
        scheduler.transfer_result(id(0), primary, older, 1000);
    }
    let failed = RefreshAction::CheckFailed { zone: id(0), reason: CheckFailure::OlderSerial };
    assert_eq!(actions(&mut scheduler, 1000), [failed]);
    let next_s = scheduler.check_at_s(0).expect("it is checked again");
    assert!((1090..=1101).contains(&next_s), "after RETRY: {next_s}");
}

#[test]
fn a_failed_transfer_is_not_repeated_at_once_if_no_other_primary_has_the_version() {
    for other in [answer(5), ProbeResult::Refused, ProbeResult::Timeout] {
        let mut scheduler = with_served_zone(2);
        actions(&mut scheduler, 1000);
        scheduler.probe_result(id(0), A, answer(6), 1000);
        scheduler.probe_result(id(0), B, other, 1000);
        assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, Some(5))]);
        scheduler.transfer_result(id(0), A, TransferResult::ZoneFailed, 1001);
        assert_eq!(actions(&mut scheduler, 1001), [probe(0, A), probe(0, B)]);
        scheduler.probe_result(id(0), A, answer(6), 1001);
        scheduler.probe_result(id(0), B, other, 1001);
        let failed = RefreshAction::CheckFailed { zone: id(0), reason: CheckFailure::Transfer };
        assert_eq!(actions(&mut scheduler, 1001), [failed], "{other:?}");
    }
}

#[test]
fn an_announced_serial_is_transferred_without_waiting_for_other_primaries() {
    let mut scheduler = with_served_zone(2);
    scheduler.notify(id(0), Some(6), address(2), 600);
    actions(&mut scheduler, 600);
    scheduler.probe_result(id(0), B, answer(6), 600);
    assert_eq!(actions(&mut scheduler, 600), [transfer(0, B, Some(5))]);
    scheduler.probe_result(id(0), A, ProbeResult::Timeout, 603);
    assert_eq!(actions(&mut scheduler, 603), []);
}

#[test]
fn a_dead_primary_is_backed_off_for_all_its_zones_and_tried_by_one_at_a_time() {
    let mut scheduler = scheduler();
    for index in 0..100 {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), None, 1000);
    }
    let zones: Vec<ZoneId> = actions(&mut scheduler, 1000)
        .iter()
        .map(|action| match action {
            RefreshAction::Transfer { zone, .. } => *zone,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(zones.len(), 100);
    for zone in zones {
        scheduler.transfer_result(zone, A, TransferResult::PrimaryFailed, 1001);
    }
    assert_eq!(actions(&mut scheduler, 1001), []);
    let (mut tries, mut now_s) = (Vec::new(), 1001);
    while now_s < 2000 {
        now_s = scheduler.next_time().expect("it is tried again");
        let found = actions(&mut scheduler, now_s);
        assert_eq!(found.len(), 1, "{found:?} at {now_s}");
        let RefreshAction::Transfer { zone, .. } = found[0] else { panic!("{found:?}") };
        tries.push(now_s);
        scheduler.transfer_result(zone, A, TransferResult::PrimaryFailed, now_s);
        assert_eq!(actions(&mut scheduler, now_s), []);
    }
    assert!((8..16).contains(&tries.len()), "{tries:?}");
    // Its NOTIFY shows that it is back.
    scheduler.notify(id(5), None, address(1), now_s);
    let found = actions(&mut scheduler, now_s);
    assert_eq!(found, [transfer(5, A, None)]);
    scheduler.transfer_result(id(5), A, TransferResult::Delivered, now_s);
    assert_eq!(actions(&mut scheduler, now_s).len(), 99);
}

/// Zones of a catalog may come and go for as long as their primary is dead.
#[test]
fn removed_zones_leave_the_queue_of_a_dead_primary() {
    let mut scheduler = scheduler();
    let group = |scheduler: &RefreshScheduler| scheduler.slots[0].group.0 as usize;
    let add = |scheduler: &mut RefreshScheduler, index: u32| {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), None, 1000);
    };
    add(&mut scheduler, 0);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, None)]);
    scheduler.transfer_result(id(0), A, TransferResult::PrimaryFailed, 1000);
    assert_eq!(actions(&mut scheduler, 1000), [], "the primary is dead");
    (1..=100).for_each(|index| add(&mut scheduler, index));
    for _ in 0..100 {
        // Some get the slots of others.
        for index in 1..=50 {
            scheduler.remove(id(index));
            add(&mut scheduler, index);
        }
        scheduler.reconfigure(id(60), &peers(2), TimerLimits::default());
        scheduler.reconfigure(id(60), &peers(1), TimerLimits::default());
        assert_eq!(actions(&mut scheduler, 1000), [RefreshAction::PrimaryUnused(B)]);
    }
    let len = |scheduler: &RefreshScheduler| -> usize {
        scheduler.groups[group(scheduler)].queues.iter().map(|queue| queue.entries.len()).sum()
    };
    assert!(len(&scheduler) <= 2 * 101, "{}", len(&scheduler));
    (1..=100).for_each(|index| scheduler.remove(id(index)));
    assert!(len(&scheduler) <= 2, "{}", len(&scheduler));
    scheduler.notify(id(0), None, address(1), 1001);
    assert_eq!(actions(&mut scheduler, 1001), [transfer(0, A, None)]);
}

/// An operator who has repaired something does not wait for the end of a back-off of minutes.
#[test]
fn a_dead_primary_is_tried_at_once_if_an_operator_asks_or_replaces_certificates() {
    type Trigger = fn(&mut RefreshScheduler, u32);
    let triggers: [Trigger; 3] = [
        |scheduler, now_s| scheduler.refresh(id(0), now_s),
        |scheduler, now_s| scheduler.retransfer(id(0), now_s),
        |scheduler, now_s| scheduler.tls_replaced(now_s),
    ];
    for trigger in triggers {
        let (mut scheduler, mut now_s) = (scheduler(), 1000);
        let primary = PeerConfig { tls: 1, ..PeerConfig::plain(([192, 0, 2, 1], 853).into()) };
        scheduler.add(id(0), &[primary], TimerLimits::default(), None, now_s);
        for _ in 0..9 {
            assert_eq!(actions(&mut scheduler, now_s), [transfer(0, A, None)]);
            scheduler.transfer_result(id(0), A, TransferResult::PrimaryFailed, now_s);
            assert_eq!(actions(&mut scheduler, now_s), []);
            now_s = scheduler.next_time().expect("it is tried again");
        }
        now_s -= 60;
        assert_eq!(actions(&mut scheduler, now_s), []);
        trigger(&mut scheduler, now_s);
        assert_eq!(actions(&mut scheduler, now_s), [transfer(0, A, None)]);
    }
}

#[test]
fn a_dead_primary_does_not_delay_zones_that_have_another_or_none_of_it() {
    let mut scheduler = scheduler();
    let limits = TimerLimits::default();
    for index in 0..3 {
        scheduler.add(id(index), &peers(1), limits, version(5, 10, 5000), 1000);
    }
    actions(&mut scheduler, 1000);
    (0..3).for_each(|index| scheduler.probe_result(id(index), A, ProbeResult::Timeout, 1007));
    scheduler.add(id(3), &peers(2), limits, version(5, 10, 5000), 1007);
    scheduler.add(id(4), &peers(2)[1..], limits, version(5, 10, 5000), 1007);
    let found: Vec<_> = actions(&mut scheduler, 1007)
        .into_iter()
        .filter(|action| matches!(action, RefreshAction::Probe { .. }))
        .collect();
    assert_eq!(found, [probe(3, B), probe(4, B)], "A is backed off");
}

/// The back-off ends while other probes are in flight, the last of which finds the primary dead still.
#[test]
fn a_zone_that_waits_for_a_transfer_from_a_dead_primary_is_not_forgotten() {
    let mut scheduler = scheduler();
    for index in 0..5 {
        scheduler.add(id(index), &peers(2), TimerLimits::default(), version(5, 10, 50_000), 1000);
    }
    actions(&mut scheduler, 1000);
    // The zones 0 to 2 find A dead; the probe of zone 3 is in flight. Zone 4 is decided for A, whose answer came before.
    scheduler.probe_result(id(4), A, answer(6), 1000);
    (0..3).for_each(|index| scheduler.probe_result(id(index), A, ProbeResult::Timeout, 1000));
    scheduler.probe_result(id(4), B, answer(5), 1000);
    assert_eq!(actions(&mut scheduler, 1000), []);
    let retry_at_s = scheduler.next_time().expect("A is tried again");
    assert_eq!(actions(&mut scheduler, retry_at_s), [], "a probe is in flight");
    scheduler.probe_result(id(3), A, ProbeResult::Timeout, retry_at_s);
    assert_eq!(actions(&mut scheduler, retry_at_s), [transfer(4, A, Some(5))]);
}

/// A group whose zones are gone must not use up what wakes those that wait, whether it was woken before or not.
#[test]
fn room_at_a_primary_is_given_to_a_group_that_has_a_use_for_it() {
    let limits = |max_records| SecondaryLimits {
        size: SizeLimits { max_records, ..SizeLimits::default() },
        ..SecondaryLimits::default()
    };
    let add = |scheduler: &mut RefreshScheduler, index: u32, max_records| {
        scheduler.add(id(index), &peers(1), limits(max_records), version(5, 10, 5000), 1000);
    };
    for is_woken_first in [false, true] {
        let mut scheduler = scheduler();
        // The 16 probes of one group fill the window, and two more groups wait.
        (0..16).for_each(|index| add(&mut scheduler, index, 0));
        assert_eq!(actions(&mut scheduler, 1000).len(), 16);
        add(&mut scheduler, 16, 1);
        add(&mut scheduler, 17, 2);
        assert_eq!(actions(&mut scheduler, 1000), []);
        if !is_woken_first {
            scheduler.remove(id(16));
        }
        scheduler.probe_result(id(0), A, ProbeResult::Refused, 1000);
        scheduler.remove(id(16));
        assert!(actions(&mut scheduler, 1000).contains(&probe(17, A)), "{is_woken_first}");
    }
}

/// A request of a removed zone may end after the last action of a step: what waits for its room must not wait for another event.
#[test]
fn room_at_a_primary_is_used_at_once() {
    let mut scheduler = scheduler();
    for index in 0..17 {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), version(5, 10, 5000), 1000);
    }
    assert_eq!(actions(&mut scheduler, 1000).len(), 16, "the probes of a window");
    scheduler.remove(id(0));
    assert_eq!((actions(&mut scheduler, 1000), scheduler.next_time()), (vec![], Some(5000)));
    scheduler.probe_result(id(0), A, ProbeResult::NotSent, 1000);
    assert_eq!(scheduler.next_time(), Some(0));
    assert_eq!((actions(&mut scheduler, 1000), scheduler.next_time()), (vec![probe(16, A)], Some(5000)));
}

#[test]
fn a_probe_that_was_not_sent_does_not_bring_a_dead_primary_back() {
    let mut scheduler = scheduler();
    for index in 0..10 {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), version(5, 10, 50_000), 1000);
    }
    actions(&mut scheduler, 1000);
    (0..10).for_each(|index| scheduler.probe_result(id(index), A, ProbeResult::Timeout, 1000));
    (0..10).for_each(|index| _ = scheduler.notify(id(index), None, address(9), 1000));
    actions(&mut scheduler, 1000);
    let retry_at_s = scheduler.next_time().expect("it is tried again");
    let [RefreshAction::Probe { zone, .. }] = actions(&mut scheduler, retry_at_s)[..] else { panic!("one probe") };
    scheduler.remove(zone);
    scheduler.probe_result(zone, A, ProbeResult::NotSent, retry_at_s);
    assert_eq!(actions(&mut scheduler, retry_at_s).len(), 1, "still one at a time");
}

#[test]
fn a_primary_that_is_slow_delays_no_newer_version_of_another_one() {
    let mut scheduler = with_served_zone(2);
    assert_eq!(actions(&mut scheduler, 1000), [probe(0, A), probe(0, B)]);
    scheduler.probe_result(id(0), B, answer(5), 1000);
    scheduler.probe_is_slow(id(0), A, 1003);
    assert_eq!(actions(&mut scheduler, 1003), [], "the version that is served is no reason to stop waiting");
    scheduler.probe_result(id(0), A, answer(6), 1004);
    assert_eq!(actions(&mut scheduler, 1004), [transfer(0, A, Some(5))]);
    let mut scheduler = with_served_zone(2);
    actions(&mut scheduler, 1000);
    scheduler.probe_result(id(0), B, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1002), []);
    scheduler.probe_is_slow(id(0), A, 1003);
    assert_eq!(actions(&mut scheduler, 1003), [transfer(0, B, Some(5))]);
}

/// Otherwise the zones of the other group wait until something else happens to the primary.
#[test]
fn a_group_without_zones_that_wait_passes_its_turn_on() {
    for is_woken_first in [false, true] {
        let mut scheduler = scheduler();
        let mut add = |index: u32, group: u32, check_at_s, version: Option<ZoneVersion>| {
            let size = SizeLimits { max_records: group, max_bytes: 0 };
            scheduler.restored_checks.second = check_at_s;
            scheduler.add(id(index), &peers(1), SecondaryLimits { size, ..SecondaryLimits::default() }, version, 1000);
        };
        for (index, group, check_at_s) in [(0, 0, 1001), (1, 1, 1001), (2, 2, 1001), (3, 1, 4000)] {
            add(index, group, check_at_s, version(5, check_at_s, 5000));
        }
        add(9, 9, 1001, None);
        assert_eq!(actions(&mut scheduler, 1000), [transfer(9, A, None)]);
        scheduler.transfer_result(id(9), A, TransferResult::PrimaryFailed, 1000);
        scheduler.remove(id(9));
        assert_eq!(actions(&mut scheduler, 1001), [], "the primary is dead");
        assert_eq!(actions(&mut scheduler, 1002), [probe(0, A)], "it is tried by one");
        scheduler.remove(id(0));
        if !is_woken_first {
            scheduler.remove(id(1));
        }
        scheduler.probe_result(id(0), A, ProbeResult::NotSent, 1002);
        scheduler.remove(id(1));
        assert_eq!(actions(&mut scheduler, 1002), [probe(2, A)], "{is_woken_first}");
    }
}

/// A first load of a million zones takes long.
#[test]
fn zones_that_are_not_served_delay_no_checks_of_others() {
    let limits = RefreshLimits { transfers_per_primary: 4, ..RefreshLimits::default() };
    let mut scheduler = RefreshScheduler::new(limits, 1);
    for index in 0..100 {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), None, 1000);
    }
    assert_eq!(actions(&mut scheduler, 1000).len(), 4);
    scheduler.add(id(100), &peers(1), TimerLimits::default(), version(5, 10, 5000), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [probe(100, A)]);
    scheduler.probe_result(id(100), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), []);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 1001);
    assert_eq!(actions(&mut scheduler, 1001), [transfer(100, A, Some(5))]);
}

/// With several primaries, all zones are checked first, and then they wait for their transfers.
#[test]
fn transfers_of_served_zones_take_turns_with_those_of_new_ones() {
    let limits = RefreshLimits { transfers_per_primary: 2, ..RefreshLimits::default() };
    let mut scheduler = RefreshScheduler::new(limits, 1);
    for index in 0..10 {
        scheduler.add(id(index), &peers(2), TimerLimits::default(), None, 1000);
    }
    scheduler.add(id(10), &peers(2), TimerLimits::default(), version(5, 10, 5000), 1000);
    let mut transfers = Vec::new();
    while let Some(action) = scheduler.next_action(1000) {
        match action {
            RefreshAction::Probe { zone, primary } => scheduler.probe_result(zone, primary, answer(6), 1000),
            other => transfers.push(other),
        }
    }
    assert_eq!(transfers, [transfer(0, A, None), transfer(10, A, Some(5))]);
}

/// A zone that expires soon must not wait until all others are transferred whose checks came first.
#[test]
fn transfers_of_served_zones_go_by_expiry() {
    let mut scheduler =
        RefreshScheduler::new(RefreshLimits { transfers_per_primary: 1, ..RefreshLimits::default() }, 1);
    scheduler.restored_checks.second = 1000;
    for (zone, expires_at_s) in [(0, 9000), (1, 8000), (2, 7000), (3, 1500)] {
        scheduler.add(id(zone), &peers(1), TimerLimits::default(), version(5, 1000, expires_at_s), 500);
    }
    assert_eq!(actions(&mut scheduler, 1000).len(), 4, "they are checked");
    (0..4).for_each(|zone| scheduler.probe_result(id(zone), A, answer(6), 1001));
    let mut order = Vec::new();
    while let [RefreshAction::Transfer { zone, .. }] = actions(&mut scheduler, 1001)[..] {
        order.push(zone.index);
        scheduler.transfer_result(zone, A, TransferResult::Delivered, 1001);
    }
    assert_eq!(order, [3, 2, 1, 0]);
}
