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
    /// What will be published next.
    next: Served,
    publisher: &'r mut Publisher<Served>,
    published: Instant,
    changes: &'r mut Vec<ZoneReport>,
    /// Whether zones that are new and well are told of.
    tells_additions: bool,
}

/// During a long round what is ready is served in such steps: a step costs microseconds.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

impl<'r> Round<'r> {
    /// Goes on from what `publisher` has published.
    pub fn new(
        publisher: &'r mut Publisher<Served>,
        changes: &'r mut Vec<ZoneReport>,
        tells_additions: bool,
    ) -> Round<'r> {
        let next = Served::clone(&publisher.current());
        Round { next, publisher, published: Instant::now(), changes, tells_additions }
    }

    /// Serves what was read in the place of `old`, from now on or soon after; returns what is served then.
    pub fn take(&mut self, old: &Arc<ServedZone>, loaded: &Loaded) -> Arc<ServedZone> {
        self.tell(old, loaded);
        let Some(zone) = &loaded.zone else { return old.clone() };
        let content = Content::Zone(zone.clone());
        let new = Arc::new(ServedZone { content, transfer: old.transfer.clone() });
        self.next.zones.insert(new.clone());
        if self.published.elapsed() >= PUBLISH_EVERY {
            self.publisher.publish(self.next.clone());
            self.published = Instant::now();
        }
        new
    }

    /// Serves all that was taken.
    pub fn finish(self) {
        self.publisher.publish(self.next);
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
