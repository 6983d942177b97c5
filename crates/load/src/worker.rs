//! A sender thread: sends due queries, receives responses, times out the rest.

mod receiving;
mod sending;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use fastrand::Rng;
use netio::clock;
use netio::epoll::{Events, Poll};
use netio::udp_client::Sources;

use crate::answer_window::AnswerWindow;
use crate::job::{Job, Timing, Transport, share_of};
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::outstanding::OutstandingQueries;
use crate::pacer::{Pacer, busy_share, sleep_ns};
use crate::pool::PoolConfig;
use crate::pools::Pools;
use crate::replay::Replay;
use crate::tls::TlsConfig;
use crate::tsig::TsigContext;
use crate::udp::{UdpConfig, UdpSockets};

/// Events received in one wait.
const EVENTS: usize = 256;
/// The longest sleep, after which the thread checks whether to stop.
const MAX_SLEEP_NS: u64 = 50_000_000;

/// The number of an interval and the metrics of one worker in it.
pub type IntervalReport = (u64, Metrics);

/// What a worker reports at its end.
#[derive(Clone, Copy, Debug)]
pub struct WorkerEnd {
    /// When the last query was sent.
    pub sent: Duration,
    /// The share of the window in which the thread neither slept nor busy-waited for its schedule.
    pub busy: f64,
}

/// A worker, before and while its thread runs.
pub struct Worker {
    ledger: Ledger,
    /// The metrics of the current interval.
    metrics: Metrics,
    pacer: Pacer,
    /// The numbers of the queries in sending order; empty for ascending numbers.
    order: Arc<[u32]>,
    replay: Replay,
    udp: Option<UdpSockets>,
    pools: Option<Pools>,
    /// With several transports, the shares of queries over TCP and TLS; both 0 if captured queries use their transport.
    tcp_share: f64,
    tls_share: f64,
    /// The numbers and intended times of the queries that are sent together next.
    batch: Vec<(u32, u64)>,
    /// How long the thread has waited in the window.
    waited_ns: u64,
    random: Rng,
    poll: Poll,
    events: Events,
    interval_ns: u64,
    interval: u64,
    cpu: Option<usize>,
    /// The CPU time of the thread when the interval began, or when the warm-up ended in it; `None` during the warm-up.
    cpu_before: Option<Duration>,
    /// Time 0 of this worker, on the monotonic clock.
    start: Duration,
}

