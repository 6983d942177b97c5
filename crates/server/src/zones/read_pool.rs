//! Threads that read files, so that no file waits for a much larger one or for one whose read blocks.
//!
//! * Files queue in lanes by size. In the lane of the smallest files several are read at once, by a thread each; in every
//!   other lane one is read at a time, parsed by all threads. The kernel shares the processors among the lanes. Every file
//!   begins in the first lane, as its size is known only when it is opened, and is moved from there if it is too large.
//! * A read that makes no progress for `STALLED_AFTER`, on a hung mount for example, is *stalled*: it keeps its thread,
//!   and another thread takes its place in the lane. Files of the same directory are held back until nothing else waits.
//! * After [`STUCK_AFTER`] it is *stuck*: reported, and no longer waited for.

mod lanes;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::load_progress::ReadProgress;
#[cfg(test)]
use super::work_pool::deferred;
use lanes::{LANE_COUNT, Lanes, SIZE_LIMITS};

/// A read without progress for this long no longer occupies its lane.
const STALLED_AFTER: Duration = Duration::from_millis(500);
/// A read without progress for this long is reported instead of waited for.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);
/// With this many stalled reads no other is begun, as each costs a thread.
pub const MAX_STALLED: usize = 16;
/// How long a thread without work waits before it ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// How a file is to be read in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Threads to use.
    pub threads: usize,
    /// Files of this many octets and more are declined with [`TooLarge`].
    pub size_limit: u64,
}

/// The file has this many octets, too many for its lane.
#[derive(Clone, Copy, Debug)]
pub struct TooLarge(pub u64);

/// A file to be read.
pub struct ReadTask<J> {
    /// What else the reader needs.
    pub job: J,
    /// The file.
    pub file: PathBuf,
    /// Updated by the reader.
    pub progress: ReadProgress,
    is_stuck: AtomicBool,
}

impl<J> ReadTask<J> {
    /// A task to be submitted.
    pub fn new(file: PathBuf, job: J) -> ReadTask<J> {
        ReadTask { job, file, progress: ReadProgress::default(), is_stuck: AtomicBool::new(false) }
    }

    /// Whether it has made no progress for [`STUCK_AFTER`], or waits for reads that make none.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// Returns the previous value.
    fn set_stuck(&self, is_stuck: bool) -> bool {
        self.is_stuck.swap(is_stuck, Ordering::Relaxed)
    }
}

/// The threads and their queues.
pub struct ReadPool<J, T> {
    shared: Arc<Shared<J, T>>,
}

/// Result of [`ReadPool::check_progress`].
pub struct PoolStatus<J> {
    /// Reads that are stuck since this call.
    pub newly_stuck: Vec<Arc<ReadTask<J>>>,
    /// How many tasks are stuck.
    pub stuck: usize,
    /// Octets read so far of the files that are being read.
    pub octets: u64,
}

impl<J: Send + Sync + 'static, T: 'static> ReadPool<J, T> {
    /// A pool whose threads start as tasks come; `threads` of them use the processors well.
    ///
    /// `read` reads a file or declines it as too large; `done` gets each result on the thread that read it.
    pub fn new(
        threads: usize,
        read: impl Fn(&ReadTask<J>, ReadLimits) -> Result<T, TooLarge> + Send + Sync + 'static,
        done: impl Fn(Arc<ReadTask<J>>, T) + Send + Sync + 'static,
    ) -> ReadPool<J, T> {
        let (read, done) = (Box::new(read), Box::new(done));
        let (lanes, wake) = (Mutex::new(Lanes::new(threads)), SIZE_LIMITS.map(|_| Condvar::new()));
        ReadPool { shared: Arc::new(Shared { threads, lanes, wake, read, done }) }
    }

    /// Queues a file.
    pub fn submit(&self, task: Arc<ReadTask<J>>) {
        #[cfg(test)]
        if deferred::is_active() {
            let shared = self.shared.clone();
            return deferred::push(move || {
                let result = (shared.read)(&task, ReadLimits { threads: 1, size_limit: u64::MAX });
                (shared.done)(task, result.unwrap_or_else(|_| unreachable!("no size is too large")));
            });
        }
        let mut lanes = self.shared.lock();
        lanes.push(0, task);
        self.shared.ensure_thread(&mut lanes, 0);
    }

    /// Looks for stalled reads and replaces their threads. To be called several times a second while there are tasks.
    pub fn check_progress(&self, now: Instant) -> PoolStatus<J> {
        let mut lanes = self.shared.lock();
        let status = lanes.check_progress(now);
        (0..LANE_COUNT).for_each(|lane| self.shared.ensure_thread(&mut lanes, lane));
        status
    }
}

struct Shared<J, T> {
    threads: usize,
    lanes: Mutex<Lanes<J>>,
    /// Wakes the idle threads of each lane.
    wake: [Condvar; LANE_COUNT],
    read: Box<ReadFn<J, T>>,
    done: Box<DoneFn<J, T>>,
}

type ReadFn<J, T> = dyn Fn(&ReadTask<J>, ReadLimits) -> Result<T, TooLarge> + Send + Sync;
type DoneFn<J, T> = dyn Fn(Arc<ReadTask<J>>, T) + Send + Sync;

impl<J: Send + Sync + 'static, T: 'static> Shared<J, T> {
    fn lock(&self) -> MutexGuard<'_, Lanes<J>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes or starts a thread if the lane has work.
    fn ensure_thread(self: &Arc<Self>, lanes: &mut Lanes<J>, lane: usize) {
        if !lanes.has_work(lane) {
            return;
        }
        self.wake[lane].notify_one();
        if lanes.needs_thread(lane) {
            let shared = self.clone();
            let spawned = std::thread::Builder::new().name("reader".into()).spawn(move || shared.run(lane));
            match spawned {
                Ok(_) => lanes.thread_started(lane),
                // The next call tries again.
                Err(error) => tracing::debug!(%error, "cannot start a thread to read zone files"),
            }
        }
    }

    /// A thread: reads files of its lane until none comes for a while or the lane has a thread too many.
    fn run(self: Arc<Self>, lane: usize) {
        let mut lanes = self.lock();
        while !lanes.has_surplus_thread(lane) {
            if let Some(task) = lanes.begin(lane) {
                drop(lanes);
                self.read(lane, task);
                lanes = self.lock();
                continue;
            }
            lanes.set_idle(lane, true);
            let (woken, wait) =
                self.wake[lane].wait_timeout(lanes, IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
            lanes = woken;
            lanes.set_idle(lane, false);
            if wait.timed_out() && !lanes.has_work(lane) {
                break;
            }
        }
        lanes.thread_ended(lane);
    }

    fn read(self: &Arc<Self>, lane: usize, task: Arc<ReadTask<J>>) {
        let threads = if lane == 0 { 1 } else { self.threads };
        let result = (self.read)(&task, ReadLimits { threads, size_limit: SIZE_LIMITS[lane] });
        let mut lanes = self.lock();
        lanes.end(&task);
        match result {
            Ok(result) => {
                drop(lanes);
                (self.done)(task, result);
            }
            Err(TooLarge(len)) => {
                let lane = SIZE_LIMITS.iter().position(|&limit| len < limit).unwrap_or(LANE_COUNT - 1);
                lanes.push(lane, task);
                self.ensure_thread(&mut lanes, lane);
            }
        }
    }
}
