//! A QUIC thread: its sockets, clocks, and the wait for either.

use super::super::limits::MAX_WAIT;
use super::super::panic_guard::catch_panic;
use super::super::worker_setup::WorkerSetup;
use super::super::{ListenConfig, Responder};
use super::endpoint::{Arrival, DatagramQueue, QuicEndpoint};
use super::transport::QuicShared;
use crate::listen::counters::ListenerCounters;
use crate::tls::ServerTls;
use bytes::BytesMut;
use netio::clock;
use netio::epoll::{Events, Interest, Poll, Waker};
use netio::udp_endpoint::{BATCH, Datagram, UdpEndpoint};
use quinn_proto::Transmit;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Rounds with full batches after a stop: what a receive buffer of 8 MiB holds.
const LAST_ROUNDS: usize = 400;
/// Wait while the last responses are sent.
const LAST_WAIT: Duration = Duration::from_millis(50);
/// Pause after an error of epoll, so that a lasting one does not spin.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// The token of the waker; that of a socket is its number.
const WAKER: u64 = u64::MAX;

/// A QUIC thread.
pub(in crate::listen) struct QuicWorker<R> {
    poll: Poll,
    events: Events,
    sockets: Sockets,
    endpoint: QuicEndpoint<R>,
    counters: Arc<ListenerCounters>,
    waker: Arc<Waker>,
    grace: Duration,
}

struct Sockets(Vec<UdpEndpoint>);

impl<R: Responder> QuicWorker<R> {
    /// A thread with these sockets, one for each address. Clones of `shared` are those of the other threads.
    pub(in crate::listen) fn new(
        setup: WorkerSetup<R>,
        sockets: Vec<UdpEndpoint>,
        tls: Arc<ServerTls>,
        shared: QuicShared,
        options: &ListenConfig,
    ) -> io::Result<QuicWorker<R>> {
        let poll = Poll::new()?;
        poll.add(&*setup.waker, WAKER, Interest::Readable)?;
        for (number, socket) in sockets.iter().enumerate() {
            poll.add(socket, number as u64, Interest::Readable)?;
        }
        let events = Events::with_capacity(sockets.len() + 1);
        let (counters, waker) = (setup.counters.clone(), setup.waker.clone());
        let endpoint = QuicEndpoint::new(setup, tls, shared, &options.quic, Instant::now())
            .map_err(|error| io::Error::other(error.to_string()))?;
        Ok(QuicWorker { poll, events, sockets: Sockets(sockets), endpoint, counters, waker, grace: options.grace })
    }

    /// Serves until it is stopped, then finishes responses and transfers in progress.
    pub(in crate::listen) fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.run_round(MAX_WAIT);
        }
        let until = Instant::now() + self.grace;
        // Connections whose queries have arrived are not idle.
        for _ in 0..LAST_ROUNDS {
            if !self.run_round(Duration::ZERO) {
                break;
            }
        }
        while !self.endpoint.stop(Instant::now()) && Instant::now() < until {
            self.run_round(LAST_WAIT);
        }
        self.endpoint.close_all(Instant::now(), |_| true);
        // Sends what closes the last connections.
        self.run_round(Duration::ZERO);
    }

    /// Waits at most `longest`, and handles a batch of the datagrams that have arrived at each socket. Returns whether there may be more.
    fn run_round(&mut self, longest: Duration) -> bool {
        let now = Instant::now();
        let next = self.endpoint.next_round(now).map_or(longest, |at| at.saturating_duration_since(now));
        if let Err(error) = self.poll.wait(&mut self.events, next.min(longest)) {
            self.endpoint.warn(&format!("cannot wait for datagrams: {error}"));
            thread::sleep(ERROR_PAUSE);
        }
        let now = Instant::now();
        self.endpoint.begin_round(clock::real());
        let mut has_more = false;
        for at in 0..self.events.len() {
            match self.events.at(at).token {
                WAKER => self.waker.clear(),
                socket => has_more |= self.receive(socket as usize, now) == BATCH,
            }
        }
        self.endpoint.finish_round(now, &mut self.sockets);
        for socket in &mut self.sockets.0 {
            self.counters.unsent.add(socket.flush());
        }
        has_more
    }

    /// Handles a batch of datagrams; returns their number.
    fn receive(&mut self, socket: usize, now: Instant) -> usize {
        let count = match self.sockets.0[socket].receive() {
            Ok(count) => count,
            Err(error) => {
                self.endpoint.warn(&format!("cannot receive: {error}"));
                return 0;
            }
        };
        for at in 0..count {
            let Some(Datagram { octets, peer, local_ip }) = self.sockets.0[socket].datagram(at) else {
                self.counters.oversized.add(1);
                continue;
            };
            let arrival = Arrival { socket, peer, local_ip, octets: BytesMut::from(octets) };
            let (endpoint, sockets) = (&mut self.endpoint, &mut self.sockets);
            if catch_panic(|| endpoint.receive(arrival, now, sockets)).is_none() {
                self.counters.panics.add(1);
            }
        }
        count
    }
}

impl DatagramQueue for Sockets {
    fn max_segments(&self, socket: usize) -> usize {
        self.0[socket].max_segments()
    }

    fn buffer(&mut self, socket: usize) -> &mut Vec<u8> {
        self.0[socket].buffer()
    }

    fn queue(&mut self, socket: usize, transmit: &Transmit) {
        let segment = transmit.segment_size.and_then(|len| u16::try_from(len).ok());
        self.0[socket].queue(transmit.destination, transmit.src_ip, segment);
    }
}
