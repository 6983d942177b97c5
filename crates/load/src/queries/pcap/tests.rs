//! Reads captures that the tests write.

use super::*;
use crate::queries::{QueryEncoder, QueryTemplate};
use wire::{Class, Name, Rtype};

/// The capture of port 53, unchanged.
fn read_all(file: &[u8]) -> Result<Capture, CaptureError> {
    read(file, 53, &QueryTemplate::default())
}

fn query(name: &str) -> Vec<u8> {
    let mut encoder = QueryEncoder::new(&QueryTemplate { edns: Some(512), ..QueryTemplate::default() });
    encoder.push(name.parse::<Name>().expect("a literal").as_ref(), Rtype::A, Class::IN);
    encoder.finish().at(0).message.to_vec()
}

fn udp(message: &[u8], source_port: u16, port: u16) -> (u8, Vec<u8>) {
    let len = (8 + message.len()) as u16;
    let header = [source_port.to_be_bytes(), port.to_be_bytes(), len.to_be_bytes(), [0, 0]].concat();
    (17, [&header, message].concat())
}

fn tcp(sequence: u32, flags: u8, octets: &[u8]) -> (u8, Vec<u8>) {
    let mut header = vec![0x30, 0x39, 0, 53];
    header.extend_from_slice(&sequence.to_be_bytes());
    header.extend_from_slice(&[0, 0, 0, 0, 0x60, flags, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    (6, [&header, octets].concat())
}

fn in_ipv4(last: u8, (protocol, carried): (u8, Vec<u8>), fragment: u16) -> Vec<u8> {
    let total = (20 + carried.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&total.to_be_bytes());
    packet.extend_from_slice(&[0, 0]);
    packet.extend_from_slice(&fragment.to_be_bytes());
    packet.extend_from_slice(&[64, protocol, 0, 0, 192, 0, 2, last, 198, 51, 100, 1]);
    [packet, carried].concat()
}

fn in_ipv6((protocol, carried): (u8, Vec<u8>)) -> Vec<u8> {
    let len = (8 + carried.len()) as u16;
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&len.to_be_bytes());
    packet.extend_from_slice(&[60, 64]);
    packet.extend_from_slice(&[0x20; 32]);
    // Destination options: the next header, no further length, padding.
    packet.extend_from_slice(&[protocol, 0, 1, 4, 0, 0, 0, 0]);
    [packet, carried].concat()
}

fn in_ethernet(ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
    // With padding, as network cards add to short frames.
    [&[0; 12][..], &[0x81, 0, 0, 7], &ethertype, packet, &[0; 6]].concat()
}

/// A pcap file of frames with their times in microseconds; big-endian.
fn pcap(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65535, 1].map(u32::to_be_bytes).concat();
    for (time_us, packet) in packets {
        let len = packet.len() as u32;
        file.extend([7 + time_us / 1_000_000, time_us % 1_000_000, len, len].map(u32::to_be_bytes).concat());
        file.extend(packet);
    }
    file
}

