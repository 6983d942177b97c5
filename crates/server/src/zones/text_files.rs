//! Text files of zones that are written on request (`write-file`), for zones that come from elsewhere: a copy to read, or to begin with.
//!
//! One thread writes them, one after the other, and each at most every [`MIN_INTERVAL`]: a zone that changes all the time costs no
//! more than that. A file is replaced as a whole, so that a reader sees all of one version.

use std::cmp::Reverse;
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

/// How long the thread waits for work before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Writes text files.
#[derive(Default)]
pub struct TextFiles(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    /// The latest version of each zone that is to be written.
    waiting: HashMap<ZoneId, (PathBuf, Zone)>,
    /// When to write them; one entry for each.
    order: BinaryHeap<Reverse<(Instant, ZoneId)>>,
    /// When files were written, those of the last interval.
    written: HashMap<ZoneId, Instant>,
    has_thread: bool,
}

impl TextFiles {
    /// Writes this version soon, unless a later one comes before.
    pub fn write(&self, zone: ZoneId, path: PathBuf, version: Zone) {
        let mut queue = self.0.lock();
        if queue.waiting.insert(zone, (path, version)).is_none() {
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
        while let Some((zone, path, version)) = self.next() {
            let apex = version.apex().to_owned();
            match replace_file(&path, 0o644, |file| TextExport::new(version).write_to(file)) {
                Ok(()) if failed.remove(&zone) => {
                    info!(zone = %apex, "the text is written to {} again", printable_path(&path));
                }
                Ok(()) => (),
                // Once, as it probably fails again with every version.
                Err(error) if failed.insert(zone) => {
                    let help = write_help(&error, "its folder");
                    warn!(zone = %apex, "the text cannot be written to {}: {error} (help: {help})", printable_path(&path));
                }
                Err(_) => (),
            }
        }
    }

    /// Waits for the next file to write; `None` if there was none for long.
    fn next(&self) -> Option<(ZoneId, PathBuf, Zone)> {
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            let wait = match queue.order.peek() {
                Some(Reverse((due, _))) if *due <= now => {
                    let Reverse((_, zone)) = queue.order.pop()?;
                    queue.written.retain(|_, written| now < *written + MIN_INTERVAL);
                    queue.written.insert(zone, now);
                    let (path, version) = queue.waiting.remove(&zone)?;
                    return Some((zone, path, version));
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
