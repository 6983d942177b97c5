//! What a NOTIFY causes: checks, and quick ones until the announced version is found.

use super::*;

#[test]
fn rfc_1996_3_7_only_a_later_serial_causes_a_check() {
    let mut scheduler = with_served_zone(1);
    for old in [5, 4, 5u32.wrapping_sub(1 << 30)] {
        assert!(!scheduler.notify(id(0), Some(old), address(1), 600));
    }
    assert_eq!(actions(&mut scheduler, 600), []);
    assert!(scheduler.notify(id(0), Some(6), address(1), 600));
    assert!(scheduler.notify(id(0), None, address(1), 600));
    assert_eq!(actions(&mut scheduler, 600), [probe(0, A)], "rfc_1996_4_4: two cause one check");
    scheduler.probe_result(id(0), A, answer(6), 600);
    assert_eq!(actions(&mut scheduler, 600), [transfer(0, A, Some(5))]);
    assert!(!scheduler.notify(ZoneId { index: 0, generation: 6 }, None, address(1), 600), "a removed zone");
}

#[test]
fn a_notify_during_a_transfer_causes_another_check_if_it_announced_more() {
    let delayed = [Some(7), Some(6)];
    for (announced, published, checks) in [
        (&[Some(7)][..], 6, true),
        (&[Some(7)], 7, false),
        (&delayed, 6, true),
        (&delayed, 7, false),
        (&[Some(7), None], 7, true),
    ] {
        let mut scheduler = with_served_zone(1);
        scheduler.notify(id(0), Some(6), address(1), 600);
        actions(&mut scheduler, 600);
        scheduler.probe_result(id(0), A, answer(6), 600);
        actions(&mut scheduler, 600);
        for serial in announced {
            scheduler.notify(id(0), *serial, address(1), 600);
        }
        scheduler.transfer_result(id(0), A, TransferResult::Delivered, 601);
        scheduler.published(id(0), published, TIMERS, None, 601);
        assert_eq!(actions(&mut scheduler, 601), if checks { vec![probe(0, A)] } else { vec![] });
    }
}

#[test]
fn a_notify_does_not_wait_behind_refreshes() {
    let mut scheduler = scheduler();
    for index in 0..10_000 {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), version(5, 10, 5000), 1000);
    }
    let first = actions(&mut scheduler, 1000);
    assert_eq!(first.len(), 16, "no burst at start");
    scheduler.notify(id(9_999), Some(6), address(1), 1000);
    scheduler.probe_result(id(0), A, answer(5), 1000);
    let next = actions(&mut scheduler, 1000);
    assert_eq!(next[1], probe(9_999, A), "{next:?}");
}

#[test]
fn a_notify_during_a_transfer_that_fails_causes_another_check_soon() {
    for is_rejected in [false, true] {
        let mut scheduler = with_served_zone(1);
        scheduler.notify(id(0), Some(6), address(1), 600);
        actions(&mut scheduler, 600);
        scheduler.probe_result(id(0), A, answer(6), 600);
        assert_eq!(actions(&mut scheduler, 600), [transfer(0, A, Some(5))]);
        scheduler.notify(id(0), Some(7), address(1), 600);
        if is_rejected {
            scheduler.transfer_result(id(0), A, TransferResult::Delivered, 600);
            scheduler.rejected(id(0), false, 600);
        } else {
            scheduler.transfer_result(id(0), A, TransferResult::ZoneFailed, 600);
        }
        actions(&mut scheduler, 600);
        assert_eq!(actions(&mut scheduler, 602), [probe(0, A)], "not after RETRY, 100 s");
    }
}

/// The times of the probes from now on, until `end_s`; each gets this result.
fn probe_times(scheduler: &mut RefreshScheduler, result: ProbeResult, from_s: u32, end_s: u32) -> Vec<u32> {
    let mut times = Vec::new();
    for now_s in from_s..end_s {
        for action in actions(scheduler, now_s) {
            if let RefreshAction::Probe { zone, primary } = action {
                times.push(now_s);
                scheduler.probe_result(zone, primary, result, now_s);
            }
        }
    }
    times
}

#[test]
fn a_notify_whose_version_is_not_found_causes_a_few_quick_checks() {
    // The primary still has the old version, an older one, or refuses queries while it reloads.
    for (result, announced) in [
        (answer(5), Some(6)),
        (answer(4), Some(6)),
        (answer(4), None),
        (ProbeResult::Refused, Some(6)),
        (ProbeResult::Refused, None),
    ] {
        let mut scheduler = with_served_zone(1);
        assert!(scheduler.notify(id(0), announced, address(1), 600));
        assert_eq!(actions(&mut scheduler, 600), [probe(0, A)]);
        scheduler.probe_result(id(0), A, result, 600);
        assert_eq!(probe_times(&mut scheduler, result, 600, 650), [602, 606, 614, 630], "{result:?} {announced:?}");
    }
}

