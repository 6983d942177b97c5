//! Forced transfers (`zonda zone retransfer`).

use super::*;

#[test]
fn a_retransfer_that_is_requested_during_a_transfer_is_not_lost() {
    let mut scheduler = with_served_zone(1);
    actions(&mut scheduler, 1000);
    scheduler.probe_result(id(0), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, Some(5))]);
    scheduler.retransfer(id(0), 1000);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 1000);
    scheduler.published(id(0), 6, TIMERS, None, 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, None)]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 1000);
    scheduler.published(id(0), 6, TIMERS, None, 1000);
    assert_eq!(actions(&mut scheduler, 1000), [], "once");
    // One that is requested during a check takes its place.
    scheduler.refresh(id(0), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [probe(0, A)]);
    scheduler.retransfer(id(0), 1000);
    scheduler.probe_result(id(0), A, answer(6), 1000);
    assert_eq!(actions(&mut scheduler, 1000), [transfer(0, A, None)]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 1000);
    scheduler.published(id(0), 6, TIMERS, None, 1000);
    assert_eq!(actions(&mut scheduler, 1000), []);
}

#[test]
fn a_retransfer_ignores_serials_and_changes_that_do_not_fit_lead_to_the_whole_zone() {
    let mut scheduler = with_served_zone(1);
    scheduler.retransfer(id(0), 600);
    assert_eq!(actions(&mut scheduler, 600), [transfer(0, A, None)]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 600);
    scheduler.published(id(0), 3, TIMERS, None, 600);
    scheduler.notify(id(0), Some(4), address(1), 700);
    actions(&mut scheduler, 700);
    scheduler.probe_result(id(0), A, answer(4), 700);
    assert_eq!(actions(&mut scheduler, 700), [transfer(0, A, Some(3))]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 700);
    scheduler.rejected(id(0), true, 700);
    assert_eq!(actions(&mut scheduler, 700), [probe(0, A)]);
    scheduler.probe_result(id(0), A, answer(4), 700);
    let whole = RefreshAction::Transfer { zone: id(0), primary: A, from_serial: None, not_before: Some(3) };
    assert_eq!(actions(&mut scheduler, 700), [whole]);
    scheduler.transfer_result(id(0), A, TransferResult::Delivered, 700);
    scheduler.rejected(id(0), true, 700);
    assert!(matches!(actions(&mut scheduler, 700)[..], [RefreshAction::CheckFailed { .. }]), "no endless loop");
}

/// Hours later, the earlier version that a primary may have would not be what the operator wanted.
#[test]
fn a_forced_transfer_is_given_up_if_no_primary_can_be_reached() {
    let mut scheduler = with_served_zone(1);
    scheduler.retransfer(id(0), 600);
    let mut now_s = 600;
    for _ in 0..3 {
        assert_eq!(actions(&mut scheduler, now_s), [transfer(0, A, None)]);
        scheduler.transfer_result(id(0), A, TransferResult::PrimaryFailed, now_s);
        assert_eq!(actions(&mut scheduler, now_s), []);
        now_s = scheduler.next_time().expect("it is tried again");
    }
    assert_eq!(actions(&mut scheduler, now_s), [probe(0, A)]);
    scheduler.probe_result(id(0), A, answer(4), now_s);
    let failed = RefreshAction::CheckFailed { zone: id(0), reason: CheckFailure::OlderSerial };
    assert_eq!(actions(&mut scheduler, now_s), [failed]);
    // The operator asks again, and with another zone that has not had its turn.
    scheduler.add(id(1), &peers(1), TimerLimits::default(), version(5, 1000, 5000), now_s);
    for index in 0..2 {
        scheduler.retransfer(id(index), now_s);
    }
    assert_eq!(actions(&mut scheduler, now_s), [transfer(0, A, None), transfer(1, A, None)]);
}

/// A firewall may let SOA queries pass, over UDP.
#[test]
fn a_forced_transfer_is_given_up_though_its_primary_answers_checks() {
    let mut scheduler = with_served_zone(1);
    scheduler.retransfer(id(0), 600);
    for _ in 0..3 {
        assert_eq!(actions(&mut scheduler, 600), [transfer(0, A, None)]);
        scheduler.transfer_result(id(0), A, TransferResult::PrimaryFailed, 600);
        scheduler.primary_answered(A);
    }
    assert_eq!(actions(&mut scheduler, 600), [probe(0, A)]);
}

/// Zones that wait for a dead primary have no turn of their own before it is back.
#[test]
fn forced_transfers_that_wait_are_given_up_with_the_one_that_is_tried() {
    let mut scheduler = with_served_zone(1);
    let limits = RefreshLimits { transfers_per_primary: 1, ..RefreshLimits::default() };
    scheduler.limits = limits;
    scheduler.restored_checks.second = 5000;
    (1..3).for_each(|index| {
        scheduler.add(id(index), &peers(1), TimerLimits::default(), version(5, 4000, 5000), 600);
    });
    (0..3).for_each(|index| scheduler.retransfer(id(index), 600));
    let mut now_s = 600;
    for _ in 0..3 {
        let [RefreshAction::Transfer { zone, .. }] = actions(&mut scheduler, now_s)[..] else { panic!("one is tried") };
        scheduler.transfer_result(zone, A, TransferResult::PrimaryFailed, now_s);
        assert_eq!(actions(&mut scheduler, now_s), []);
        now_s = scheduler.next_time().expect("it is tried again");
    }
    let [RefreshAction::Probe { zone, .. }] = actions(&mut scheduler, now_s)[..] else { panic!("one is tried") };
    scheduler.probe_result(zone, A, answer(5), now_s);
    let next = actions(&mut scheduler, now_s);
    let probes = next.iter().filter(|action| matches!(action, RefreshAction::Probe { .. }));
    assert_eq!(probes.count(), 2, "{next:?}");
    assert!(scheduler.forced.is_empty());
}

/// RFC 1034 4.3.5: the zone is checked again after RETRY, as any other.
#[test]
fn a_forced_transfer_that_fails_is_not_repeated() {
    let mut scheduler = with_served_zone(1);
    scheduler.retransfer(id(0), 600);
    assert_eq!(actions(&mut scheduler, 600), [transfer(0, A, None)]);
    scheduler.transfer_result(id(0), A, TransferResult::ZoneFailed, 600);
    let failed = RefreshAction::CheckFailed { zone: id(0), reason: CheckFailure::Transfer };
    assert_eq!(actions(&mut scheduler, 600), [failed]);
    let now_s = scheduler.next_time().expect("it is checked again");
    assert_eq!(actions(&mut scheduler, now_s), [probe(0, A)]);
}
