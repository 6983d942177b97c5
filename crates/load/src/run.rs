//! A whole run of queries: its threads, and what they measured together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use netio::client::Sources;
use netio::clock;
use wire::tsig::Key;

use crate::measure::Measure;
use crate::pacer::Pace;
use crate::plan::{Arrivals, Profile, Schedule};
use crate::queries::Queries;
use crate::stream::{Streams, Usage};
use crate::tls::Tls;
use crate::udp::Udp;
use crate::verify::Verifier;
use crate::worker::{Parts, Report, Worker};

/// How queries travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// Streams, in TLS if [`Job::tls`] says how.
    Tcp,
    /// Both: as captured, or by [`Job::tcp_share`].
    Mixed,
}

/// When queries are sent.
#[derive(Clone, Debug)]
pub enum Timing {
    /// An open loop at the rates of a profile, which has no warm-up in it.
    Rate(Profile, Arrivals),
    /// An open loop at the times of the capture, faster by a factor.
    Trace {
        /// How many times as fast.
        speed: f64,
    },
    /// A closed loop: the next query waits for an answer. Latencies leave out what the waiting hides.
    Closed {
        /// Queries in flight.
        outstanding: usize,
        /// How long, without the warm-up.
        seconds: f64,
    },
}

/// The largest [`Job::bunch`]: as many as the kernel takes in one piece.
pub const MAX_BUNCH: usize = 64;

/// How many neighbours of a closed loop are asked in the order of their lengths: several of each length for a whole bunch, few
/// enough that a server's caches see no other load.
const WINDOW: usize = 1024;

/// A run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Who is asked.
    pub server: SocketAddr,
    /// How.
    pub transport: Transport,
    /// With [`Transport::Mixed`], the share of queries that go over TCP.
    pub tcp_share: f64,
    /// Sockets, or TCP connections, of all threads together.
    pub connections: usize,
    /// After how many queries a TCP connection is closed; 0: never.
    pub queries_per_connection: u32,
    /// Where queries come from; `None` for the address that the kernel chooses.
    pub sources: Option<Sources>,
    /// How many queries over UDP leave by one socket if they are due together, in as few pieces as their lengths allow
    /// (UDP_SEGMENT); 1 to [`MAX_BUNCH`].
    pub bunch: usize,
    /// How streams are encrypted; `None` for plain TCP.
    pub tls: Option<Tls>,
    /// What queries are signed with; `None` for not at all.
    pub key: Option<Arc<Key>>,
    /// What is asked; not empty.
    pub queries: Arc<Queries>,
    /// What is right.
    pub verifier: Verifier,
    /// When.
    pub timing: Timing,
    /// How long nothing is measured.
    pub warm_up: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How often there is an intermediate result.
    pub interval: Duration,
    /// The processors that threads stay on, one each; without any there is one thread, which goes anywhere.
    pub cpus: Vec<usize>,
}

/// What a run measured, or what came in one interval of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When it began, after the warm-up, since 1970.
    pub since: Duration,
    /// When the last query was sent, or was to be sent; answers are waited for longer.
    pub until: Duration,
    /// The figures.
    pub measure: Measure,
}

