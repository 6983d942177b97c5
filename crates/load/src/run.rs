//! A run: starts the workers and merges their metrics.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use netio::clock;
use netio::udp_client::Sources;
use wire::tsig::TsigKey;

use crate::metrics::Metrics;
use crate::pacer::Pacing;
use crate::pool::{ConnectionPool, PoolConfig};
use crate::queries::Queries;
use crate::schedule::{ArrivalProcess, RateProfile, Schedule};
use crate::tls::TlsConfig;
use crate::udp::UdpSockets;
use crate::verify::ResponseChecker;
use crate::worker::{IntervalReport, Worker, WorkerConfig};

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The server under test.
    pub server: SocketAddr,
    /// UDP, TCP or both.
    pub transport: Transport,
    /// With [`Transport::Mixed`], the share of queries over TCP.
    pub tcp_share: f64,
    /// UDP sockets, or TCP connections, of all threads together.
    pub connections: usize,
    /// A TCP connection is closed after this many queries; 0: never.
    pub queries_per_connection: u32,
    /// The source addresses; `None` for the one that the kernel chooses.
    pub sources: Option<Sources>,
    /// The maximum number of UDP queries sent together by one socket, as segment bursts (UDP_SEGMENT) where their
    /// lengths allow it; 1 to [`MAX_BURST_LEN`].
    pub burst_len: usize,
    /// Set for TLS instead of plain TCP.
    pub tls: Option<TlsConfig>,
    /// The TSIG key, if queries are signed.
    pub key: Option<Arc<TsigKey>>,
    /// The queries; at least one.
    pub queries: Arc<Queries>,
    /// Checks responses.
    pub checker: ResponseChecker,
    /// When queries are sent.
    pub timing: Timing,
    /// How long queries are sent but not counted.
    pub warm_up: Duration,
    /// The time-out of a query.
    pub timeout: Duration,
    /// The reporting interval.
    pub interval: Duration,
    /// The processors to pin a thread to each; if empty, there is one thread, which is not pinned.
    pub cpus: Vec<usize>,
}

/// The transport of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP, or TLS if [`Job::tls`] is set.
    Tcp,
    /// Both: as captured, or by [`Job::tcp_share`].
    Mixed,
}

/// When queries are sent.
#[derive(Clone, Debug)]
pub enum Timing {
    /// Open loop: at the rates of a profile, to which the warm-up is added.
    Rate(RateProfile, ArrivalProcess),
    /// Open loop: at the times of a capture, faster by a factor.
    Trace {
        /// The factor.
        speed: f64,
    },
    /// Closed loop: a query is sent when another is answered. Latencies are subject to coordinated omission.
    Closed {
        /// The number of outstanding queries.
        outstanding: usize,
        /// The duration, without the warm-up.
        seconds: f64,
    },
}

/// The largest [`Job::burst_len`]: the kernel's limit of segments in one send.
pub const MAX_BURST_LEN: usize = 64;

/// How many consecutive queries a closed loop sorts by length: enough for full segment bursts, few enough that the
/// order hardly changes what the server has in its caches.
const SORT_WINDOW: usize = 1024;

/// The metrics of a run, or of one interval of it.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// When it began, after the warm-up, since 1970.
    pub since: Duration,
    /// When the last query was sent, or scheduled; responses may arrive later.
    pub until: Duration,
    /// The metrics.
    pub metrics: Metrics,
}

impl Job {
    /// A run over UDP by one socket, in which only the question of a response is checked.
    pub fn new(server: SocketAddr, queries: Arc<Queries>, timing: Timing) -> Job {
        Job {
            server,
            transport: Transport::Udp,
            tcp_share: 0.0,
            connections: 1,
            queries_per_connection: 0,
            sources: None,
            burst_len: 8,
            tls: None,
            key: None,
            queries,
            checker: ResponseChecker::Question,
            timing,
            warm_up: Duration::ZERO,
            timeout: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            cpus: Vec::new(),
        }
    }

