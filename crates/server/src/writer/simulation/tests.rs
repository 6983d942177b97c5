//! Runs seeds of the simulation.

use super::*;

/// The seeds that `make simulate` runs; fewer without it.
fn seeds(otherwise: u64) -> std::ops::Range<u64> {
    let seeds = std::env::var("SEEDS").ok().map(|seeds| seeds.parse().expect("SEEDS is a number"));
    0..seeds.unwrap_or(otherwise)
}

#[test]
fn every_secondary_equals_its_primary_in_the_end_and_no_acknowledged_update_is_lost() {
    let (mut total, mut slowest) = (Counts::default(), 0);
    let seeds = seeds(30);
    for seed in seeds.clone() {
        let (counts, _) = run(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        total.acknowledged += counts.acknowledged;
        total.crashes += counts.crashes;
        total.power_failures += counts.power_failures;
        total.reloads += counts.reloads;
        total.edits += counts.edits;
        if counts.ended_ms > total.ended_ms {
            (total.ended_ms, slowest) = (counts.ended_ms, seed);
        }
    }
    println!("{} seeds, of which {slowest} took longest: {total:?}", seeds.end);
    let per_seed = seeds.end as u32;
    assert!(total.acknowledged > 50 * per_seed && total.crashes > 4 * per_seed, "{total:?}");
    assert!(total.reloads > 3 * per_seed && total.edits > 3 * per_seed, "{total:?}");
}

/// Each sync is needed: without it, some seed loses what was acknowledged or finds damage. That a file of the store is removed for good
/// matters only after several crashes in a row with a compaction between them: `tests/storage/crash.rs` finds that one.
#[test]
fn no_sync_can_be_left_out() {
    let mut sites: Vec<SyncSite> = (0..8).flat_map(|seed| run(seed, None).expect("the test above").1).collect();
    sites.sort_unstable();
    sites.dedup();
    assert_eq!(sites.len(), 6, "{sites:?}");
    let mut unnoticed = sites.clone();
    for seed in 0..100 {
        unnoticed.retain(|site| run(seed, Some(*site)).is_ok());
        if unnoticed.len() <= 1 {
            break;
        }
    }
    let is_of_store = |(file, _): &SyncSite| file.ends_with("storage/store.rs");
    assert!(
        unnoticed.len() <= 1 && unnoticed.iter().all(is_of_store),
        "nothing depends on the syncs at {unnoticed:?}, of {sites:?}"
    );
}
