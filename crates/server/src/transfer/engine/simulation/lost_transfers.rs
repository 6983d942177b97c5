//! A primary that answers SOA queries, and that transfers cannot reach: its TCP port is filtered.

use super::*;

/// RFC 1035 3.3.13: a failed refresh is repeated after RETRY, here 60 s and then up to REFRESH. A primary whose TCP port is filtered answers
/// each SOA query, and must not be asked all the time for that.
#[test]
fn rfc_1035_3_3_13_zones_of_a_primary_without_tcp_wait_for_retry() {
    let mut simulation = Simulation::new(200, &[&[1], &[2]], 1);
    simulation.run_until(10_000);
    simulation.assert_current("before the fault");
    simulation.world.faults.insert(1, Fault::NoTcp);
    simulation.raise_serials();
    simulation.refresh_all();
    let mut probes_per_half = Vec::new();
    for half in 1..=2 {
        let before = simulation.world.probes;
        simulation.run_until(half * 1_800_000);
        probes_per_half.push(simulation.world.probes - before);
    }
    // The 100 zones of the other primary are checked every 600 s.
    assert!(probes_per_half[1] < 800 && probes_per_half[0] < 1600, "{probes_per_half:?}");
    assert_eq!(simulation.outdated().len(), 100);
    simulation.world.faults.clear();
    simulation.run_until(3_600_000 + 900_000);
    simulation.assert_current("without the fault");
}

/// Zones that are current are confirmed by datagrams, and those that have another primary are transferred from that.
#[test]
fn a_primary_without_tcp_delays_neither_the_checks_of_current_zones_nor_other_primaries() {
    let mut simulation = Simulation::new(200, &[&[1], &[1, 2]], 1);
    simulation.run_until(10_000);
    simulation.assert_current("before the fault");
    simulation.world.faults.insert(1, Fault::NoTcp);
    for number in (0..20).step_by(2).chain((1..200).step_by(2)) {
        simulation.change(number, true);
    }
    simulation.run_until(120_000);
    assert_eq!(simulation.outdated(), (0..20).step_by(2).collect::<Vec<_>>());
    simulation.run_until(20_000_000);
    let expired: Vec<u32> = simulation.world.expired.keys().map(|zone| zone.index).collect();
    assert_eq!(expired, (0..20).step_by(2).collect::<Vec<_>>(), "the others are confirmed");
}

/// The operator has opened the port, and does not wait for RETRY.
#[test]
fn a_refresh_by_command_tries_transfers_at_once() {
    let mut simulation = Simulation::new(1, &[&[1]], 1);
    simulation.run_until(10_000);
    simulation.world.faults.insert(1, Fault::NoTcp);
    simulation.raise_serials();
    for minute in 1..30 {
        simulation.refresh_all();
        simulation.run_until(minute * 60_000);
    }
    assert_eq!(simulation.outdated(), [0]);
    simulation.world.faults.clear();
    simulation.refresh_all();
    simulation.run_until(30 * 60_000 - 50_000);
    simulation.assert_current("tried at once");
}
