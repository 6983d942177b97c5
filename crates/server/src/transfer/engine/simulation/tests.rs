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
        assert_eq!(simulation.outdated(), [] as [usize; 0], "reconfigured at {at_ms} ms");
        simulation.world.faults.insert(1, Fault::Dead);
        simulation.run_until(1_000_000);
        simulation.world.faults.clear();
        simulation.world.serials.values_mut().for_each(|serial| *serial += 1);
        simulation.run_until(2_500_000);
        assert_eq!(simulation.outdated(), [] as [usize; 0], "reconfigured at {at_ms} ms");
    }
}

/// RFC 1995 2: the primary has no later version. The whole zone would have the earlier serial, too.
#[test]
fn rfc_1995_2_an_earlier_serial_in_response_to_ixfr_causes_no_axfr() {
    for primaries in [&[1, 2][..], &[1]] {
        let mut simulation = Simulation::new(10, &[primaries], 1);
        simulation.run_until(5_000);
        assert_eq!(simulation.outdated(), [] as [usize; 0]);
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
        assert_eq!(simulation.outdated(), [] as [usize; 0]);
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
    assert_eq!(simulation.outdated(), [] as [usize; 0]);
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
    assert_eq!(simulation.outdated(), [] as [usize; 0]);
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
        let (zone, ..) = simulation.zones[0];
        let primaries = [PeerConfig { tls, ..PeerConfig::plain(([192, 0, 2, 1], 53).into()) }].into();
        let limits = SecondaryLimits::default();
        simulation.engine.command(TransferCommand::Reconfigure { zone, primaries, limits }, simulation.world.now);
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
        let (zone, ..) = simulation.zones[0];
        let primaries = [PeerConfig { tls: 1, ..PeerConfig::plain(([192, 0, 2, 1], 53).into()) }].into();
        let limits = SecondaryLimits::default();
        simulation.engine.command(TransferCommand::Reconfigure { zone, primaries, limits }, simulation.world.now);
        // Transferred, and the connection is closed again. Then the next one is never idle for long.
        for turn in 0..40 {
            simulation.run_until(10_000 + turn * 100);
            simulation.engine.command(TransferCommand::Refresh(zone), simulation.world.now);
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
        let (zone, ..) = simulation.zones[0];
        let primaries = [PeerConfig { tls, ..PeerConfig::plain(([192, 0, 2, 1], 53).into()) }].into();
        let limits = SecondaryLimits::default();
        simulation.engine.command(TransferCommand::Reconfigure { zone, primaries, limits }, simulation.world.now);
        simulation.run_until(10_000);
        simulation.engine.command(TransferCommand::Refresh(zone), simulation.world.now);
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
        simulation.world.serials.values_mut().for_each(|serial| *serial += 1);
        for (zone, _, primaries) in simulation.zones.clone() {
            let (serial, from) = (Some(101), primaries[0].address.ip());
            simulation.engine.command(TransferCommand::NotifyReceived { zone, serial, from }, simulation.world.now);
        }
        simulation.run_until(10_000 + seconds * 1000);
        assert_eq!(simulation.outdated().len(), 20);
        simulation.world.faults.clear();
        simulation.run_until(10_000 + seconds * 1000 + 20_000);
        assert_eq!(simulation.outdated(), [] as [usize; 0], "refusing for {seconds} s");
    }
}

/// As Knot 3.2 does for catalogs.
#[test]
fn a_primary_that_refuses_queries_over_udp_is_asked_over_tcp() {
    let mut simulation = Simulation::new(40, &[&[1], &[1, 2]], 1);
    simulation.world.faults.insert(1, Fault::RefusesUdp);
    simulation.run_until(10_000);
    assert_eq!(simulation.outdated(), [] as [usize; 0]);
    simulation.world.serials.values_mut().for_each(|serial| *serial += 1);
    for (zone, ..) in simulation.zones.clone() {
        simulation.engine.command(TransferCommand::Refresh(zone), simulation.world.now);
    }
    simulation.run_until(12_000);
    assert_eq!(simulation.outdated(), [] as [usize; 0]);
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
    simulation.world.serials.values_mut().for_each(|serial| *serial += 1);
    for (zone, ..) in simulation.zones.clone() {
        simulation.engine.command(TransferCommand::Refresh(zone), simulation.world.now);
    }
    simulation.run_until(20_000);
    assert_eq!((simulation.outdated(), simulation.world.failures.len()), (vec![], 0));
}

#[test]
fn rfc_7766_5_a_primary_without_udp_is_asked_over_tcp() {
    let mut simulation = Simulation::new(40, &[&[1]], 1);
    simulation.world.faults.insert(1, Fault::NoUdp);
    simulation.run_until(10_000);
    assert_eq!(simulation.outdated(), [] as [usize; 0]);
    for (number, seconds) in [(3, 20), (4, 2)] {
        simulation.world.serials.insert((1, format!("zone{number}.example.")), 101);
        let (zone, ..) = simulation.zones[number];
        simulation.engine.command(TransferCommand::Refresh(zone), simulation.world.now);
        let now_ms = simulation.world.now.ms;
        simulation.run_until(now_ms + seconds * 1000);
        assert_eq!(simulation.outdated(), [] as [usize; 0], "the second time at once");
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
    assert_eq!(simulation.outdated(), [] as [usize; 0]);
    let log = String::from_utf8(text.0.lock().expect("no panic").clone()).expect("UTF-8");
    let reason =
        "IXFR failed, requesting the whole zone: the primary answers NOTIMP zone=zone0.example. primary=192.0.2.1:53";
    assert!(log.contains(reason), "{log}");
}

#[test]
fn notify_reaches_its_targets_through_loss() {
    let mut simulation = Simulation::new(20, &[&[1]], 3);
    simulation.world.faults.insert(9, Fault::Lossy);
    simulation.run_until(5000);
    for number in 0..20 {
        let (zone, apex, _) = simulation.zones[number].clone();
        let soa: Arc<[u8]> = [&[0, 0][..], &101u32.to_be_bytes(), &[0; 16]].concat().into();
        let targets: Arc<[PeerConfig]> = [PeerConfig::plain(([192, 0, 2, 9], 53).into())].into();
        simulation.engine.command(TransferCommand::SendNotify { zone, apex, soa, targets }, simulation.world.now);
    }
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
    let (zone, apex, _) = simulation.zones[0].clone();
    let soa: Arc<[u8]> = [&[0, 0][..], &101u32.to_be_bytes(), &[0; 16]].concat().into();
    let targets: Arc<[PeerConfig]> = [PeerConfig::plain(([192, 0, 2, 9], 53).into())].into();
    for command in [TransferCommand::SendNotify { zone, apex, soa, targets }, TransferCommand::EndRefresh(zone)] {
        simulation.engine.command(command, simulation.world.now);
    }
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
        let targets: Arc<[PeerConfig]> = [PeerConfig { tls, ..PeerConfig::plain(([192, 0, 2, 9], 53).into()) }].into();
        for (zone, apex, _) in simulation.zones.clone() {
            let soa: Arc<[u8]> = [&[0, 0][..], &101u32.to_be_bytes(), &[0; 16]].concat().into();
            let targets = targets.clone();
            simulation.engine.command(TransferCommand::SendNotify { zone, apex, soa, targets }, simulation.world.now);
        }
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
        let (zone, apex, _) = simulation.zones[0].clone();
        let targets: Arc<[PeerConfig]> =
            [PeerConfig { tls: 1, ..PeerConfig::plain(([192, 0, 2, 9], 53).into()) }].into();
        for (serial, at_ms) in [(101u32, 5000 + delay_ms), (102, 100_000)] {
            let soa: Arc<[u8]> = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat().into();
            let (apex, targets) = (apex.clone(), targets.clone());
            simulation.engine.command(TransferCommand::SendNotify { zone, apex, soa, targets }, simulation.world.now);
            simulation.run_until(at_ms);
        }
        assert!(simulation.world.notified.contains(&102), "{delay_ms} ms: {:?}", simulation.world.notified);
    }
}

/// An operator or NTP sets the clock: no zone expires because of that, and none waits for years for its next check.
#[test]
fn setting_the_clock_neither_expires_zones_nor_delays_their_checks() {
    const YEARS_S: i64 = 10 * 365 * 86_400;
    for step_s in [YEARS_S, -600_000] {
        let mut simulation = Simulation::new(40, &[&[1]], 3);
        simulation.run_until(10_000);
        assert_eq!(simulation.outdated().len(), 0);
        simulation.world.clock_step_s = step_s;
        simulation.world.set_time(10_000);
        simulation.engine.step(simulation.world.now, &mut simulation.world);
        let lifetimes = simulation.world.refreshed.values();
        let lifetimes = lifetimes.map(|timers| i64::from(timers.expires_at_s) - i64::from(simulation.world.now.s));
        let lifetimes: Vec<i64> = lifetimes.collect();
        // RFC 7314 3.2: the EXPIRE option, which is computed from them, is right at once.
        assert!(lifetimes.len() == 40 && lifetimes.iter().all(|s| (4900..=5000).contains(s)), "{lifetimes:?}");
        simulation.run_until(21_000);
        assert_eq!(simulation.world.expired.len(), 0, "{step_s}");
        let status = simulation.engine.status(simulation.zones[0].0).expect("it is a zone");
        let lifetime_s = i64::from(status.expires_at_s) - i64::from(simulation.world.now.s);
        assert!((4000..=5000).contains(&lifetime_s), "{step_s}: expires in {lifetime_s} s by the new clock");
        // No NOTIFY arrives: the next check must find the change.
        let serials = &mut simulation.world.serials;
        serials.values_mut().for_each(|serial| *serial += 1);
        simulation.run_until(700_000);
        assert_eq!(simulation.outdated(), [] as [usize; 0], "{step_s}");
        let timers = simulation.world.refreshed.values().next().expect("all were refreshed");
        assert!(timers.check_at_s.abs_diff(simulation.world.now.s) <= 600, "stored times are those of the new clock");
        simulation.world.faults.insert(1, Fault::Dead);
        simulation.run_until(700_000 + 6_000_000);
        assert_eq!(simulation.world.expired.len(), 40, "{step_s}: zones still expire");
    }
}

/// More zones than are reported at once; the clock is set again meanwhile.
#[test]
fn all_zones_have_times_by_the_new_clock_after_it_was_set() {
    let mut simulation = Simulation::new(10_000, &[&[1]], 3);
    simulation.run_until(100_000);
    assert_eq!(simulation.outdated().len(), 0);
    let before = simulation.world.refreshed.clone();
    for step_s in [100_000, 300_000] {
        simulation.world.clock_step_s = step_s;
        simulation.world.set_time(100_000);
        simulation.engine.step(simulation.world.now, &mut simulation.world);
    }
    simulation.run_until(100_000);
    for (zone, timers) in &simulation.world.refreshed {
        assert_eq!(timers.expires_at_s, before[zone].expires_at_s + 300_000);
        assert_eq!(timers.check_at_s, before[zone].check_at_s + 300_000);
    }
    assert_eq!(before.len(), 10_000);
}

/// RFC 1034 4.3.5: the time of a suspend counts as any other time. Both clocks go on, and the engine gets no turn.
#[test]
fn zones_are_refreshed_or_expire_at_once_after_a_suspend() {
    for (suspended_s, expired) in [(3000, 0), (86_400, 40)] {
        let mut simulation = Simulation::new(40, &[&[1]], 3);
        simulation.run_until(10_000);
        simulation.world.serials.values_mut().for_each(|serial| *serial += 1);
        let resumed_ms = 10_000 + suspended_s * 1000;
        simulation.world.set_time(resumed_ms);
        simulation.engine.step(simulation.world.now, &mut simulation.world);
        assert_eq!(simulation.world.expired.len(), expired, "{suspended_s} s");
        simulation.run_until(resumed_ms + 10_000);
        assert_eq!((simulation.outdated().len(), simulation.world.expired.len()), (0, 0), "{suspended_s} s");
    }
}
