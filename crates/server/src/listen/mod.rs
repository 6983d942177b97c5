//! The listeners: sockets, and the threads that receive queries, have them answered and send the responses.
//!
//! [`bind()`] first (ports below 1024 need root), then [`Listeners::serve`] once there is something to serve. UDP, TCP, TLS and QUIC
//! have threads of their own, so that neither a flood of connections nor a transfer delays a datagram.

mod bind;
mod buffer;
mod client_counts;
mod connection_eviction;
mod connection_limit;
mod connection_pool;
mod counters;
mod handover;
mod handshake_queue;
mod handshake_share;
mod idle_timeout;
mod late_reply;
mod network_lanes;
mod outgoing_transfer;
mod panic_guard;
pub mod proxy;
mod quic;
mod refusal_log;
mod tcp_connection;
mod tcp_responder;
mod tcp_worker;
mod tls_connection;
mod udp_worker;

pub use bind::{ListenError, Listeners, bind};
pub use counters::{CounterTotals, ListenerCounters, METRICS, Metric};
pub use late_reply::{IncomingUpdate, LateReply};
pub use proxy::Proxies;

use answer::{PendingNotify, ReceivedNotify, Request, Response, Served, Subscriber, WorkerState};
use client_counts::ClientCounts;
use connection_limit::ConnectionLimit;
use handover::{Handover, Route};
use netio::epoll::Waker;
use quic::{QuicShared, QuicWorker};
use refusal_log::RefusalLog;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcp_worker::TcpWorker;
use udp_worker::UdpWorker;

/// Threads, limits and socket options.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// UDP threads for each address, pinned to different processors as far as there are enough.
    pub workers: usize,
    /// TCP threads.
    pub tcp_workers: usize,
    /// TLS threads, if there are addresses for TLS, besides the one that does handshakes.
    pub tls_workers: usize,
    /// Maximum number of connections, over all threads. To make room for another, one without progress for a second in the
    /// middle of a message or response is closed, or else the one that is idle for the longest.
    pub connections: usize,
    /// Maximum number of connections of a client (an IPv4 address or IPv6 /56), over all threads. Others are closed at once.
    pub connections_per_client: usize,
    /// Maximum memory of the connections of one thread, in octets, including the kernel's: incomplete queries and unread
    /// responses. When they need more, those without progress for the longest are closed.
    pub memory_limit: usize,
    /// How long a connection may be idle or make no progress in sending a query or reading responses; less when there are many.
    pub idle_timeout: Duration,
    /// The processor time for TLS handshakes of all threads, in percent of one processor.
    pub handshake_percent: usize,
    /// The proxies that name their clients in PROXY headers, over UDP, TCP and TLS.
    pub proxies: Proxies,
    /// How long a stop waits for clients to read their responses.
    pub grace: Duration,
    /// The settings of QUIC.
    pub quic: QuicConfig,
    /// UDP socket options; the wake interval is the time within which a stop is noticed.
    pub udp: netio::udp_server::ServerSocketOptions,
    /// TCP listener options.
    pub tcp: netio::tcp::ListenerOptions,
}

/// Threads and limits of QUIC; those that are not here are as for TCP.
#[derive(Clone, Debug)]
pub struct QuicConfig {
    /// QUIC threads, if there are addresses for QUIC.
    pub workers: usize,
    /// Maximum number of connections, over all threads. To make room for another, the one that made no progress for the longest is
    /// closed.
    pub connections: usize,
    /// Maximum number of connections of a client (an IPv4 address or IPv6 /56), over all threads. Others are refused.
    pub connections_per_client: usize,
    /// How long a connection may make no progress; less when there are many.
    pub idle_timeout: Duration,
    /// Maximum memory that the connections of one thread hold besides what each of them has, in octets: incomplete queries, unread
    /// responses. When they need more, those without progress for the longest are closed.
    pub memory_limit: usize,
    /// The processor time for handshakes of all threads, in percent of one processor.
    pub handshake_percent: usize,
}

/// The memory of an idle QUIC connection, in octets; at most, and in the server alone.
pub const QUIC_CONNECTION_MEMORY: u64 = quic::CONNECTION_MEMORY as u64;

/// TCP_NOTSENT_LOWAT in octets: enough to keep a transfer going while its thread serves others, little if a client does not
/// read.
const UNSENT: u32 = 64 << 10;
/// SO_RCVBUF of a connection, in octets: enough for what one turn reads. Otherwise it grows to megabytes for clients that send and never read.
const RECEIVE_BUFFER: u32 = 64 << 10;
/// TCP_USER_TIMEOUT: the kernel retransmits for this long after a connection is closed.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

