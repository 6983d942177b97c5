//! DNS over QUIC (RFC 9250), a stream for each query: in a closed loop over open connections, or over new ones for few queries each, or at a
//! rate over open ones.
//!
//! The connections are those of `quic/clients.rs`, as are those of hostile clients.

mod asker;
mod clients;
pub mod hostile;
mod ledger;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use asker::{Asker, Exchange};
use clients::QuicClients;
use ledger::QuicLedger;
use netio::clock;
use netio::udp_client::Sources;
use quinn_proto::{Connection, Dir, Event, StreamEvent, StreamId};
use wire::framing::frame;

use crate::STOP_INTERVAL;
use crate::metrics::Metrics;
use crate::opening::{MAX_QUIC_BEGUN_PER_TURN, Opening};
use crate::pacer::{busy_share, sleep_ns};
use crate::queries::Queries;
use crate::tls::TlsConfig;
use crate::verify::ResponseChecker;

/// What the clients do.
#[derive(Clone)]
pub struct QuicConfig<'q> {
    /// The server under test.
    pub server: SocketAddr,
    /// Their addresses, in turn; `None` for the one that the kernel chooses.
    pub sources: Option<Sources>,
    /// How they verify it.
    pub tls: &'q TlsConfig,
    /// The number of connections.
    pub connections: usize,
    /// Connections opened per second, until all are open.
    pub rate: f64,
    /// Queries outstanding on all connections together in a closed loop; 0: the connections are idle, or asked at a rate.
    pub outstanding: usize,
    /// Queries per second in an open loop, on each connection in turn.
    pub query_rate: Option<f64>,
    /// After this many responses a connection is closed and another one opened; 0: never.
    pub queries_per_connection: u64,
    /// How long queries are sent but not counted, once all connections are open.
    pub warm_up: Duration,
    /// How long they are counted.
    pub duration: Duration,
    /// The queries, in turn; at least one.
    pub queries: &'q Queries,
    /// What the responses must be, besides one to the question.
    pub checker: ResponseChecker,
}

/// What they have seen.
#[derive(Debug, Default)]
pub struct QuicResult {
    /// Connections that were open at the end of the opening.
    pub open: usize,
    /// How long opening them took.
    pub opening: Duration,
    /// The handshakes of the opening.
    pub opening_metrics: Metrics,
    /// How long queries were sent and counted.
    pub counted: Duration,
    /// When that ended, since 1970.
    pub until: Duration,
    /// Of that time; of idle connections, of the whole run. Lost connections count as `closed_early`.
    pub metrics: Metrics,
    /// The share of the counted time in which the thread did not wait.
    pub busy: f64,
}

/// A query without a response after this time is lost, and in a closed loop another one takes its place: much longer than QUIC takes to
/// repeat it. A connection that answers nothing for this time is replaced.
pub const TIMEOUT: Duration = Duration::from_secs(1);

impl QuicConfig<'_> {
    /// Opens the connections, calls `on_opened`, and asks, or is idle, for the configured time.
    pub fn run(&self, stop: &AtomicBool, on_opened: impl FnOnce(&QuicResult)) -> io::Result<QuicResult> {
        let mut load = QuicLoad::new(self)?;
        let begun = Instant::now();
        while load.is_opening() && !load.opening.is_overdue(begun.elapsed()) && !stop.load(Ordering::Relaxed) {
            load.open_due(begun)?;
            load.turn()?;
        }
        let mut result = QuicResult {
            open: load.open,
            opening: begun.elapsed(),
            opening_metrics: load.ledger.metrics.clone(),
            ..QuicResult::default()
        };
        on_opened(&result);
        if self.asks() {
            load.ledger.metrics = Metrics::default();
        }
        load.outstanding = self.outstanding;
        load.schedule = self.query_rate.map(|rate| QuerySchedule::new(Instant::now(), rate));
        load.ask_everywhere();
        load.turn_until(Instant::now() + self.warm_up, stop)?;
        if self.asks() && !self.warm_up.is_zero() {
            load.end_warm_up();
        }
        let (since, waited) = (Instant::now(), load.clients.waited());
        load.turn_until(since + self.duration, stop)?;
        result.counted = since.elapsed();
        result.busy = busy_share(load.clients.waited() - waited, result.counted);
        result.until = clock::real();
        load.drain(stop)?;
        load.close_all();
        result.metrics = load.ledger.finish();
        Ok(result)
    }

    /// Whether it sends queries.
    pub fn asks(&self) -> bool {
        self.outstanding > 0 || self.query_rate.is_some()
    }
}

