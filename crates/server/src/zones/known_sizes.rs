//! Sizes of versions that were counted before: limits must not make every change of a large zone visit all of it.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use zone::{Counts, Zone, ZoneVersion};

/// Zones with fewer records are counted each time.
const MIN_RECORDS: u64 = 1000;
/// How many sizes are known at most: 100 kB. Then all are forgotten, and counted once more.
const MAX_KNOWN: usize = 4096;

/// No two versions of any zone have the same number, so that one table serves all zones and threads.
static KNOWN: LazyLock<Mutex<HashMap<ZoneVersion, Counts>>> = LazyLock::new(Mutex::default);

/// The size of a version; costs what differs from `base` if the size of that is known.
pub fn size_of(version: &Zone, base: Option<&Zone>) -> Counts {
    if let Some(counts) = known(version) {
        return counts;
    }
    let counts = match base.and_then(|base| Some((base, known(base)?))) {
        Some((base, counts)) => version.counts_after(base, counts),
        None => version.counts(),
    };
    if counts.records >= MIN_RECORDS {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(version.version(), counts);
    }
    counts
}

fn known(zone: &Zone) -> Option<Counts> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&zone.version()).copied()
}

#[cfg(test)]
mod tests {
    use wire::{Name, Rtype};
    use zone::CheckMode;
    use zone::change::{ChangeRules, ChangeSet};
    use zone::load::load_text;

    use super::*;

    fn zone(hosts: u32) -> Zone {
        let apex: Name = "known.example".parse().expect("a name");
        let hosts = (0..hosts).map(|host| format!("h{host} 60 A 192.0.2.1\n"));
        let text = format!("@ 60 SOA ns host 1 1 1 1 1\n@ 60 NS ns\n{}", hosts.collect::<String>());
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a good zone")
    }

    fn with_one_more(zone: &Zone) -> Zone {
        let (mut change, owner) = (ChangeSet::new(zone.apex()), "new.known.example".parse::<Name>().expect("a name"));
        change.add(owner.as_ref(), Rtype::A, 60, &[192, 0, 2, 2]).expect("it is in the zone");
        let rules = ChangeRules { check_mode: CheckMode::Lenient, nsec3_max_iterations: 150 };
        zone.apply(change, rules).expect("a good change").zone
    }

    #[test]
    fn a_change_is_counted_from_the_size_before() {
        let base = zone(2000);
        assert_eq!(size_of(&base, None), base.counts());
        let next = with_one_more(&base);
        assert_eq!(size_of(&next, Some(&base)), next.counts());
        // A wrong size shows that the rest of the zone is not visited.
        let wrong = Counts { names: 5000, records: 9000 };
        KNOWN.lock().expect("no panic").insert(next.version(), wrong);
        let last = with_one_more(&next);
        let added = last.counts().records - next.counts().records;
        assert_eq!(size_of(&last, Some(&next)), Counts { names: 5000, records: 9000 + added });
    }

    #[test]
    fn small_zones_are_not_remembered() {
        let zone = zone(10);
        size_of(&zone, None);
        assert_eq!(known(&zone), None);
    }
}
