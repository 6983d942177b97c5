//! The cost of one answer, without sockets. `cargo bench -p zonda-answer` prints nanoseconds; under callgrind
//! (`make bench`) the same program counts instructions, which do not depend on other load.
//!
//! Given a scenario and a number, it sends that many queries of the scenario and prints nothing.

use std::hint::black_box;
use std::iter;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use answer::{Request, Response, Served, ServedZone, Transport, WorkerState, ZoneState, prefetch, respond};
use wire::Name;
use zone::load::load_text;

const HEAD: &str = "@ 3600 SOA ns1 host 1 3600 900 604800 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

/// Queries and the zone they are for.
struct Scenario {
    name: &'static str,
    apex: &'static str,
    text: String,
    /// The names asked for, with their type.
    questions: Vec<(String, u16)>,
    dnssec: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    for scenario in scenarios() {
        match arguments.as_slice() {
            [] => scenario.time(),
            [name, count] if name == scenario.name => scenario.ask(count.parse().expect("a number")),
            _ => {}
        }
    }
}

impl Scenario {
    fn load(&self) -> Arc<Served> {
        let apex: Name = self.apex.parse().expect("a name");
        let outcome = load_text(apex.as_ref(), self.text.as_bytes());
        let zone = outcome.zone.unwrap_or_else(|| panic!("{:?}", outcome.findings));
        let mut served = Served::default();
        served.zones.insert(Arc::new(ServedZone::new(ZoneState::Loaded(zone), Arc::default())));
        Arc::new(served)
    }

    fn queries(&self) -> Vec<Vec<u8>> {
        self.questions.iter().map(|(name, rtype)| query(name, *rtype, self.dnssec)).collect()
    }

    fn ask(&self, count: usize) {
        let (served, queries) = (self.load(), self.queries());
        let mut scratch = WorkerState::new();
        let mut out = [0; answer::MAX_UDP];
        for number in 0..count {
            let message = &queries[number % queries.len()];
            prefetch(&served, &mut scratch, iter::once(message.as_slice()));
            black_box(answer(&served, &mut scratch, message, &mut out));
        }
    }

    fn time(&self) {
        let (served, queries) = (self.load(), self.queries());
        let mut scratch = WorkerState::new();
        let mut out = [0; answer::MAX_UDP];
        let mut best_ns = f64::MAX;
        let mut octets = 0;
        for _ in 0..7 {
            let start = Instant::now();
            octets = 0;
            for batch in queries.chunks(16) {
                prefetch(&served, &mut scratch, batch.iter().map(Vec::as_slice));
                for message in batch {
                    octets += black_box(answer(&served, &mut scratch, message, &mut out)).len();
                }
            }
            best_ns = best_ns.min(start.elapsed().as_secs_f64() * 1e9 / queries.len() as f64);
        }
        println!("{:20} {best_ns:8.1} ns {:6} octets", self.name, octets / queries.len());
    }
}

fn answer<'o>(served: &Arc<Served>, scratch: &mut WorkerState, message: &[u8], out: &'o mut [u8]) -> &'o [u8] {
    let ask = Request { message, peer: IpAddr::V4(Ipv4Addr::LOCALHOST), transport: Transport::Udp, now_s: 0 };
    let Response::Send(len) = respond(served, scratch, ask, out) else { panic!("no answer") };
    &out[..len]
}

fn query(name: &str, rtype: u16, dnssec: bool) -> Vec<u8> {
    let name: Name = name.parse().expect("a name");
    let mut message = vec![0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1];
    message.extend_from_slice(name.wire());
    message.extend_from_slice(&rtype.to_be_bytes());
    message.extend_from_slice(&[0, 1, 0, 0, 41, 4, 208, 0, 0, if dnssec { 0x80 } else { 0 }, 0, 0, 0]);
    message
}

/// A fixed sequence of numbers that looks random.
fn scramble(number: u32) -> u32 {
    (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

//----------- scenarios --------------------------------------------------------

fn scenarios() -> Vec<Scenario> {
    let tld = delegations(200_000);
    let asked = |format: fn(u32) -> String| (0..100_000).map(|n| (format(scramble(n) % 200_000), 1)).collect();
    let scenario = |name, questions| Scenario { name, apex: "tld.", text: tld.clone(), questions, dnssec: false };
    vec![
        root_referral(),
        scenario("referral", asked(|n| format!("www.domain{n}.tld."))),
        scenario("nxdomain", asked(|n| format!("nx{n}.tld."))),
        Scenario { text: hosts(200_000), ..scenario("positive", asked(|n| format!("host{n}.tld."))) },
        nsec3_denial(),
    ]
}

fn delegations(count: u32) -> String {
    let mut text = HEAD.to_owned();
    for n in 0..count {
        let provider = scramble(n) % 2000;
        text += &match n % 10 {
            0 => format!("domain{n} 3600 NS ns1.domain{n}\nns1.domain{n} 3600 A 10.1.{}.{}\n", n >> 8 & 255, n & 255),
            _ => format!("domain{n} 3600 NS ns1.provider{provider}.example.\n"),
        };
    }
    text
}

fn hosts(count: u32) -> String {
    (0..count).fold(HEAD.to_owned(), |text, n| text + &format!("host{n} 3600 A 10.0.{}.{}\n", n >> 8 & 255, n & 255))
}

/// A root of 500 delegations with glue.
fn root_referral() -> Scenario {
    let mut text = HEAD.to_owned();
    for n in 0..500 {
        for k in 0..4 {
            text += &format!("t{n} 3600 NS ns{k}.nic.t{n}\nns{k}.nic.t{n} 3600 A 10.0.0.{k}\n");
            text += &format!("ns{k}.nic.t{n} 3600 AAAA 2001:db8::{k}\n");
        }
    }
    let questions = (0..10_000).map(|n| (format!("www{n}.t{}.", scramble(n) % 500), 1)).collect();
    Scenario { name: "root referral", apex: ".", text, questions, dnssec: false }
}

/// A zone with a chain of NSEC3 records; the hashes are made up, so that any name is denied by three of them.
fn nsec3_denial() -> Scenario {
    let mut text = HEAD.to_owned();
    text += "@ 3600 NSEC3PARAM 1 0 0 -\n";
    let signature = "RRSIG NSEC3 13 2 300 20400101000000 20200101000000 1 tld. ";
    for n in 0..20_000u32 {
        let label = |n: u32| format!("{:05x}{}", n % 20_000 * 52, "0".repeat(27));
        text += &format!("{} 300 NSEC3 1 0 0 - {} A RRSIG\n", label(n), label(n + 1));
        text += &format!("{} 300 {signature}{}\n", label(n), "c2ln".repeat(21));
    }
    let questions = (0..50_000).map(|n| (format!("nx{n}.tld."), 1)).collect();
    Scenario { name: "nsec3 denial", apex: "tld.", text, questions, dnssec: true }
}
