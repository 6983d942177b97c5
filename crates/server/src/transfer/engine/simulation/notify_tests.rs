//! NOTIFY that the engine sends.

use super::*;

/// A target with these TLS settings.
fn target(tls: u32) -> PeerConfig {
    PeerConfig { tls, ..PeerConfig::plain(([192, 0, 2, 9], 53).into()) }
}

#[test]
fn notify_reaches_its_targets_through_loss() {
    let mut simulation = Simulation::new(20, &[&[1]], 3);
    simulation.world.faults.insert(9, Fault::Lossy);
    simulation.run_until(5000);
    (0..20).for_each(|number| simulation.send_notify(number, 101, target(0)));
    simulation.run_until(200_000);
    let counters = simulation.engine.notify_counters();
    assert_eq!(counters.answered + counters.given_up, 20);
    assert!(counters.answered >= 10, "{counters:?}");
}

/// Its secondaries are to have the version that it is frozen with.
#[test]
fn what_is_announced_of_a_zone_goes_on_when_it_is_frozen() {
    let mut simulation = Simulation::new(1, &[&[1]], 3);
    simulation.run_until(5000);
    let (zone, ..) = simulation.zones[0];
    simulation.send_notify(0, 101, target(0));
    simulation.engine.command(TransferCommand::EndRefresh(zone), simulation.world.now);
    simulation.run_until(200_000);
    assert_eq!(simulation.engine.notify_counters().answered, 1);
    assert!(simulation.engine.status(zone).is_none());
}

/// A target behind a firewall gets NOTIFY over TCP, and one with TLS settings over its stream only.
#[test]
fn notify_goes_over_a_stream_where_datagrams_do_not_arrive_or_are_not_wanted() {
    for (fault, tls, seconds) in [(Fault::NoUdp, 0, 20), (Fault::None, 1, 1)] {
        let mut simulation = Simulation::new(20, &[&[1]], 3);
        simulation.world.faults.insert(9, fault);
        simulation.run_until(5000);
        (0..20).for_each(|number| simulation.send_notify(number, 101, target(tls)));
        simulation.run_until(5000 + seconds * 1000);
        assert_eq!(simulation.engine.notify_counters().answered, 20, "{fault:?}, TLS {tls}");
        assert!(simulation.world.opened <= 1 + 4, "{} connections", simulation.world.opened);
        simulation.run_until(100_000);
        assert_eq!(simulation.world.connections.len(), 0, "they are closed");
    }
}

/// RFC 1996 3.6: each is sent until it is answered. The answer to an earlier version is none to a later one, which the target may never have read.
#[test]
fn a_notify_over_a_stream_is_repeated_until_it_is_answered_itself() {
    for delay_ms in 0..80 {
        let mut simulation = Simulation::new(1, &[&[1]], 3);
        simulation.world.faults.insert(9, Fault::OnePerConnection);
        simulation.run_until(5000);
        for (serial, at_ms) in [(101, 5000 + delay_ms), (102, 100_000)] {
            simulation.send_notify(0, serial, target(1));
            simulation.run_until(at_ms);
        }
        assert!(simulation.world.notified.contains(&102), "{delay_ms} ms: {:?}", simulation.world.notified);
    }
}