/// The queries of an open loop: one for each interval, whatever became of those before.
struct QuerySchedule {
    next: Instant,
    interval: Duration,
}

impl QuerySchedule {
    fn new(first: Instant, rate: f64) -> QuerySchedule {
        QuerySchedule { next: first, interval: Duration::from_secs_f64(1.0 / rate) }
    }

    /// How long to sleep before the next query.
    fn sleep(&self, now: Instant) -> Duration {
        Duration::from_nanos(sleep_ns(self.next.saturating_duration_since(now).as_nanos() as u64))
    }

    /// When the next query should have been sent, if that time has come; after that it is the turn of the one after it.
    fn due(&mut self, now: Instant) -> Option<Instant> {
        let due = Some(self.next).filter(|next| *next <= now)?;
        self.next += self.interval;
        Some(due)
    }
}

struct QuicLoad<'q> {
    config: &'q QuicConfig<'q>,
    /// 0 while connections are opened.
    outstanding: usize,
    /// Nothing while connections are opened, and in a closed loop.
    schedule: Option<QuerySchedule>,
    opening: Opening,
    clients: QuicClients<'q>,
    /// What each of the clients asks.
    askers: Vec<Asker>,
    /// The queries in the order of sending, from the first one without a response on.
    asked: VecDeque<Asked>,
    /// No more queries are sent, and no connections opened.
    is_draining: bool,
    /// Connections that are established.
    open: usize,
    next_query: u32,
    /// The connection of the next query of the schedule.
    next_connection: usize,
    ledger: QuicLedger<'q>,
}

/// A query that may have no response yet.
#[derive(Clone, Copy)]
struct Asked {
    sent: Instant,
    /// The number of its connection.
    number: usize,
    id: StreamId,
}

