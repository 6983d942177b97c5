//! A run: starts the workers and merges their metrics.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use netio::clock;

use crate::job::Job;
use crate::metrics::Metrics;
use crate::worker::{IntervalReport, Worker};

/// The metrics of a run, or of one interval of it.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// When it began, after the warm-up, since 1970.
    pub since: Duration,
    /// When the last query was sent, or scheduled; responses may arrive later.
    pub until: Duration,
    /// The metrics.
    pub metrics: Metrics,
    /// The largest share of the window in which a thread neither slept nor busy-waited for its schedule: above 0.9 the generator
    /// is at its limit. Only known for whole runs.
    pub busy: f64,
}

impl Job {
    /// Runs to the end or until `stop`. `on_interval` gets the result of each interval.
    pub fn run(&self, stop: &AtomicBool, mut on_interval: impl FnMut(&RunResult)) -> io::Result<RunResult> {
        let worker_count = self.cpus.len().max(1);
        let order = self.order();
        let workers = (0..worker_count).map(|index| Worker::new(self, index, worker_count, order.clone()));
        let workers = workers.collect::<io::Result<Vec<_>>>()?;
        // Time for the threads to start.
        let start = clock::monotonic_exact() + Duration::from_millis(10);
        let since = clock::real() + Duration::from_millis(10) + self.warm_up;
        thread::scope(|scope| {
            let (sender, reports) = mpsc::channel();
            let threads: Vec<_> = workers
                .into_iter()
                .map(|worker| {
                    let sender = sender.clone();
                    scope.spawn(move || worker.run(start, stop, &sender))
                })
                .collect();
            drop(sender);
            let metrics = self.merge(&reports, worker_count, since, &mut on_interval);
            // Otherwise the last query decides.
            let is_complete = !stop.load(Ordering::Relaxed) && self.max_queries == u64::MAX;
            let (mut sent, mut busy) = (if is_complete { self.sending_time() } else { Duration::ZERO }, 0.0);
            for thread in threads {
                let end = thread.join().expect("workers do not panic")?;
                (sent, busy) = (sent.max(end.sent), f64::max(busy, end.busy));
            }
            Ok(RunResult { since, until: since + sent.saturating_sub(self.warm_up), metrics, busy })
        })
    }

    /// Merges the workers' reports; calls `on_interval` when all workers have reported an interval.
    fn merge(
        &self,
        reports: &Receiver<IntervalReport>,
        worker_count: usize,
        since: Duration,
        on_interval: &mut impl FnMut(&RunResult),
    ) -> Metrics {
        let mut total = Metrics::default();
        // Intervals that some workers have not reported yet; the first is number `done`.
        let mut pending: Vec<Vec<Metrics>> = Vec::new();
        let mut done = 0;
        for (interval, metrics) in reports {
            total.add(&metrics);
            let index = (interval - done) as usize;
            pending.resize_with(pending.len().max(index + 1), Vec::new);
            pending[index].push(metrics);
            while pending.first().is_some_and(|parts| parts.len() == worker_count) {
                let began = since + self.interval * done as u32 - self.warm_up;
                done += 1;
                let merged = pending.remove(0).into_iter().reduce(|mut merged, part| {
                    merged.add(&part);
                    merged
                });
                let metrics = merged.unwrap_or_default();
                let result = RunResult { since: began, until: began + self.interval, metrics, busy: 0.0 };
                // The first queries after the warm-up may be counted in its last interval.
                if result.until > since || result.metrics.scheduled > 0 {
                    on_interval(&result);
                }
            }
        }
        total
    }
}
