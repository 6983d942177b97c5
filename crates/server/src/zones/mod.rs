//! The registry: which zones there are, from which files, and what is published of them. One thread owns it.
//!
//! [`Zones::take`] is the load at the start and every reload: it compares what is to be served with what is, reads the
//! files that changed, and publishes the difference. A zone that fails keeps the version served before.

pub mod load;
mod options;
pub mod progress;
pub mod spread;
mod stamp;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::served::{Access, Content, Served, ServedZone};
use answer::{Publisher, Reader};
use tracing::info;
use zone::Zone;

use crate::config::{Server, ZoneConfig, ZonePolicy};
use crate::notify::Notifier;
use crate::report::{Change, Finding, Report, ZoneReport};
use load::Loaded;
use options::Options;
use progress::Progress;
use stamp::Stamp;

/// The zones of this daemon.
pub struct Zones {
    /// By the octets of the name, as in [`crate::config::Config`].
    entries: Vec<Entry>,
    publisher: Publisher<Served>,
    options: Options,
    /// What is read at a time.
    threads: usize,
    /// Whether the load at the start is done: before, that a zone is new is nothing to tell.
    is_started: bool,
}

/// A zone, with what tells whether it must be read again.
struct Entry {
    config: ZoneConfig,
    stamp: Stamp,
    includes: Box<[PathBuf]>,
}

/// During a long load what is ready is served in such steps: a step costs microseconds.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

/// How much longer than a line of progress systemd is to wait for the next, in seconds.
const PATIENCE_S: u64 = 60;

impl Zones {
    /// The zones of a configuration, none of them loaded: they are answered with SERVFAIL until [`Zones::take`] is done.
    pub fn new(zones: &[ZoneConfig], server: &Server) -> Zones {
        let options = Options::new(server);
        let mut served = Served { options: options.current(server), ..Served::default() };
        let mut accesses = Accesses::default();
        for zone in zones {
            served.zones.insert(missing(zone, accesses.of(&zone.policy)));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Zones { entries: Vec::new(), publisher: Publisher::new(served), options, threads, is_started: false }
    }

    /// For one more thread that answers.
    pub fn reader(&self) -> Reader<Served> {
        self.publisher.reader()
    }

    /// How many zones there are, loaded or not.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Frees versions that no thread reads any more.
    pub fn reclaim(&mut self) {
        self.publisher.reclaim();
    }

    /// Answers by these settings from now on.
    pub fn take_settings(&mut self, server: &Server) {
        let options = self.options.current(server);
        let served = Served { options, ..self.served() };
        self.publisher.publish(served);
    }

    /// Serves these zones from now on; reads those whose files have changed. `zones` is ordered by the octets of names.
    pub fn take(&mut self, zones: Vec<ZoneConfig>, notifier: &Notifier) -> Report {
        let before = self.publisher.current();
        let mut report = Report::default();
        self.take_configs(zones, &mut report);
        self.read_changed(&before, notifier, &mut report);
        report.zones.sort_by(|a, b| a.zone.cmp(&b.zone));
        report.unchanged = self.entries.len() - report.zones.iter().filter(|zone| zone.change != Change::Removed).count();
        self.is_started = true;
        report
    }

    fn served(&self) -> Served {
        (*self.publisher.current()).clone()
    }

    /// Adds what is new, removes what is gone, takes over who may transfer; reads nothing.
    fn take_configs(&mut self, zones: Vec<ZoneConfig>, report: &mut Report) {
        let mut served = self.served();
        let mut accesses = Accesses::default();
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        self.entries.reserve_exact(zones.len());
        for config in zones {
            let is_gone = |old: &Entry| old.config.name.wire() < config.name.wire();
            while let Some(gone) = old.next_if(is_gone) {
                remove(&mut served, &gone, report);
            }
            let access = accesses.of(&config.policy);
            let entry = match old.next_if(|old| old.config.name == config.name) {
                Some(old) => kept(&mut served, old, config, access, report),
                None => {
                    served.zones.insert(missing(&config, access));
                    Entry { config, stamp: Stamp::NONE, includes: Box::default() }
                }
            };
            self.entries.push(entry);
        }
        old.for_each(|gone| remove(&mut served, &gone, report));
        self.publisher.publish(served);
    }

    /// Reads the zones whose files are not as they were, and publishes them as they come.
    fn read_changed(&mut self, before: &Served, notifier: &Notifier, report: &mut Report) {
        let progress = Progress::new(self.entries.len());
        let entries = &self.entries;
        let job = |number: usize, turn| {
            let Entry { config, stamp, includes } = &entries[number];
            let Some(file) = config.file() else { return Some(None) };
            let files = std::iter::once(file.as_path()).chain(includes.iter().map(PathBuf::as_path));
            if *stamp != Stamp::NONE && Stamp::of_now(files) == *stamp {
                progress.count_zone();
                return Some(None);
            }
            load::load(config, content(before, config), turn, &progress).map(Some)
        };
        let mut served = (*self.publisher.current()).clone();
        let mut published = Instant::now();
        let mut news = Vec::new();
        let publisher = &mut self.publisher;
        let is_started = self.is_started;
        let take = |number: usize, loaded: Option<Loaded>| {
            let Some(mut loaded) = loaded else { return };
            let config = &entries[number].config;
            let change = publish_zone(&mut served, config, content(before, config), &mut loaded);
            report.zones.extend(change.filter(|change| is_started || *change != Change::Added || !loaded.findings.is_empty()).map(|change| zone_report(config, content(before, config), change, &loaded)));
            news.push((number, loaded.stamp, loaded.includes));
            if published.elapsed() >= PUBLISH_EVERY {
                publisher.publish(served.clone());
                published = Instant::now();
            }
        };
        let tell = |line: &str| {
            info!("{line}");
            notifier.status(line, PATIENCE_S);
        };
        progress.show_during(tell, || spread::spread(entries.len(), self.threads, job, take));
        self.publisher.publish(served);
        for (number, stamp, includes) in news {
            let entry = &mut self.entries[number];
            (entry.stamp, entry.includes) = (stamp, includes);
        }
    }
}
