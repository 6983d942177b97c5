//! Whatever happens, all zones are current in the end.

use std::io;
use std::sync::{Arc, Mutex};

use super::faults::FAULTS;
use super::*;
use crate::simulated_seeds::{run_all, seeds};

/// Over many seeds: faults come and go, zones change, the clock is set, and two hours after the last fault everything is current.
#[test]
fn every_zone_becomes_current_after_any_faults() {
    let seeds = seeds(150);
    run_all(&seeds, |seed| {
        let mut simulation = Simulation::new(40, &[&[1], &[2], &[1, 2], &[3, 1]], seed);
        let mut random = Rng::with_seed(seed);
        for minute in 0..60 {
            for host in 1..=3 {
                if random.u32(0..=4) == 0 {
                    let fault = FAULTS[random.u32(0..=FAULTS.len() as u32 - 1) as usize];
                    simulation.world.faults.insert(host, fault);
                }
            }
            for _ in 0..random.u32(0..=5) {
                let number = random.u32(0..=39) as usize;
                simulation.change(number, random.u32(0..=1) == 0);
            }
            if random.u32(0..=9) == 0 {
                simulation.world.clock_step_s = random.i64(-600_000..=600_000);
                simulation.world.set_time(simulation.world.now.ms);
            }
            simulation.run_until(minute * 60_000 + 10);
            for _ in 0..random.u32(0..=3) {
                simulation.reconfigure(random.u32(0..=39) as usize, random.u32(1000..=1003));
            }
            simulation.run_until(minute * 60_000 + 1000);
        }
        // They had less time than EXPIRE, whatever the clock said.
        if !simulation.world.expired.is_empty() {
            return Err(format!("expired: {:?}", simulation.world.expired));
        }
        simulation.world.faults.clear();
        simulation.run_until(3_600_000 + 2 * 3_600_000);
        match (simulation.outdated(), simulation.steps) {
            (outdated, _) if !outdated.is_empty() => Err(format!("not current: {outdated:?}")),
            (_, 2_000_000..) => Err(format!("busy: {} steps", simulation.steps)),
            _ => Ok(()),
        }
    });
    println!("{} seeds of the transfer engine", seeds.end - seeds.start);
}

/// The transfers of the former configuration go on, and must not count for ever: a dead primary is tried only when nothing is in flight.
#[test]
fn a_reconfiguration_during_transfers_does_not_keep_a_primary_dead() {
    for at_ms in (0..100).step_by(10) {
        let mut simulation = Simulation::new(20, &[&[1]], at_ms);
        simulation.run_until(at_ms);
        (0..20).for_each(|number| simulation.reconfigure(number, 1000));
        simulation.run_until(10_000);
        simulation.assert_current(&format!("reconfigured at {at_ms} ms"));
        simulation.world.faults.insert(1, Fault::Dead);
        simulation.run_until(1_000_000);
        simulation.world.faults.clear();
        simulation.raise_serials();
        simulation.run_until(2_500_000);
        simulation.assert_current(&format!("reconfigured at {at_ms} ms"));
    }
}

/// RFC 1995 2: the primary has no later version. The whole zone would have the earlier serial, too.
#[test]
fn rfc_1995_2_an_earlier_serial_in_response_to_ixfr_causes_no_axfr() {
    for primaries in [&[1, 2][..], &[1]] {
        let mut simulation = Simulation::new(10, &[primaries], 1);
        simulation.run_until(5_000);
        simulation.assert_current("before the first fault");
        let whole_transfers = simulation.world.whole_transfers;
        simulation.world.faults.insert(1, Fault::OlderTransfers);
        (0..10).for_each(|number| simulation.change(number, true));
        simulation.run_until(10_000);
        let expected = if primaries.len() > 1 { 0 } else { 10 };
        assert_eq!(simulation.outdated().len(), expected, "the other primary is tried at once");
        assert_eq!(simulation.world.whole_transfers, whole_transfers, "{primaries:?}");
        assert!(simulation.world.failures.iter().all(|failure| failure.contains("is earlier than")));
        simulation.world.faults.clear();
        simulation.run_until(3_600_000);
        simulation.assert_current("without the fault");
    }
}

/// After a refused IXFR, as above. A whole zone may take long to receive.
#[test]
fn an_earlier_serial_in_response_to_axfr_is_not_received() {
    let mut simulation = Simulation::new(1, &[&[1]], 1);
    simulation.run_until(5_000);
    simulation.world.faults.insert(1, Fault::OlderWithoutIxfr);
    simulation.change(0, true);
    simulation.run_until(10_000);
    assert_eq!(simulation.outdated(), [0]);
    let failures = &simulation.world.failures;
    assert!(!failures.is_empty() && failures.iter().all(|failure| failure.contains("is earlier than")), "{failures:?}");
    simulation.world.faults.clear();
    simulation.run_until(3_600_000);
    simulation.assert_current("without the fault");
}

