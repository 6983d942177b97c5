//! Forwards updates over the simulated network, in place of the threads of the daemon.

use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use wire::framing::split_message;

use super::network::{Network, ProcessId, machine_at};
use crate::clock;
use crate::transfer::link::ConnectionId;
use crate::writer::forwarded_update::Forwarding;
use crate::writer::update_forwarder::UpdateExchanges;

/// Passes the updates that the writer forwards to [`Exchanges`].
pub struct SimulatedExchanges(pub Sender<Forwarding>);

impl UpdateExchanges for SimulatedExchanges {
    fn start(&mut self, forwarding: Forwarding) {
        self.0.send(forwarding).expect("the process has both ends");
    }
}

/// The exchanges of a process with its primaries.
pub struct Exchanges {
    process: ProcessId,
    waiting: Receiver<Forwarding>,
    running: Vec<Exchange>,
    last: u64,
}

struct Exchange {
    forwarding: Forwarding,
    connection: ConnectionId,
    stream: u64,
    octets: Vec<u8>,
    input: Vec<u8>,
    end: Instant,
}

/// Tells their connections from those of the transfer engine.
const EXCHANGE: u64 = 1 << 63;

impl Exchanges {
    pub fn new(process: ProcessId, waiting: Receiver<Forwarding>) -> Exchanges {
        Exchanges { process, waiting, running: Vec::new(), last: 0 }
    }

    pub fn has(id: ConnectionId) -> bool {
        id.0 & EXCHANGE != 0
    }

    /// When [`Exchanges::step`] must be called.
    pub fn due(&self) -> Option<Instant> {
        self.running.iter().map(|exchange| exchange.end).min()
    }

    /// Starts what waits, and ends what takes too long. Returns whether there was anything to do.
    pub fn step(&mut self, network: &mut Network) -> bool {
        let mut is_busy = false;
        while let Some(at) = self.running.iter().position(|exchange| exchange.end <= clock::now()) {
            self.end(at, Err(ErrorKind::TimedOut.into()), network);
            is_busy = true;
        }
        while let Ok(forwarding) = self.waiting.try_recv() {
            self.go_on(forwarding, network);
            is_busy = true;
        }
        is_busy
    }

    pub fn established(&mut self, id: ConnectionId, network: &mut Network) {
        if let Some(exchange) = self.running.iter().find(|exchange| exchange.connection == id) {
            network.send(exchange.stream, &exchange.octets, false);
        }
    }

    pub fn received(&mut self, id: ConnectionId, octets: &[u8], network: &mut Network) {
        let Some(at) = self.running.iter().position(|exchange| exchange.connection == id) else { return };
        let exchange = &mut self.running[at];
        exchange.input.extend_from_slice(octets);
        if let Some((message, _)) = split_message(&exchange.input) {
            let message = message.to_vec();
            self.end(at, Ok(message), network);
        }
    }

    pub fn closed(&mut self, id: ConnectionId, network: &mut Network) {
        if let Some(at) = self.running.iter().position(|exchange| exchange.connection == id) {
            self.end(at, Err(ErrorKind::UnexpectedEof.into()), network);
        }
    }

    fn end(&mut self, at: usize, result: io::Result<Vec<u8>>, network: &mut Network) {
        let Exchange { mut forwarding, stream, .. } = self.running.swap_remove(at);
        network.streams.remove(&stream);
        forwarding.exchanged(result);
        self.go_on(forwarding, network);
    }

    /// Starts the next exchange of this update, or answers it.
    fn go_on(&mut self, mut forwarding: Forwarding, network: &mut Network) {
        let Some(next) = forwarding.next_exchange(clock::now()) else { return forwarding.answer() };
        self.last += 1;
        let connection = ConnectionId(EXCHANGE | self.last);
        let stream = network.connect(self.process, connection, machine_at(next.primary.address));
        let (octets, end) = (next.octets, next.end);
        self.running.push(Exchange { forwarding, connection, stream, octets, input: Vec::new(), end });
    }
}