impl Default for ListenConfig {
    fn default() -> ListenConfig {
        ListenConfig {
            workers: 1,
            tcp_workers: 1,
            tls_workers: 1,
            connections: 10_000,
            connections_per_client: 1_000,
            // About 200 clients that read nothing.
            memory_limit: 64 << 20,
            idle_timeout: Duration::from_secs(10),
            handshake_percent: 50,
            proxies: Proxies::default(),
            grace: Duration::from_secs(5),
            quic: QuicConfig {
                workers: 1,
                connections: 10_000,
                connections_per_client: 1_000,
                idle_timeout: Duration::from_secs(10),
                memory_limit: 128 << 20,
                handshake_percent: 50,
            },
            udp: netio::udp_server::ServerSocketOptions::default(),
            tcp: netio::tcp::ListenerOptions {
                unsent: UNSENT,
                receive_buffer: RECEIVE_BUFFER,
                user_timeout: USER_TIMEOUT,
                ..Default::default()
            },
        }
    }
}

/// Answers the queries of one thread: [`ZoneResponder`], or a stub in tests.
pub trait Responder: Send + 'static {
    /// Switches to what is published now; called once per batch.
    fn refresh(&mut self);
    /// Prefetches the data for queries to be answered next, see [`answer::prefetch`].
    fn prefetch<'m>(&mut self, _messages: impl Iterator<Item = &'m [u8]>) {}
    /// Answers one query into `out`, see [`answer::respond`].
    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response;
    /// Passes an accepted NOTIFY message on; false if there is no room for it.
    fn notify(&mut self, _notify: ReceivedNotify) -> bool {
        false
    }
    /// Passes an UPDATE message on; returns it if there is no room for it.
    fn update(&mut self, update: Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> {
        Err(update)
    }
    /// Logs a request of the batch that was refused.
    fn log_refused(&mut self) {}
    /// Its counters; read once per batch.
    fn counters(&self) -> &answer::Counters;
}

/// Answers from the published zones.
pub struct ZoneResponder {
    subscriber: Subscriber<Served>,
    worker: WorkerState,
    sinks: EventSinks,
    refusal_log: RefusalLog,
}

/// Take what is not answered at once, without blocking.
#[derive(Clone)]
pub struct EventSinks {
    /// Accepted NOTIFY messages.
    pub notify: NotifySink,
    /// UPDATE messages of clients that may send them.
    pub update: UpdateSink,
}

/// False if its queue is full.
pub type NotifySink = Arc<dyn Fn(ReceivedNotify) -> bool + Send + Sync>;
/// Returns the message if its queue is full.
pub type UpdateSink = Arc<dyn Fn(Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> + Send + Sync>;

impl ZoneResponder {
    /// A responder for one thread.
    pub fn new(subscriber: Subscriber<Served>, sinks: EventSinks) -> ZoneResponder {
        ZoneResponder { subscriber, worker: WorkerState::new(), sinks, refusal_log: RefusalLog::default() }
    }
}

impl Responder for ZoneResponder {
    fn refresh(&mut self) {
        self.subscriber.refresh();
    }

    #[inline]
    fn prefetch<'m>(&mut self, messages: impl Iterator<Item = &'m [u8]>) {
        answer::prefetch(self.subscriber.last(), &mut self.worker, messages);
    }

    #[inline]
    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response {
        answer::respond(self.subscriber.last(), &mut self.worker, request, out)
    }

    fn notify(&mut self, notify: ReceivedNotify) -> bool {
        (self.sinks.notify)(notify)
    }

    fn update(&mut self, update: Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> {
        (self.sinks.update)(update)
    }

    #[inline]
    fn log_refused(&mut self) {
        if let Some(refused) = self.worker.take_refused() {
            self.refusal_log.write(&refused);
        }
    }

    fn counters(&self) -> &answer::Counters {
        &self.worker.counters
    }
}

/// Passes a NOTIFY message on and finishes its response in `out`. Returns the length of the response.
#[cold]
fn finish_notify(
    pending: PendingNotify,
    responder: &mut impl Responder,
    counters: &ListenerCounters,
    out: &mut [u8],
) -> usize {
    pending.finish(out, |notify| {
        let is_taken = responder.notify(notify);
        if is_taken {
            counters.notifies.add(1)
        } else {
            counters.notifies_rejected.add(1)
        }
        is_taken
    })
}

/// What the threads for connections share.
#[derive(Clone)]
struct SharedState {
    stop: Arc<AtomicBool>,
    connections: ConnectionLimit,
    clients: ClientCounts,
}

/// The running threads.
pub struct ListenerThreads {
    stop: Arc<AtomicBool>,
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<()>>,
    counters: CounterReader,
}

/// Reads the counters of all threads, on any thread.
#[derive(Clone, Default)]
pub struct CounterReader {
    udp: Vec<Arc<ListenerCounters>>,
    tcp: Vec<Arc<ListenerCounters>>,
    tls: Vec<Arc<ListenerCounters>>,
    quic: Vec<Arc<ListenerCounters>>,
}

impl CounterReader {
    /// The totals of each transport, with its name.
    pub fn totals(&self) -> [(&'static str, CounterTotals); 4] {
        [("udp", &self.udp), ("tcp", &self.tcp), ("tls", &self.tls), ("quic", &self.quic)]
            .map(|(transport, counters)| (transport, CounterTotals::of(counters)))
    }
}

impl ListenerThreads {
    /// The counters of the threads.
    pub fn counters(&self) -> &CounterReader {
        &self.counters
    }

    /// Counters of all UDP threads.
    pub fn udp_totals(&self) -> CounterTotals {
        CounterTotals::of(&self.counters.udp)
    }

    /// Counters of all TCP threads.
    pub fn tcp_totals(&self) -> CounterTotals {
        CounterTotals::of(&self.counters.tcp)
    }

    /// Counters of all TLS threads.
    pub fn tls_totals(&self) -> CounterTotals {
        CounterTotals::of(&self.counters.tls)
    }

    /// Counters of all QUIC threads.
    pub fn quic_totals(&self) -> CounterTotals {
        CounterTotals::of(&self.counters.quic)
    }

    /// Stops: answers what has arrived, and gives clients [`ListenConfig::grace`] to read their responses.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wakers.iter().for_each(|waker| waker.wake());
        for thread in self.threads {
            // A panic of the thread was logged when it happened.
            let _ = thread.join();
        }
    }

    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name).spawn(work)?);
        Ok(())
    }
}

