//! The prober: asks many questions again and again until each has the wanted answer, and records when that arrived.

mod schedule;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use netio::clock;
use netio::epoll::{Events, Interest, Poll};
use netio::udp_client::{ClientSocket, ReceiveBatch, SendBatch};
use serde::Serialize;
use wire::message::Rcode;
use wire::{HEADER_LEN, Message, Rtype, serial};

use crate::STOP_INTERVAL;
use crate::queries::{MAX_QUERY_LEN, Queries};
use crate::udp::SOCKET_BUFFER_LEN;
use schedule::{Number, ProbeSchedule};
pub use schedule::{ProbeLimits, Progress};

/// What to ask, and which answer to wait for.
#[derive(Debug)]
pub struct ProbeConfig {
    /// The server.
    pub server: SocketAddr,
    /// The questions.
    pub queries: Queries,
    /// The answer to wait for.
    pub wanted: WantedAnswer,
    /// How fast to ask.
    pub limits: ProbeLimits,
    /// The probe ends after this time even if answers are missing.
    pub patience: Duration,
}

/// The answer to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantedAnswer {
    /// NOERROR with a record.
    Any,
    /// A SOA record with this serial or a later one (RFC 1982).
    Serial(u32),
}

/// What a probe has seen.
#[derive(Debug, Default, Serialize)]
pub struct ProbeCounters {
    /// Queries sent.
    pub queries: u64,
    /// Responses to them.
    pub responses: u64,
    /// Queries without a response.
    pub timeouts: u64,
    /// Datagrams that are no response to an outstanding query.
    pub unexpected: u64,
}

/// Sockets: servers that spread clients over threads get some for each.
const SOCKETS: usize = 8;
/// Datagrams in one system call.
const BATCH: usize = 32;

/// A probe with open sockets.
pub struct Prober {
    config: ProbeConfig,
    schedule: ProbeSchedule,
    counters: ProbeCounters,
    sockets: Vec<ClientSocket>,
    poll: Poll,
    send_batch: SendBatch,
    receive_batch: ReceiveBatch,
    /// The socket for the next batch.
    next_socket: usize,
}

impl Prober {
    /// Opens the sockets.
    pub fn open(config: ProbeConfig) -> io::Result<Prober> {
        let poll = Poll::new()?;
        let open = || ClientSocket::open(config.server, None, SOCKET_BUFFER_LEN);
        let sockets: Vec<ClientSocket> = (0..SOCKETS).map(|_| open()).collect::<io::Result<_>>()?;
        sockets.iter().zip(0..).try_for_each(|(socket, token)| poll.add(socket, token, Interest::Readable))?;
        Ok(Prober {
            schedule: ProbeSchedule::new(config.queries.len(), config.limits),
            config,
            counters: ProbeCounters::default(),
            sockets,
            poll,
            send_batch: SendBatch::new(BATCH, MAX_QUERY_LEN, 1),
            receive_batch: ReceiveBatch::new(2 * BATCH),
            next_socket: 0,
        })
    }

    /// Asks until every wanted answer has arrived, the patience is over or `stop` is set. Returns what is known about each
    /// question, in nanoseconds since the start of this function.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<(Vec<Progress>, ProbeCounters)> {
        clock::minimize_timer_slack();
        let (start, mut events) = (clock::monotonic_exact(), Events::with_capacity(SOCKETS));
        let now_ns = || (clock::monotonic_exact() - start).as_nanos() as u64;
        let end_ns = self.config.patience.as_nanos() as u64;
        while self.schedule.missing() > 0 && !stop.load(Ordering::Relaxed) {
            let now = now_ns();
            if now >= end_ns {
                break;
            }
            self.counters.timeouts += self.schedule.expire(now);
            let is_busy = self.send_batch(now);
            let due_ns = self.schedule.next_ns().unwrap_or(u64::MAX).min(end_ns);
            let wait = Duration::from_nanos(due_ns.saturating_sub(now)).min(STOP_INTERVAL);
            self.poll.wait_precise(&mut events, if is_busy { Duration::ZERO } else { wait })?;
            for index in 0..events.len() {
                self.receive(events.at(index).token as usize, now_ns)?;
            }
        }
        Ok((self.schedule.progress().to_vec(), self.counters))
    }

    /// Sends due questions through one socket; returns whether there may be more.
    fn send_batch(&mut self, now_ns: u64) -> bool {
        let mut count = 0;
        while count < BATCH
            && let Some((id, number)) = self.schedule.next(now_ns)
        {
            let message = self.config.queries.at(number).message;
            self.send_batch.push(0, message)[..2].copy_from_slice(&id.to_be_bytes());
            count += 1;
        }
        if count > 0 {
            self.counters.queries += count as u64;
            // What the kernel refuses is asked again like what is lost.
            self.send_batch.send(&self.sockets[self.next_socket]);
            self.next_socket = (self.next_socket + 1) % SOCKETS;
        }
        count == BATCH
    }

    fn receive(&mut self, socket: usize, now_ns: impl Fn() -> u64) -> io::Result<()> {
        let Prober { config, schedule, counters, .. } = self;
        let mut received_ns = None;
        self.receive_batch.receive(&self.sockets[socket], |datagram| {
            let now = *received_ns.get_or_insert_with(&now_ns);
            match find_asked(datagram.bytes, schedule, &config.queries) {
                Some(id) => {
                    counters.responses += 1;
                    schedule.answered(id, config.wanted.is_in(datagram.bytes), now);
                }
                None => {
                    counters.unexpected += 1;
                    schedule.responded();
                }
            }
        })?;
        Ok(())
    }
}

/// The id of the outstanding query that this is the response to.
fn find_asked(response: &[u8], schedule: &ProbeSchedule, queries: &Queries) -> Option<u16> {
    let (header, rest) = response.split_first_chunk::<HEADER_LEN>()?;
    let id = u16::from_be_bytes([header[0], header[1]]);
    let number: Number = schedule.asked(id)?;
    let question = queries.at(number).question();
    let is_response = header[2] & 0x80 != 0;
    (is_response && rest.get(..question.len())?.eq_ignore_ascii_case(question)).then_some(id)
}

impl WantedAnswer {
    /// Whether a response has it.
    fn is_in(self, response: &[u8]) -> bool {
        // Most responses while the answer is missing are SERVFAIL, REFUSED or NXDOMAIN.
        let has_answer = u16::from(response[3] & 0x0f) == Rcode::NOERROR.0 && response[6..8] != [0, 0];
        match self {
            WantedAnswer::Any => has_answer,
            WantedAnswer::Serial(wanted) => {
                let found = has_answer.then(|| answered_serial(response)).flatten();
                found.is_some_and(|found| found == wanted || serial::is_later(found, wanted))
            }
        }
    }
}

fn answered_serial(response: &[u8]) -> Option<u32> {
    let message = Message::parse(response).ok()?;
    let soa = message.answer.iter().find(|record| record.rtype == Rtype::SOA)?;
    serial::of_soa(&soa.rdata)
}
