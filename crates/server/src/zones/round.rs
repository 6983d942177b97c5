//! One round of loading: takes zones as they are read, publishes them in steps, and tells what became of each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::{Content, Publisher, Served, ServedZone};
use wire::NameRef;
use zone::Zone;

use super::load::Loaded;
use crate::report::{Change, Finding, ZoneReport};

/// A round under way.
pub struct Round<'r> {
    /// What is to be published next. It goes into the map all at once: zones stay and branches of the map are replaced
    /// with each step, so that in turns they would leave a heap full of holes.
    taken: Vec<Arc<ServedZone>>,
    /// How many zones went into the map.
    inserted: usize,
    publisher: &'r mut Publisher<Served>,
    begun: Instant,
    published: Instant,
    changes: &'r mut Vec<ZoneReport>,
    /// Whether zones that are new and well are told of.
    tells_additions: bool,
}

/// During a long round what is ready is served in steps: the first after this time, each later one when the round is
/// twice as old. A step costs a copy of every branch of the map that changes, so few are better.
const FIRST_STEP: Duration = Duration::from_millis(100);

/// A round that read more than one in so many of the zones may as well copy the map.
const COMPACT_SHARE: usize = 4;

impl<'r> Round<'r> {
    /// Goes on from what `publisher` has published.
    pub fn new(
        publisher: &'r mut Publisher<Served>,
        changes: &'r mut Vec<ZoneReport>,
        tells_additions: bool,
    ) -> Round<'r> {
        let begun = Instant::now();
        Round { taken: Vec::new(), inserted: 0, publisher, begun, published: begun, changes, tells_additions }
    }

    /// Serves what was read in the place of `old`, from now on or soon after; returns what is served then.
    pub fn take(&mut self, old: &Arc<ServedZone>, loaded: &Loaded) -> Arc<ServedZone> {
        self.tell(old, loaded);
        let Some(zone) = &loaded.zone else { return old.clone() };
        let content = Content::Zone(zone.clone());
        let new = Arc::new(ServedZone { content, transfer: old.transfer.clone() });
        self.taken.push(new.clone());
        if self.published.elapsed() >= FIRST_STEP.max(self.published - self.begun) {
            let next = self.next();
            self.publisher.publish(next);
            self.published = Instant::now();
        }
        new
    }

    /// Serves all that was taken.
    pub fn finish(mut self) {
        let mut next = self.next();
        if self.inserted > next.zones.len() / COMPACT_SHARE {
            next.zones = next.zones.compacted();
        }
        self.publisher.publish(next);
    }

    /// What is served now, with all that was taken since.
    fn next(&mut self) -> Served {
        let mut next = Served::clone(&self.publisher.current());
        self.inserted += self.taken.len();
        self.taken.drain(..).for_each(|zone| next.zones.insert(zone));
        next
    }

    fn tell(&mut self, old: &ServedZone, loaded: &Loaded) {
        let change = match (old.zone(), &loaded.zone) {
            (None, None) => Change::Failed,
            (Some(_), None) => Change::Kept,
            (None, Some(_)) if self.tells_additions || !loaded.findings.is_empty() => Change::Added,
            (Some(_), Some(_)) if loaded.is_changed => Change::Changed,
            _ => return,
        };
        let findings = loaded.findings.iter().map(|finding| Finding::new(finding, Some(old.apex())));
        self.changes.push(ZoneReport {
            old_serial: old.zone().map(Zone::serial),
            serial: loaded.zone.as_ref().or(old.zone()).map(Zone::serial),
            findings: findings.collect(),
            ..zone_report(old.apex(), change)
        });
    }
}

/// A report without serials and findings.
pub fn zone_report(apex: NameRef<'_>, change: Change) -> ZoneReport {
    ZoneReport { zone: apex.to_string(), change, old_serial: None, serial: None, findings: Vec::new() }
}
