//! What the tree costs: bytes an entry, nanoseconds a search, micro-seconds a change. `cargo bench -p zonda-zone`.

use std::hint::black_box;
use std::time::Instant;

use zone::tree::{Builder, Edit, Tree};

const COUNT: u32 = 1_000_000;

fn key(n: u32) -> Vec<u8> {
    format!("domain{n}\0").into_bytes()
}

fn build() -> (Tree, f64) {
    let mut keys: Vec<_> = (0..COUNT).map(key).collect();
    keys.sort();
    let start = Instant::now();
    let mut builder = Builder::default();
    for key in &keys {
        // A delegation whose NS set is shared: flags, type, TTL, form and the number of the set.
        builder.push(key, &[1, 2, 0, 0x80, key[6], key[7], 0]);
    }
    let tree = builder.finish();
    (tree, start.elapsed().as_secs_f64())
}

/// A fixed sequence of numbers that looks random.
fn scramble(n: u32) -> u32 {
    (u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn main() {
    let (tree, seconds) = build();
    println!("entries                     {COUNT}");
    println!("build, ns an entry          {:.1}", seconds * 1e9 / f64::from(COUNT));
    println!("memory, bytes an entry      {:.2}", tree.heap_size() as f64 / f64::from(COUNT));
    let probes: Vec<_> = (0..500_000).map(|n| [&key(scramble(n) % COUNT)[..], b"www\0"].concat()).collect();
    for (name, hit) in [("get, ns", true), ("seek below, ns", false)] {
        let start = Instant::now();
        for probe in &probes {
            match hit {
                true => drop(black_box(tree.get(&probe[..probe.len() - 4]))),
                false => drop(black_box(tree.seek(probe).entry())),
            }
        }
        println!("{name:27} {:.1}", start.elapsed().as_secs_f64() * 1e9 / probes.len() as f64);
    }
    let start = Instant::now();
    for n in 0..500_000 {
        black_box(tree.seek(&probes[n % 500]).entry());
    }
    println!("seek below, warm, ns        {:.1}", start.elapsed().as_secs_f64() * 1e9 / 500_000.0);
    let mut versions = vec![tree];
    let start = Instant::now();
    for n in 0..10_000 {
        let edit = Edit { key: key(scramble(n) % COUNT).into(), value: Some([9; 7].into()) };
        let next = versions[versions.len() - 1].apply(&[edit]);
        versions = vec![next];
    }
    println!("one change, us              {:.2}", start.elapsed().as_secs_f64() * 1e6 / 10_000.0);
}
