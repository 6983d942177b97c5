//! The threads of the listeners: started in one place, and stopped together.

use super::bind::Listeners;
use super::connection_pool::SharedCounts;
use super::counters::{CounterReader, ListenerCounters};
use super::handover::{Handover, Route};
use super::quic::{QuicShared, QuicWorker};
use super::responder::Responder;
use super::tcp_worker::TcpWorker;
use super::udp_worker::UdpWorker;
use super::worker_setup::WorkerSetup;
use super::{ListenConfig, panic_guard};
use crate::tls::ServerTls;
use netio::epoll::Waker;
use netio::tcp::Listener;
use netio::udp_endpoint::UdpEndpoint;
use netio::udp_server::ServerSocket;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

impl Listeners {
    /// Starts the threads; `responder` is called once for each.
    pub fn serve<R: Responder>(self, responder: impl FnMut() -> R) -> io::Result<ListenerThreads> {
        panic_guard::log_panics();
        let mut start = ThreadStart { responder, options: self.options, started: ListenerThreads::none() };
        start.udp(self.udp)?;
        start.tcp_and_tls(self.tcp, self.tls)?;
        start.quic(self.quic)?;
        Ok(start.started)
    }
}

/// The running threads.
pub struct ListenerThreads {
    stop: Arc<AtomicBool>,
    /// Of the threads for connections. Those for UDP notice a stop without one.
    wakers: Vec<Arc<Waker>>,
    threads: Vec<JoinHandle<()>>,
    counters: CounterReader,
}

impl ListenerThreads {
    fn none() -> ListenerThreads {
        let (stop, counters) = (Arc::new(AtomicBool::new(false)), CounterReader::default());
        ListenerThreads { stop, wakers: Vec::new(), threads: Vec::new(), counters }
    }

    /// The counters of the threads.
    pub fn counters(&self) -> &CounterReader {
        &self.counters
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

    /// Starts a thread, which stops when it finds the flag set.
    fn spawn(&mut self, name: String, work: impl FnOnce(&AtomicBool) + Send + 'static) -> io::Result<()> {
        let stop = self.stop.clone();
        self.threads.push(thread::Builder::new().name(name).spawn(move || work(&stop))?);
        Ok(())
    }
}

/// Starts the threads of one transport after the other.
struct ThreadStart<F> {
    responder: F,
    options: ListenConfig,
    started: ListenerThreads,
}

impl<R: Responder, F: FnMut() -> R> ThreadStart<F> {
    /// UDP threads: one for each socket, pinned to a processor.
    fn udp(&mut self, sockets: Vec<(usize, ServerSocket)>) -> io::Result<()> {
        let processors = netio::cpu_affinity::allowed_cpus()?;
        for (number, socket) in sockets {
            let processor = processors[number % processors.len()];
            let (responder, proxies) = ((self.responder)(), self.options.proxies.clone());
            let counters = add_counters(&mut self.started.counters.udp);
            self.started.spawn(format!("udp-{number}"), move |stop| {
                if let Err(error) = netio::cpu_affinity::pin_thread(processor) {
                    tracing::warn!(processor, %error, "cannot pin a UDP thread to its processor");
                }
                UdpWorker::new(socket, responder, proxies, counters).run(stop);
            })?;
        }
        Ok(())
    }

    /// TCP threads; TLS threads, and those that do their handshakes.
    fn tcp_and_tls(
        &mut self,
        tcp: Vec<Vec<Listener>>,
        tls: Option<(Vec<Vec<Listener>>, Arc<ServerTls>)>,
    ) -> io::Result<()> {
        let tls_workers = if tls.is_some() { self.options.tls_workers.max(1) } else { 0 };
        let handshake_threads = tls.as_ref().map_or(0, |(listeners, _)| listeners.len());
        let threads = self.options.tcp_workers + tls_workers + handshake_threads;
        let shared = SharedCounts::new(self.options.connections, threads);
        for (number, listeners) in tcp.into_iter().enumerate() {
            self.tcp_worker(format!("tcp-{number}"), listeners, Route::Own, Arc::new(Waker::new()?), &shared)?;
        }
        let Some((listeners, tls)) = tls else { return Ok(()) };
        let mut threads = Vec::new();
        for number in 0..tls_workers {
            let waker = Arc::new(Waker::new()?);
            let handover = Handover::new(waker.clone());
            threads.push(handover.clone());
            self.tcp_worker(format!("tls-{number}"), Vec::new(), Route::Take(handover), waker, &shared)?;
        }
        for (number, listeners) in listeners.into_iter().enumerate() {
            let route = Route::Give(tls.clone(), threads.clone());
            self.tcp_worker(format!("handshakes-{number}"), listeners, route, Arc::new(Waker::new()?), &shared)?;
        }
        Ok(())
    }

    fn tcp_worker(
        &mut self,
        name: String,
        listeners: Vec<Listener>,
        route: Route,
        waker: Arc<Waker>,
        shared: &SharedCounts,
    ) -> io::Result<()> {
        let counters = &mut self.started.counters;
        let counters = add_counters(if matches!(route, Route::Own) { &mut counters.tcp } else { &mut counters.tls });
        let setup = self.setup(counters, waker);
        let worker = TcpWorker::new(setup, listeners, route, shared.clone(), &self.options)?;
        self.started.spawn(name, move |stop| worker.run(stop))
    }

    /// QUIC threads, each with its sockets.
    fn quic(&mut self, sockets: Vec<(Vec<UdpEndpoint>, Arc<ServerTls>)>) -> io::Result<()> {
        let shared = QuicShared::new(if sockets.is_empty() { 0 } else { self.options.quic.connections });
        for (number, (sockets, tls)) in sockets.into_iter().enumerate() {
            let counters = add_counters(&mut self.started.counters.quic);
            let setup = self.setup(counters, Arc::new(Waker::new()?));
            let worker = QuicWorker::new(setup, sockets, tls, shared.clone(), &self.options)?;
            self.started.spawn(format!("quic-{number}"), move |stop| worker.run(stop))?;
        }
        Ok(())
    }

    fn setup(&mut self, counters: Arc<ListenerCounters>, waker: Arc<Waker>) -> WorkerSetup<R> {
        self.started.wakers.push(waker.clone());
        WorkerSetup { responder: (self.responder)(), counters, waker }
    }
}

#[cfg(test)]
impl ListenerThreads {
    /// How many threads have accepted TLS connections.
    pub fn tls_threads_with_connections(&self) -> usize {
        self.counters.tls.iter().filter(|thread| thread.connections.value() > 0).count()
    }
}

/// The counters of one more thread of a transport.
fn add_counters(threads: &mut Vec<Arc<ListenerCounters>>) -> Arc<ListenerCounters> {
    let counters = Arc::new(ListenerCounters::default());
    threads.push(counters.clone());
    counters
}
