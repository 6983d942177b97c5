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

impl<J: Send + Sync + 'static, T: Send + 'static> ReadPool<J, T> {
    /// A pool whose threads start as tasks come; `threads` of them use the processors well.
    ///
    /// `read` reads a file or declines it as too large; `done` gets the results, several at a time while many files wait.
    pub fn new(
        threads: usize,
        read: impl Fn(&ReadTask<J>, ReadLimits) -> Result<T, TooLarge> + Send + Sync + 'static,
        done: impl Fn(Vec<(Arc<ReadTask<J>>, T)>) + Send + Sync + 'static,
    ) -> ReadPool<J, T> {
        let (read, done) = (Box::new(read), Box::new(done));
        let state = Mutex::new(State { lanes: Lanes::new(threads), finished: Vec::new() });
        ReadPool { shared: Arc::new(Shared { threads, state, wake: SIZE_LIMITS.map(|_| Condvar::new()), read, done }) }
    }

    /// Queues a file.
    pub fn submit(&self, task: Arc<ReadTask<J>>) {
        #[cfg(test)]
        if deferred::is_active() {
            let shared = self.shared.clone();
            return deferred::push(move || {
                let result = (shared.read)(&task, ReadLimits { threads: 1, size_limit: u64::MAX });
                (shared.done)(vec![(task, result.unwrap_or_else(|_| unreachable!("no size is too large")))]);
            });
        }
        let mut state = self.shared.lock();
        state.lanes.push(0, task);
        self.shared.ensure_thread(&mut state.lanes, 0);
    }

    /// Looks for stalled reads and replaces their threads; passes on results. To be called several times a second while there are
    /// tasks.
    pub fn check_progress(&self, now: Instant) -> PoolStatus<J> {
        let mut state = self.shared.lock();
        let status = state.lanes.check_progress(now);
        (0..LANE_COUNT).for_each(|lane| self.shared.ensure_thread(&mut state.lanes, lane));
        drop(self.shared.pass_on(state));
        status
    }
}

struct Shared<J, T> {
    threads: usize,
    state: Mutex<State<J, T>>,
    /// Wakes the idle threads of each lane.
    wake: [Condvar; LANE_COUNT],
    read: Box<ReadFn<J, T>>,
    done: Box<DoneFn<J, T>>,
}

struct State<J, T> {
    lanes: Lanes<J>,
    /// Results that were not passed on yet.
    finished: Vec<(Arc<ReadTask<J>>, T)>,
}

/// Results passed on at once while more files wait: each time wakes another thread, which costs more than a small file.
const BATCH: usize = 64;

type ReadFn<J, T> = dyn Fn(&ReadTask<J>, ReadLimits) -> Result<T, TooLarge> + Send + Sync;
type DoneFn<J, T> = dyn Fn(Vec<(Arc<ReadTask<J>>, T)>) + Send + Sync;

impl<J: Send + Sync + 'static, T: Send + 'static> Shared<J, T> {
    fn lock(&self) -> MutexGuard<'_, State<J, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes or starts a thread if the lane has work.
    fn ensure_thread(self: &Arc<Self>, lanes: &mut Lanes<J>, lane: usize) {
        if !lanes.has_work(lane) {
            return;
        }
        // Waking costs a system call even if no thread waits.
        if lanes.has_idle_thread(lane) {
            self.wake[lane].notify_one();
        }
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
        let mut state = self.lock();
        while !state.lanes.has_surplus_thread(lane) {
            if let Some(task) = state.lanes.begin(lane) {
                drop(state);
                state = self.read(lane, task);
                continue;
            }
            state.lanes.set_idle(lane, true);
            let (woken, wait) =
                self.wake[lane].wait_timeout(state, IDLE_TIMEOUT).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.lanes.set_idle(lane, false);
            if wait.timed_out() && !state.lanes.has_work(lane) {
                break;
            }
        }
        state.lanes.thread_ended(lane);
    }

    fn read(self: &Arc<Self>, lane: usize, task: Arc<ReadTask<J>>) -> MutexGuard<'_, State<J, T>> {
        let threads = if lane == 0 { 1 } else { self.threads };
        let result = (self.read)(&task, ReadLimits { threads, size_limit: SIZE_LIMITS[lane] });
        let mut state = self.lock();
        state.lanes.end(&task);
        match result {
            Ok(result) => state.finished.push((task, result)),
            Err(TooLarge(len)) => {
                let lane = SIZE_LIMITS.iter().position(|&limit| len < limit).unwrap_or(LANE_COUNT - 1);
                state.lanes.push(lane, task);
                self.ensure_thread(&mut state.lanes, lane);
            }
        }
        // Large files come one at a time, and a read that stalls must not keep results back: see `check_progress`.
        let is_batch = state.finished.len() >= BATCH || lane > 0 || !state.lanes.has_work(lane);
        if is_batch { self.pass_on(state) } else { state }
    }

    /// Passes on the results, without the lock.
    fn pass_on<'s>(&'s self, mut state: MutexGuard<'s, State<J, T>>) -> MutexGuard<'s, State<J, T>> {
        if state.finished.is_empty() {
            return state;
        }
        let finished = std::mem::take(&mut state.finished);
        drop(state);
        (self.done)(finished);
        self.lock()
    }
}
