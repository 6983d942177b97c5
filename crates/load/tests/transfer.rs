//! The null secondary with the null primary, and both with messages as in the RFCs.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use load::xfr::encode::{EncodedZone, ZoneEncoder};
use load::xfr::pull::{PullConfig, PullResult};
use load::xfr::serve::{ChangeConfig, Primary, PrimaryCounters};
use wire::framing::{frame, split_message};
use wire::message::Opcode;
use wire::{Message, Name, Rtype};
use zone::text::Source;

/// A zone with `hosts` hosts, long enough for compression to matter.
fn zone(apex: &str, hosts: usize) -> (Name, EncodedZone) {
    let mut text = String::new();
    for host in 0..hosts {
        text += &format!("host{host} A 192.0.2.{}\nhost{host} TXT \"{}\"\n", host % 256, "x".repeat(host % 200));
    }
    encode(ZoneEncoder::default(), apex, &text)
}

/// A zone with serial 7 and these records, which are relative to its name.
fn encode(encoder: ZoneEncoder, apex: &str, records: &str) -> (Name, EncodedZone) {
    let text = format!("$TTL 60\n@ SOA ns hostmaster 7 1 1 1 1\n@ NS ns\n{records}");
    let apex: Name = apex.parse().expect("a literal");
    let zone = encoder.encode(Source { name: "test".into(), bytes: text.as_bytes() }, &apex).expect("a good zone");
    (apex, zone)
}

#[test]
fn an_encoded_zone_is_an_axfr_response() {
    for apex in ["example.org", "."] {
        let (name, encoded) = zone(apex, 2000);
        let (mut rest, mut records, mut messages) = (&encoded.stream[..], Vec::new(), 0);
        while let Some((message, after)) = split_message(rest) {
            let message = Message::parse(message).expect("well-formed");
            assert!(message.flags.response && message.flags.authoritative);
            assert_eq!((&message.questions[0].name, message.questions[0].qtype), (&name, Rtype::AXFR));
            records.extend(message.answer);
            messages += 1;
            rest = after;
        }
        assert!(rest.is_empty() && messages > 1);
        assert_eq!((records.len(), encoded.records), (4003, 4003));
        assert_eq!((records[0].rtype, &records[0]), (Rtype::SOA, &records[4002]));
        let owners: BTreeSet<String> = records.iter().map(|record| record.owner.to_string()).collect();
        assert_eq!(owners.len(), 2001);
        assert!(owners.contains(&format!("host1999.{}", name.to_string().trim_start_matches('.'))), "{apex}");
    }
}

fn primary(zones: impl IntoIterator<Item = (Name, EncodedZone)>) -> Primary {
    let address = "127.0.0.1:0".parse().expect("a literal");
    Primary::bind(address, zones.into_iter().collect(), None).expect("loopback")
}

/// Serves until the flag is set.
fn serve(primary: Primary) -> (SocketAddr, Arc<AtomicBool>, JoinHandle<Arc<PrimaryCounters>>) {
    let (address, stop) = (primary.local_addr().expect("bound"), Arc::new(AtomicBool::new(false)));
    let flag = stop.clone();
    (address, stop, thread::spawn(move || primary.run(&flag).expect("loopback")))
}

fn pull(server: SocketAddr, zones: Vec<Name>, serial: Option<u32>, parallel: usize) -> PullResult {
    let pull = PullConfig { server, zones, serial, parallel, timeout: Duration::from_secs(5), tls: None, key: None };
    pull.run(&AtomicBool::new(false))
}

/// A query as it is sent over TCP.
fn framed_query(name: &str, qtype: Rtype) -> Vec<u8> {
    frame(&Message::query(name.parse().expect("a literal"), qtype).to_wire())
}

/// The next message of the stream.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).expect("a response");
    let mut message = vec![0; u16::from_be_bytes(len).into()];
    stream.read_exact(&mut message).expect("a response");
    message
}

#[test]
fn zones_are_transferred_and_counted() {
    let zones: Vec<_> = (0..20).map(|number| zone(&format!("z{number}.example"), number * 50)).collect();
    let names: Vec<Name> = zones.iter().map(|(name, _)| name.clone()).collect();
    let records: u64 = zones.iter().map(|(_, encoded)| encoded.records).sum();
    let (server, stop, primary) = serve(primary(zones));
    let result = pull(server, names.clone(), None, 1);
    assert_eq!((result.zones, result.failed, result.records, result.connections), (20, 0, records, 1));
    assert!(result.messages > 20 && result.largest_message <= 16_000 && result.first_byte_s > 0.0, "{result:?}");
    let result = pull(server, names.clone(), Some(3), 4);
    assert_eq!((result.zones, result.records), (20, records), "whole zones in response to IXFR");
    let missing = vec!["other.example".parse().expect("a literal"), names[3].clone()];
    let result = pull(server, missing, None, 1);
    assert_eq!((result.zones, result.failed), (1, 1));
    assert_eq!(result.failures, ["other.example.: the response is REFUSED"]);
    stop.store(true, Ordering::Relaxed);
    let counters = primary.join().expect("no panic");
    assert_eq!((counters.zones.load(Ordering::Relaxed), counters.refused.load(Ordering::Relaxed)), (41, 1));
}

