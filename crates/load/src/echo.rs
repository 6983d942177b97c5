//! Servers without zones: `echo` answers every query with a copy of itself, `sink` answers almost none.
//!
//! They show the limits that a server on sockets and the load generator have on a machine. Each CPU has a thread for UDP
//! (`udp`), one for TCP and TLS (`stream`, by `stream_server`) and one for QUIC (`quic`), with sockets of their own.

mod answer;
mod fault;
mod quic;
mod stream;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{self, ScopedJoinHandle};

use netio::tcp::{Listener, ListenerOptions};
use netio::udp_server::{ServerSocket, ServerSocketOptions};
use netio::{clock, cpu_affinity};
use rustls::ServerConfig;
use serde::Serialize;

use self::answer::Answerer;
use self::quic::QuicServer;
use self::stream::StreamAnswerer;
use crate::STOP_INTERVAL;
use crate::stream_server::StreamServer;
use crate::tls::quic_server_config;

pub use self::answer::AnswerRule;
pub use self::fault::{Fault, FaultError, Faults};

/// The configuration of an [`EchoServer`].
#[derive(Clone, Debug)]
pub struct EchoConfig {
    /// The address of UDP and TCP; with port 0 the kernel chooses the port.
    pub address: SocketAddr,
    /// The address of TLS, with its configuration.
    pub tls: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// The address of QUIC, with the configuration of its TLS.
    pub quic: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// The processors to pin threads to; if empty, there are threads for one, which are not pinned.
    pub cpus: Vec<usize>,
    /// Which queries are answered, and how long the answers are.
    pub rule: AnswerRule,
    /// What the server does wrong.
    pub faults: Faults,
    /// SO_RCVBUF of UDP sockets, in octets.
    pub receive_buffer: usize,
    /// The length of the accept queues.
    pub backlog: u32,
}

/// The queries and answers of a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exchanges {
    /// Queries that were received.
    pub queries: u64,
    /// Answers that were sent.
    pub responses: u64,
}

/// What a server has received and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EchoCounters {
    /// Over UDP.
    pub udp: Exchanges,
    /// Over TCP.
    pub tcp: Exchanges,
    /// Over TLS.
    pub tls: Exchanges,
    /// Over QUIC.
    pub quic: Exchanges,
    /// Batches of datagrams.
    pub udp_batches: u64,
    /// Datagrams that the kernel dropped because a receive buffer was full.
    pub udp_drops: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// TLS connections that resumed a session.
    pub handshakes_resumed: u64,
    /// CPU time of all threads, in nanoseconds.
    pub cpu_ns: u64,
}

impl Exchanges {
    fn add(&mut self, other: &Exchanges) {
        self.queries += other.queries;
        self.responses += other.responses;
    }
}

impl EchoCounters {
    /// The queries and answers of all transports.
    pub fn total(&self) -> Exchanges {
        let mut total = Exchanges::default();
        [self.udp, self.tcp, self.tls, self.quic].iter().for_each(|exchanges| total.add(exchanges));
        total
    }

    fn add(&mut self, other: &EchoCounters) {
        self.udp.add(&other.udp);
        self.tcp.add(&other.tcp);
        self.tls.add(&other.tls);
        self.quic.add(&other.quic);
        self.udp_batches += other.udp_batches;
        self.udp_drops += other.udp_drops;
        self.connections += other.connections;
        self.handshakes_resumed += other.handshakes_resumed;
        self.cpu_ns += other.cpu_ns;
    }
}

/// With port 0, how often another port is tried if the one that TCP got is in use over UDP.
const MAX_PORT_TRIES: usize = 16;

/// A server with bound sockets.
pub struct EchoServer {
    /// The servers of each processor; `None` if threads are not pinned.
    threads: Vec<(Option<usize>, ServerSocket, StreamServer<StreamAnswerer>)>,
    quic: Vec<(Option<usize>, QuicServer)>,
    answerer: Answerer,
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    receive_buffer: u32,
}

impl EchoServer {
    /// Binds all sockets.
    pub fn bind(config: &EchoConfig) -> io::Result<EchoServer> {
        let cpus: Vec<_> =
            if config.cpus.is_empty() { vec![None] } else { config.cpus.iter().copied().map(Some).collect() };
        let (first, mut address) = config.bind_first(cpus.len() > 1)?;
        let (mut tls, mut first, mut threads) = (config.tls.clone(), Some(first), Vec::new());
        let (mut receive_buffer, answerer) = (0, Answerer::new(config.rule, config.faults));
        let quic = config.bind_quic(&cpus, &answerer)?;
        for cpu in cpus {
            let (listener, udp) = first.take().map_or_else(|| config.bind_pair(address, true), Ok)?;
            address = listener.local_addr()?;
            let tls_listener =
                tls.as_ref().map(|(address, _)| config.listen(*address, config.cpus.len() > 1)).transpose()?;
            if let (Some((address, _)), Some(listener)) = (&mut tls, &tls_listener) {
                *address = listener.local_addr()?;
            }
            receive_buffer = udp.receive_buffer()?;
            let tls_listener = tls_listener.zip(tls.as_ref().map(|(_, config)| config.clone()));
            threads.push((cpu, udp, StreamServer::new(listener, tls_listener, StreamAnswerer::new(answerer.clone()))?));
        }
        let tls_address = tls.map(|(address, _)| address);
        Ok(EchoServer { threads, quic, answerer, address, tls_address, receive_buffer })
    }