/// One fault at one of two primaries never harms the zones of the other.
#[test]
fn a_faulty_primary_does_not_delay_the_zones_of_others() {
    for fault in FAULTS {
        let mut simulation = Simulation::new(400, &[&[1], &[2]], 7);
        simulation.world.faults.insert(1, fault);
        simulation.run_until(5_000);
        let outdated = simulation.outdated();
        assert!(outdated.iter().all(|number| number % 2 == 0), "{fault:?}: {outdated:?}");
        simulation.change(1, true);
        simulation.run_until(60_000);
        assert!(!simulation.outdated().contains(&1), "{fault:?}");
        let needs_whole = matches!(
            fault,
            Fault::Dead
                | Fault::NoTcp
                | Fault::Silent
                | Fault::Refusing
                | Fault::Garbage
                | Fault::OtherZone
                | Fault::Trickle
        );
        assert_eq!(simulation.world.served.len(), if needs_whole { 200 } else { 400 }, "{fault:?}");
        assert!(simulation.world.opened < 1000, "{fault:?}: {} connections", simulation.world.opened);
    }
}

/// Each attempt to reach a machine that is off takes a connection for seconds, and there are more of them than connections.
#[test]
fn primaries_that_are_off_do_not_delay_transfers_from_others() {
    let hosts: Vec<[u8; 1]> = (1..=100).map(|host| [host]).collect();
    let hosts: Vec<&[u8]> = hosts.iter().map(|host| &host[..]).collect();
    let limits = EngineLimits { connections: 8, ..EngineLimits::default() };
    let mut simulation = Simulation::with_limits(100, &hosts, 1, limits);
    simulation.world.faults.extend((1..100).map(|host| (host, Fault::Off)));
    // Each was tried once: nobody can know before.
    simulation.run_until(100_000);
    for _ in 0..20 {
        simulation.change(99, true);
        // NOTIFY may be lost.
        let (zone, ..) = simulation.zones[99];
        simulation.engine.command(TransferCommand::Refresh(zone), simulation.world.now);
        let now_ms = simulation.world.now.ms;
        simulation.run_until(now_ms + 4000);
        assert!(!simulation.outdated().contains(&99), "at {now_ms} ms");
    }
    // They are tried again, and found when they are back.
    simulation.world.faults.clear();
    let now_ms = simulation.world.now.ms;
    simulation.run_until(now_ms + 600_000);
    simulation.assert_current("all primaries are back");
}

/// A thousand zones come over few connections; a primary that closes after each answer gets one connection per zone.
#[test]
fn connections_are_reused_where_the_primary_allows_it() {
    let mut simulation = Simulation::new(1000, &[&[1]], 1);
    simulation.run_until(10_000);
    assert_eq!((simulation.outdated().len(), simulation.world.opened), (0, 4));
    let mut simulation = Simulation::new(1000, &[&[1]], 1);
    simulation.world.faults.insert(1, Fault::OnePerConnection);
    simulation.run_until(60_000);
    assert_eq!(simulation.outdated().len(), 0, "{:?}", simulation.world.failures);
    assert!((1000..1200).contains(&simulation.world.opened), "{}", simulation.world.opened);
}

/// NSD announces its next change when the connections of secondaries have ended.
#[test]
fn idle_connections_are_closed_and_encrypted_ones_later() {
    for (tls, open) in [(0, [0, 0]), (1, [1, 0])] {
        let mut simulation = Simulation::new(1, &[&[1]], 1);
        simulation.use_tls(0, tls);
        let ended_ms = (0..4000).find(|at_ms| {
            simulation.run_until(*at_ms);
            simulation.outdated().is_empty()
        });
        let ended_ms = ended_ms.expect("transferred");
        let found = [20, 250].map(|after_ms| {
            simulation.run_until(ended_ms + after_ms);
            simulation.world.connections.len()
        });
        assert_eq!(found, open, "{tls}");
    }
}

