//! Runs seeds of the simulation.

use super::*;
use crate::simulated_seeds::{run_all, seeds};

#[test]
fn every_secondary_equals_its_primary_in_the_end_and_no_acknowledged_update_is_lost() {
    let (mut total, mut slowest) = (Counts::default(), 0);
    let seeds = seeds(30);
    let results = run_all(&seeds, |seed| run(seed, None));
    for (seed, (counts, _)) in seeds.clone().zip(results) {
        total.acknowledged += counts.acknowledged;
        total.crashes += counts.crashes;
        total.power_failures += counts.power_failures;
        total.reloads += counts.reloads;
        total.edits += counts.edits;
        total.wrong_clocks += counts.wrong_clocks;
        total.expired += counts.expired;
        total.handovers += counts.handovers;
        if counts.recovery_ms > total.recovery_ms {
            (total.recovery_ms, slowest) = (counts.recovery_ms, seed);
        }
    }
    println!("{} seeds, of which {slowest} took longest: {total:?}", seeds.end - seeds.start);
    let per_seed = (seeds.end - seeds.start) as u32;
    if per_seed < 30 {
        return;
    }
    assert!(total.acknowledged > 50 * per_seed && total.crashes > 4 * per_seed, "{total:?}");
    assert!(total.reloads > 3 * per_seed && total.edits > 3 * per_seed, "{total:?}");
    assert!(total.wrong_clocks > 0 && 3 * total.expired > per_seed && 5 * total.handovers > per_seed, "{total:?}");
}

/// Each sync is needed: without it, some seed loses what was acknowledged or finds damage. That a file of the store is removed for good
/// matters only after several crashes in a row with a compaction between them: `tests/storage/crash.rs` finds that one.
#[test]
fn no_sync_can_be_left_out() {
    let mut sites: Vec<SyncSite> = (0..8).flat_map(|seed| run(seed, None).expect("the test above").1).collect();
    sites.sort_unstable();
    sites.dedup();
    // `added_zones::crash_tests` leaves out those of the added zones, which are rarely written here.
    sites.retain(|(file, _)| file.contains("/storage/"));
    assert_eq!(sites.len(), 6, "{sites:?}");
    let mut unnoticed = sites.clone();
    for seed in 0..100 {
        unnoticed.retain(|site| match run(seed, Some(*site)) {
            Ok(_) => true,
            Err(error) => {
                println!("without the sync at {site:?}, seed {seed}: {error}");
                false
            }
        });
        if unnoticed.len() <= 1 {
            break;
        }
    }
    let is_of_store = |(file, _): &SyncSite| file.contains("storage/store");
    assert!(
        unnoticed.len() <= 1 && unnoticed.iter().all(is_of_store),
        "nothing depends on the syncs at {unnoticed:?}, of {sites:?}"
    );
}
