//! The registry: which zones there are, from which files, and what is published of them. One thread owns it.
//!
//! [`Zones::configure`] compares what is to be served with what is; [`Zones::load`] reads the files that changed and
//! publishes the difference. A zone that fails keeps the version served before.

pub mod load;
mod options;
pub mod progress;
mod round;
pub mod spread;
mod stamp;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use answer::{Access, Content, Prefix, Publisher, Reader, Served, ServedZone};
use tracing::info;
use wire::Name;

use crate::config::{Server, ZoneConfig, ZonePolicy, ZoneSource};
use crate::notify::Notifier;
use crate::report::{Change, Report, ZoneReport};
use load::{Aim, Loaded, load};
use options::Secret;
use progress::Progress;
use round::{Round, zone_report};
use spread::Turn;
use stamp::Stamp;

/// The zones of this daemon.
pub struct Zones {
    /// By the octets of the apex, as in [`crate::config::Config`].
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

/// A zone: what is served of it, and what tells whether it must be read again.
struct Entry {
    served: Arc<ServedZone>,
    source: ZoneSource,
    stamp: Stamp,
}

/// How much longer than a line of progress systemd is to wait for the next, in seconds.
const PATIENCE_S: u64 = 60;

impl Zones {
    /// No zones, and the settings. Fails when the system gives no random numbers.
    pub fn new(server: &Server) -> std::io::Result<Zones> {
        let secret = Secret::random()?;
        let options = options::options(server, &secret);
        Ok(Zones {
            entries: Vec::new(),
            includes: HashMap::new(),
            publisher: Publisher::new(Served { options, ..Served::default() }),
            secret,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            is_started: false,
        })
    }

    /// For one more thread that answers.
    pub fn reader(&self) -> Reader<Served> {
        self.publisher.reader()
    }

    /// How many zones are served, and how many are answered with SERVFAIL.
    pub fn counts(&self) -> (usize, usize) {
        let served = self.entries.iter().filter(|entry| entry.served.zone().is_some()).count();
        (served, self.entries.len() - served)
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

    /// Adds what is new, answered with SERVFAIL until it is loaded; removes what is gone; takes over who may transfer.
    /// Reads nothing. Returns what became of zones that were there before.
    pub fn configure(&mut self, zones: Vec<ZoneConfig>) -> Vec<ZoneReport> {
        let mut served = Served::clone(&self.publisher.current());
        let (mut accesses, mut changes) = (Accesses::default(), Vec::new());
        let mut old = std::mem::take(&mut self.entries).into_iter().peekable();
        self.entries.reserve_exact(zones.len());
        // Old and new are both ordered by the octets of their names, so one walk through both does it.
        for config in zones {
            while let Some(gone) = old.next_if(|old| old.served.apex().wire() < config.name.wire()) {
                changes.push(self.remove(&mut served, &gone));
            }
            let access = accesses.of(&config.source.policy);
            self.entries.push(match old.next_if(|old| old.served.apex() == config.name.as_ref()) {
                None => Entry::new(&mut served, config, access),
                Some(entry) => entry.reconfigured(&mut served, config.source, access, &mut changes),
            });
        }
        changes.extend(old.map(|gone| self.remove(&mut served, &gone)));
        self.publisher.publish(served);
        changes
    }

    fn remove(&mut self, served: &mut Served, gone: &Entry) -> ZoneReport {
        let apex = gone.served.apex();
        self.includes.remove(&apex.to_owned());
        served.zones.remove(apex);
        zone_report(apex, Change::Removed)
    }

    /// Reads the zones whose files are not as they were, and publishes them as they come. `changes` are those that
    /// [`Zones::configure`] has told.
    pub fn load(&mut self, mut changes: Vec<ZoneReport>, notifier: &Notifier) -> Report {
        self.read_changed(notifier, &mut changes);
        changes.sort_by(|a, b| (&a.zone, a.change).cmp(&(&b.zone, b.change)));
        changes.dedup_by(|second, first| second.zone == first.zone);
        let touched = changes.iter().filter(|zone| zone.change != Change::Removed).count();
        self.is_started = true;
        Report { zones: changes, unchanged: self.entries.len() - touched, ..Report::default() }
    }

    fn read_changed(&mut self, notifier: &Notifier, changes: &mut Vec<ZoneReport>) {
        let progress = Progress::new(self.entries.len());
        let mut round = Round::new(&mut self.publisher, changes, self.is_started);
        let (entries, includes) = (&self.entries, &self.includes);
        let mut news = Vec::new();
        let tell = |line: &str| {
            info!("{line}");
            notifier.status(line, PATIENCE_S);
        };
        let job = |number: usize, turn| entries[number].read(includes, turn, &progress);
        progress.show_during(tell, || {
            spread::spread(entries.len(), self.threads, job, |number, loaded| {
                if let Read::Anew(loaded) = loaded {
                    let served = round.take(&entries[number].served, &loaded);
                    news.push((number, served, loaded.stamp, loaded.includes));
                }
            });
        });
        round.finish();
        for (number, served, stamp, includes) in news {
            let entry = &mut self.entries[number];
            match includes.is_empty() {
                true => self.includes.remove(&served.apex().to_owned()),
                false => self.includes.insert(served.apex().to_owned(), includes),
            };
            (entry.served, entry.stamp) = (served, stamp);
        }
    }
}

/// What a look at the files of a zone led to.
enum Read {
    /// They are as they were, or there are none.
    Not,
    /// They were read.
    Anew(Loaded),
}

impl Entry {
    fn new(served: &mut Served, config: ZoneConfig, transfer: Arc<Access>) -> Entry {
        let zone = Arc::new(ServedZone { content: Content::Missing(config.name), transfer });
        served.zones.insert(zone.clone());
        Entry { served: zone, source: config.source, stamp: Stamp::NONE }
    }

    /// The same zone from another source, with the content it has.
    fn reconfigured(
        self,
        served: &mut Served,
        source: ZoneSource,
        transfer: Arc<Access>,
        changes: &mut Vec<ZoneReport>,
    ) -> Entry {
        let is_read_alike = source.has_file_of(&self.source) && source.policy.checks == self.source.policy.checks;
        let stamp = if is_read_alike { self.stamp } else { Stamp::NONE };
        if source.policy == self.source.policy {
            return Entry { source, stamp, ..self };
        }
        let apex = self.served.apex();
        changes.push(zone_report(apex, Change::Settings));
        let content = match self.served.zone() {
            Some(zone) => Content::Zone(zone.clone()),
            None => Content::Missing(apex.to_owned()),
        };
        let zone = Arc::new(ServedZone { content, transfer });
        served.zones.insert(zone.clone());
        Entry { served: zone, source, stamp }
    }

    /// Reads the zone if it has a file, and that or one it includes is not as it was; `None` declines the turn.
    fn read(&self, includes: &HashMap<Name, Box<[PathBuf]>>, turn: Turn, progress: &Progress) -> Option<Read> {
        let apex = self.served.apex();
        let file = self.source.file(apex);
        let is_changed = |file: &Path| {
            let includes = if includes.is_empty() { None } else { includes.get(&apex.to_owned()) };
            let includes = includes.into_iter().flatten().map(PathBuf::as_path);
            self.stamp == Stamp::NONE || Stamp::of_now(std::iter::once(file).chain(includes)) != self.stamp
        };
        match file.filter(|file| is_changed(file)) {
            Some(file) => {
                let how = (Aim::Serve(self.served.zone()), self.source.policy.checks);
                load(apex, &file, how, turn, progress).map(Read::Anew)
            }
            None => {
                progress.count_zone();
                Some(Read::Not)
            }
        }
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