#[test]
fn soa_queries_are_answered_over_udp() {
    let (server, stop, primary) = serve(primary([zone("example.org", 1)]));
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

/// RFC 5936 2.2.2: the question is copied from the query; 3.4: owners keep the case of the zone.
#[test]
fn rfc_5936_2_2_2_the_question_has_the_case_of_the_query_and_owners_that_of_the_zone() {
    let (server, stop, primary) = serve(primary([zone("Example.org", 3)]));
    for qtype in [Rtype::SOA, Rtype::AXFR, Rtype::IXFR] {
        let query = framed_query("eXAMPLE.ORg", qtype);
        let mut stream = TcpStream::connect(server).expect("loopback");
        stream.write_all(&query).expect("loopback");
        let response = receive(&mut stream);
        let question = 12..12 + 13 + 4;
        assert_eq!(response[question.clone()], query[2..][question], "{qtype}");
        for record in Message::parse(&response).expect("well-formed").answer {
            assert!(record.owner.wire().ends_with(b"\x07Example\x03org\0"), "{qtype}: {}", record.owner);
        }
    }
    stop.store(true, Ordering::Relaxed);
    primary.join().expect("no panic");
}

/// A primary may close the connection after each zone.
#[test]
fn a_connection_closed_by_the_server_is_reopened() {
    let (_, encoded) = zone("example.org", 3);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let server = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("loopback");
            let mut query = [0; 2 + 12 + 13 + 4];
            stream.read_exact(&mut query).expect("a query");
            let mut octets = encoded.stream.clone();
            octets[2..4].copy_from_slice(&query[2..4]);
            stream.write_all(&octets).expect("loopback");
        }
    });
    let name: Name = "example.org".parse().expect("a literal");
    let result = pull(server, vec![name; 5], None, 1);
    assert_eq!((result.zones, result.failed, result.connections), (5, 0, 5), "{result:?}");
}

/// A zone that changes, its secondary over UDP, and IXFR from any version: RFC 1995 and RFC 1996.
#[test]
fn rfc_1996_changes_are_notified_and_rfc_1995_transferred_incrementally() {
    let secondary = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    secondary.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
    let (apex, zone) = encode(ZoneEncoder { is_changing: true, tsig_len: 0 }, "example.org", "");
    let mut primary = primary([(apex.clone(), zone)]);
    let notify = vec![secondary.local_addr().expect("bound")];
    primary.change(ChangeConfig { every: Duration::from_millis(5), notify }).expect("loopback");
    let (server, stop, primary) = serve(primary);

    let mut octets = [0; 512];
    for _ in 0..3 {
        let (len, from) = secondary.recv_from(&mut octets).expect("a NOTIFY");
        let message = Message::parse(&octets[..len]).expect("well-formed");
        assert_eq!((message.opcode, &message.questions[0].name), (Opcode::NOTIFY, &apex));
        octets[2] |= 0x80;
        secondary.send_to(&octets[..len], from).expect("loopback");
    }
    let incremental = pull(server, vec![apex.clone()], Some(7), 1);
    assert_eq!((incremental.zones, incremental.failed), (1, 0), "{incremental:?}");
    // Two SOA records enclose four records for each version.
    assert!(incremental.records >= 2 + 4 * 3 && incremental.records % 4 == 2, "{incremental:?}");
    let whole = pull(server, vec![apex.clone()], Some(1), 1);
    assert_eq!((whole.zones, whole.records), (1, 4), "SOA, TXT, NS, SOA");
    stop.store(true, Ordering::Relaxed);
    let counters = primary.join().expect("no panic");
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((count(&counters.incremental), count(&counters.zones)), (1, 1));
    assert!(count(&counters.changes) >= 3 && count(&counters.notifies) >= count(&counters.changes));
    assert!(count(&counters.notifies_acknowledged) <= 3);
}

/// One thread serves many connections, also while one does not read its transfer.
#[test]
fn many_connections_are_served_while_one_is_stuck() {
    let (server, stop, primary) = serve(primary([zone("example.org", 60_000), zone("small.example", 1)]));
    let mut stuck = TcpStream::connect(server).expect("loopback");
    stuck.write_all(&framed_query("example.org", Rtype::AXFR).repeat(4)).expect("loopback");
    let mut others: Vec<_> = (0..300).map(|_| TcpStream::connect(server).expect("loopback")).collect();
    for other in &mut others {
        other.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        other.write_all(&framed_query("small.example", Rtype::AXFR)).expect("loopback");
    }
    for other in &mut others {
        assert_eq!(Message::parse(&receive(other)).expect("well-formed").answer.len(), 5);
    }
    stop.store(true, Ordering::Relaxed);
    let counters = primary.join().expect("no panic");
    assert_eq!(counters.zones.load(Ordering::Relaxed), 300);
    assert_eq!(counters.connections.load(Ordering::Relaxed), 301);
}