    /// Runs to the end or until `stop`. `on_interval` gets the result of each interval.
    pub fn run(&self, stop: &AtomicBool, mut on_interval: impl FnMut(&RunResult)) -> io::Result<RunResult> {
        let worker_count = self.cpus.len().max(1);
        let order = self.order();
        let workers =
            (0..worker_count).map(|index| self.worker(index, worker_count, &order)).collect::<io::Result<Vec<_>>>()?;
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
            let is_complete = !stop.load(Ordering::Relaxed);
            let mut sent = if is_complete { self.sending_time() } else { Duration::ZERO };
            for thread in threads {
                sent = sent.max(thread.join().expect("workers do not panic")?);
            }
            Ok(RunResult { since, until: since + sent.saturating_sub(self.warm_up), metrics })
        })
    }

    /// How long queries are scheduled for, including the warm-up.
    fn sending_time(&self) -> Duration {
        match &self.timing {
            Timing::Rate(profile, _) => self.warm_up + Duration::from_secs_f64(profile.seconds()),
            Timing::Closed { seconds, .. } => self.warm_up + Duration::from_secs_f64(*seconds),
            // The warm-up of a trace is its beginning.
            Timing::Trace { speed } => {
                let last_ns = self.queries.origins().last().map_or(0, |last| last.time_ns);
                Duration::from_nanos((last_ns as f64 / speed) as u64)
            }
        }
    }

    /// The order of sending; empty for ascending numbers. A closed loop over UDP reorders for longer segment bursts.
    fn order(&self) -> Arc<[u32]> {
        let may_reorder = matches!(self.timing, Timing::Closed { .. }) && self.queries.origins().is_empty();
        if may_reorder && self.transport == Transport::Udp && self.burst_len > 1 {
            self.queries.sorted_by_length(SORT_WINDOW)
        } else {
            Arc::default()
        }
    }

    fn worker(&self, index: usize, count: usize, order: &Arc<[u32]>) -> io::Result<Worker> {
        let sources = self.sources.map(|sources| share_of(sources, index, count));
        let connections = self.connections / count + usize::from(index < self.connections % count);
        let udp = match self.transport {
            Transport::Udp | Transport::Mixed => {
                Some(UdpSockets::open(self.server, connections, sources, self.burst_len)?)
            }
            Transport::Tcp => None,
        };
        let pool_config = PoolConfig {
            connections,
            queries_per_connection: self.queries_per_connection,
            prefer_established: matches!(self.timing, Timing::Closed { .. }),
            sources,
            tls: self.tls.clone(),
        };
        let first_token = udp.as_ref().map_or(0, UdpSockets::socket_count) as u64;
        Worker::new(WorkerConfig {
            queries: self.queries.clone(),
            order: order.clone(),
            checker: self.checker.clone(),
            key: self.key.clone(),
            share: (index, count),
            pacing: self.pacing(index, count),
            udp,
            pool: (self.transport != Transport::Udp)
                .then(|| ConnectionPool::new(self.server, pool_config, first_token)),
            tcp_share: self.tcp_share,
            timeout_ns: self.timeout.as_nanos() as u64,
            warm_up_ns: self.warm_up.as_nanos() as u64,
            interval_ns: self.interval.as_nanos() as u64,
            cpu: self.cpus.get(index).copied(),
        })
    }

    fn pacing(&self, index: usize, count: usize) -> Pacing {
        match &self.timing {
            Timing::Rate(profile, arrivals) => {
                let profile = profile.clone().after_warm_up(self.warm_up.as_secs_f64());
                Pacing::open(Schedule::from_profile(profile, *arrivals), index, count)
            }
            Timing::Trace { speed } => {
                let times = self.queries.origins().iter().map(|origin| origin.time_ns).collect();
                Pacing::open(Schedule::from_trace(times, *speed), index, count)
            }
            Timing::Closed { outstanding, seconds } => {
                let outstanding = outstanding / count + usize::from(index < outstanding % count);
                let end = self.warm_up + Duration::from_secs_f64(*seconds);
                Pacing::Closed { outstanding, end_ns: end.as_nanos() as u64 }
            }
        }
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
                let result =
                    RunResult { since: began, until: began + self.interval, metrics: merged.unwrap_or_default() };
                // The first queries after the warm-up may be counted in its last interval.
                if result.until > since || result.metrics.scheduled > 0 {
                    on_interval(&result);
                }
            }
        }
        total
    }
}

/// The part of the sources for one of `count` threads. If there are fewer sources than threads, some threads share one.
fn share_of(sources: Sources, index: usize, count: usize) -> Sources {
    let (index, count) = (index as u32, count as u32);
    let begin = (sources.count as u64 * u64::from(index) / u64::from(count)) as u32;
    let end = (sources.count as u64 * u64::from(index + 1) / u64::from(count)) as u32;
    let begin = begin.min(sources.count - 1);
    Sources { first: sources.at(begin), count: (end.saturating_sub(begin)).max(1) }
}
