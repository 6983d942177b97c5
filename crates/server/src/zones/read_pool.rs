//! Threads that read files side by side, so that neither a long read nor one that blocks delays another.
//!
//! FilesRead wait in lanes by size. Many small ones are read at once, a thread each; of the bigger ones one in each lane, by
//! all threads. The kernel divides the processors among the lanes: a file waits only for files of about its size. A read
//! that blocks, on a hung mount for example, keeps its thread, and another thread takes its place.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::load_progress::ReadProgress;

/// A lane has the files below so many octets that the lanes before it do not have.
const LANES: [u64; 4] = [4 << 20, 32 << 20, 256 << 20, u64::MAX];

/// A read without progress for so long does not count as one that keeps its lane busy.
const STALLED_AFTER: Duration = Duration::from_millis(500);
/// A read without progress for so long is reported instead of waited for.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);

/// Stalled reads beyond which no further one is begun: each of them costs a thread. Half of them are kept for files in
/// folders where nothing stalls: a hung mount blocks all its files.
pub const MAX_STALLED: usize = 16;

/// How long a thread waits for further files before it ends.
const LINGER: Duration = Duration::from_secs(1);

/// How a file is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLimits {
    /// Threads to use.
    pub threads: usize,
    /// FilesRead of so many octets and more are declined: they get another turn.
    pub below: u64,
}

/// The file has so many octets, too many for the [`LaneLimits`].
#[derive(Clone, Copy, Debug)]
pub struct TooLarge(pub u64);

/// A file to be read.
pub struct ReadTask<J> {
    /// What else the reader needs.
    pub job: J,
    /// The file.
    pub file: PathBuf,
    /// Counted by the reader.
    pub progress: ReadProgress,
    is_stuck: AtomicBool,
}

impl<J> ReadTask<J> {
    /// A task that waits.
    pub fn new(file: PathBuf, job: J) -> ReadTask<J> {
        ReadTask { job, file, progress: ReadProgress::default(), is_stuck: AtomicBool::new(false) }
    }

    /// Whether it has made no progress for [`STUCK_AFTER`], or waits for reads that make none.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    fn set_stuck(&self, is_stuck: bool) -> bool {
        self.is_stuck.swap(is_stuck, Ordering::Relaxed)
    }
}

/// The threads and what they have to do.
pub struct ReadPool<J, T> {
    shared: Arc<Shared<J, T>>,
}

/// What [`ReadPool::watch`] saw.
pub struct PoolStatus<J> {
    /// Reads that are stuck since this call.
    pub newly_stuck: Vec<Arc<ReadTask<J>>>,
    /// How many tasks are stuck.
    pub stuck: usize,
    /// Octets read so far of the files that are being read.
    pub octets: u64,
}

impl<J: Send + Sync + 'static, T: 'static> ReadPool<J, T> {
    /// No threads yet; they come with tasks, and `threads` of them use the processors well.
    ///
    /// `read` reads a file, or says that it is too big for the turn; `done` gets each result, on the thread that read.
    pub fn new(
        threads: usize,
        read: impl Fn(&ReadTask<J>, LaneLimits) -> Result<T, TooLarge> + Send + Sync + 'static,
        done: impl Fn(Arc<ReadTask<J>>, T) + Send + Sync + 'static,
    ) -> ReadPool<J, T> {
        let state = State { lanes: LANES.map(|_| Lane::default()), active: Vec::new() };
        let (read, done) = (Box::new(read), Box::new(done));
        let wake = LANES.map(|_| Condvar::new());
        ReadPool { shared: Arc::new(Shared { threads, state: Mutex::new(state), wake, read, done }) }
    }

    /// Has a file read.
    pub fn submit(&self, task: Arc<ReadTask<J>>) {
        let mut state = self.shared.lock();
        state.lanes[0].waiting.push_back(task);
        self.shared.staff(&mut state, 0);
    }

    /// Looks for progress, and replaces the threads of reads that make none. Call several times a second as long as there
    /// are tasks.
    pub fn watch(&self, now: Instant) -> PoolStatus<J> {
        let mut state = self.shared.lock();
        let watch = state.watch(now);
        (0..LANES.len()).for_each(|lane| self.shared.staff(&mut state, lane));
        watch
    }
}

