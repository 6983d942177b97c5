//! The simulated network: datagrams and streams that are lost, delayed, reordered, cut and reset.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::simulated_arrivals::Arrivals;
use crate::simulated_disk::Random;
use crate::transfer::link::ConnectionId;
use crate::transfer::primary::PrimaryId;

/// A process: the number of its machine, and how often that has started.
pub type ProcessId = (usize, u64);

/// The last octet of the address of the first machine.
const FIRST_HOST: u8 = 1;

pub fn address(machine: usize) -> IpAddr {
    [10, 0, 0, FIRST_HOST + machine as u8].into()
}

pub fn machine_at(address: SocketAddr) -> usize {
    match address.ip() {
        IpAddr::V4(ip) => usize::from(ip.octets()[3] - FIRST_HOST),
        IpAddr::V6(_) => unreachable!("the machines have IPv4 addresses"),
    }
}

/// Who sent a datagram, and gets the answer.
#[derive(Clone, Copy, Debug)]
pub enum Sender {
    Probe(ProcessId, PrimaryId),
    Notify(ProcessId, SocketAddr),
    Client(usize),
}

impl Sender {
    /// Its machine; clients have none.
    pub fn machine(&self) -> Option<usize> {
        match self {
            Sender::Probe((machine, _), _) | Sender::Notify((machine, _), _) => Some(*machine),
            Sender::Client(_) => None,
        }
    }
}

/// A stream.
pub struct Stream {
    pub client: ProcessId,
    pub connection: ConnectionId,
    pub server: usize,
    /// The process that accepted it.
    pub accepted_by: Option<ProcessId>,
    /// What the server has not read yet.
    pub input: Vec<u8>,
    /// When the last octets sent so far arrive at the server and at the client: a stream keeps its order.
    last_ms: [u64; 2],
}

pub enum Arrival {
    Query { to: usize, from: Sender, octets: Vec<u8> },
    Answer { to: Sender, octets: Vec<u8> },
    Connect(u64),
    Established(u64),
    ToServer(u64, Vec<u8>),
    ToClient(u64, Vec<u8>),
    Closed(u64),
}

pub struct Network {
    pub now_ms: u64,
    pub random: Random,
    arrivals: Arrivals<Arrival>,
    pub streams: BTreeMap<u64, Stream>,
    /// The number of the last stream.
    last_stream: u64,
    /// How many of 100 datagrams are lost, and in how many of 100 cases sending resets a stream.
    loss: u64,
    /// Pairs of machines that cannot reach each other, until when.
    cuts: Vec<([usize; 2], u64)>,
    max_latency_ms: u64,
}

impl Network {
    pub fn new(mut random: Random) -> Network {
        let (loss, max_latency_ms) = (random.below(30), 1 + random.below(300));
        Network {
            now_ms: 0,
            random,
            arrivals: Arrivals::default(),
            streams: BTreeMap::new(),
            last_stream: 0,
            loss,
            cuts: Vec::new(),
            max_latency_ms,
        }
    }

    /// Everything works from now on.
    pub fn heal(&mut self) {
        (self.loss, self.max_latency_ms) = (0, 10);
        self.cuts.clear();
    }

    /// Two machines cannot reach each other for some time.
    pub fn cut(&mut self, between: [usize; 2], until_ms: u64) {
        self.cuts.push((between, until_ms));
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cuts.iter().any(|(pair, until)| *until > self.now_ms && (*pair == [a, b] || *pair == [b, a]))
    }

    fn latency_ms(&mut self) -> u64 {
        1 + self.random.below(self.max_latency_ms)
    }

    fn is_lost(&mut self) -> bool {
        self.random.below(100) < self.loss
    }

    fn schedule(&mut self, at_ms: u64, arrival: Arrival) {
        self.arrivals.schedule(at_ms, arrival);
    }

    pub fn next_ms(&self) -> Option<u64> {
        self.arrivals.next_ms()
    }

    /// The next arrival that is due.
    pub fn arrive(&mut self) -> Option<Arrival> {
        self.arrivals.take_due(self.now_ms)
    }

    //----------- datagrams --------------------------------------------------------

