//! The cost of the zone store: octets per record, nanoseconds per search, microseconds and octets per change.
//!
//! `cargo bench -p zonda-zone` prints all; with the argument `sizes` only the repeatable figures, which `make bench` compares with the
//! committed ones.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use data_encoding::{BASE32_DNSSEC, BASE64, HEXLOWER};
use wire::Name;
use zone::load;
use zone::text::{self, Source};
use zone::tree::{Tree, TreeBuilder, TreeEdit};

const COUNT: u32 = 2_000_000;

fn main() {
    let sizes_only = std::env::args().any(|argument| argument == "sizes");
    report("A records, octets a record", octets_a_record(&hosts(200_000)));
    report("delegations, octets a record", octets_a_record(&delegations(100_000)));
    report("signed delegations, octets a record", octets_a_record(&signed_delegations(20_000)));
    let tree = build();
    report("tree, octets an entry", tree.heap_size() as f64 / f64::from(COUNT));
    report_change(&tree, sizes_only);
    if !sizes_only {
        report_searches(&tree);
    }
}

fn report(name: &str, value: f64) {
    println!("{name:40} {value:.2}");
}

//----------- zones ------------------------------------------------------------

const HEAD: &str = "@ 3600 SOA ns1 host 1 3600 900 604800 300\n@ 3600 NS ns1\nns1 3600 A 192.0.2.1\n";

/// One A record per name.
fn hosts(count: u32) -> String {
    (0..count).fold(HEAD.to_owned(), |text, n| text + &format!("host{n} 3600 A 10.0.{}.{}\n", n >> 8 & 255, n & 255))
}

/// A TLD: two NS records per name, a tenth of the names with glue.
fn delegations(count: u32) -> String {
    (0..count).fold(HEAD.to_owned(), |text, n| {
        let provider = scramble(n) % 2000;
        let names = if n % 10 == 0 { format!("domain{n}") } else { format!("provider{provider}.example.") };
        let text = text + &format!("domain{n} 3600 NS ns1.{names}\ndomain{n} 3600 NS ns2.{names}\n");
        if n % 10 > 0 {
            text
        } else {
            text + &format!("ns1.domain{n} 3600 A 10.1.0.1\nns2.domain{n} 3600 A 10.2.0.1\n")
        }
    })
}

/// A TLD signed with NSEC3 and opt-out: the delegations above, of which 40 % are signed.
fn signed_delegations(count: u32) -> String {
    let octets = |seed: u32, len: u32| -> Vec<u8> {
        (0..len).map(|at| (scramble(seed.wrapping_mul(977).wrapping_add(at)) >> 16) as u8).collect()
    };
    let signature = |seed, covered| {
        let octets = BASE64.encode(&octets(seed, 64));
        format!("3600 RRSIG {covered} 13 2 3600 20890101000000 20260101000000 12345 tld. {octets}\n")
    };
    let mut text = delegations(count) + "@ 0 NSEC3PARAM 1 0 0 -\n";
    let mut hashes = Vec::new();
    for n in (0..count).filter(|n| n % 10 < 4) {
        let digest = HEXLOWER.encode(&octets(n + count, 32));
        text += &format!("domain{n} 3600 DS {} 13 2 {digest}\ndomain{n} {}", n % 65536, signature(n, "DS"));
        hashes.push(BASE32_DNSSEC.encode(&octets(n + 2 * count, 20)));
    }
    hashes.sort();
    for (n, (hash, next)) in (0..).zip(hashes.iter().zip(hashes.iter().cycle().skip(1))) {
        text += &format!("{hash} 300 NSEC3 1 1 0 - {next} NS DS RRSIG\n{hash} {}", signature(n + 3 * count, "NSEC3"));
    }
    text
}

fn octets_a_record(text: &str) -> f64 {
    let apex: Name = "tld.".parse().expect("a name");
    let source = Source { name: "bench".into(), bytes: text.as_bytes() };
    let zone =
        load::load(source, &load::LoadOptions::new(text::ParseOptions::new(apex.as_ref()))).zone.expect("a good zone");
    zone.heap_size() as f64 / zone.counts().records as f64
}

//----------- the tree ---------------------------------------------------------

fn key(n: u32) -> Vec<u8> {
    format!("host{n}\0").into_bytes()
}

fn build() -> Tree {
    let mut keys: Vec<_> = (0..COUNT).map(key).collect();
    keys.sort();
    let start = Instant::now();
    let mut builder = TreeBuilder::default();
    for key in &keys {
        // One A record: flags, type, TTL, count, address.
        builder.push(key, &[0, 1, 0, 1, 10, 0, key[4], 0]);
    }
    let tree = builder.finish();
    println!("# build {:.1} ns an entry", start.elapsed().as_secs_f64() * 1e9 / f64::from(COUNT));
    tree
}

/// Applies single edits one after the other while a reader holds the first version.
fn report_change(pinned: &Tree, sizes_only: bool) {
    const CHANGES: u32 = 1000;
    let mut tree = pinned.clone();
    let (octets, start) = (ALLOCATED.load(Ordering::Relaxed), Instant::now());
    for n in 0..CHANGES {
        tree = tree.apply(&[TreeEdit { key: key(scramble(n) % COUNT).into(), value: Some([9; 8].into()) }]);
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(CHANGES);
    report("one change, octets allocated", (ALLOCATED.load(Ordering::Relaxed) - octets) as f64 / f64::from(CHANGES));
    if !sizes_only {
        report("one change, us", micros);
    }
    assert_eq!(pinned.iter().filter(|entry| entry.value == [9; 8]).count(), 0, "the pinned version is unchanged");
}

fn report_searches(tree: &Tree) {
    let probes: Vec<_> = (0..500_000).map(|n| [&key(scramble(n) % COUNT)[..], b"www\0"].concat()).collect();
    let per_probe = |start: Instant| start.elapsed().as_secs_f64() * 1e9 / probes.len() as f64;
    let start = Instant::now();
    for probe in &probes {
        black_box(tree.get(&probe[..probe.len() - 4]));
    }
    report("search for a name, ns", per_probe(start));
    let start = Instant::now();
    for probe in &probes {
        black_box(tree.seek(probe).entry());
    }
    report("search below a name, ns", per_probe(start));
    let start = Instant::now();
    for n in 0..probes.len() {
        black_box(tree.seek(&probes[n % 500]).entry());
    }
    report("search below a name, warm, ns", per_probe(start));
}

/// A fixed pseudo-random sequence.
fn scramble(n: u32) -> u32 {
    (u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

//----------- allocation counter -----------------------------------------------

static ALLOCATED: AtomicU64 = AtomicU64::new(0);

struct CountingAllocator;

// SAFETY: forwards both calls unchanged to the system allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `dealloc`; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: CountingAllocator = CountingAllocator;
