//! The threads for work on zones: some compute, others run the external commands that check zones, which may take minutes.

use std::sync::Arc;

use super::work_pool::{WorkId, WorkPool};

/// A pool for work that only computes, and one for work that runs an external command: no zone without a command waits for one.
pub struct ZonePools<T> {
    compute: WorkPool<T>,
    commands: WorkPool<T>,
}

/// More commands at once would compete with answering for processors and memory.
const COMMAND_THREADS: usize = 5;
/// As many of them may run the same command: zones whose command is slow or hangs do not keep those with another one from being checked.
const COMMAND_SHARE: usize = 4;

impl<T: 'static> ZonePools<T> {
    /// Pools that pass each result to `done`, on the thread that did the work; `None` if the work panicked. At most `threads` compute.
    pub fn new(threads: usize, done: impl Fn(WorkId, Option<T>) + Send + Sync + 'static) -> ZonePools<T> {
        let done = Arc::new(done);
        let pool_done = || {
            let done = done.clone();
            move |id, result| done(id, result)
        };
        ZonePools {
            compute: WorkPool::new(threads, pool_done()),
            commands: WorkPool::with_lanes(COMMAND_THREADS, COMMAND_SHARE, pool_done()),
        }
    }

    /// Queues work; `command` is the number of the external command that it runs, if it runs one: see [`command_lane`]. The caller bounds how
    /// much waits: one job per zone.
    ///
    /// [`command_lane`]: super::acceptance::command_lane
    pub fn submit(&self, command: Option<u64>, work: impl FnOnce() -> T + Send + 'static) -> WorkId {
        match command {
            Some(lane) => self.commands.submit_to(lane, work),
            None => self.compute.submit(work),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    #[test]
    fn a_command_that_hangs_delays_neither_other_commands_nor_work_without_one() {
        let (sender, results) = channel();
        let pools = ZonePools::new(1, move |_, result| _ = sender.send(result));
        let (release, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        for _ in 0..2 * COMMAND_THREADS {
            let wait = wait.clone();
            pools.submit(Some(1), move || {
                _ = wait.lock().expect("no test panics with it").recv();
                "hung"
            });
        }
        for command in [None, Some(2)] {
            pools.submit(command, || "quick");
            assert_eq!(results.recv_timeout(SOON), Ok(Some("quick")), "{command:?}");
        }
        drop(release);
        assert!((0..2 * COMMAND_THREADS).all(|_| results.recv_timeout(SOON) == Ok(Some("hung"))));
    }
}