impl Job {
    /// Runs to the end or until `stop`; `progress` is told every interval's result.
    pub fn run(&self, stop: &AtomicBool, mut progress: impl FnMut(&Outcome)) -> io::Result<Outcome> {
        let worker_count = self.cpus.len().max(1);
        let order = self.order();
        let workers =
            (0..worker_count).map(|index| self.worker(index, worker_count, &order)).collect::<io::Result<Vec<_>>>()?;
        // So that the threads are there when the time begins to count.
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
            let measure = self.gather(&reports, worker_count, since, &mut progress);
            let is_whole = !stop.load(Ordering::Relaxed);
            let mut sent = if is_whole { self.planned() } else { Duration::ZERO };
            for thread in threads {
                sent = sent.max(thread.join().expect("workers do not panic")?);
            }
            Ok(Outcome { since, until: since + sent.saturating_sub(self.warm_up), measure })
        })
    }

    /// How long queries are to be sent, the warm-up included.
    fn planned(&self) -> Duration {
        match &self.timing {
            Timing::Rate(profile, _) => self.warm_up + Duration::from_secs_f64(profile.seconds()),
            Timing::Closed { seconds, .. } => self.warm_up + Duration::from_secs_f64(*seconds),
            // Traces have no warm-up of their own: it is their beginning.
            Timing::Trace { speed } => {
                let last_ns = self.queries.origins().last().map_or(0, |last| last.time_ns);
                Duration::from_nanos((last_ns as f64 / speed) as u64)
            }
        }
    }

    /// The queries of a closed loop have no times of their own, so that those go together which leave in few pieces.
    fn order(&self) -> Arc<[u32]> {
        let is_free = matches!(self.timing, Timing::Closed { .. }) && self.queries.origins().is_empty();
        if is_free && self.transport == Transport::Udp && self.bunch > 1 {
            self.queries.by_length(WINDOW)
        } else {
            Arc::default()
        }
    }

    fn worker(&self, index: usize, count: usize, order: &Arc<[u32]>) -> io::Result<Worker> {
        let sources = self.sources.map(|sources| share_of(sources, index, count));
        let connections = self.connections / count + usize::from(index < self.connections % count);
        let udp = match self.transport {
            Transport::Udp | Transport::Mixed => Some(Udp::open(self.server, connections, sources, self.bunch)?),
            Transport::Tcp => None,
        };
        let queries_per_connection = self.queries_per_connection;
        let passes_over_begun = matches!(self.timing, Timing::Closed { .. });
        let usage = Usage { connections, queries_per_connection, passes_over_begun, sources, tls: self.tls.clone() };
        let first_token = udp.as_ref().map_or(0, Udp::socket_count) as u64;
        Worker::new(Parts {
            queries: self.queries.clone(),
            order: order.clone(),
            verifier: self.verifier.clone(),
            key: self.key.clone(),
            share: (index, count),
            pace: self.pace(index, count),
            udp,
            streams: (self.transport != Transport::Udp).then(|| Streams::new(self.server, usage, first_token)),
            stream_share: self.tcp_share,
            timeout_ns: self.timeout.as_nanos() as u64,
            warm_up_ns: self.warm_up.as_nanos() as u64,
            interval_ns: self.interval.as_nanos() as u64,
            cpu: self.cpus.get(index).copied(),
        })
    }

    fn pace(&self, index: usize, count: usize) -> Pace {
        match &self.timing {
            Timing::Rate(profile, arrivals) => {
                let profile = profile.clone().after_warm_up(self.warm_up.as_secs_f64());
                Pace::share(Schedule::of_rate(profile, *arrivals), index, count)
            }
            Timing::Trace { speed } => {
                let times = self.queries.origins().iter().map(|origin| origin.time_ns).collect();
                Pace::share(Schedule::of_trace(times, *speed), index, count)
            }
            Timing::Closed { outstanding, seconds } => {
                let outstanding = outstanding / count + usize::from(index < outstanding % count);
                let end = self.warm_up + Duration::from_secs_f64(*seconds);
                Pace::Closed { outstanding, end_ns: end.as_nanos() as u64 }
            }
        }
    }

    /// Adds up what the workers report; tells of each interval when all of them have ended it.
    fn gather(
        &self,
        reports: &Receiver<Report>,
        worker_count: usize,
        since: Duration,
        progress: &mut impl FnMut(&Outcome),
    ) -> Measure {
        let mut total = Measure::default();
        // The intervals that not all workers have reported yet; the first is number `done`.
        let mut pending: Vec<Vec<Measure>> = Vec::new();
        let mut done = 0;
        for (interval, measure) in reports {
            total.add(&measure);
            let index = (interval - done) as usize;
            pending.resize_with(pending.len().max(index + 1), Vec::new);
            pending[index].push(measure);
            while pending.first().is_some_and(|parts| parts.len() == worker_count) {
                let began = since + self.interval * done as u32 - self.warm_up;
                done += 1;
                let whole = pending.remove(0).into_iter().reduce(|mut whole, part| {
                    whole.add(&part);
                    whole
                });
                let outcome =
                    Outcome { since: began, until: began + self.interval, measure: whole.unwrap_or_default() };
                // What leaves right behind the warm-up may be counted at the end of its last interval.
                if outcome.until > since || outcome.measure.scheduled > 0 {
                    progress(&outcome);
                }
            }
        }
        total
    }
}

/// The sources of one of several threads; where there are fewer than threads, some have the same.
fn share_of(sources: Sources, index: usize, count: usize) -> Sources {
    let (index, count) = (index as u32, count as u32);
    let begin = (sources.count as u64 * u64::from(index) / u64::from(count)) as u32;
    let end = (sources.count as u64 * u64::from(index + 1) / u64::from(count)) as u32;
    let begin = begin.min(sources.count - 1);
    Sources { first: sources.at(begin), count: (end.saturating_sub(begin)).max(1) }
}
