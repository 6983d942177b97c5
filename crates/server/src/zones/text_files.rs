//! Text files of zones that are written on request (`write-file`), for zones that come from elsewhere: a copy to read, or to begin with.
//!
//! One thread writes them, one after the other, and each at most every [`MIN_INTERVAL`]: a zone that changes all the time costs no
//! more than that. A file is replaced as a whole, so that a reader sees all of one version. One that cannot be written is tried again
//! later, even if the zone does not change: a disk may be full for a while.
//!
//! Each begins with a comment that names its zone. A file without it is not replaced: it may be a zone file, which nobody else has.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{info, warn};
use wire::NameRef;
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
    write: WriteText,
}

/// Writes a version to a file.
type WriteText = fn(&TextFile, &Zone) -> io::Result<()>;

#[derive(Default)]
struct Queue {
    /// The latest version of each zone that is to be written.
    waiting: HashMap<ZoneId, WaitingText>,
    /// When to write them; at least one entry for each.
    order: BinaryHeap<Reverse<(Instant, ZoneId)>>,
    /// When files were written: at least those of the last interval.
    written: HashMap<ZoneId, Instant>,
    /// When earlier ones are dropped.
    forget_at: Option<Instant>,
    /// The zone whose file is being written, unless it was forgotten since.
    writing: Option<ZoneId>,
    /// The zones whose last attempt failed.
    failed: HashSet<ZoneId>,
    has_thread: bool,
}

impl Queue {
    /// Drops what was written before the last interval. Once per interval, as it visits all: very many zones may have files.
    fn forget_written(&mut self, now: Instant) {
        if self.forget_at.is_none_or(|at| at <= now) {
            self.written.retain(|_, written| now < *written + MIN_INTERVAL);
            self.forget_at = Some(now + MIN_INTERVAL);
        }
    }
}

/// The text file of a zone.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether a file is replaced that was not written for this zone.
    pub replaces_any: bool,
}

struct WaitingText {
    file: TextFile,
    version: Zone,
    /// It could not be written before.
    is_retry: bool,
}

impl Default for TextFiles {
    fn default() -> TextFiles {
        TextFiles::new(RETRY_INTERVAL, write_text)
    }
}

impl TextFiles {
    fn new(retry_interval: Duration, write: WriteText) -> TextFiles {
        TextFiles(Arc::new(Shared { queue: Mutex::default(), wake: Condvar::new(), retry_interval, write }))
    }

    /// Drops what is known of a zone, and its version that waits: the zone was removed, or has another file.
    pub fn forget(&self, zone: ZoneId) {
        let mut queue = self.0.lock();
        queue.waiting.remove(&zone);
        queue.writing.take_if(|writing| *writing == zone);
        queue.failed.remove(&zone);
    }

    /// Writes this version soon, unless a later one comes before.
    pub fn write(&self, zone: ZoneId, file: TextFile, version: Zone) {
        let mut queue = self.0.lock();
        let replaced = queue.waiting.insert(zone, WaitingText { file, version, is_retry: false });
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
        while let Some((zone, WaitingText { file, version, .. })) = self.next() {
            // A bug in this code must not keep all files from ever being written again.
            let written = catch_unwind(AssertUnwindSafe(|| (self.write)(&file, &version)));
            let panicked = || io::Error::other("zonda panicked; this is a bug, please report it");
            let error = written.unwrap_or_else(|_| Err(panicked())).err();
            let (apex, path) = (version.apex().to_owned(), file.path.clone());
            if self.ended(zone, file, version, error.is_some()) {
                log_change(apex.as_ref(), &path, error.as_ref());
            }
        }
    }

    /// The file of a zone was written, or it failed: then it is written again later, unless a later version comes before. Returns whether
    /// that differs from the last attempt: it probably fails again with every attempt.
    fn ended(&self, zone: ZoneId, file: TextFile, version: Zone, has_failed: bool) -> bool {
        let mut queue = self.lock();
        if queue.writing != Some(zone) {
            return false;
        }
        if !has_failed {
            return queue.failed.remove(&zone);
        }
        if let Entry::Vacant(entry) = queue.waiting.entry(zone) {
            entry.insert(WaitingText { file, version, is_retry: true });
            queue.order.push(Reverse((Instant::now() + self.retry_interval, zone)));
        }
        queue.failed.insert(zone)
    }