struct Shared<J, T> {
    threads: usize,
    state: Mutex<State<J>>,
    /// For the idle threads of each lane.
    wake: [Condvar; LANES.len()],
    read: Box<ReadFn<J, T>>,
    done: Box<DoneFn<J, T>>,
}

type ReadFn<J, T> = dyn Fn(&ReadTask<J>, LaneLimits) -> Result<T, TooLarge> + Send + Sync;
type DoneFn<J, T> = dyn Fn(Arc<ReadTask<J>>, T) + Send + Sync;

impl<J: Send + Sync + 'static, T: 'static> Shared<J, T> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// FilesRead of a lane that are read at once.
    fn capacity(&self, lane: usize) -> usize {
        if lane == 0 { self.threads } else { 1 }
    }

    /// Gets a thread for what waits in a lane: one that is idle, or else a new one.
    fn staff(self: &Arc<Self>, state: &mut State<J>, lane: usize) {
        if !state.has_work(lane) {
            return;
        }
        self.wake[lane].notify_one();
        let Lane { waiting, held, threads, idle } = &state.lanes[lane];
        if waiting.len() + held.len() > *idle && threads - state.stalled_in(lane) < self.capacity(lane) {
            let shared = self.clone();
            let spawned = std::thread::Builder::new().name("reader".into()).spawn(move || shared.work(lane));
            match spawned {
                Ok(_) => state.lanes[lane].threads += 1,
                // The next call tries again.
                Err(error) => tracing::debug!(%error, "a thread to read zones cannot be made"),
            }
        }
    }

    /// What a thread does: the tasks of its lane, until there are none or it is one too many.
    fn work(self: Arc<Self>, lane: usize) {
        let mut state = self.lock();
        while state.lanes[lane].threads - state.stalled_in(lane) <= self.capacity(lane) {
            if let Some(task) = state.begin(lane) {
                drop(state);
                state = self.read(lane, task);
                continue;
            }
            state.lanes[lane].idle += 1;
            let (woken, wait) = self.wake[lane].wait_timeout(state, LINGER).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.lanes[lane].idle -= 1;
            if wait.timed_out() && !state.has_work(lane) {
                break;
            }
        }
        state.lanes[lane].threads -= 1;
    }

    fn read(self: &Arc<Self>, lane: usize, task: Arc<ReadTask<J>>) -> MutexGuard<'_, State<J>> {
        let threads = if lane == 0 { 1 } else { self.threads };
        match (self.read)(&task, LaneLimits { threads, below: LANES[lane] }) {
            Ok(result) => {
                self.lock().end(&task);
                (self.done)(task, result);
            }
            Err(TooLarge(len)) => {
                let mut state = self.lock();
                state.end(&task);
                let lane = LANES.iter().position(|&below| len < below).unwrap_or(LANES.len() - 1);
                state.lanes[lane].waiting.push_back(task);
                self.staff(&mut state, lane);
            }
        }
        self.lock()
    }
}

//----------- state --------------------------------------------------------------

struct State<J> {
    lanes: [Lane<J>; LANES.len()],
    active: Vec<ActiveRead<J>>,
}

struct Lane<J> {
    waiting: VecDeque<Arc<ReadTask<J>>>,
    /// FilesRead in folders where a read has stalled: their turn comes when nothing else waits.
    held: VecDeque<Arc<ReadTask<J>>>,
    threads: usize,
    /// Those of the threads that wait for a task.
    idle: usize,
}

impl<J> Default for Lane<J> {
    fn default() -> Lane<J> {
        Lane { waiting: VecDeque::new(), held: VecDeque::new(), threads: 0, idle: 0 }
    }
}

/// A task that a thread works at.
struct ActiveRead<J> {
    task: Arc<ReadTask<J>>,
    lane: usize,
    octets: u64,
    /// When it made progress last.
    since: Instant,
    is_stalled: bool,
}

impl<J> State<J> {
    fn stalled(&self) -> impl Iterator<Item = &ActiveRead<J>> {
        self.active.iter().filter(|read| read.is_stalled)
    }

    fn stalled_in(&self, lane: usize) -> usize {
        self.stalled().filter(|read| read.lane == lane).count()
    }

