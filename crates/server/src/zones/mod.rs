//! The registry: which zones there are, from which files, and what is published of them. One thread owns it.
//!
//! [`Zones::take`] is the load at the start and every reload: it compares what is to be served with what is, reads the
//! files that changed, and publishes the difference. A zone that fails keeps the version served before.

pub mod load;
mod options;
pub mod progress;
mod round;
pub mod spread;
mod stamp;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use answer::{Access, Content, Prefix, Served, ServedZone};
use answer::{Publisher, Reader};
use tracing::info;
use wire::Name;

use crate::config::{Server, ZoneConfig, ZonePolicy};
use crate::notify::Notifier;
use crate::report::{Change, Report};
use load::{Aim, load};
use options::Secret;
use progress::Progress;
use round::Round;
use stamp::Stamp;

/// The zones of this daemon.
pub struct Zones {
    /// By the octets of the name, as in [`crate::config::Config`].
    entries: Vec<Entry>,
    /// The files that zone files include, for the few zones that have such.
    includes: HashMap<Name, Box<[PathBuf]>>,
    publisher: Publisher<Served>,
    secret: Secret,
    /// Threads to read with.
    threads: usize,
    /// Whether the load at the start is done; until then it is nothing to tell that a zone is new.
    is_started: bool,
}

/// A zone, with what tells whether it must be read again.
struct Entry {
    config: ZoneConfig,
    stamp: Stamp,
}

/// How much longer than a line of progress systemd is to wait for the next, in seconds.
const PATIENCE_S: u64 = 60;

impl Zones {
    /// The zones of a configuration, none of them loaded: they are answered with SERVFAIL until [`Zones::take`] has
    /// read them. Fails when the system gives no random numbers.
    pub fn new(zones: &[ZoneConfig], server: &Server) -> std::io::Result<Zones> {
        let secret = Secret::random()?;
        let mut served = Served { options: options::options(server, &secret), ..Served::default() };
        let mut accesses = Accesses::default();
        for zone in zones {
            served.zones.insert(missing(zone, accesses.of(&zone.policy)));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Zones {
            entries: Vec::new(),
            includes: HashMap::new(),
            publisher: Publisher::new(served),
            secret,
            threads,
            is_started: false,
        })
    }

    /// For one more thread that answers.
    pub fn reader(&self) -> Reader<Served> {
        self.publisher.reader()
    }

    /// How many zones are served, and how many are answered with SERVFAIL.
    pub fn counts(&self) -> (usize, usize) {
        let current = self.publisher.current();
        let served = current.zones.iter().filter(|zone| zone.zone().is_some()).count();
        (served, current.zones.len() - served)
    }

    /// Frees versions that no thread reads any more; returns how many are still read.
    pub fn reclaim(&mut self) -> usize {
        self.publisher.reclaim()
    }

    /// Answers by these settings from now on.
    pub fn take_settings(&mut self, server: &Server) {
        let options = options::options(server, &self.secret);
        let served = Served { options, ..Served::clone(&self.publisher.current()) };
        self.publisher.publish(served);
    }

    /// Serves these zones from now on and reads those whose files have changed.
    pub fn take(&mut self, zones: Vec<ZoneConfig>, notifier: &Notifier) -> Report {
        let before = self.publisher.current();
        let mut report = Report::default();
        self.take_configs(zones, &mut report);
        self.read_changed(&before, notifier, &mut report);
        report.zones.sort_by(|a, b| (&a.zone, a.change).cmp(&(&b.zone, b.change)));
        report.zones.dedup_by(|second, first| second.zone == first.zone);
        let touched = report.zones.iter().filter(|zone| zone.change != Change::Removed).count();
        report.unchanged = self.entries.len() - touched;
        self.is_started = true;
        report
    }

