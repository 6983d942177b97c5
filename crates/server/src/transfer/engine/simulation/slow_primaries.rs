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
