//! The prober, with a server whose answers become available one after another.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use load::probe::{ProbeConfig, ProbeLimits, Prober, WantedAnswer};
use load::queries::{Queries, QueryTemplate, file};
use wire::message::{Rcode, Record};
use wire::{Class, Message, Rtype};

/// A server of SOA records that answers question `n` of `hostN` after `n` times `step`; REFUSED before. With `serial` it
/// always answers, with serial 9 then and `serial` later. Every tenth response is lost.
fn serve(step: Duration, old_serial: Option<u32>, serial: u32) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = socket.local_addr().expect("bound");
    thread::spawn(move || {
        let (mut octets, mut count, mut start) = ([0; 512], 0, None);
        while let Ok((len, peer)) = socket.recv_from(&mut octets) {
            let start = *start.get_or_insert_with(Instant::now);
            let mut message = Message::parse(&octets[..len]).expect("a query");
            let label = message.questions[0].name.to_string();
            let number: u32 = label.trim_start_matches("host").trim_end_matches(".example.").parse().expect("a number");
            let is_available = start.elapsed() >= step * number;
            message.flags.response = true;
            match (is_available, old_serial) {
                (true, _) => message.answer.push(soa(&message, serial)),
                (false, Some(old)) => message.answer.push(soa(&message, old)),
                (false, None) => message.rcode = Rcode::REFUSED,
            }
            count += 1;
            if count % 10 != 0 {
                socket.send_to(&message.to_wire(), peer).expect("loopback");
            }
        }
    });
    address
}

fn soa(message: &Message, serial: u32) -> Record {
    let rdata = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
    Record { owner: message.questions[0].name.clone(), rtype: Rtype::SOA, class: Class::IN, ttl: 0, rdata }
}

fn questions(count: u32) -> Queries {
    let lines: String = (0..count).map(|number| format!("host{number}.example SOA\n")).collect();
    file::read(lines.as_bytes(), &QueryTemplate::default()).expect("good lines")
}

fn probe(server: SocketAddr, wanted: WantedAnswer, patience: Duration) -> Vec<load::probe::Progress> {
    let limits = ProbeLimits { outstanding: 64, interval_ns: 500_000, timeout_ns: 5_000_000, spacing_ns: 10_000 };
    let config = ProbeConfig { server, queries: questions(100), wanted, limits, patience };
    Prober::open(config).expect("loopback").run(&AtomicBool::new(false)).expect("loopback").0
}

#[test]
fn arrivals_are_found_in_order() {
    let step = Duration::from_millis(3);
    for (old_serial, wanted) in [(None, WantedAnswer::Any), (Some(u32::MAX), WantedAnswer::Serial(2))] {
        let arrivals = probe(serve(step, old_serial, 7), wanted, Duration::from_secs(30));
        for (number, progress) in (0..).zip(&arrivals) {
            let arrived = Duration::from_nanos(progress.arrived_at_ns.expect("it becomes available"));
            // The server's start is later than that of the probe.
            assert!(arrived >= step * number, "{number}: {progress:?}");
            let missing = Duration::from_nanos(progress.missing_at_ns.unwrap_or(0));
            assert!(missing <= step * number + Duration::from_secs(1), "{number}: {progress:?}");
        }
        assert!(arrivals[99].missing_at_ns.is_some());
    }
}

#[test]
fn a_probe_ends_without_the_answers() {
    let begun = Instant::now();
    let arrivals = probe(serve(Duration::ZERO, None, 7), WantedAnswer::Serial(8), Duration::from_millis(200));
    assert!(arrivals.iter().all(|progress| progress.arrived_at_ns.is_none()));
    assert!(begun.elapsed() < Duration::from_secs(5));
}
