//! The cost of the zone store: octets per record, nanoseconds per search, microseconds and octets per change.
//!
//! `cargo bench -p zonda-zone` prints all; with the argument `sizes` only the repeatable figures, which `make bench` compares with the
//! committed ones.

mod zone_texts;

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use wire::Name;
use zone::load::load_text;
use zone::tree::{Tree, TreeBuilder, TreeEdit};
use zone_texts::{HEAD, delegations, scramble, signed_delegations};

const COUNT: u32 = 2_000_000;

fn main() {
    let sizes_only = std::env::args().any(|argument| argument == "sizes");
    report("A records, octets a record", octets_a_record(&hosts(200_000)));
    report("delegations, octets a record", octets_a_record(&delegations(100_000)));
    report("signed delegations, octets a record", octets_a_record(&signed_delegations(20_000, octet)));
    let tree = build();
    report("tree, octets an entry", tree.as_ref().heap_size() as f64 / f64::from(COUNT));
    report_change(&tree, sizes_only);
    if !sizes_only {
        report_searches(&tree);
    }
}

fn report(name: &str, value: f64) {
    println!("{name:40} {value:.2}");
}

//----------- zones ------------------------------------------------------------

/// One A record per name.
fn hosts(count: u32) -> String {
    (0..count).fold(HEAD.to_owned(), |text, n| text + &format!("host{n} 3600 A 10.0.{}.{}\n", n >> 8 & 255, n & 255))
}

/// Few sequences of these octets differ, so that some NSEC3 owners have several records.
fn octet(n: u32) -> u8 {
    (scramble(n) >> 16) as u8
}

fn octets_a_record(text: &str) -> f64 {
    let apex: Name = "tld.".parse().expect("a name");
    let zone = load_text(apex.as_ref(), text.as_bytes()).zone.expect("a good zone");
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
        tree = tree.as_ref().apply(&[TreeEdit { key: key(scramble(n) % COUNT).into(), value: Some([9; 8].into()) }]);
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / f64::from(CHANGES);
    report("one change, octets allocated", (ALLOCATED.load(Ordering::Relaxed) - octets) as f64 / f64::from(CHANGES));
    if !sizes_only {
        report("one change, us", micros);
    }
    assert_eq!(
        pinned.as_ref().iter().filter(|entry| entry.value == [9; 8]).count(),
        0,
        "the pinned version is unchanged"
    );
}

fn report_searches(tree: &Tree) {
    let tree = tree.as_ref();
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
