//! Runs a simulation with many seeds, on all processors.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The seeds that `make simulate` runs: `SEEDS` is their number, or a range like `41..42`; without it, `otherwise` so many.
pub fn seeds(otherwise: u64) -> Range<u64> {
    let number = |text: &str| text.parse().expect("SEEDS has numbers");
    let Ok(seeds) = std::env::var("SEEDS") else { return 0..otherwise };
    match seeds.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => 0..number(&seeds),
    }
}

/// Runs all seeds and returns their results in order. No other seed begins after one has failed; panics with that one.
pub fn run_all<T: Send>(seeds: &Range<u64>, run: impl Fn(u64) -> Result<T, String> + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let work = || {
        let mut results = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return results;
            }
            let _name = SeedName(seed);
            match run(seed) {
                Ok(result) => results.push((seed, result)),
                Err(error) => {
                    next.store(seeds.end, Ordering::Relaxed);
                    panic!("seed {seed}: {error}");
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let mut results: Vec<(u64, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("every seed succeeds")).collect()
    });
    results.sort_unstable_by_key(|(seed, _)| *seed);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Prints the seed if the code under test panics.
struct SeedName(u64);

impl Drop for SeedName {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("in seed {}", self.0);
        }
    }
}