#[test]
fn quick_checks_end_with_the_announced_version() {
    let mut scheduler = with_served_zone(1);
    scheduler.notify(id(0), Some(7), address(1), 600);
    actions(&mut scheduler, 600);
    scheduler.probe_result(id(0), A, ProbeResult::Refused, 600);
    actions(&mut scheduler, 600);
    assert_eq!(actions(&mut scheduler, 602), [probe(0, A)]);
    // A version between the two is transferred, and the announced one still expected.
    scheduler.probe_result(id(0), A, answer(6), 602);
    assert_eq!(actions(&mut scheduler, 602), [transfer(0, A, Some(5))]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 603);
    scheduler.published(id(0), 6, TIMERS, None, 603);
    assert_eq!(actions(&mut scheduler, 606), []);
    assert_eq!(actions(&mut scheduler, 607), [probe(0, A)]);
    scheduler.probe_result(id(0), A, answer(7), 607);
    actions(&mut scheduler, 607);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 607);
    scheduler.published(id(0), 7, TIMERS, None, 607);
    assert_eq!(probe_times(&mut scheduler, answer(7), 607, 1400), [] as [u32; 0]);
    // A NOTIFY without a serial is confirmed by any successful check.
    scheduler.notify(id(0), None, address(1), 1400);
    assert_eq!(probe_times(&mut scheduler, answer(7), 1400, 1500), [1400]);
}

#[test]
fn a_failed_transfer_ends_quick_checks() {
    let mut scheduler = with_served_zone(1);
    scheduler.notify(id(0), Some(6), address(1), 600);
    actions(&mut scheduler, 600);
    scheduler.probe_result(id(0), A, answer(6), 600);
    actions(&mut scheduler, 600);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 600);
    scheduler.rejected(id(0), false, 600);
    assert_eq!(probe_times(&mut scheduler, answer(5), 600, 690), [] as [u32; 0], "RETRY is 100 s");
}

/// A catalog may list a zone some milliseconds before its primary has loaded it. The time-outs of a lost primary take some 15 s.
#[test]
fn a_primary_that_sends_notify_during_a_check_is_asked_again_at_once() {
    for is_early in [true, false] {
        let mut scheduler = scheduler();
        scheduler.add(id(0), &peers(2), TimerLimits::default(), None, 1000);
        assert_eq!(actions(&mut scheduler, 1000), [probe(0, A), probe(0, B)]);
        if is_early {
            scheduler.notify(id(0), Some(1), address(1), 1000);
        }
        scheduler.probe_result(id(0), A, ProbeResult::Refused, 1000);
        if !is_early {
            scheduler.notify(id(0), Some(1), address(1), 1000);
        }
        assert_eq!(actions(&mut scheduler, 1000), [probe(0, A)], "NOTIFY before the answer: {is_early}");
        scheduler.probe_result(id(0), A, answer(1), 1000);
        assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, None)]);
        scheduler.probe_result(id(0), B, ProbeResult::Timeout, 1015);
        assert_eq!(actions(&mut scheduler, 1015), []);
    }
}

#[test]
fn a_primary_that_sends_notify_all_the_time_is_asked_again_once_per_check() {
    for serial in [Some(6), None] {
        let mut scheduler = with_served_zone(2);
        assert_eq!(actions(&mut scheduler, 1000), [probe(0, A), probe(0, B)]);
        let mut probes = 0;
        for now_s in 1000..1015 {
            for _ in 0..10 {
                scheduler.notify(id(0), serial, address(1), now_s);
                // Not a primary of the zone.
                scheduler.notify(id(0), serial, address(9), now_s);
            }
            scheduler.probe_result(id(0), A, answer(5), now_s);
            probes += actions(&mut scheduler, now_s).iter().filter(|action| **action == probe(0, A)).count();
        }
        assert_eq!(probes, 1, "{serial:?}");
        scheduler.probe_result(id(0), B, ProbeResult::Timeout, 1015);
        let after = [1015, 1017].map(|now_s| actions(&mut scheduler, now_s)).concat();
        assert!(after.contains(&probe(0, A)), "the version is still expected: {after:?}");
    }
}
