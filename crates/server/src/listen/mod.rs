//! The listeners: sockets are bound here, and threads move queries to [`answer::respond`] and its answers back.
//!
//! [`bind`] first (ports below 1024 need privileges), then [`Listeners::serve`] when there is something to serve.
//! UDP and streams have threads of their own, so that neither a flood of connections nor a transfer stalls a datagram.

mod bind;
mod client_counts;
mod connection_pool;
mod counters;
mod panic_guard;
mod rate_limited_log;
mod tcp_connection;
mod tcp_responder;
mod tcp_worker;
mod udp_worker;

pub use bind::{ListenError, Listeners, bind};
pub use counters::{CounterTotals, ListenerCounters, METRICS, Metric};

use answer::{Request, Response, Served, Subscriber, WorkerState};
use netio::epoll::Waker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tcp_worker::TcpWorker;
use udp_worker::UdpWorker;

/// How to listen and what to put up with.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// Threads for UDP, each on a processor of its own as far as there are enough, for every address.
    pub workers: usize,
    /// Threads for TCP.
    pub tcp_workers: usize,
    /// How many connections are open at most, over all threads. For a further one, one that is stuck in the middle of something
    /// for a second is closed, or else the longest idle.
    pub connections: usize,
    /// How many of them one client may have on one thread: an IPv4 address or an IPv6 /56. Further ones are closed at once.
    pub connections_per_client: usize,
    /// How much memory all connections of one thread may hold, in octets, here and in the kernel: parts of queries and answers
    /// that are not read. When it is more, connections without progress for the longest are closed.
    pub held: usize,
    /// How long a connection may be idle or without progress: with the rest of a query, with reading more of its answers.
    pub idle_timeout: Duration,
    /// How long a stop waits for connections with answers under way.
    pub grace: Duration,
    /// How the UDP sockets are set up; its wake interval is the time within which a stop is noticed.
    pub udp: netio::udp_server::ServerSocketOptions,
    /// How the TCP listeners are set up.
    pub tcp: netio::tcp::ListenerOptions,
}

/// How much the kernel takes of answers that it cannot send yet, in octets: enough to keep a transfer going while its thread
/// serves others, little where clients do not read.
const UNSENT: u32 = 64 << 10;
/// How long the kernel tries to deliver what is left of a closed connection: some retransmissions.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

impl Default for ListenConfig {
    fn default() -> ListenConfig {
        ListenConfig {
            workers: 1,
            tcp_workers: 1,
            connections: 10_000,
            connections_per_client: 1_000,
            // Some 200 clients that read nothing.
            held: 64 << 20,
            idle_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(5),
            udp: netio::udp_server::ServerSocketOptions::default(),
            tcp: netio::tcp::ListenerOptions { unsent: UNSENT, user_timeout: USER_TIMEOUT, ..Default::default() },
        }
    }
}

/// What answers the queries of one thread. The server has [`ZoneResponder`]; tests of the listeners have their own.
pub trait Responder: Send + 'static {
    /// Looks whether there is something newer to serve; called once per batch.
    fn refresh(&mut self);
    /// Prepares for queries that will be answered soon, see [`answer::prefetch`].
    fn prefetch<'m>(&mut self, _messages: impl Iterator<Item = &'m [u8]>) {}
    /// Answers one query into `out`, see [`answer::respond`].
    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response;
    /// What it has counted so far; looked at once per batch.
    fn counters(&self) -> &answer::Counters;
}

/// Answers from the published zones.
pub struct ZoneResponder {
    subscriber: Subscriber<Served>,
    worker: WorkerState,
}

impl ZoneResponder {
    /// A responder of its own for one thread.
    pub fn new(subscriber: Subscriber<Served>) -> ZoneResponder {
        ZoneResponder { subscriber, worker: WorkerState::new() }
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

    fn counters(&self) -> &answer::Counters {
        &self.worker.counters
    }
}

/// The threads that serve.
pub struct ListenerThreads {
    stop: Arc<AtomicBool>,
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<()>>,
    udp: Vec<Arc<ListenerCounters>>,
    tcp: Vec<Arc<ListenerCounters>>,
}

impl ListenerThreads {
    /// What was counted over UDP so far.
    pub fn udp_totals(&self) -> CounterTotals {
        CounterTotals::of(&self.udp)
    }

    /// What was counted over TCP so far.
    pub fn tcp_totals(&self) -> CounterTotals {
        CounterTotals::of(&self.tcp)
    }

    /// Stops: what has arrived is still answered, and connections with answers under way have [`ListenConfig::grace`] to take them.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wakers.iter().for_each(|waker| waker.wake());
        for thread in self.threads {
            // Threads catch the panics of queries; one of their own was logged when it happened.
            let _ = thread.join();
        }
    }
}

impl Listeners {
    /// Starts the threads; `responder` is called once for each.
    pub fn serve<R: Responder>(self, mut responder: impl FnMut() -> R) -> io::Result<ListenerThreads> {
        panic_guard::log_panics();
        let stop = Arc::new(AtomicBool::new(false));
        let mut running =
            ListenerThreads { stop, wakers: Vec::new(), threads: Vec::new(), udp: Vec::new(), tcp: Vec::new() };
        let processors = netio::cpu_affinity::allowed_cpus()?;
        for (number, socket) in self.udp {
            let counters = Arc::new(ListenerCounters::default());
            running.udp.push(counters.clone());
            let stop = running.stop.clone();
            let processor = processors[number % processors.len()];
            let (name, responder) = (format!("udp-{number}"), responder());
            running.spawn(name, move || UdpWorker::new(socket, responder, counters, stop).run_on(processor))?;
        }
        for (number, listeners) in self.tcp.into_iter().enumerate() {
            let counters = Arc::new(ListenerCounters::default());
            running.tcp.push(counters.clone());
            let waker = Arc::new(Waker::new()?);
            running.wakers.push(waker.clone());
            let stop = running.stop.clone();
            let worker = TcpWorker::new(listeners, responder(), counters, stop, waker, &self.options)?;
            running.spawn(format!("tcp-{number}"), move || worker.run())?;
        }
        Ok(running)
    }
}

impl ListenerThreads {
    fn spawn(&mut self, name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name).spawn(work)?);
        Ok(())
    }
}
