//! What primaries that send slowly delay.

use super::*;

/// Zones of primaries that trickle, and the last one of a sound primary, over fewer connections than primaries.
#[test]
fn primaries_that_trickle_do_not_keep_all_connections() {
    let hosts: Vec<[u8; 1]> = (1..=9).map(|host| [host]).collect();
    let hosts: Vec<&[u8]> = hosts.iter().map(|host| &host[..]).collect();
    let limits = EngineLimits { connections: 8, ..EngineLimits::default() };
    let mut simulation = Simulation::with_limits(9, &hosts, 1, limits);
    simulation.world.faults.extend((1..9).map(|host| (host, Fault::Endless)));
    simulation.run_until(30_000);
    assert_eq!(simulation.outdated(), (0..8).collect::<Vec<usize>>());
    let too_slow = "the primary sends fewer than 16384 octets per second";
    assert!(simulation.world.failures.iter().all(|failure| failure == too_slow), "{:?}", simulation.world.failures);
}

/// Nobody waits for a connection.
#[test]
fn a_slow_transfer_goes_on_while_connections_are_left() {
    let mut simulation = Simulation::new(2, &[&[1], &[2]], 1);
    simulation.world.faults.insert(1, Fault::Endless);
    simulation.run_until(100_000);
    assert_eq!((simulation.outdated(), simulation.world.failures.len()), (vec![0], 0));
}

/// It may have to read a huge zone first. Its other zones do not wait until it is tried again.
#[test]
fn a_primary_that_answers_checks_and_stalls_a_transfer_is_not_unreachable() {
    let mut simulation = Simulation::new(1, &[&[1]], 1);
    simulation.run_until(10_000);
    simulation.world.faults.insert(1, Fault::SlowTransfers);
    simulation.raise_serials();
    let (zone, ..) = simulation.zones[0];
    simulation.refresh_all();
    simulation.run_until(30_000);
    assert_eq!(simulation.world.failures, ["the primary has sent nothing for 10 s"]);
    let failures = simulation.engine.status(zone).map(|status| status.failures);
    let is_unreachable = simulation.engine.links.values().any(|link| link.is_unreachable);
    assert_eq!((failures, is_unreachable), (Some(1), false));
}

/// As over UDP: the newer version of another primary waits for a dead one for three seconds, not until its connection is given up.
#[test]
fn a_primary_that_is_slow_over_a_stream_delays_no_newer_version_of_another_one() {
    let mut simulation = Simulation::new(1, &[&[1, 2]], 1);
    simulation.run_until(10_000);
    simulation.world.faults.insert(1, Fault::NoUdp);
    simulation.refresh_all();
    simulation.run_until(20_000);
    simulation.assert_current("from now on, the first primary is asked over TCP");
    simulation.world.faults.insert(1, Fault::Off);
    *simulation.world.serials.get_mut(&(2, "zone0.example.".into())).expect("it has the zone") += 1;
    simulation.refresh_all();
    simulation.run_until(22_900);
    assert_eq!(simulation.outdated(), [0]);
    simulation.run_until(23_500);
    simulation.assert_current("the newer version is transferred");
}
