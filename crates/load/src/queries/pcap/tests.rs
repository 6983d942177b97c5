//! Reads captures that the tests write.

use super::*;
use crate::queries::{QueryEncoder, QueryTemplate};
use wire::{Class, Name, Rtype};

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
        let capture = read(&file, 53).expect("a capture");
        let found: Vec<_> = (0..capture.queries.len() as u32)
            .map(|number| (capture.queries.describe(number), capture.queries.origin(number).expect("captured")))
            .collect();
        let origin = |time_us: u64, client, is_tcp| CaptureOrigin { time_ns: time_us * 1000, client, is_tcp };
        assert_eq!(
            found,
            [
                ("u1.example. A".into(), origin(0, 0, false)),
                ("t1.example. A".into(), origin(60, 1, true)),
                ("t2.example. A".into(), origin(1_500_000, 1, true)),
                ("u3.example. A".into(), origin(1_500_001, 2, false)),
                ("u4.example. A".into(), origin(1_500_001, 0, false)),
            ]
        );
        assert_eq!((capture.unusable, capture.fragments), (1, 1));
        assert_eq!(capture.queries.at(0).message, query("u1.example"), "with EDNS");
    }
}

#[test]
fn truncated_files_are_read_and_other_formats_rejected() {
    for file in [pcap(&packets()), pcapng(&packets())] {
        for len in 4..file.len() {
            assert!(read(&file[..len], 53).is_ok());
        }
    }
    assert_eq!(read(b"GET / HTTP/1.1", 53).err(), Some(CaptureError::Magic));
    let mut other_link = pcap(&packets());
    other_link[23] = 105;
    assert_eq!(read(&other_link, 53).err(), Some(CaptureError::LinkType(105)));
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
    let capture = read(&pcap(&packets), 53).expect("a capture");
    assert_eq!((capture.queries.len(), capture.unusable), (1, 0));
}