impl<'q> QuicLoad<'q> {
    fn new(config: &'q QuicConfig<'q>) -> io::Result<QuicLoad<'q>> {
        Ok(QuicLoad {
            config,
            outstanding: 0,
            schedule: None,
            opening: Opening::new(config.connections, config.rate),
            clients: QuicClients::new(config.server, config.sources, config.tls, config.connections)?,
            askers: Vec::with_capacity(config.connections),
            asked: VecDeque::new(),
            is_draining: false,
            open: 0,
            next_query: 0,
            next_connection: 0,
            ledger: QuicLedger::new(config.queries, config.checker.clone(), config.duration),
        })
    }

    fn is_opening(&self) -> bool {
        !self.opening.all_begun() || self.clients.iter().any(|client| !client.is_established)
    }

    fn open_due(&mut self, begun: Instant) -> io::Result<()> {
        for _ in 0..MAX_QUIC_BEGUN_PER_TURN {
            let Some(number) = self.opening.next_due(begun.elapsed()) else { return Ok(()) };
            self.askers.push(Asker::default());
            self.clients.open(number)?;
            self.advance(number);
        }
        Ok(())
    }

    /// From now on, queries are counted; those without a response were sent before.
    fn end_warm_up(&mut self) {
        self.ledger.metrics = Metrics::default();
        let outstanding = self.askers.iter_mut().flat_map(|asker| asker.exchanges.values_mut());
        outstanding.for_each(|exchange| exchange.is_counted = false);
    }

    /// Waits until the queries are answered or lost, as `query` does. Those left when `stop` is set were interrupted.
    fn drain(&mut self, stop: &AtomicBool) -> io::Result<()> {
        self.ledger.end_window();
        (self.outstanding, self.schedule, self.is_draining) = (0, None, true);
        while self.askers.iter().any(|asker| !asker.exchanges.is_empty()) && !stop.load(Ordering::Relaxed) {
            self.turn()?;
        }
        let left = self.askers.iter().flat_map(|asker| asker.exchanges.values());
        self.ledger.metrics.interrupted = left.filter(|exchange| exchange.is_counted).count() as u64;
        self.ledger.metrics.receive_drops += self.clients.receive_drops()?;
        Ok(())
    }

    fn turn_until(&mut self, end: Instant, stop: &AtomicBool) -> io::Result<()> {
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            self.turn()?;
        }
        Ok(())
    }

    /// Handles what arrives or is due within a short time.
    fn turn(&mut self) -> io::Result<()> {
        let longest = if self.opening.all_begun() { STOP_INTERVAL } else { Duration::from_millis(1) };
        // Sending takes time, by which the wait would be too long.
        self.clients.flush();
        let now = Instant::now();
        let due = self.schedule.as_ref().map(|schedule| schedule.sleep(now));
        let lost = self.asked.front().map(|asked| (asked.sent + TIMEOUT).saturating_duration_since(now));
        for number in self.clients.turn(due.into_iter().chain(lost).fold(longest, Duration::min))? {
            self.advance(number);
        }
        self.expire();
        self.ask_due();
        Ok(())
    }

    /// Gives up the queries that have waited for the time-out. Others take their places.
    fn expire(&mut self) {
        while let Some(asked) = self.asked.front().copied() {
            let is_outstanding = self.askers[asked.number].awaits(asked.id, asked.sent);
            if is_outstanding && asked.sent.elapsed() < TIMEOUT {
                return;
            }
            self.asked.pop_front();
            if is_outstanding {
                self.give_up(asked);
            }
        }
    }

    fn give_up(&mut self, Asked { sent, number, id }: Asked) {
        let asker = &mut self.askers[number];
        let exchange = asker.cancel(&mut self.clients.client(number).connection, id).expect("it is outstanding");
        self.ledger.record_lost(&exchange);
        if self.is_draining || !asker.is_silent_since(sent) {
            return self.advance(number);
        }
        self.ledger.metrics.closed_silent += 1;
        self.lose_outstanding(number);
        self.replace(number);
    }

    /// Sends the queries of the schedule that are due, on each connection in turn.
    fn ask_due(&mut self) {
        while let Some(intended) = self.schedule.as_mut().and_then(|schedule| schedule.due(Instant::now())) {
            let number = self.next_connection;
            self.next_connection = (number + 1) % self.clients.len();
            if self.ask_once(number, intended) {
                self.ledger.metrics.scheduled += 1;
                self.clients.transmit(number);
            } else {
                // The server has closed the connection, answers nothing on it, or gives no more streams.
                self.ledger.metrics.record_missed(TIMEOUT.as_nanos() as u64);
                self.skip_query();
                self.advance(number);
            }
        }
    }

    fn ask_everywhere(&mut self) {
        (0..self.clients.len()).for_each(|number| self.advance(number));
    }

    /// Does all that a client can do now: takes events, asks, queues datagrams, sets its timer.
    fn advance(&mut self, number: usize) {
        let lost = self.take_events(number);
        let asker = &self.askers[number];
        let limit = self.config.queries_per_connection;
        let is_done = limit > 0 && asker.responses >= limit && asker.exchanges.is_empty();
        if let Some(reason) = lost {
            self.record_loss(number, reason);
            if self.is_draining {
                return;
            }
        } else if !is_done || self.is_draining {
            self.ask(number);
            if self.is_draining || !self.is_used_up(number) {
                return self.clients.transmit(number);
            }
        }
        self.replace(number);
    }

    /// Whether a connection has no stream left, and the server has never given more than the first ones (RFC 9000 4.6). Knot DNS 3.6-dev gives
    /// 1024.
    fn is_used_up(&mut self, number: usize) -> bool {
        let asker = &self.askers[number];
        let has_only_first_streams = |of: &Connection| of.stats().frame_rx.max_streams_bidi == 0;
        let is_waiting = asker.is_out_of_streams && asker.exchanges.is_empty();
        is_waiting && has_only_first_streams(&self.clients.client(number).connection)
    }

    /// Takes the events of a connection; returns why it is lost, if it is.
    fn take_events(&mut self, number: usize) -> Option<String> {
        while let Some(event) = self.clients.next_event(number) {
            let client = self.clients.client(number);
            match event {
                Event::Connected => {
                    self.open += 1;
                    let metrics = &mut self.ledger.metrics;
                    metrics.handshakes += 1;
                    metrics.handshakes_resumed += u64::from(!client.has_certificate);
                    metrics.handshake.saturating_record(client.since.elapsed().as_nanos() as u64);
                }
                Event::ConnectionLost { reason } => return Some(reason.to_string()),
                Event::Stream(StreamEvent::Readable { id }) => {
                    if let Some(exchange) = self.askers[number].read(&mut client.connection, id) {
                        self.ledger.record(&exchange);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Sends as many queries on a connection as may be outstanding.
    fn ask(&mut self, number: usize) {
        while self.may_ask(number) && self.ask_once(number, Instant::now()) {}
    }

    /// The outstanding queries that a connection may have: the first ones have one more, if they cannot be shared equally.
    fn share(&self, number: usize) -> usize {
        let count = self.config.connections;
        self.outstanding / count + usize::from(number < self.outstanding % count)
    }

    /// Whether a connection may have one more query outstanding.
    fn may_ask(&self, number: usize) -> bool {
        let (asker, limit) = (&self.askers[number], self.config.queries_per_connection);
        let outstanding = asker.exchanges.len();
        outstanding < self.share(number) && (limit == 0 || asker.responses + (outstanding as u64) < limit)
    }

    /// Sends a query on a connection, if that has a stream for it.
    fn ask_once(&mut self, number: usize, intended: Instant) -> bool {
        let (query, client) = (self.next_query, self.clients.client(number));
        if !client.is_established {
            return false;
        }
        let stream = client.connection.streams().open(Dir::Bi);
        self.askers[number].is_out_of_streams = stream.is_none();
        let Some(id) = stream else { return false };
        let message = self.config.queries.at(query).message;
        // RFC 9250 4.2.1: the ID is 0, as in all encoded queries. A query is far shorter than the window.
        let framed = frame(message);
        let mut stream = client.connection.send_stream(id);
        if stream.write(&framed) != Ok(framed.len()) || stream.finish().is_err() {
            return false;
        }
        self.skip_query();
        let sent = Instant::now();
        let exchange = Exchange { query, intended, sent, is_counted: true, input: Vec::new() };
        self.askers[number].exchanges.insert(id, exchange);
        self.asked.push_back(Asked { sent, number, id });
        self.ledger.metrics.record_sent(message.len(), sent.saturating_duration_since(intended).as_nanos() as u64);
        true
    }

    fn skip_query(&mut self) {
        self.next_query = (self.next_query + 1) % self.config.queries.len() as u32;
    }

    fn record_loss(&mut self, number: usize, reason: String) {
        if self.clients.client(number).is_established {
            self.ledger.metrics.closed_early += 1;
            self.lose_outstanding(number);
        } else {
            self.ledger.metrics.record_failed_handshake(&io::Error::other(reason));
        }
    }

    /// The queries of a connection that is gone will not be answered.
    fn lose_outstanding(&mut self, number: usize) {
        for (_, exchange) in self.askers[number].exchanges.drain() {
            self.ledger.record_lost(&exchange);
        }
    }

    /// Closes all connections, so that the server need not wait for their end.
    fn close_all(&mut self) {
        (0..self.clients.len()).for_each(|number| self.clients.close(number));
        self.clients.flush();
    }

    /// Closes a connection and opens another one in its place.
    fn replace(&mut self, number: usize) {
        self.clients.close(number);
        self.open -= usize::from(self.clients.client(number).is_established);
        self.clients.forget(number);
        self.askers[number] = Asker::default();
        // It was possible with the same settings before. It gets the number that was given up last.
        self.clients.open(number).expect("valid settings");
        self.clients.transmit(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_due_at_their_times_however_late_they_are_sent() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut schedule = QuerySchedule::new(begin, 100.0);
        assert_eq!(schedule.due(at(0)), Some(at(0)));
        assert_eq!(schedule.due(at(9)), None);
        assert_eq!([35, 35, 35, 35].map(|ms| schedule.due(at(ms))), [Some(at(10)), Some(at(20)), Some(at(30)), None]);
    }
}