impl Worker {
    /// Worker number `index` of `count`, with its share of queries, sources and connections; opens its UDP sockets.
    pub fn new(job: &Job, index: usize, count: usize, order: Arc<[u32]>) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let sources = job.sources.map(|sources| share_of_sources(sources, index, count));
        let replay = Replay::new(job, index, count);
        let share = job.replay_share(index, count);
        let (turn, query_count) =
            share.as_ref().map_or(((index, count), job.queries.len()), |share| ((0, 1), share.len()));
        let udp_config = UdpConfig {
            sockets: share_of(job.connections, index, count),
            ports: share.as_ref().map_or(vec![], |share| replay.udp_ports(share)),
            sources,
            batch_len: job.batch_len(),
            burst_len: job.burst_len,
        };
        let has_udp = job.transport != Transport::Tcp;
        let udp = has_udp.then(|| UdpSockets::open(&poll, job.server, &udp_config)).transpose()?;
        let pools = pools(job, replay.slot_count(), sources);
        if let (true, Some(udp)) = (job.kernel_timestamps, &udp) {
            udp.enable_timestamps()?;
        }
        let first_token = udp.as_ref().map_or(0, UdpSockets::socket_count) as u64;
        let source_count = udp.as_ref().map_or(0, UdpSockets::source_count);
        let timeout_ns = job.timeout.as_nanos() as u64;
        Ok(Worker {
            ledger: Ledger {
                outstanding: OutstandingQueries::new(source_count as usize, timeout_ns),
                queries: job.queries.clone(),
                checker: job.checker.clone(),
                tsig: job.key.clone().map(TsigContext::new),
                warm_up_ns: job.warm_up.as_nanos() as u64,
                has_breakdown: job.breakdown,
                window: AnswerWindow::new(job.grace()),
                first_connection: source_count,
            },
            metrics: Metrics::default(),
            pacer: Pacer::new(job.pacing(index, count), turn, query_count, job.max_queries, timeout_ns),
            order: share.unwrap_or(order),
            replay,
            udp,
            pools: (!pools.is_empty()).then(|| Pools::new(pools, first_token)),
            tcp_share: job.tcp_share,
            tls_share: job.tls_share,
            batch: Vec::new(),
            waited_ns: 0,
            random: Rng::with_seed(index as u64),
            poll,
            events: Events::with_capacity(EVENTS),
            interval_ns: job.interval.as_nanos() as u64,
            interval: 0,
            cpu: job.cpus.get(index).copied(),
            cpu_before: None,
            start: Duration::ZERO,
        })
    }

    /// Runs until all queries are sent and answered or timed out, or until `stop`.
    ///
    /// Reports the metrics of every interval, the last one at the end. `start` is time 0, on the monotonic clock.
    pub fn run(
        mut self,
        start: Duration,
        stop: &AtomicBool,
        reports: &Sender<IntervalReport>,
    ) -> io::Result<WorkerEnd> {
        if let Some(cpu) = self.cpu {
            netio::cpu_affinity::pin_thread(cpu)?;
        }
        clock::minimize_timer_slack();
        self.start = start;
        std::thread::sleep(start.saturating_sub(clock::monotonic_exact()));
        let mut sent_ns = None;
        while !stop.load(Ordering::Relaxed) {
            let may_be_due = self.send_due();
            let now = self.now();
            if self.cpu_before.is_none() && now >= self.ledger.warm_up_ns {
                self.cpu_before = Some(clock::thread_cpu());
            }
            self.expire(now);
            self.report_intervals(now, reports);
            if self.pacer.is_finished(now) {
                self.ledger.window.end(*sent_ns.get_or_insert(now));
                if self.ledger.outstanding.is_empty() {
                    break;
                }
            }
            let wait_ns = if may_be_due { 0 } else { self.wait_ns(now) };
            self.wait(now, wait_ns, sent_ns.is_none())?;
            self.handle_events()?;
        }
        self.metrics.responses_after_window = self.ledger.window.late_answers();
        self.metrics.interrupted = self.ledger.outstanding.len() as u64;
        self.metrics.receive_drops = self.udp.as_ref().map_or(Ok(0), UdpSockets::receive_drops)?;
        self.metrics.ports_replaced = self.ports_replaced();
        self.report_interval(reports);
        let sent_ns = sent_ns.unwrap_or_else(|| self.now());
        let window_ns = sent_ns.saturating_sub(self.ledger.warm_up_ns);
        let busy = busy_share(Duration::from_nanos(self.waited_ns), Duration::from_nanos(window_ns));
        Ok(WorkerEnd { sent: Duration::from_nanos(sent_ns), busy })
    }

    /// Waits for events, and measures how long, unless events were ready.
    fn wait(&mut self, now: u64, wait_ns: u64, is_sending: bool) -> io::Result<()> {
        self.poll.wait_precise(&mut self.events, Duration::from_nanos(wait_ns))?;
        if is_sending && now >= self.ledger.warm_up_ns && (wait_ns > 0 || self.events.is_empty()) {
            self.waited_ns += self.now() - now;
        }
        Ok(())
    }

    #[inline]
    fn now(&self) -> u64 {
        ns_since(self.start)
    }

    fn ports_replaced(&self) -> u64 {
        let udp = self.udp.as_ref().map_or(0, UdpSockets::ports_replaced);
        udp + self.pools.as_ref().map_or(0, Pools::ports_replaced)
    }

    /// How long to wait for events until something else is due.
    fn wait_ns(&mut self, now: u64) -> u64 {
        let interval_end = (self.interval + 1) * self.interval_ns;
        let times = [self.ledger.outstanding.next_timeout_ns(), self.replay.next_ns(), Some(interval_end)];
        let soonest = times.into_iter().flatten().min();
        let other = soonest.map_or(MAX_SLEEP_NS, |time| time.saturating_sub(now)).min(MAX_SLEEP_NS);
        match self.pacer.next_ns() {
            Some(due) => sleep_ns(due.saturating_sub(now)).min(other),
            None => other,
        }
    }

    fn report_intervals(&mut self, now: u64, reports: &Sender<IntervalReport>) {
        while now >= (self.interval + 1) * self.interval_ns {
            self.report_interval(reports);
        }
    }

    fn report_interval(&mut self, reports: &Sender<IntervalReport>) {
        if let Some(before) = &mut self.cpu_before {
            let cpu = clock::thread_cpu();
            self.metrics.cpu_ns = (cpu - *before).as_nanos() as u64;
            *before = cpu;
        }
        // If the receiver is gone, the run was abandoned.
        let _ = reports.send((self.interval, std::mem::take(&mut self.metrics)));
        self.interval += 1;
    }
}

/// The servers of the pools of connections, with their configurations.
fn pools(job: &Job, slots: usize, sources: Option<Sources>) -> Vec<(SocketAddr, PoolConfig)> {
    let config = |tls: Option<TlsConfig>| PoolConfig {
        connections: slots,
        queries_per_connection: job.queries_per_connection,
        prefer_established: matches!(job.timing, Timing::Closed { .. }),
        fast_open: job.fast_open,
        sources,
        tls,
        idle_timeout_ns: job.idle_timeout.map(|timeout| timeout.as_nanos() as u64),
    };
    match (job.transport, &job.tls) {
        (Transport::Udp, _) => vec![],
        (Transport::Tcp, tls) => vec![(job.server, config(tls.clone()))],
        (Transport::Mixed, None) => vec![(job.server, config(None))],
        (Transport::Mixed, tls) => {
            let tls_server = SocketAddr::new(job.server.ip(), job.tls_port);
            vec![(job.server, config(None)), (tls_server, config(tls.clone()))]
        }
    }
}

#[inline]
fn ns_since(start: Duration) -> u64 {
    clock::monotonic_exact().saturating_sub(start).as_nanos() as u64
}

/// The part of the sources for one of `count` threads. If there are fewer sources than threads, some threads share one.
fn share_of_sources(sources: Sources, index: usize, count: usize) -> Sources {
    let (index, count) = (index as u32, count as u32);
    let begin = (sources.count as u64 * u64::from(index) / u64::from(count)) as u32;
    let end = (sources.count as u64 * u64::from(index + 1) / u64::from(count)) as u32;
    let begin = begin.min(sources.count - 1);
    Sources { first: sources.at(begin), count: (end.saturating_sub(begin)).max(1) }
}