/// The same as pcapng, little-endian, with times in nanoseconds.
fn pcapng(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: Vec<u8>| {
        let len = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, &body, &len].concat()
    };
    let mut file = block(SECTION, [&0x1a2b_3c4du32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    file.extend(block(1, vec![1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]));
    for (time_us, packet) in packets {
        let time = 7_000_000_000 + u64::from(*time_us) * 1000;
        let fields = [0, (time >> 32) as u32, time as u32, packet.len() as u32, packet.len() as u32];
        let mut body = fields.map(u32::to_le_bytes).concat();
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        file.extend(block(6, body));
    }
    file
}
const SECTION: u32 = 0x0a0d_0d0a;

fn packets() -> Vec<(u32, Vec<u8>)> {
    let framed = |name: &str| [&(query(name).len() as u16).to_be_bytes()[..], &query(name)].concat();
    let stream = [framed("t1.example"), framed("t2.example")].concat();
    let v4 = |packet: Vec<u8>| in_ethernet([8, 0], &packet);
    let mut answer = query("a.example");
    answer[2] |= 0x80;
    vec![
        (0, v4(in_ipv4(1, udp(&query("u1.example"), 1000, 53), 0))),
        (10, v4(in_ipv4(9, tcp(99, 2, b""), 0))),
        (20, v4(in_ipv4(1, udp(&answer, 53, 1000), 0))),
        (30, v4(in_ipv4(1, udp(&answer, 1000, 53), 0))),
        (40, v4(in_ipv4(1, udp(&query("u2.example"), 1000, 53), 0x2000))),
        (50, v4(in_ipv4(9, tcp(100 + 30, 0x18, &stream[30..50]), 0))),
        (60, v4(in_ipv4(9, tcp(100, 0x18, &stream[..35]), 0))),
        (1_500_000, v4(in_ipv4(9, tcp(100 + 50, 0x18, &stream[50..]), 0))),
        (1_500_001, in_ethernet([0x86, 0xdd], &in_ipv6(udp(&query("u3.example"), 1000, 53)))),
        (1_500_001, v4(in_ipv4(1, udp(&query("u4.example"), 1000, 53), 0))),
    ]
}

#[test]
fn both_formats_yield_queries_with_their_origins() {
    for file in [pcap(&packets()), pcapng(&packets())] {
        let capture = read_all(&file).expect("a capture");
        let found: Vec<_> = (0..capture.queries.len() as u32)
            .map(|number| (capture.queries.describe(number), capture.queries.origin(number).expect("captured")))
            .collect();
        let origin = |time_us: u64, client, connection: Option<u32>| {
            let port = if connection.is_some() { 12345 } else { 1000 };
            CaptureOrigin { time_ns: time_us * 1000, client, port, connection }
        };
        assert_eq!(
            found,
            [
                ("u1.example. A".into(), origin(0, 0, None)),
                ("t1.example. A".into(), origin(60, 1, Some(0))),
                ("t2.example. A".into(), origin(1_500_000, 1, Some(0))),
                ("u3.example. A".into(), origin(1_500_001, 2, None)),
                ("u4.example. A".into(), origin(1_500_001, 0, None)),
            ]
        );
        assert_eq!((capture.unusable, capture.fragments), (1, 1));
        assert_eq!(capture.queries.at(0).message, query("u1.example"), "with EDNS");
        let held = CapturedConnection { client: 1, port: 12345, opened_ns: 10_000, closed_ns: None };
        assert_eq!(capture.queries.connections(), [held]);
    }
}

#[test]
fn truncated_files_are_read_and_other_formats_rejected() {
    for file in [pcap(&packets()), pcapng(&packets())] {
        for len in 4..file.len() {
            assert!(read_all(&file[..len]).is_ok());
        }
    }
    assert_eq!(read_all(b"GET / HTTP/1.1").err(), Some(CaptureError::Magic));
    let mut other_link = pcap(&packets());
    other_link[23] = 105;
    assert_eq!(read_all(&other_link).err(), Some(CaptureError::LinkType(105)));
}

#[test]
fn sequence_numbers_wrap_around_and_segments_repeat() {
    let framed = [&(query("w.example").len() as u16).to_be_bytes()[..], &query("w.example")].concat();
    let start = u32::MAX - 9;
    let packets: Vec<(u32, Vec<u8>)> = [
        tcp(start, 2, b""),
        tcp(start.wrapping_add(1), 0x18, &framed[..20]),
        tcp(start.wrapping_add(1), 0x18, &framed[..20]),
        tcp(start.wrapping_add(11), 0x18, &framed[10..]),
    ]
    .into_iter()
    .map(|segment| (0, in_ethernet([8, 0], &in_ipv4(3, segment, 0))))
    .collect();
    let capture = read_all(&pcap(&packets)).expect("a capture");
    assert_eq!((capture.queries.len(), capture.unusable), (1, 0));
}

/// A retransmission replaces the segment that waits, so it takes no further room, and its octets do not replace more.
#[test]
fn segments_that_wait_may_be_sent_again() {
    let framed = [&(query("w.example").len() as u16).to_be_bytes()[..], &query("w.example")].concat();
    let waiting = [&framed[20..], &framed[..], &vec![0; 900][..]].concat();
    let mut segments = vec![tcp(0, 2, b""), tcp(21, 0x18, &waiting)];
    segments.extend((0..14_000).map(|_| tcp(21, 0x18, &waiting[..20])));
    segments.push(tcp(1, 0x18, &framed[..20]));
    let packets: Vec<_> =
        segments.into_iter().map(|segment| (0, in_ethernet([8, 0], &in_ipv4(3, segment, 0)))).collect();
    assert_eq!(read_all(&pcap(&packets)).expect("a capture").queries.len(), 2);
}

const SYN: u8 = 2;
const ACK: u8 = 0x10;
const FIN: u8 = 0x11;
const RST: u8 = 4;

/// The connections of a capture of segments: milliseconds, client, sequence number, flags, octets.
fn connections_of(segments: &[(u32, u8, u32, u8, &[u8])]) -> Vec<(u32, u64, Option<u64>)> {
    let frame = |&(at_ms, client, sequence, flags, octets): &(u32, u8, u32, u8, &[u8])| {
        (at_ms * 1000, in_ethernet([8, 0], &in_ipv4(client, tcp(sequence, flags, octets), 0)))
    };
    let packets: Vec<_> = segments.iter().map(frame).collect();
    let capture = read_all(&pcap(&packets)).expect("a capture");
    let in_ms = |connection: &CapturedConnection| {
        (connection.client, connection.opened_ns / 1_000_000, connection.closed_ns.map(|ns| ns / 1_000_000))
    };
    capture.queries.connections().iter().map(in_ms).collect()
}

#[test]
fn connections_are_open_from_their_syn_to_their_fin_or_rst() {
    let framed = [&(query("w.example").len() as u16).to_be_bytes()[..], &query("w.example")].concat();
    let found = connections_of(&[
        (0, 1, 99, SYN, b""),
        (1, 1, 99, SYN, b""), // A retransmission.
        (2, 1, 100, ACK, b""),
        (3, 2, 500, ACK, &framed), // Older than the capture.
        (4, 3, 7, SYN, b""),       // A scan.
        (5, 3, 8, RST, b""),
        (10, 1, 100, ACK, &framed),
        (20, 1, 100 + framed.len() as u32, FIN, b""),
        (21, 1, 101 + framed.len() as u32, ACK, b""),
        (30, 1, 9000, SYN, b""), // The same port again.
        (31, 1, 9001, ACK, b""),
        (40, 1, 9001, RST, b""),
        (50, 4, 1, ACK, b""), // An older connection, idle.
    ]);
    assert_eq!(found, [(0, 0, Some(20)), (1, 3, None), (0, 30, Some(40))]);
}

#[test]
fn a_query_completed_after_the_fin_belongs_to_the_connection() {
    let framed = [&(query("w.example").len() as u16).to_be_bytes()[..], &query("w.example")].concat();
    let found = connections_of(&[
        (0, 1, 99, SYN, b""),
        (1, 1, 100, ACK, b""),
        (2, 1, 100 + framed.len() as u32, FIN, b""),
        (3, 1, 100, ACK, &framed),
    ]);
    assert_eq!(found, [(0, 0, Some(3))]);
}

#[test]
fn captured_queries_are_changed_as_the_template_says() {
    let template = QueryTemplate { dnssec_ok: 1.0, ..QueryTemplate::default() };
    let capture = read(&pcap(&packets()), 53, &template).expect("a capture");
    assert_eq!(capture.queries.len(), 5);
    for number in 0..5 {
        let edns = wire::Message::parse(capture.queries.at(number).message).expect("well-formed").edns;
        assert!(edns.is_some_and(|edns| edns.dnssec_ok && edns.payload == 512), "query {number}");
    }
}
