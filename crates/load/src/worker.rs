//! A sender thread: sends due queries, receives responses, times out the rest.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use netio::clock;
use netio::epoll::{Events, Poll};
use netio::udp_client::Sources;

use crate::job::{Job, Timing, Transport, share_of};
use crate::ledger::Ledger;
use crate::metrics::Metrics;
use crate::outstanding::OutstandingQueries;
use crate::pacer::{Due, Pacer};
use crate::pool::PoolConfig;
use crate::pools::Pools;
use crate::tls::TlsConfig;
use crate::tsig::TsigContext;
use crate::udp::UdpSockets;
use fastrand::Rng;

/// Queries sent before responses are received again: enough to catch up, few enough not to timestamp responses late.
const MAX_SENT_PER_TURN: usize = 64;
/// Queries written to connections before they are flushed, without UDP.
const TCP_BATCH: usize = 8;
/// Connections that a closed loop opens without waiting for responses: fewer than a short listen backlog holds (10 in
/// BIND and Knot). The kernel drops a SYN that does not fit and retransmits it after a second, which says nothing about
/// the server.
const INITIAL_CONNECTIONS: usize = 8;
/// A closed loop opens a further connection at least this often, so that a distant server does not slow it down.
const CONNECTION_INTERVAL_NS: u64 = 5_000_000;
/// Missed queries skipped before responses are received again: at a rate that cannot be kept there is always another.
const MAX_MISSED_PER_TURN: usize = 1024;
/// The pool of TCP connections, or of TLS if all queries use it, and that of TLS in a mix.
const TCP_POOL: usize = 0;
const TLS_POOL: usize = 1;
/// Events received in one wait.
const EVENTS: usize = 256;
/// The thread busy-waits for less than this, which is about the time a processor needs to wake up.
const SPIN_NS: u64 = 60_000;
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
    udp: Option<UdpSockets>,
    pools: Option<Pools>,
    /// With several transports, the shares of queries over TCP and TLS; both 0 if captured queries use their transport.
    tcp_share: f64,
    tls_share: f64,
    /// The numbers and intended times of the queries that are sent together next.
    batch: Vec<(u32, u64)>,
    grace_ns: u64,
    /// How long the thread has waited in the window.
    waited_ns: u64,
    random: Rng,
    poll: Poll,
    events: Events,
    interval_ns: u64,
    interval: u64,
    cpu: Option<usize>,
    cpu_before: Duration,
    /// Time 0 of this worker, on the monotonic clock.
    start: Duration,
}

