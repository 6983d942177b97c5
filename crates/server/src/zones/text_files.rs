//! Text files of zones that are written on request (`write-file`), for zones that come from elsewhere: a copy to read, or to begin with.
//!
//! One thread writes them, one after the other, and each at most every [`MIN_INTERVAL`]: a zone that changes all the time costs no
//! more than that. A file is replaced as a whole, so that a reader sees all of one version. One that cannot be written is tried again
//! later, even if the zone does not change: a disk may be full for a while.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{info, warn};
use zone::Zone;
use zone::export::TextExport;

use crate::printable::printable_path;
use crate::replace_file::replace_file;
use crate::write_help::write_help;
use crate::zone_id::ZoneId;

/// The time between two versions of one file.
pub const MIN_INTERVAL: Duration = Duration::from_secs(5);

/// The time before another attempt to write a file that could not be written.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// How long the thread waits for work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes text files.
pub struct TextFiles(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    retry_interval: Duration,
}

#[derive(Default)]
struct Queue {
    /// The latest version of each zone that is to be written.
    waiting: HashMap<ZoneId, WaitingText>,
    /// When to write them; at least one entry for each.
    order: BinaryHeap<Reverse<(Instant, ZoneId)>>,
    /// When files were written, those of the last interval.
    written: HashMap<ZoneId, Instant>,
    has_thread: bool,
}

struct WaitingText {
    path: PathBuf,
    version: Zone,
    /// It could not be written before.
    is_retry: bool,
}

impl Default for TextFiles {
    fn default() -> TextFiles {
        TextFiles::new(RETRY_INTERVAL)
    }
}

impl TextFiles {
    fn new(retry_interval: Duration) -> TextFiles {
        TextFiles(Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new(), retry_interval }))
    }

    /// Drops the version of a zone that waits: the zone was removed, or has another file.
    pub fn forget(&self, zone: ZoneId) {
        self.0.lock().waiting.remove(&zone);
    }

    /// Writes this version soon, unless a later one comes before.
    pub fn write(&self, zone: ZoneId, path: PathBuf, version: Zone) {
        let mut queue = self.0.lock();
        let replaced = queue.waiting.insert(zone, WaitingText { path, version, is_retry: false });
        // A later version does not wait for a retry.
        if replaced.is_none_or(|replaced| replaced.is_retry) {
            let now = Instant::now();
            let due = queue.written.get(&zone).map_or(now, |written| now.max(*written + MIN_INTERVAL));
            queue.order.push(Reverse((due, zone)));
        }
        if !queue.has_thread {
            let shared = self.0.clone();
            match std::thread::Builder::new().name("zone-text".into()).spawn(move || shared.run()) {
                Ok(_) => queue.has_thread = true,
                // The next version tries again.
                Err(error) => warn!(%error, "cannot start a thread to write zone text"),
            }
        }
        self.0.wake.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut failed = HashSet::new();
        while let Some((zone, WaitingText { path, version, .. })) = self.next() {
            let apex = version.apex().to_owned();
            let written = replace_file(&path, 0o644, |file| TextExport::new(version.clone()).write_to(file));
            if written.is_err() {
                self.retry(zone, path.clone(), version);
            }
            match written {
                Ok(()) if failed.remove(&zone) => {
                    info!(zone = %apex, "the text is written to {} again", printable_path(&path));
                }
                Ok(()) => (),
                // Once, as it probably fails again with every attempt.
                Err(error) if failed.insert(zone) => {
                    let help = write_help(&error, "its folder");
                    warn!(zone = %apex, "the text cannot be written to {}: {error} (help: {help})", printable_path(&path));
                }
                Err(_) => (),
            }
        }
    }

    /// Writes this version again later, unless a later one comes before.
    fn retry(&self, zone: ZoneId, path: PathBuf, version: Zone) {
        let mut queue = self.lock();
        let Entry::Vacant(entry) = queue.waiting.entry(zone) else { return };
        entry.insert(WaitingText { path, version, is_retry: true });
        queue.order.push(Reverse((Instant::now() + self.retry_interval, zone)));
    }

    /// Waits for the next file to write; `None` if there was none for long.
    fn next(&self) -> Option<(ZoneId, WaitingText)> {
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            let wait = match queue.order.peek() {
                Some(Reverse((due, _))) if *due <= now => {
                    let Reverse((_, zone)) = queue.order.pop()?;
                    queue.written.retain(|_, written| now < *written + MIN_INTERVAL);
                    let Some(text) = queue.waiting.remove(&zone) else { continue };
                    queue.written.insert(zone, now);
                    return Some((zone, text));
                }
                Some(Reverse((due, _))) => *due - now,
                None => IDLE_TIMEOUT,
            };
            let (guard, timeout) = self.wake.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner);
            queue = guard;
            if timeout.timed_out() && queue.order.is_empty() {
                queue.has_thread = false;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use zone::load::{LoadOptions, load};
    use zone::text::{ParseOptions, Source};

    use super::*;

    fn version() -> Zone {
        let apex: wire::Name = "example.".parse().expect("a name");
        let text = "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
        let source = Source { name: "test".into(), bytes: text.as_bytes() };
        load(source, &LoadOptions::new(ParseOptions::new(apex.as_ref()))).zone.expect("a valid zone")
    }

    const ZONE: ZoneId = ZoneId { index: 3, generation: 7 };

    /// Otherwise a zone that does not change keeps an old file, although the disk is full no more.
    #[test]
    fn a_file_that_could_not_be_written_is_written_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("missing");
        let files = TextFiles::new(Duration::from_millis(20));
        files.write(ZONE, missing.join("file"), version());
        thread::sleep(Duration::from_millis(50));
        fs::create_dir(&missing).expect("a writable folder");
        let end = Instant::now() + Duration::from_secs(20);
        while !missing.join("file").exists() {
            assert!(Instant::now() < end, "it is not written");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn the_file_of_a_zone_that_was_removed_is_not_written_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("missing");
        let files = TextFiles::new(Duration::from_millis(100));
        files.write(ZONE, missing.join("file"), version());
        while files.0.lock().waiting.get(&ZONE).is_none_or(|text| !text.is_retry) {
            thread::sleep(Duration::from_millis(1));
        }
        files.forget(ZONE);
        fs::create_dir(&missing).expect("a writable folder");
        thread::sleep(Duration::from_millis(200));
        assert!(!missing.join("file").exists());
    }
}