    pub fn send_query(&mut self, to: usize, from: Sender, octets: Vec<u8>) {
        if self.is_lost() || from.machine().is_some_and(|from| self.is_cut(from, to)) {
            return;
        }
        let at_ms = self.now_ms + self.latency_ms();
        if self.random.one_in(20) {
            let again_ms = self.now_ms + self.latency_ms();
            self.schedule(again_ms, Arrival::Query { to, from, octets: octets.clone() });
        }
        self.schedule(at_ms, Arrival::Query { to, from, octets });
    }

    pub fn send_answer(&mut self, from: usize, to: Sender, octets: Vec<u8>) {
        if self.is_lost() || to.machine().is_some_and(|to| self.is_cut(from, to)) {
            return;
        }
        let at_ms = self.now_ms + self.latency_ms();
        self.schedule(at_ms, Arrival::Answer { to, octets });
    }

    //----------- streams ----------------------------------------------------------

    /// Opens a stream; returns its number.
    pub fn connect(&mut self, client: ProcessId, connection: ConnectionId, server: usize) -> u64 {
        self.last_stream += 1;
        let number = self.last_stream;
        let stream = Stream { client, connection, server, accepted_by: None, input: Vec::new(), last_ms: [0; 2] };
        self.streams.insert(number, stream);
        let at_ms = self.now_ms + self.latency_ms();
        self.schedule(at_ms, Arrival::Connect(number));
        number
    }

    /// Whether this process has accepted a stream that is still open.
    pub fn is_accepted_by(&self, number: u64, process: ProcessId) -> bool {
        self.streams.get(&number).is_some_and(|stream| stream.accepted_by == Some(process))
    }

    /// A listener answered: accepted, refused, or nothing comes back.
    pub fn accept(&mut self, number: u64, by: Option<ProcessId>) {
        let at_ms = self.now_ms + self.latency_ms();
        let Some(stream) = self.streams.get_mut(&number) else { return };
        (stream.accepted_by, stream.last_ms[1]) = (by, at_ms);
        let (client, server) = (stream.client.0, stream.server);
        match by {
            _ if self.is_cut(client, server) => {}
            Some(_) => self.schedule(at_ms, Arrival::Established(number)),
            None if self.random.one_in(2) => self.schedule(at_ms, Arrival::Closed(number)),
            // A machine that is off sends no RST.
            None => {}
        }
    }

    /// Sends octets, in pieces, to the client or to the server.
    pub fn send(&mut self, number: u64, octets: &[u8], to_client: bool) {
        let Some(stream) = self.streams.get(&number) else { return };
        let (client, server) = (stream.client.0, stream.server);
        if self.is_cut(client, server) || self.loss > 0 && self.random.one_in(100) {
            return self.reset(number);
        }
        let side = usize::from(to_client);
        let piece = 1 + self.random.below(octets.len() as u64) as usize;
        for piece in octets.chunks(piece) {
            let at_ms = self.now_ms + self.latency_ms();
            let Some(stream) = self.streams.get_mut(&number) else { return };
            let at_ms = at_ms.max(stream.last_ms[side]);
            stream.last_ms[side] = at_ms;
            let octets = piece.to_vec();
            let arrival = if to_client { Arrival::ToClient(number, octets) } else { Arrival::ToServer(number, octets) };
            self.schedule(at_ms, arrival);
        }
    }

    /// A stream breaks. Its client may learn it, or hear nothing any more.
    fn reset(&mut self, number: u64) {
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.accepted_by = None;
        }
        if self.random.one_in(2) {
            let at_ms = self.now_ms + self.latency_ms();
            self.schedule(at_ms, Arrival::Closed(number));
        }
    }

    /// A machine is dead: so are its streams.
    pub fn machine_died(&mut self, machine: usize) {
        self.streams.retain(|_, stream| stream.client.0 != machine);
        let accepted = self.streams.iter().filter(|(_, stream)| stream.server == machine);
        let numbers: Vec<u64> = accepted.map(|(number, _)| *number).collect();
        numbers.into_iter().for_each(|number| self.reset(number));
    }
}