    /// Waits for the next file to write; `None` if there was none for long.
    fn next(&self) -> Option<(ZoneId, WaitingText)> {
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            let wait = match queue.order.peek() {
                Some(Reverse((due, _))) if *due <= now => {
                    let Reverse((_, zone)) = queue.order.pop()?;
                    queue.forget_written(now);
                    let Some(text) = queue.waiting.remove(&zone) else { continue };
                    queue.written.insert(zone, now);
                    queue.writing = Some(zone);
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

fn log_change(apex: NameRef<'_>, path: &Path, error: Option<&io::Error>) {
    let path = printable_path(path);
    let Some(error) = error else { return info!(zone = %apex, "the text can be written to {path} again") };
    let help = match error.kind() {
        io::ErrorKind::AlreadyExists => "move it away, or set another `write-file`".into(),
        _ => write_help(error, "its folder"),
    };
    warn!(zone = %apex, "the text cannot be written to {path}: {error} (help: {help})");
}

fn write_text(file: &TextFile, version: &Zone) -> io::Result<()> {
    let mark = format!("; the text of zone {}, which zonda replaces with every version\n", version.apex());
    if !file.replaces_any {
        check_replaceable(&file.path, mark.as_bytes())?;
    }
    replace_file(&file.path, 0o644, |mut text| {
        text.write_all(mark.as_bytes())?;
        TextExport::new(version.clone()).write_to(text)
    })
}

/// Fails if a file is there that does not begin with this mark. Only now is it known which file the path leads to: of links, and of zones
/// that are added at run time, the configuration says nothing.
fn check_replaceable(path: &Path, mark: &[u8]) -> io::Result<()> {
    let mut start = vec![0; mark.len()];
    let is_marked = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(there) if there.is_file() && there.len() == 0 => return Ok(()),
        Ok(there) if there.is_file() => {
            there.len() >= mark.len() as u64 && File::open(path)?.read_exact(&mut start).map(|()| start == mark)?
        }
        there => there.map(|_| false)?,
    };
    match is_marked {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::AlreadyExists, "what is there was not written for this zone")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::thread;

    use zone::load::load_text;

    use super::*;

    fn version() -> Zone {
        let apex: wire::Name = "example.".parse().expect("a name");
        let text = "@ 60 SOA ns host 1 2 3 4 5\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
        load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone")
    }

    fn text_file(path: PathBuf) -> TextFile {
        TextFile { path, replaces_any: false }
    }

    const ZONE: ZoneId = ZoneId { index: 3, generation: 7 };

    /// Otherwise a zone that does not change keeps an old file, although the disk is full no more.
    #[test]
    fn a_file_that_could_not_be_written_is_written_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = folder.path().join("missing");
        let files = TextFiles::new(Duration::from_millis(20), write_text);
        files.write(ZONE, text_file(missing.join("file")), version());
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
        let files = TextFiles::new(Duration::from_millis(100), write_text);
        files.write(ZONE, text_file(missing.join("file")), version());
        while files.0.lock().waiting.get(&ZONE).is_none_or(|text| !text.is_retry) {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(files.0.lock().failed.len(), 1);
        files.forget(ZONE);
        assert!(files.0.lock().failed.is_empty());
        fs::create_dir(&missing).expect("a writable folder");
        thread::sleep(Duration::from_millis(200));
        assert!(!missing.join("file").exists());
    }

    #[test]
    fn texts_are_written_after_a_panic() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = TextFiles::new(RETRY_INTERVAL, |file, version| match file.path.ends_with("panics") {
            true => panic!("a test"),
            false => write_text(file, version),
        });
        files.write(ZONE, text_file("panics".into()), version());
        let wait = |is_done: &dyn Fn() -> bool| {
            let end = Instant::now() + Duration::from_secs(20);
            while !is_done() {
                assert!(Instant::now() < end, "it is not done");
                thread::sleep(Duration::from_millis(5));
            }
        };
        wait(&|| files.0.lock().failed.contains(&ZONE));
        let (other, path) = (ZoneId { index: 4, generation: 0 }, folder.path().join("file"));
        files.write(other, text_file(path.clone()), version());
        wait(&|| path.exists());
    }

    /// Otherwise each of 100,000 files looks at the times of tens of thousands.
    #[test]
    fn times_are_dropped_once_per_interval() {
        let (mut queue, begin) = (Queue::default(), Instant::now());
        let fifth = MIN_INTERVAL / 5;
        for (index, (at, count)) in (0..).zip([(0, 1), (4, 2), (5, 2), (9, 3), (10, 2)]) {
            let now = begin + at * fifth;
            queue.forget_written(now);
            queue.written.insert(ZoneId { index, generation: 0 }, now);
            assert_eq!(queue.written.len(), count, "after {at} fifths");
        }
    }

    /// On a full disk, a large file fails late. The file may be that of another zone by the next attempt.
    #[test]
    fn a_file_whose_zone_was_removed_while_it_was_written_is_not_tried_again() {
        let files = TextFiles::new(RETRY_INTERVAL, write_text);
        // No thread is to take it.
        files.0.lock().has_thread = true;
        for is_removed in [false, true] {
            files.0.lock().written.clear();
            files.write(ZONE, text_file("missing/file".into()), version());
            let (zone, text) = files.0.next().expect("it was queued");
            if is_removed {
                files.forget(ZONE);
            }
            files.0.ended(zone, text.file, text.version, true);
            let mut queue = files.0.lock();
            assert_eq!(queue.waiting.remove(&ZONE).is_none(), is_removed);
            assert_eq!(queue.failed.is_empty(), is_removed, "zones come and go for years");
        }
    }

    /// The path may be that of another zone's file: through a link, or by the name of a zone that was added at run time.
    #[test]
    fn only_what_was_written_for_the_zone_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, link] = ["file", "link"].map(|name| folder.path().join(name));
        symlink(&path, &link).expect("a writable folder");
        let other =
            "; the text of zone other.example., which zonda replaces with every version\n$ORIGIN other.example.\n";
        for precious in ["; by hand\n@ SOA ns host 1 2 3 4 5\n", "\n", other] {
            fs::write(&path, precious).expect("a writable folder");
            for path in [&path, &link] {
                let written = write_text(&text_file(path.clone()), &version());
                assert_eq!(written.map_err(|error| error.kind()), Err(io::ErrorKind::AlreadyExists), "{precious}");
            }
            assert_eq!(fs::read_to_string(&path).expect("it is there"), precious);
        }
        assert!(write_text(&text_file("/dev/null".into()), &version()).is_err());
        let own = TextFile { path: path.clone(), replaces_any: true };
        write_text(&own, &version()).expect("the file of a secondary");
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(text.starts_with("; the text of zone example., ") && text.contains("$ORIGIN example.\n"), "{text}");
        fs::write(&path, "").expect("it is there");
        write_text(&text_file(path.clone()), &version()).expect("it is empty");
        write_text(&text_file(path), &version()).expect("it was written for this zone");
    }
}