/// A busy connection must not live on with an authority or a pin that a reload has taken away.
#[test]
fn no_exchange_begins_on_a_connection_from_before_a_reload_of_tls() {
    for (is_replaced, opened) in [(false, 2), (true, 3)] {
        let mut simulation = Simulation::new(1, &[&[1]], 1);
        simulation.use_tls(0, 1);
        // Transferred, and the connection is closed again. Then the next one is never idle for long.
        for turn in 0..40 {
            simulation.run_until(10_000 + turn * 100);
            simulation.refresh_all();
            if is_replaced && turn == 20 {
                simulation.engine.command(TransferCommand::TlsReplaced, simulation.world.now);
            }
        }
        simulation.run_until(20_000);
        assert_eq!((simulation.outdated().len(), simulation.world.opened), (0, opened));
    }
}

#[test]
fn checks_of_a_primary_with_tls_go_over_its_stream() {
    for (tls, opened) in [(0, 1), (1, 2)] {
        let mut simulation = Simulation::new(1, &[&[1]], 1);
        simulation.use_tls(0, tls);
        simulation.run_until(10_000);
        simulation.refresh_all();
        simulation.run_until(20_000);
        assert_eq!((simulation.outdated().len(), simulation.world.opened), (0, opened), "{tls}");
    }
}

#[test]
fn a_zone_expires_without_its_primary_and_recovers_with_any_serial() {
    let mut simulation = Simulation::new(1, &[&[1]], 1);
    simulation.run_until(10_000);
    simulation.world.faults.insert(1, Fault::Dead);
    simulation.run_until(5_100_000);
    assert!(simulation.world.expired.values().all(|at_s| (START_S + 5000..START_S + 5002).contains(at_s)));
    assert_eq!(simulation.world.expired.len(), 1);
    simulation.world.faults.clear();
    simulation.world.serials.insert((1, "zone0.example.".into()), 3);
    simulation.run_until(5_100_000 + 300_000);
    assert_eq!((simulation.outdated().len(), simulation.world.expired.len()), (0, 0));
    assert_eq!(simulation.world.served.values().collect::<Vec<_>>(), [&3]);
}

/// A primary sends NOTIFY while it reloads, and refuses queries for a while: its secondary does not wait for RETRY, 60 s.
#[test]
fn a_primary_that_refuses_queries_when_it_sends_notify_is_asked_again_soon() {
    for seconds in [1, 5, 12] {
        let mut simulation = Simulation::new(20, &[&[1], &[1, 2]], seconds);
        simulation.run_until(10_000);
        for host in 1..=2 {
            simulation.world.faults.insert(host, Fault::Refusing);
        }
        simulation.raise_serials();
        for (zone, _, primaries) in simulation.zones.clone() {
            let (serial, from) = (Some(101), primaries[0].address.ip());
            simulation.engine.command(TransferCommand::NotifyReceived { zone, serial, from }, simulation.world.now);
        }
        simulation.run_until(10_000 + seconds * 1000);
        assert_eq!(simulation.outdated().len(), 20);
        simulation.world.faults.clear();
        simulation.run_until(10_000 + seconds * 1000 + 20_000);
        simulation.assert_current(&format!("refusing for {seconds} s"));
    }
}

/// As Knot 3.2 does for catalogs.
#[test]
fn a_primary_that_refuses_queries_over_udp_is_asked_over_tcp() {
    let mut simulation = Simulation::new(40, &[&[1], &[1, 2]], 1);
    simulation.world.faults.insert(1, Fault::RefusesUdp);
    simulation.run_until(10_000);
    simulation.assert_current("over TCP");
    simulation.raise_serials();
    simulation.refresh_all();
    simulation.run_until(12_000);
    simulation.assert_current("after the change");
}

/// As for a primary with EDNS, two checks and one transfer of each zone.
#[test]
fn rfc_6891_7_a_primary_that_answers_formerr_to_opt_is_asked_without() {
    let mut simulation = Simulation::new(40, &[&[1], &[1, 2]], 1);
    for host in 1..=2 {
        simulation.world.faults.insert(host, Fault::NoEdns);
    }
    simulation.run_until(10_000);
    assert_eq!((simulation.outdated(), simulation.world.failures.len()), (vec![], 0));
    simulation.raise_serials();
    simulation.refresh_all();
    simulation.run_until(20_000);
    assert_eq!((simulation.outdated(), simulation.world.failures.len()), (vec![], 0));
}

#[test]
fn rfc_7766_5_a_primary_without_udp_is_asked_over_tcp() {
    let mut simulation = Simulation::new(40, &[&[1]], 1);
    simulation.world.faults.insert(1, Fault::NoUdp);
    simulation.run_until(10_000);
    simulation.assert_current("over TCP");
    for (number, seconds) in [(3, 20), (4, 2)] {
        simulation.world.serials.insert((1, format!("zone{number}.example.")), 101);
        let (zone, ..) = simulation.zones[number];
        simulation.engine.command(TransferCommand::Refresh(zone), simulation.world.now);
        let now_ms = simulation.world.now.ms;
        simulation.run_until(now_ms + seconds * 1000);
        simulation.assert_current("the second time at once");
    }
}

