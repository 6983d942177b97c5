//! The null secondary against the null primary, and both against messages as the RFCs have them.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use load::stream::split_message;
use load::xfr::pull::Pull;
use load::xfr::render::{Rendered, render};
use load::xfr::serve::{Primary, Served, Zones};
use wire::{Message, Name, Rtype};
use zone::text::Source;

/// A zone with that many hosts and some records that make compression worth while.
fn zone(apex: &str, hosts: usize) -> (Name, Rendered) {
    let mut text = String::from("$TTL 60\n@ SOA ns hostmaster 7 1 1 1 1\n@ NS ns\n");
    for host in 0..hosts {
        text += &format!("host{host} A 192.0.2.{}\nhost{host} TXT \"{}\"\n", host % 256, "x".repeat(host % 200));
    }
    let apex: Name = apex.parse().expect("a literal");
    let source = Source { name: "test".into(), bytes: text.as_bytes() };
    let rendered = render(source, &apex).expect("a good zone");
    (apex, rendered)
}

#[test]
fn a_rendered_zone_is_a_transfer_of_it() {
    for apex in ["example.org", "."] {
        let (name, rendered) = zone(apex, 2000);
        let (mut rest, mut records, mut messages) = (&rendered.stream[..], Vec::new(), 0);
        while let Some((message, behind)) = split_message(rest) {
            let message = Message::parse(message).expect("well-formed");
            assert!(message.flags.response && message.flags.authoritative);
            assert_eq!((&message.questions[0].name, message.questions[0].qtype), (&name, Rtype::AXFR));
            records.extend(message.answer);
            messages += 1;
            rest = behind;
        }
        assert!(rest.is_empty() && messages > 1);
        assert_eq!((records.len(), rendered.records), (4003, 4003));
        assert_eq!((records[0].rtype, &records[0]), (Rtype::SOA, &records[4002]));
        let owners: BTreeSet<String> = records.iter().map(|record| record.owner.to_string()).collect();
        assert_eq!(owners.len(), 2001);
        assert!(owners.contains(&format!("host1999.{}", name.to_string().trim_start_matches('.'))), "{apex}");
    }
}

fn serve(zones: impl IntoIterator<Item = (Name, Rendered)>) -> (SocketAddr, Arc<AtomicBool>, JoinHandle<Arc<Served>>) {
    let address = "127.0.0.1:0".parse().expect("a literal");
    let primary = Primary::bind(address, zones.into_iter().collect::<Zones>(), None).expect("loopback");
    let (address, stop) = (primary.local_addr().expect("bound"), Arc::new(AtomicBool::new(false)));
    let flag = stop.clone();
    (address, stop, thread::spawn(move || primary.run(&flag).expect("loopback")))
}

fn pull(server: SocketAddr, zones: Vec<Name>, serial: Option<u32>, parallel: usize) -> load::xfr::pull::Pulled {
    let pull = Pull { server, zones, serial, parallel, timeout: Duration::from_secs(5), tls: None, key: None };
    pull.run(&AtomicBool::new(false))
}

#[test]
fn zones_are_transferred_and_counted() {
    let zones: Vec<_> = (0..20).map(|number| zone(&format!("z{number}.example"), number * 50)).collect();
    let names: Vec<Name> = zones.iter().map(|(name, _)| name.clone()).collect();
    let records: u64 = zones.iter().map(|(_, rendered)| rendered.records).sum();
    let (server, stop, primary) = serve(zones);
    let pulled = pull(server, names.clone(), None, 1);
    assert_eq!((pulled.zones, pulled.failed, pulled.records, pulled.connections), (20, 0, records, 1));
    assert!(pulled.messages > 20 && pulled.largest_message <= 16_000 && pulled.first_byte_s > 0.0, "{pulled:?}");
    let pulled = pull(server, names.clone(), Some(3), 4);
    assert_eq!((pulled.zones, pulled.records), (20, records), "IXFR, answered by whole zones");
    let missing = vec!["other.example".parse().expect("a literal"), names[3].clone()];
    let pulled = pull(server, missing, None, 1);
    assert_eq!((pulled.zones, pulled.failed), (1, 1));
    assert_eq!(pulled.failures, ["other.example.: the answer is REFUSED"]);
    stop.store(true, Ordering::Relaxed);
    let served = primary.join().expect("no panic");
    assert_eq!((served.zones.load(Ordering::Relaxed), served.refused.load(Ordering::Relaxed)), (41, 1));
}

#[test]
fn soa_queries_are_answered_over_udp() {
    let (server, stop, primary) = serve([zone("example.org", 1)]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(5))).expect("an option");
    let ask = |name: &str, qtype: Rtype| {
        let query = Message::query(name.parse().expect("a literal"), qtype);
        socket.send_to(&query.to_wire(), server).expect("loopback");
        let mut octets = [0; 4096];
        let len = socket.recv(&mut octets).expect("an answer");
        let answer = Message::parse(&octets[..len]).expect("well-formed");
        assert_eq!((answer.id, &answer.questions), (query.id, &query.questions));
        answer
    };
    let answer = ask("EXAMPLE.org", Rtype::SOA);
    assert_eq!((answer.answer[0].rtype, answer.flags.authoritative), (Rtype::SOA, true));
    assert_eq!(ask("example.org", Rtype::A).rcode.0, 5);
    assert_eq!(ask("other.org", Rtype::SOA).rcode.0, 5);
    stop.store(true, Ordering::Relaxed);
    primary.join().expect("no panic");
}

/// A primary that closes the connection after each zone, as many do.
#[test]
fn a_connection_that_was_closed_is_opened_again() {
    let (_, rendered) = zone("example.org", 3);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let server = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("loopback");
            let mut query = [0; 2 + 12 + 13 + 4];
            std::io::Read::read_exact(&mut stream, &mut query).expect("a query");
            let mut octets = rendered.stream.clone();
            octets[2..4].copy_from_slice(&query[2..4]);
            std::io::Write::write_all(&mut stream, &octets).expect("loopback");
        }
    });
    let name: Name = "example.org".parse().expect("a literal");
    let pulled = pull(server, vec![name; 5], None, 1);
    assert_eq!((pulled.zones, pulled.failed, pulled.connections), (5, 0, 5), "{pulled:?}");
}