    /// Whether files may be begun: in any folder, and in those where a read has stalled.
    fn may_begin(&self) -> (bool, bool) {
        let stalled = self.stalled().count();
        (stalled < MAX_STALLED, stalled < MAX_STALLED / 2)
    }

    fn has_work(&self, lane: usize) -> bool {
        let (any, held) = self.may_begin();
        any && !self.lanes[lane].waiting.is_empty() || held && !self.lanes[lane].held.is_empty()
    }

    /// The next task of a lane, read from now on.
    fn begin(&mut self, lane: usize) -> Option<Arc<ReadTask<J>>> {
        let (any, held) = self.may_begin();
        let fit = if any { self.next_waiting(lane) } else { None };
        let task = fit.or_else(|| if held { self.lanes[lane].held.pop_front() } else { None })?;
        task.set_stuck(false);
        let (octets, since) = (task.progress.octets(), Instant::now());
        self.active.push(ActiveRead { task: task.clone(), lane, octets, since, is_stalled: false });
        Some(task)
    }

    fn next_waiting(&mut self, lane: usize) -> Option<Arc<ReadTask<J>>> {
        while let Some(task) = self.lanes[lane].waiting.pop_front() {
            if self.stalled().all(|stalled| stalled.task.file.parent() != task.file.parent()) {
                return Some(task);
            }
            self.lanes[lane].held.push_back(task);
        }
        None
    }

    fn end(&mut self, task: &Arc<ReadTask<J>>) {
        let at = self.active.iter().position(|read| Arc::ptr_eq(&read.task, task));
        let read = self.active.swap_remove(at.expect("a task runs from begin to end"));
        if read.is_stalled {
            self.release();
        }
    }

    /// A stalled read has made progress: others of its folder may, too.
    fn release(&mut self) {
        for lane in &mut self.lanes {
            lane.held.iter().for_each(|task| _ = task.set_stuck(false));
            lane.waiting.append(&mut lane.held);
        }
    }

    fn watch(&mut self, now: Instant) -> PoolStatus<J> {
        let stalled_before = self.stalled().count();
        self.active.iter_mut().for_each(|read| read.watch(now));
        if self.stalled().count() < stalled_before {
            self.release();
        }
        let is_newly_stuck = |read: &&ActiveRead<J>| {
            let is_stuck = read.is_stalled && now.saturating_duration_since(read.since) >= STUCK_AFTER;
            !read.task.set_stuck(is_stuck) && is_stuck
        };
        let newly_stuck = self.active.iter().filter(is_newly_stuck).map(|read| read.task.clone()).collect();
        let (any, held) = self.may_begin();
        for lane in &self.lanes {
            lane.waiting.iter().for_each(|task| _ = task.set_stuck(!any));
            lane.held.iter().for_each(|task| _ = task.set_stuck(!held));
        }
        let waiting = self.lanes.iter().flat_map(|lane| lane.waiting.iter().chain(&lane.held));
        let tasks = self.active.iter().map(|read| &read.task).chain(waiting);
        let stuck = tasks.filter(|task| task.is_stuck()).count();
        let octets = self.active.iter().map(|read| read.task.progress.octets()).sum();
        PoolStatus { newly_stuck, stuck, octets }
    }
}