impl Worker {
    /// Worker number `index` of `count`, with its share of queries, sources and connections; opens its UDP sockets.
    pub fn new(job: &Job, index: usize, count: usize, order: Arc<[u32]>) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let sources = job.sources.map(|sources| share_of_sources(sources, index, count));
        let connections = share_of(job.connections, index, count);
        let udp = match job.transport {
            Transport::Tcp => None,
            _ => Some(UdpSockets::open(&poll, job.server, connections, sources, job.batch_len(), job.burst_len)?),
        };
        let pool_config = |tls: Option<TlsConfig>| PoolConfig {
            connections: job.connections(index, count),
            queries_per_connection: job.queries_per_connection,
            prefer_established: matches!(job.timing, Timing::Closed { .. }),
            sources,
            tls,
            idle_timeout_ns: job.idle_timeout.map(|timeout| timeout.as_nanos() as u64),
        };
        let pools = match (job.transport, &job.tls) {
            (Transport::Udp, _) => vec![],
            (Transport::Tcp, tls) => vec![(job.server, pool_config(tls.clone()))],
            (Transport::Mixed, None) => vec![(job.server, pool_config(None))],
            (Transport::Mixed, tls) => {
                let tls_server = SocketAddr::new(job.server.ip(), job.tls_port);
                vec![(job.server, pool_config(None)), (tls_server, pool_config(tls.clone()))]
            }
        };
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
                window_end_ns: u64::MAX,
                first_connection: source_count,
            },
            metrics: Metrics::default(),
            pacer: Pacer::new(job.pacing(index, count), (index, count), job.queries.len(), job.max_queries, timeout_ns),
            order,
            udp,
            pools: (!pools.is_empty()).then(|| Pools::new(pools, first_token)),
            tcp_share: job.tcp_share,
            tls_share: job.tls_share,
            batch: Vec::new(),
            grace_ns: job.grace().as_nanos() as u64,
            waited_ns: 0,
            random: Rng::with_seed(index as u64),
            poll,
            events: Events::with_capacity(EVENTS),
            interval_ns: job.interval.as_nanos() as u64,
            interval: 0,
            cpu: job.cpus.get(index).copied(),
            cpu_before: Duration::ZERO,
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
        self.cpu_before = clock::thread_cpu();
        let mut sent_ns = None;
        while !stop.load(Ordering::Relaxed) {
            let may_be_due = self.send_due();
            let now = self.now();
            self.expire(now);
            self.report_intervals(now, reports);
            if self.pacer.is_finished(now) {
                let sent_ns = *sent_ns.get_or_insert(now);
                self.ledger.window_end_ns = sent_ns + self.grace_ns;
                if self.ledger.outstanding.is_empty() {
                    break;
                }
            }
            let wait_ns = if may_be_due { 0 } else { self.wait_ns(now) };
            self.wait(now, wait_ns, sent_ns.is_none())?;
            self.handle_events()?;
        }
        self.metrics.interrupted = self.ledger.outstanding.len() as u64;
        self.metrics.receive_drops = self.udp.as_ref().map_or(Ok(0), UdpSockets::receive_drops)?;
        self.report_interval(reports);
        let sent_ns = sent_ns.unwrap_or_else(|| self.now());
        let window_ns = sent_ns.saturating_sub(self.ledger.warm_up_ns).max(1);
        let busy = 1.0 - self.waited_ns.min(window_ns) as f64 / window_ns as f64;
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

    /// Sends a few batches of due queries; returns whether more may be due.
    fn send_due(&mut self) -> bool {
        let mut sent = 0;
        while sent < MAX_SENT_PER_TURN {
            let now = self.now();
            let was_full = self.collect_batch(now);
            sent += self.batch.len();
            for at in 0..self.batch.len() {
                let (number, intended_ns) = self.batch[at];
                self.send(number, intended_ns, now);
            }
            self.flush();
            if !was_full || self.batch.is_empty() {
                return was_full;
            }
        }
        true
    }

    /// Collects the next batch of due queries; returns whether it is full, so that more may be due.
    fn collect_batch(&mut self, now: u64) -> bool {
        self.batch.clear();
        let batch_len = self.udp.as_ref().map_or(TCP_BATCH, UdpSockets::batch_len);
        let (max_outstanding, mut missed) = (self.max_outstanding(now), 0);
        let mut is_full = true;
        while self.batch.len() < batch_len && missed < MAX_MISSED_PER_TURN {
            let outstanding = self.ledger.outstanding.len() + self.batch.len();
            match self.pacer.next(now, outstanding, max_outstanding) {
                Some(Due::Query { number, intended_ns }) => {
                    let number = self.order.get(number as usize).copied().unwrap_or(number);
                    self.batch.push((number, intended_ns));
                }
                Some(Due::Missed { intended_ns }) => {
                    self.ledger.record_missed(intended_ns, now, &mut self.metrics);
                    missed += 1;
                }
                None => {
                    is_full = false;
                    break;
                }
            }
        }
        if let (Some(udp), false) = (&mut self.udp, self.batch.is_empty()) {
            udp.begin_batch();
        }
        is_full
    }

    /// The limit for a closed loop while it opens its connections: each query opens one.
    fn max_outstanding(&self, now: u64) -> usize {
        match (&self.udp, &self.pools) {
            (None, Some(pools)) if !pools.all_opened() => INITIAL_CONNECTIONS + (now / CONNECTION_INTERVAL_NS) as usize,
            _ => usize::MAX,
        }
    }

    fn send(&mut self, number: u32, intended_ns: u64, now: u64) {
        if let Some(pool) = self.choose_pool(number) {
            return self.send_on_connection(pool, number, intended_ns, now);
        }
        let Some(udp) = &mut self.udp else { return };
        let source = match self.ledger.queries.origin(number) {
            None => udp.next_source(),
            Some(origin) => udp.source_of_client(origin.client),
        };
        let Some(id) = self.ledger.record_sent(source, number, intended_ns, now, &mut self.metrics) else { return };
        let refused = udp.push(source, id, self.ledger.message(number));
        self.metrics.refused += refused as u64;
    }

    /// The connection pool for a query; `None` for UDP.
    fn choose_pool(&mut self, number: u32) -> Option<usize> {
        match (&self.udp, &self.pools) {
            (_, None) => None,
            (None, Some(_)) => Some(TCP_POOL),
            (Some(_), Some(_)) if self.tcp_share + self.tls_share == 0.0 => {
                self.ledger.queries.origin(number).filter(|origin| origin.is_tcp).map(|_| TCP_POOL)
            }
            (Some(_), Some(_)) => match self.random.f64() {
                random if random < self.tcp_share => Some(TCP_POOL),
                random if random < self.tcp_share + self.tls_share => Some(TLS_POOL),
                _ => None,
            },
        }
    }

    fn send_on_connection(&mut self, pool: usize, number: u32, intended_ns: u64, now: u64) {
        let Some(pools) = &mut self.pools else { return };
        let client = self.ledger.queries.origin(number).map(|origin| origin.client);
        match pools.choose(pool, client, &self.poll, now) {
            Ok(connection) => {
                let source = self.ledger.first_connection + connection;
                let sources = self.ledger.first_connection as usize + pools.connection_count();
                self.ledger.outstanding.reserve_sources(sources);
                match self.ledger.record_sent(source, number, intended_ns, now, &mut self.metrics) {
                    Some(id) => pools.push(connection, id, self.ledger.message(number)),
                    None => pools.query_timed_out(connection, now, &mut self.metrics),
                }
            }
            // Out of descriptors or ports.
            Err(error) => {
                self.metrics.record_failed_handshake(&error);
                self.ledger.record_missed(intended_ns, now, &mut self.metrics);
            }
        }
    }

    fn flush(&mut self) {
        if let Some(udp) = &mut self.udp {
            self.metrics.refused += udp.flush() as u64;
        }
        if let Some(pools) = &mut self.pools {
            pools.flush(&self.poll, &mut self.metrics);
        }
    }

    fn expire(&mut self, now: u64) {
        let Ledger { outstanding, first_connection, queries, has_breakdown, .. } = &mut self.ledger;
        let (pools, metrics) = (&mut self.pools, &mut self.metrics);
        outstanding.expire(now, |query| {
            if query.counted {
                metrics.record_timeout(now - query.intended_ns, now - query.sent_ns);
                if *has_breakdown {
                    metrics.breakdown.record(queries.qtype(query.number), None, now - query.intended_ns);
                }
            }
            if let (Some(pools), Some(connection)) = (&mut *pools, query.source.checked_sub(*first_connection)) {
                pools.query_timed_out(connection, now, metrics);
            }
        });
        if let Some(pools) = pools {
            pools.close_idle(now, metrics);
        }
    }

    fn handle_events(&mut self) -> io::Result<()> {
        for index in 0..self.events.len() {
            let event = self.events.at(index);
            let (ledger, metrics) = (&mut self.ledger, &mut self.metrics);
            match (&mut self.udp, &mut self.pools) {
                (Some(udp), _) if event.token < udp.socket_count() as u64 => {
                    let mut arrivals = ArrivalClock { start: self.start, read: None };
                    udp.receive(event.token as usize, |source, response, received_at| {
                        ledger.record_response(source, response, arrivals.ns(received_at), metrics);
                    })?;
                }
                (_, Some(pools)) => {
                    let now = ns_since(self.start);
                    pools.handle(event, &self.poll, now, metrics, |connection, response, metrics| {
                        ledger.record_response(Some(ledger.first_connection + connection), response, now, metrics)
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How long to wait for events until something else is due.
    fn wait_ns(&mut self, now: u64) -> u64 {
        let interval_end = (self.interval + 1) * self.interval_ns;
        let soonest = [self.ledger.outstanding.next_timeout_ns(), Some(interval_end)].into_iter().flatten().min();
        let other = soonest.map_or(MAX_SLEEP_NS, |time| time.saturating_sub(now)).min(MAX_SLEEP_NS);
        match self.pacer.next_ns() {
            Some(due) => due.saturating_sub(now).saturating_sub(SPIN_NS).min(other),
            None => other,
        }
    }

    fn report_intervals(&mut self, now: u64, reports: &Sender<IntervalReport>) {
        while now >= (self.interval + 1) * self.interval_ns {
            self.report_interval(reports);
        }
    }

    fn report_interval(&mut self, reports: &Sender<IntervalReport>) {
        let cpu = clock::thread_cpu();
        let is_warm_up = (self.interval + 1) * self.interval_ns <= self.ledger.warm_up_ns;
        self.metrics.cpu_ns = if is_warm_up { 0 } else { (cpu - self.cpu_before).as_nanos() as u64 };
        self.cpu_before = cpu;
        // If the receiver is gone, the run was abandoned.
        let _ = reports.send((self.interval, std::mem::take(&mut self.metrics)));
        self.interval += 1;
    }
}

/// The times at which the responses of a batch arrived. The clock is read once, after the system call.
struct ArrivalClock {
    start: Duration,
    /// Nanoseconds from the start, and the time since 1970 if the kernel notes arrivals.
    read: Option<(u64, Duration)>,
}

impl ArrivalClock {
    /// When a response arrived, in nanoseconds from the start: when the kernel received it, or else now.
    #[inline]
    fn ns(&mut self, received_at: Option<Duration>) -> u64 {
        let read = || {
            let real = if received_at.is_some() { clock::real_exact() } else { Duration::ZERO };
            (ns_since(self.start), real)
        };
        let (now, real) = *self.read.get_or_insert_with(read);
        received_at.map_or(now, |at| now.saturating_sub(real.saturating_sub(at).as_nanos() as u64))
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
