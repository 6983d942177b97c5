//! Threads for work on zones that takes longer than the writer may be busy: rebuilds, large changes, external commands.

mod fair_queue;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fair_queue::FairQueue;

/// Runs jobs on a bounded number of threads, which start as jobs come and end when none has come for a while.
pub struct WorkPool<T> {
    shared: Arc<Shared<T>>,
}

/// What a thread runs.
type Job<T> = Box<dyn FnOnce() -> T + Send>;

struct Shared<T> {
    max_threads: usize,
    queue: Mutex<Queue<T>>,
    has_job: Condvar,
    done: Box<dyn Fn(WorkId, Option<T>) + Send + Sync>,
}

struct Queue<T> {
    jobs: FairQueue<(WorkId, Job<T>)>,
    threads: usize,
    /// Threads that wait for a job.
    idle: usize,
}

/// How long a thread waits for another job: many jobs are shorter than the start of a thread.
const LINGER: Duration = Duration::from_millis(200);

/// The number of a job, unique among all pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkId(u64);

impl<T: 'static> WorkPool<T> {
    /// A pool that passes each result to `done`, on the thread that ran the job; `None` if the job panicked.
    pub fn new(max_threads: usize, done: impl Fn(WorkId, Option<T>) + Send + Sync + 'static) -> WorkPool<T> {
        WorkPool::with_lanes(max_threads, max_threads, done)
    }

    /// As [`WorkPool::new`], for jobs of several lanes, of which each gets at most `share` threads.
    pub fn with_lanes(
        max_threads: usize,
        share: usize,
        done: impl Fn(WorkId, Option<T>) + Send + Sync + 'static,
    ) -> WorkPool<T> {
        let queue = Mutex::new(Queue { jobs: FairQueue::new(share), threads: 0, idle: 0 });
        WorkPool { shared: Arc::new(Shared { max_threads, queue, has_job: Condvar::new(), done: Box::new(done) }) }
    }

    /// Queues a job. The caller bounds how many there are: one per zone.
    pub fn submit(&self, job: impl FnOnce() -> T + Send + 'static) -> WorkId {
        self.submit_to(0, job)
    }

    /// As [`WorkPool::submit`], for a job of this lane.
    pub fn submit_to(&self, lane: u64, job: impl FnOnce() -> T + Send + 'static) -> WorkId {
        let mut queue = self.shared.lock();
        static LAST: AtomicU64 = AtomicU64::new(0);
        let id = WorkId(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        #[cfg(test)]
        if deferred::is_active() {
            let shared = self.shared.clone();
            deferred::push(move || shared.run_job(id, Box::new(job)));
            return id;
        }
        queue.jobs.push(lane, (id, Box::new(job)));
        if queue.idle >= queue.jobs.startable(self.shared.max_threads) {
            self.shared.has_job.notify_one();
        } else if queue.threads < self.shared.max_threads {
            let shared = self.shared.clone();
            match std::thread::Builder::new().name("zone-work".into()).spawn(move || shared.run()) {
                Ok(_) => queue.threads += 1,
                // With a running thread the job only waits longer; without one, the next job tries again.
                Err(error) => tracing::warn!(%error, "cannot start a thread to work on zones"),
            }
        }
        id
    }
}

/// Runs one job on a thread of its own.
pub fn spawn_one(name: &str, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(test)]
    if deferred::is_active() {
        deferred::push(job);
        return Ok(());
    }
    std::thread::Builder::new().name(name.into()).spawn(job).map(drop)
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut queue = self.lock();
        loop {
            while let Some((lane, (id, job))) = queue.jobs.pop() {
                drop(queue);
                self.run_job(id, job);
                queue = self.lock();
                queue.jobs.end(lane);
            }
            queue.idle += 1;
            let has_none = |queue: &mut Queue<T>| queue.jobs.startable(1) == 0;
            let waited = self.has_job.wait_timeout_while(queue, LINGER, has_none);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.idle -= 1;
            if queue.jobs.startable(1) == 0 {
                break;
            }
        }
        queue.threads -= 1;
    }

    fn run_job(&self, id: WorkId, job: Job<T>) {
        // A bug in this code must not keep the zone from ever changing again.
        let result = catch_unwind(AssertUnwindSafe(job)).ok();
        (self.done)(id, result);
    }
}

/// Jobs of the calling thread that wait until a simulation runs them, instead of threads.
#[cfg(test)]
pub(crate) mod deferred {
    use std::cell::RefCell;

    pub type DeferredJob = Box<dyn FnOnce()>;

    thread_local! {
        static JOBS: RefCell<Option<Vec<DeferredJob>>> = const { RefCell::new(None) };
    }

    /// Sets the jobs that wait, and returns the former ones; `None` makes pools start threads.
    pub fn replace(jobs: Option<Vec<DeferredJob>>) -> Option<Vec<DeferredJob>> {
        JOBS.replace(jobs)
    }

    /// Calls `work`; the jobs that it has for pools are added to `jobs`.
    pub fn collect<T>(jobs: &mut Vec<DeferredJob>, work: impl FnOnce() -> T) -> T {
        replace(Some(std::mem::take(jobs)));
        let result = work();
        *jobs = replace(None).unwrap_or_default();
        result
    }

    pub fn is_active() -> bool {
        JOBS.with_borrow(Option::is_some)
    }

    pub fn push(job: impl FnOnce() + 'static) {
        JOBS.with_borrow_mut(|jobs| jobs.as_mut().expect("it is active").push(Box::new(job)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_job_is_run_and_a_panic_is_a_result() {
        let (sender, results) = channel();
        let pool = WorkPool::new(2, move |id, result| _ = sender.send((id, result)));
        let ids: Vec<WorkId> =
            (0..100).map(|n| pool.submit(move || if n == 7 { panic!("a test") } else { n })).collect();
        let mut seen = 0;
        for _ in 0..100 {
            let (id, result) = results.recv_timeout(Duration::from_secs(10)).expect("every job has a result");
            let number = ids.iter().position(|other| *other == id).expect("its number was returned");
            assert_eq!(result, (number != 7).then_some(number));
            seen += 1;
        }
        assert_eq!(seen, 100);
    }

    #[test]
    fn a_lane_whose_jobs_hang_leaves_a_thread_to_the_others() {
        let (sender, results) = channel();
        let pool = WorkPool::with_lanes(3, 2, move |_, result| _ = sender.send(result));
        let (release, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..10 {
            let wait = wait.clone();
            pool.submit_to(1, move || {
                _ = wait.lock().expect("no test panics with it").recv();
                "hung"
            });
        }
        // Also after the thread that was left has ended.
        for pause in [Duration::ZERO, Duration::ZERO, 2 * LINGER] {
            std::thread::sleep(pause);
            pool.submit_to(2, || "quick");
            assert_eq!(results.recv_timeout(Duration::from_secs(10)), Ok(Some("quick")));
        }
        drop(release);
        assert!((0..10).all(|_| results.recv_timeout(Duration::from_secs(10)) == Ok(Some("hung"))));
    }
}