    /// Adds what is new, removes what is gone, takes over who may transfer; reads nothing. Old and new are both ordered
    /// by the octets of their names, so one walk through both does it.
    fn take_configs(&mut self, zones: Vec<ZoneConfig>, report: &mut Report) {
        let mut served = Served::clone(&self.publisher.current());
        let mut accesses = Accesses::default();
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        self.entries.reserve_exact(zones.len());
        for config in zones {
            while let Some(gone) = old.next_if(|old| old.config.name.wire() < config.name.wire()) {
                self.remove(&mut served, &gone.config, report);
            }
            let access = accesses.of(&config.policy);
            let before = old.next_if(|old| old.config.name == config.name);
            match &before {
                None => served.zones.insert(missing(&config, access)),
                Some(before) if before.config.policy == config.policy => (),
                Some(_) => give_access(&mut served, &config, access, report),
            }
            self.entries.push(match before {
                Some(before) if before.config.has_file_of(&config) => Entry { config, ..before },
                _ => Entry { config, stamp: Stamp::NONE },
            });
        }
        old.for_each(|gone| self.remove(&mut served, &gone.config, report));
        self.publisher.publish(served);
    }

    fn remove(&mut self, served: &mut Served, config: &ZoneConfig, report: &mut Report) {
        self.includes.remove(&config.name);
        served.zones.remove(config.name.as_ref());
        report.zones.push(round::zone_report(config, Change::Removed));
    }

    /// Reads the zones whose files are not as they were, and publishes them as they come.
    fn read_changed(&mut self, before: &Served, notifier: &Notifier, report: &mut Report) {
        let progress = Progress::new(self.entries.len());
        let mut round = Round::new(before, &mut self.publisher, report, self.is_started);
        let (entries, includes) = (&self.entries, &self.includes);
        let mut news = Vec::new();
        let tell = |line: &str| {
            info!("{line}");
            notifier.status(line, PATIENCE_S);
        };
        let job = |number: usize, turn| {
            let entry: &Entry = &entries[number];
            if !entry.is_changed(includes.get(&entry.config.name).map_or(&[], |files| &**files)) {
                progress.count_zone();
                return Some(None);
            }
            load(&entry.config, Aim::Serve(round::zone(before, &entry.config)), turn, &progress).map(Some)
        };
        progress.show_during(tell, || {
            spread::spread(entries.len(), self.threads, job, |number, loaded| {
                if let Some(loaded) = loaded {
                    round.take(&entries[number].config, &loaded);
                    news.push((number, loaded.stamp, loaded.includes));
                }
            });
        });
        round.finish();
        for (number, stamp, includes) in news {
            let entry = &mut self.entries[number];
            entry.stamp = stamp;
            match includes.is_empty() {
                true => self.includes.remove(&entry.config.name),
                false => self.includes.insert(entry.config.name.clone(), includes),
            };
        }
    }
}

impl Entry {
    /// Whether the zone has a file, and that or one it includes is not as it was when it was read.
    fn is_changed(&self, includes: &[PathBuf]) -> bool {
        let Some(file) = self.config.file() else { return false };
        let files = || std::iter::once(file.as_path()).chain(includes.iter().map(PathBuf::as_path));
        self.stamp == Stamp::NONE || Stamp::of_now(files()) != self.stamp
    }
}

//----------- what is published ----------------------------------------------------

/// The addresses that may transfer a zone, shared by the zones with one policy.
#[derive(Default)]
struct Accesses(HashMap<Arc<ZonePolicy>, Arc<Access>>);

impl Accesses {
    fn of(&mut self, policy: &Arc<ZonePolicy>) -> Arc<Access> {
        if let Some(access) = self.0.get(policy) {
            return access.clone();
        }
        let prefixes = policy.allow_transfer.iter();
        let prefixes = prefixes.map(|prefix| Prefix { address: prefix.address, len: prefix.length });
        let access = Arc::new(Access(prefixes.collect()));
        self.0.insert(policy.clone(), access.clone());
        access
    }
}

fn missing(config: &ZoneConfig, transfer: Arc<Access>) -> Arc<ServedZone> {
    Arc::new(ServedZone { content: Content::Missing(config.name.clone()), transfer })
}

fn give_access(served: &mut Served, config: &ZoneConfig, transfer: Arc<Access>, report: &mut Report) {
    let content = match round::zone(served, config) {
        Some(zone) => Content::Zone(zone.clone()),
        None => Content::Missing(config.name.clone()),
    };
    served.zones.insert(Arc::new(ServedZone { content, transfer }));
    report.zones.push(round::zone_report(config, Change::Settings));
}
