//! Answering allocates nothing, whatever is asked: counted by an allocator of this test's own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use answer::CookieSecrets;
use answer::RateLimitConfig;
use answer::{
    AnswerConfig, Request, Response, Served, ServedZone, Transport, WorkerState, ZoneState, prefetch, respond,
};
use wire::message::{Edns, EdnsOption, Message};
use wire::{Class, Name};
use zone::load::load_text;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts what each thread asks of it.
struct Counting;

// SAFETY: all is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(work: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

const RECORDS: &str = "
@ 60 IN SOA ns host 1 2 3 4 5
@ 60 NS ns
@ 60 DNSKEY 256 3 13 AAAA
ns 60 A 192.0.2.1
@ 60 MX 10 ns
_s._tcp 60 SRV 1 2 3 ns
alias 60 CNAME www.wild
*.wild 60 TXT t
moved 60 DNAME elsewhere.test.
cut 60 NS ns.cut
cut 60 NS NS.other.cut
cut 60 NS ns.sibling
ns.cut 60 A 192.0.2.2
ns.other.cut 60 AAAA 2001:db8::1
sibling 60 NS ns.sibling
ns.sibling 60 A 192.0.2.3
";

const NSEC: &str = "
@ 60 NSEC cut NS SOA MX DNSKEY NSEC
cut 60 NSEC @ NS NSEC
@ 60 RRSIG NSEC 13 1 60 20300101000000 20200101000000 1 @ AAAA
";

const NSEC3: &str = "
@ 60 NSEC3PARAM 1 0 5 aabb
0p9mhaveqvm6t7vbl5lop2u3t2rp3tom 60 NSEC3 1 1 5 aabb 2t7b4g4vsa5smi47k61mv5bv1a22bojr NS SOA
2t7b4g4vsa5smi47k61mv5bv1a22bojr 60 NSEC3 1 1 5 aabb 0p9mhaveqvm6t7vbl5lop2u3t2rp3tom A
";

fn served() -> Arc<Served> {
    let options = AnswerConfig {
        nsid: b"here".as_slice().into(),
        version: Some(b"1".as_slice().into()),
        cookies: Some(CookieSecrets(vec![[1; 16]])),
        rate_limit: Some(RateLimitConfig {
            responses_per_second: 1,
            slip: 2,
            ipv4_prefix_len: 24,
            ipv6_prefix_len: 56,
        }),
        ..AnswerConfig::default()
    };
    let mut served = Served { config: Arc::new(options), ..Served::default() };
    // Big enough to be fetched before it is searched.
    let hosts: String = (0..30_000).map(|n| format!("host{n} 60 A 192.0.2.1\n")).collect();
    for (apex, more) in [("plain.", ""), ("nsec.", NSEC), ("nsec3.", NSEC3), ("big.", &hosts)] {
        let apex: Name = apex.parse().expect("a name");
        let text = format!("{RECORDS}{more}");
        let outcome = load_text(apex.as_ref(), text.as_bytes());
        let zone = outcome.zone.unwrap_or_else(|| panic!("{:#?}", outcome.findings));
        assert_eq!(zone.is_big(), more == hosts, "{apex}");
        served.zones.insert(Arc::new(ServedZone::new(ZoneState::Loaded(zone), Arc::default())));
    }
    served
        .zones
        .insert(Arc::new(ServedZone::new(ZoneState::Unavailable("missing.".parse().expect("a name")), Arc::default())));
    Arc::new(served)
}

fn queries() -> Vec<Vec<u8>> {
    let mut queries = vec![Vec::new(), vec![0; 12], vec![0x28; 12]];
    let names =
        ["", "www.", "a.b.wild.", "wild.", "alias.", "x.moved.", "moved.", "_tcp.", "_s._tcp.", "www.cut.", "cut."];
    let names = names.iter().flat_map(|name| ["plain.", "nsec.", "nsec3.", "big."].map(|apex| format!("{name}{apex}")));
    for name in names.chain(["missing.", "refused.", "version.bind."].map(str::to_owned)) {
        for rtype in ["A", "MX", "NS", "DS", "SRV", "TXT", "SOA", "ANY", "RRSIG", "AXFR", "IXFR", "OPT"] {
            let query = Message::query(name.parse().expect("a name"), rtype.parse().expect("a type"));
            let cookie = EdnsOption { code: 10, data: vec![1; 8] };
            let options = [3, 9, 19].map(|code| EdnsOption { code, data: Vec::new() }).into_iter().chain([cookie]);
            let edns = Edns { dnssec_ok: true, payload: 1232, options: options.collect(), ..Edns::default() };
            let mut chaos = query.clone();
            chaos.questions[0].qclass = Class::CH;
            queries.extend([query.clone(), query.with_edns(edns), chaos].map(|query| query.to_wire()));
        }
    }
    queries
}

#[test]
fn answering_allocates_nothing() {
    let (served, queries) = (served(), queries());
    let mut scratch = WorkerState::new();
    let mut out = vec![0; usize::from(u16::MAX)];
    let mut ask = |message: &[u8], transport| {
        let ask = Request { message, peer: IpAddr::V4(Ipv4Addr::LOCALHOST), transport, now_s: 1_700_000_000 };
        prefetch(&served, &mut scratch, std::iter::once(message));
        assert!(!matches!(respond(&served, &mut scratch, ask, &mut out), Response::Stream(_)));
    };
    // The table of rate limits is made for the first answer that they are for.
    ask(&queries[3], Transport::Udp);
    // The first refused request of a batch is kept for the log.
    let refused = Message::query("plain.".parse().expect("a name"), "AXFR".parse().expect("a type"));
    ask(&refused.to_wire(), Transport::Tcp { idle_ds: 100 });
    for query in &queries {
        for transport in [Transport::Udp, Transport::Tcp { idle_ds: 100 }] {
            assert_eq!(allocations(|| ask(query, transport)), 0, "{query:?}");
        }
    }
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1]))), 1);
}