    /// The address of UDP and TCP.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address of TLS.
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// The address of QUIC.
    pub fn quic_addr(&self) -> Option<SocketAddr> {
        self.quic.first().map(|(_, server)| server.local_addr())
    }

    /// The limit of a UDP receive buffer in octets, which the kernel makes twice what it allows of SO_RCVBUF.
    pub fn receive_buffer(&self) -> u32 {
        self.receive_buffer
    }

    /// The number of processors it has threads for.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Serves until `stop`.
    pub fn run(self, stop: &AtomicBool) -> io::Result<EchoCounters> {
        thread::scope(|scope| {
            let quic = self.quic.into_iter();
            let quic = quic.map(|(cpu, server)| scope.spawn(move || on_cpu(cpu, || server.serve(stop))));
            let mut threads: Vec<ScopedJoinHandle<'_, _>> = quic.collect();
            let others = self.threads.into_iter().flat_map(|(cpu, socket, stream)| {
                let answerer = self.answerer.clone();
                let udp = scope.spawn(move || on_cpu(cpu, || udp::serve(socket, answerer, stop)));
                [udp, scope.spawn(move || on_cpu(cpu, || stream::serve(stream, stop)))]
            });
            threads.extend(others);
            let mut total = EchoCounters::default();
            for thread in threads {
                total.add(&thread.join().expect("servers do not panic")?);
            }
            Ok(total)
        })
    }
}

/// Runs a server on the calling thread, pinned to the processor if there is one, and adds the thread's CPU time.
fn on_cpu(cpu: Option<usize>, serve: impl FnOnce() -> io::Result<EchoCounters>) -> io::Result<EchoCounters> {
    cpu.map_or(Ok(()), cpu_affinity::pin_thread)?;
    let counters = serve()?;
    Ok(EchoCounters { cpu_ns: clock::thread_cpu().as_nanos() as u64, ..counters })
}

impl EchoConfig {
    /// The first pair of sockets, for TCP and UDP on one port.
    fn bind_first(&self, is_shared: bool) -> io::Result<((Listener, ServerSocket), SocketAddr)> {
        let mut tries = if self.address.port() == 0 { MAX_PORT_TRIES } else { 1 };
        loop {
            tries -= 1;
            match self.bind_pair(self.address, is_shared) {
                Ok(pair) => return Ok((pair, self.address)),
                Err(error) if tries == 0 || error.kind() != io::ErrorKind::AddrInUse => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn bind_pair(&self, address: SocketAddr, is_shared: bool) -> io::Result<(Listener, ServerSocket)> {
        let listener = self.listen(address, is_shared)?;
        let socket = ServerSocket::bind(listener.local_addr()?, &self.udp_options(is_shared))?;
        Ok((listener, socket))
    }

    fn udp_options(&self, is_shared: bool) -> ServerSocketOptions {
        ServerSocketOptions {
            reuse_port: is_shared,
            receive_buffer: self.receive_buffer,
            wake_interval: STOP_INTERVAL,
            ..ServerSocketOptions::default()
        }
    }

    /// The servers of QUIC, one for each processor.
    fn bind_quic(&self, cpus: &[Option<usize>], answerer: &Answerer) -> io::Result<Vec<(Option<usize>, QuicServer)>> {
        let Some((mut address, tls)) = self.quic.clone() else { return Ok(Vec::new()) };
        let config = quic_server_config(&tls).map_err(io::Error::other)?;
        let mut servers = Vec::new();
        for cpu in cpus {
            let options = self.udp_options(cpus.len() > 1);
            let server = QuicServer::bind(address, &options, config.clone(), answerer.clone())?;
            address = server.local_addr();
            servers.push((*cpu, server));
        }
        Ok(servers)
    }

    fn listen(&self, address: SocketAddr, is_shared: bool) -> io::Result<Listener> {
        let options = ListenerOptions { reuse_port: is_shared, backlog: self.backlog, ..ListenerOptions::default() };
        Listener::bind(address, &options)
    }
}
