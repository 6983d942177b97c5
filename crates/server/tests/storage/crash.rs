//! Crashes at every write, with every pattern of loss: what a sync acknowledged is there, and nothing that was never written.

use crate::simulated_disk::{Random, SyncSite};
use crate::world::World;

/// Runs random operations with several crashes. Returns the sites of syncs, or what was wrong.
fn run(seed: u64, ignored: Option<SyncSite>) -> Result<Vec<SyncSite>, String> {
    let mut world = World::new(seed);
    let mut random = Random::new(!seed);
    world.disk.ignore(ignored);
    for _ in 0..6 {
        world.disk.crash_in(Some(1 + random.below(60)));
        for _ in 0..400 {
            world.step()?;
            if world.disk.has_crashed() {
                break;
            }
        }
        let power_fails = !random.one_in(4);
        world.disk.crash_in(None);
        world.restart(power_fails)?;
        if random.one_in(2) {
            world.sync();
        }
    }
    Ok(world.disk.sites().into_keys().collect())
}

#[test]
fn what_was_acknowledged_survives_every_crash() {
    for seed in 0..3000 {
        run(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn no_sync_can_be_left_out() {
    let mut sites: Vec<_> = (0..200).flat_map(|seed| run(seed, None).expect("the test above")).collect();
    sites.sort_unstable();
    sites.dedup();
    assert_eq!(sites.len(), 6, "{sites:?}");
    let unnoticed: Vec<_> =
        sites.into_iter().filter(|site| (0..20_000).all(|seed| run(seed, Some(*site)).is_ok())).collect();
    assert!(unnoticed.is_empty(), "nothing depends on the syncs at {unnoticed:?}");
}
