//! Processes that are killed and machines that lose power at any write to the file: no acknowledged edit is lost.

use super::*;
use crate::simulated_disk::{Random, SimulatedDisk, SyncSite};

const ZONES: u64 = 4;
const STARTS: u64 = 40;

/// Runs a seed; syncs at the site `ignored` do nothing. Returns where the disk was synced, or what is wrong.
fn run(seed: u64, ignored: Option<SyncSite>) -> Result<Vec<SyncSite>, String> {
    let (disk, mut random) = (SimulatedDisk::default(), Random::new(seed));
    disk.ignore(ignored);
    // Which zones are added, as far as that is known.
    let mut known = [Some(false); ZONES as usize];
    for _ in 0..STARTS {
        disk.crash_in(Some(1 + random.below(15)));
        if random.one_in(4) {
            disk.fail_next_sync();
        }
        match AddedZonesFile::open(disk.clone()) {
            Ok((file, contents)) => edit(file, &contents, &mut known, &mut random)?,
            Err(_) if disk.has_crashed() => (),
            Err(error) => return Err(error.to_string()),
        }
        disk.crash_in(None);
        if !random.one_in(3) {
            disk.lose_power(&mut random);
        }
    }
    Ok(disk.sites().into_keys().collect())
}

/// Checks what was read, and adds and removes zones until the process ends.
fn edit(
    mut file: AddedZonesFile<SimulatedDisk>,
    contents: &Contents,
    known: &mut [Option<bool>],
    random: &mut Random,
) -> Result<(), String> {
    let name = |zone: usize| format!("zone{zone}.").parse::<wire::Name>().expect("a name");
    if contents.is_damaged {
        return Err("a crash is reported as damage".into());
    }
    for (zone, known) in known.iter_mut().enumerate() {
        let is_added = contents.zones.contains_key(&name(zone));
        if known.is_some_and(|known| known != is_added) {
            return Err(format!("zone {zone} is added: {is_added}"));
        }
        // What is served, and on disk, is as good as acknowledged.
        *known = known.or(file.is_synced.then_some(is_added));
    }
    for _ in 0..random.below(6) {
        let (zone, is_added, mut line) = (random.below(ZONES) as usize, random.one_in(2), String::new());
        let edit = if is_added { Edit::Add(name(zone), "t".into()) } else { Edit::Remove(name(zone)) };
        edit.append(&mut line);
        known[zone] = None;
        if file.append(&line).is_err() {
            break;
        }
        known[zone] = Some(is_added);
    }
    Ok(())
}

#[test]
fn no_sync_can_be_left_out() {
    let run_checked = |seed| run(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let mut sites: Vec<SyncSite> = (0..500).flat_map(run_checked).collect();
    sites.sort_unstable();
    sites.dedup();
    assert_eq!(sites.len(), 3, "{sites:?}");
    for site in sites {
        let noticed = (0..500).find_map(|seed| Some((seed, run(seed, Some(site)).err()?)));
        let (seed, error) = noticed.unwrap_or_else(|| panic!("nothing depends on the sync at {site:?}"));
        println!("without the sync at {site:?}, seed {seed}: {error}");
    }
}