impl<J> ActiveRead<J> {
    fn watch(&mut self, now: Instant) {
        let octets = self.task.progress.octets();
        // What follows the reading takes long for a big zone, and blocks on nothing.
        if octets != self.octets || self.task.progress.is_read() {
            (self.octets, self.since) = (octets, now);
        }
        self.is_stalled = now.saturating_duration_since(self.since) >= STALLED_AFTER;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A task that blocks until the sender of its channel is dropped, and has this length.
    struct Fake {
        len: u64,
        end: Mutex<Receiver<()>>,
    }

    /// Results are the files and the threads that they had.
    fn pool(threads: usize) -> (ReadPool<Fake, usize>, Receiver<(String, usize)>) {
        let (sender, results) = channel();
        let read = |task: &ReadTask<Fake>, turn: LaneLimits| {
            if task.job.len >= turn.below {
                return Err(TooLarge(task.job.len));
            }
            _ = task.job.end.lock().unwrap_or_else(PoisonError::into_inner).recv();
            Ok(turn.threads)
        };
        let done =
            move |task: Arc<ReadTask<Fake>>, threads| _ = sender.send((task.file.display().to_string(), threads));
        (ReadPool::new(threads, read, done), results)
    }

    /// Submits a file; it is read when what this returns is dropped.
    fn submit(pool: &ReadPool<Fake, usize>, file: &str, len: u64) -> Sender {
        let (end, receiver) = channel();
        pool.submit(Arc::new(ReadTask::new(file.into(), Fake { len, end: Mutex::new(receiver) })));
        end
    }

    type Sender = std::sync::mpsc::Sender<()>;

    fn next(results: &Receiver<(String, usize)>) -> Option<(String, usize)> {
        results.recv_timeout(SOON).ok()
    }

    fn threads<T>(pool: &ReadPool<Fake, T>) -> usize {
        let state = pool.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.lanes.iter().map(|lane| lane.threads).sum()
    }

    fn wait_until(condition: impl Fn() -> bool) {
        let begin = Instant::now();
        while !condition() {
            assert!(begin.elapsed() < SOON, "too long");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits while the clock of the pool is ahead.
    fn watch_until(pool: &ReadPool<Fake, usize>, condition: impl Fn(&PoolStatus<Fake>) -> bool) {
        wait_until(|| condition(&pool.watch(Instant::now() + 2 * STUCK_AFTER)));
    }

    #[test]
    fn a_big_file_has_all_threads_and_delays_only_its_like() {
        let (pool, results) = pool(1);
        let huge = submit(&pool, "huge", 1 << 30);
        let huge_too = submit(&pool, "huge too", 2 << 30);
        let big = submit(&pool, "big", 5 << 20);
        drop(submit(&pool, "small", 1));
        assert_eq!(next(&results), Some(("small".into(), 1)));
        drop(huge_too);
        drop(big);
        assert_eq!(next(&results), Some(("big".into(), 1)));
        drop(huge);
        assert_eq!((next(&results), next(&results)), (Some(("huge".into(), 1)), Some(("huge too".into(), 1))));
        let (pool, results) = self::pool(8);
        drop(submit(&pool, "big", 5 << 20));
        assert_eq!(next(&results), Some(("big".into(), 8)));
    }

    #[test]
    fn many_small_files_are_read_by_few_threads() {
        let (pool, results) = pool(3);
        (0..1000).for_each(|number| drop(submit(&pool, &number.to_string(), 1)));
        let mut files: Vec<u32> = (0..1000).filter_map(|_| next(&results)?.0.parse().ok()).collect();
        files.sort_unstable();
        assert!(files.into_iter().eq(0..1000));
        assert!(threads(&pool) <= 3);
        wait_until(|| threads(&pool) == 0);
    }

    #[test]
    fn reads_that_block_are_replaced_and_bounded() {
        let (pool, results) = pool(2);
        let hung: Vec<_> = (0..50).map(|number| submit(&pool, &format!("hung/{number}"), 1)).collect();
        // Those that wait behind the ones that block are stuck as well.
        watch_until(&pool, |watch| watch.stuck == 50);
        assert!((MAX_STALLED / 2..MAX_STALLED / 2 + 2).contains(&threads(&pool)), "{}", threads(&pool));
        drop(submit(&pool, "other/file", 1));
        assert_eq!(next(&results), Some(("other/file".into(), 1)), "another folder has its turn");
        drop(hung);
        assert_eq!((0..50).filter_map(|_| next(&results)).count(), 50);
        // Replacements end when they are not needed.
        wait_until(|| threads(&pool) <= 2);
    }

    #[test]
    fn what_makes_progress_is_not_stuck() {
        let (pool, results) = pool(1);
        let (end, receiver) = channel::<()>();
        let task = Arc::new(ReadTask::new("file".into(), Fake { len: 1, end: Mutex::new(receiver) }));
        pool.submit(task.clone());
        watch_until(&pool, |watch| watch.newly_stuck.len() == 1);
        task.progress.count_octets(1);
        assert_eq!((pool.watch(Instant::now()).stuck, task.is_stuck()), (0, false));
        task.progress.end_reading();
        let watch = pool.watch(Instant::now() + 2 * STUCK_AFTER);
        assert_eq!((watch.stuck, watch.octets), (0, 1), "what was read wholly blocks on nothing");
        drop(end);
        assert!(next(&results).is_some());
    }
}
