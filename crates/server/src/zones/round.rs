//! One round of loading: takes zones as they are read, publishes them in steps, and tells what became of each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::Publisher;
use answer::{Content, Served, ServedZone};
use zone::Zone;

use super::load::Loaded;
use crate::config::ZoneConfig;
use crate::report::{Change, Finding, Report, ZoneReport};

/// A round under way.
pub struct Round<'r> {
    /// What was served when it began.
    before: &'r Served,
    /// What will be published next.
    next: Served,
    publisher: &'r mut Publisher<Served>,
    published: Instant,
    report: &'r mut Report,
    /// Whether zones that are new and well are told of.
    tells_additions: bool,
}

/// During a long round what is ready is served in such steps: a step costs microseconds.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

impl<'r> Round<'r> {
    /// Goes on from what `publisher` has published.
    pub fn new(
        before: &'r Served,
        publisher: &'r mut Publisher<Served>,
        report: &'r mut Report,
        tells_additions: bool,
    ) -> Round<'r> {
        let next = Served::clone(&publisher.current());
        Round { before, next, publisher, published: Instant::now(), report, tells_additions }
    }

    /// Serves what was read from now on or soon after.
    pub fn take(&mut self, config: &ZoneConfig, loaded: &Loaded) {
        let old = zone(self.before, config);
        if let Some(new) = &loaded.zone {
            self.insert(config, new.clone());
        }
        let change = match (old, &loaded.zone) {
            (None, None) => Some(Change::Failed),
            (Some(_), None) => Some(Change::Kept),
            (None, Some(_)) => (self.tells_additions || !loaded.findings.is_empty()).then_some(Change::Added),
            (Some(_), Some(_)) => loaded.is_changed.then_some(Change::Changed),
        };
        if let Some(change) = change {
            let findings = loaded.findings.iter().map(|finding| Finding::new(finding, Some(&config.name)));
            self.report.zones.push(ZoneReport {
                old_serial: old.map(Zone::serial),
                serial: loaded.zone.as_ref().or(old).map(Zone::serial),
                findings: findings.collect(),
                ..zone_report(config, change)
            });
        }
        if self.published.elapsed() >= PUBLISH_EVERY {
            self.publisher.publish(self.next.clone());
            self.published = Instant::now();
        }
    }

    /// Serves all that was taken.
    pub fn finish(self) {
        self.publisher.publish(self.next);
    }

    fn insert(&mut self, config: &ZoneConfig, zone: Zone) {
        let transfer =
            self.next.zones.get(config.name.wire()).map(|served| served.transfer.clone()).unwrap_or_default();
        self.next.zones.insert(Arc::new(ServedZone { content: Content::Zone(zone), transfer }));
    }
}

/// The zone as it is served, if it is.
pub fn zone<'s>(served: &'s Served, config: &ZoneConfig) -> Option<&'s Zone> {
    served.zones.get(config.name.wire())?.zone()
}

/// A report without serials and findings.
pub fn zone_report(config: &ZoneConfig, change: Change) -> ZoneReport {
    ZoneReport { zone: config.name.to_string(), change, old_serial: None, serial: None, findings: Vec::new() }
}