#[test]
fn the_times_of_published_versions_are_reported() {
    let mut simulation = Simulation::new(3, &[&[1]], 1);
    simulation.run_until(10_000);
    assert_eq!(simulation.world.refreshed.len(), 3);
    assert!(simulation.world.refreshed.values().all(|timers| timers.expires_at_s >= START_S + 5000));
}

/// Reports say why, and a stalled transfer is given up within seconds.
#[test]
fn bad_primaries_are_reported_in_clear_words_within_seconds() {
    for (fault, words) in [
        (Fault::Dead, "closed"),
        (Fault::Silent, "has sent nothing for 10 s"),
        (Fault::Trickle, "fewer than 512 octets per second"),
        (Fault::Refusing, "answers REFUSED"),
        (Fault::OtherZone, "another zone"),
    ] {
        let mut simulation = Simulation::new(1, &[&[1]], 1);
        simulation.world.faults.insert(1, fault);
        simulation.run_until(25_000);
        let failures = &simulation.world.failures;
        assert!(failures.iter().any(|failure| failure.contains(words)), "{fault:?}: {failures:?}");
    }
}

/// Which primary has answered what, if a check finds no serial.
#[test]
fn checks_without_a_serial_say_which_primary_answers_what() {
    for (fault, words) in [
        (Fault::Refusing, "the primary answers REFUSED"),
        (Fault::OtherZone, "the answer of the primary has no SOA record of the zone"),
        (Fault::Silent, "the primary has sent nothing for 10 s"),
        (Fault::Off, "the connection to the primary was closed: not established in time"),
    ] {
        let mut simulation = Simulation::new(1, &[&[1, 2]], 1);
        simulation.run_until(10_000);
        simulation.world.faults.extend([(1, fault), (2, Fault::Refusing)]);
        simulation.run_until(700_000);
        let failures = &simulation.world.check_failures;
        let both = [format!("192.0.2.1:53: {words}"), "192.0.2.2:53: the primary answers REFUSED".into()];
        let names_both = |failure: &String| both.iter().all(|part| failure.contains(part));
        assert!(failures.iter().any(names_both), "{fault:?}: {failures:?}");
    }
}

/// A zone that waits for dead primaries is not being checked, so that no check says why it is not current.
#[test]
fn the_status_of_a_zone_that_waits_says_why_its_primaries_cannot_be_reached() {
    let mut simulation = Simulation::new(20, &[&[1]], 1);
    simulation.run_until(10_000);
    simulation.world.faults.insert(1, Fault::Off);
    let reason =
        "no primary can be reached: 192.0.2.1:53: the connection to the primary was closed: not established in time";
    let problems = |simulation: &Simulation| -> Vec<String> {
        let statuses = simulation.zones.iter().map(|(zone, ..)| simulation.engine.status(*zone));
        statuses.filter_map(|status| status.expect("it is a secondary").problem).collect()
    };
    let mut found = Vec::new();
    for second in 500..900 {
        simulation.run_until(second * 1000);
        found.append(&mut problems(&simulation));
    }
    assert!(found.iter().any(|problem| problem == reason), "{found:?}");
    simulation.world.faults.clear();
    simulation.run_until(2_000_000);
    assert_eq!(problems(&simulation), [] as [String; 0]);
}

/// The lines that are logged.
#[derive(Clone, Default)]
struct LogText(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogText {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Otherwise nobody would learn why every change of a zone costs a whole transfer.
#[test]
fn the_log_says_why_a_zone_is_transferred_as_a_whole() {
    let mut simulation = Simulation::new(1, &[&[1]], 1);
    simulation.run_until(10_000);
    simulation.world.faults.insert(1, Fault::NoIxfr);
    simulation.change(0, true);
    let text = LogText::default();
    let log = text.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || log.clone()).finish();
    tracing::subscriber::with_default(subscriber, || simulation.run_until(700_000));
    simulation.assert_current("as a whole");
    let log = String::from_utf8(text.0.lock().expect("no panic").clone()).expect("UTF-8");
    let reason =
        "IXFR failed, requesting the whole zone: the primary answers NOTIMP zone=zone0.example. primary=192.0.2.1:53";
    assert!(log.contains(reason), "{log}");
}
