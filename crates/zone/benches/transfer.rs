//! The cost of an AXFR in either direction, without sockets: nanoseconds per record, the least of all rounds.
//!
//! `cargo bench -p zonda-zone --bench transfer -- [out|in] [signed] [ROUNDS]`; `signed`: of a signed TLD. Two runs with different ROUNDS
//! under callgrind give the instructions per record, which do not depend on the load of the machine.

mod zone_texts;

use std::hint::black_box;
use std::time::Instant;

use wire::Name;
use zone::Zone;
use zone::axfr::AxfrStream;
use zone::load::load_text;
use zone::transfer_receiver::{ReceiveStatus, Received, TransferLimits, TransferReceiver, TransferRequest};
use zone::zone_builder::ZoneBuilderOptions;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(5);
    let is_chosen = |what: &str| !arguments.iter().any(|other| other != what && ["out", "in"].contains(&&**other));
    let is_signed = arguments.iter().any(|argument| argument == "signed");
    let text = if is_signed { zone_texts::signed_delegations(100_000, octet) } else { delegations(200_000) };
    let zone = parse(&text);
    let records = zone.counts().records as f64;
    let stream = messages(&zone);
    println!("# {records} records, {:.2} octets each, {} messages", octets(&stream) as f64 / records, stream.len());
    if is_chosen("out") {
        println!("AXFR out, ns a record {:>10.2}", least_ns(rounds, || send(&zone)) / records);
    }
    if is_chosen("in") {
        println!("AXFR in, ns a record {:>11.2}", least_ns(rounds, || receive(&zone, &stream)) / records);
    }
}

fn least_ns(rounds: usize, mut work: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e9
    };
    (0..rounds).map(time).fold(f64::INFINITY, f64::min)
}

/// The TLD of `bench/transfers.py`: two NS records per name, a tenth of the names with glue.
fn delegations(count: u32) -> String {
    let mut text = zone_texts::HEAD.to_owned();
    for n in 0..count {
        let name = match n % 10 {
            0 => format!("domain{n}"),
            _ => format!("provider{}.example.", n.wrapping_mul(0x9e37_79b1) >> 21),
        };
        text += &format!("domain{n} 3600 NS ns1.{name}\ndomain{n} 3600 NS ns2.{name}\n");
        if n % 10 == 0 {
            text += &format!("ns1.domain{n} 3600 A 10.1.0.1\nns2.domain{n} 3600 A 10.2.0.1\n");
        }
    }
    text
}

/// Mixed so well that no two hashes of the signed TLD are equal.
fn octet(n: u32) -> u8 {
    let n = (n ^ n >> 16).wrapping_mul(0x7feb_352d);
    let n = (n ^ n >> 15).wrapping_mul(0x846c_a68b);
    (n ^ n >> 16) as u8
}

fn parse(text: &str) -> Zone {
    let apex: Name = "tld.".parse().expect("a name");
    load_text(apex.as_ref(), text.as_bytes()).zone.expect("a good zone")
}

/// The question `tld. IN AXFR`.
const QUESTION: &[u8] = b"\x03tld\0\0\xfc\0\x01";

fn send(zone: &Zone) {
    let mut out = vec![0; 65_535];
    let mut stream = AxfrStream::new(zone.clone(), [0, 0], QUESTION, &[]);
    while let Some(len) = stream.next_message(&mut out) {
        black_box(&out[..len]);
    }
}

fn messages(zone: &Zone) -> Vec<Vec<u8>> {
    let mut out = vec![0; 65_535];
    let mut stream = AxfrStream::new(zone.clone(), [0, 0], QUESTION, &[]);
    let mut next = || stream.next_message(&mut out).map(|len| out[..len].to_vec());
    std::iter::from_fn(&mut next).collect()
}

fn octets(messages: &[Vec<u8>]) -> usize {
    messages.iter().map(Vec::len).sum()
}

fn receive(zone: &Zone, messages: &[Vec<u8>]) {
    let request = TransferRequest { ixfr_from: None, not_before: None, is_udp: false };
    let options = ZoneBuilderOptions::default();
    let mut receiver = TransferReceiver::new(zone.apex(), request, TransferLimits::default(), options);
    let all_but_last = messages.iter().all(|message| receiver.receive(message).expect("good") == ReceiveStatus::More);
    assert!(!all_but_last, "the last message completes the transfer");
    assert!(matches!(black_box(receiver.finish()), Ok(Received::Full { .. })));
}