impl Listeners {
    /// Starts the threads; `responder` is called once for each.
    pub fn serve<R: Responder>(self, mut responder: impl FnMut() -> R) -> io::Result<ListenerThreads> {
        panic_guard::log_panics();
        let stop = Arc::new(AtomicBool::new(false));
        let mut running =
            ListenerThreads { stop, wakers: Vec::new(), threads: Vec::new(), counters: CounterReader::default() };
        let processors = netio::cpu_affinity::allowed_cpus()?;
        for (number, socket) in self.udp {
            let counters = Arc::new(ListenerCounters::default());
            running.counters.udp.push(counters.clone());
            let stop = running.stop.clone();
            let processor = processors[number % processors.len()];
            let (name, responder) = (format!("udp-{number}"), responder());
            let proxies = self.options.proxies.clone();
            running.spawn(name, move || {
                if let Err(error) = netio::cpu_affinity::pin_thread(processor) {
                    tracing::warn!(processor, %error, "cannot pin a UDP thread to its processor");
                }
                UdpWorker::new(socket, responder, proxies, counters).run(&stop);
            })?;
        }
        let tls_workers = if self.tls.is_some() { self.options.tls_workers.max(1) } else { 0 };
        let options = ListenConfig { tls_workers, ..self.options };
        let threads = options.tcp_workers + options.tls_workers + usize::from(options.tls_workers > 0);
        let shared = SharedState {
            stop: running.stop.clone(),
            connections: ConnectionLimit::new(options.connections, threads),
            clients: ClientCounts::new(options.connections),
        };
        let mut serve_connections = |name: String, listeners, route, waker: Arc<Waker>| {
            let counters = Arc::new(ListenerCounters::default());
            let is_tcp = matches!(route, Route::Own);
            let of_transport = if is_tcp { &mut running.counters.tcp } else { &mut running.counters.tls };
            of_transport.push(counters.clone());
            running.wakers.push(waker.clone());
            let worker = TcpWorker::new(listeners, route, responder(), counters, shared.clone(), waker, &options)?;
            running.spawn(name, move || worker.run())
        };
        for (number, listeners) in self.tcp.into_iter().enumerate() {
            serve_connections(format!("tcp-{number}"), listeners, Route::Own, Arc::new(Waker::new()?))?;
        }
        if let Some((listeners, tls)) = self.tls {
            let mut threads = Vec::new();
            for number in 0..options.tls_workers {
                let waker = Arc::new(Waker::new()?);
                threads.push(Handover::new(waker.clone()));
                let route = Route::Take(threads[number].clone());
                serve_connections(format!("tls-{number}"), Vec::new(), route, waker)?;
            }
            let (name, waker) = ("handshakes".to_owned(), Arc::new(Waker::new()?));
            serve_connections(name, listeners, Route::Give(tls, threads), waker)?;
        }
        let shared = QuicShared::new(if self.quic.is_empty() { 0 } else { options.quic.connections });
        for (number, (sockets, tls)) in self.quic.into_iter().enumerate() {
            let counters = Arc::new(ListenerCounters::default());
            running.counters.quic.push(counters.clone());
            let waker = Arc::new(Waker::new()?);
            running.wakers.push(waker.clone());
            let (stop, settings) = (running.stop.clone(), (&options.quic, options.grace));
            let worker = QuicWorker::new(sockets, (tls, shared.clone()), responder(), counters, stop, waker, settings)?;
            running.spawn(format!("quic-{number}"), move || worker.run())?;
        }
        Ok(running)
    }
}
