//! One thread of a run: sends what is due, takes what has come, gives up what is late.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use netio::clock;
use netio::stream::{Events, Poll};
use wire::tsig::Key;

use crate::book::Book;
use crate::flight::Flight;
use crate::measure::Measure;
use crate::pacer::{Due, Pace, Pacer};
use crate::queries::Queries;
use crate::random::Random;
use crate::signing::Signing;
use crate::stream::Streams;
use crate::udp::Udp;
use crate::verify::Verifier;

/// Queries that are sent before answers are looked at: enough to catch up, few enough not to time answers late.
const SENT_A_TURN: usize = 64;
/// Queries over TCP alone that are written before answers are looked at.
const STREAM_BUNCH: usize = 8;
/// Connections that a closed loop begins without waiting for answers: fewer than a short listen queue holds, 10 of BIND and
/// Knot. What does not fit is dropped, and the kernel tries again after a second, which says nothing about the server.
const BEGUN_AT_ONCE: usize = 8;
/// After how long it begins a further one in any case, so that far servers do not take a round trip for each eight.
const BEGUN_AGAIN_NS: u64 = 5_000_000;
/// Queries that are found to be too late before anything else is done: at a rate that cannot be kept they never end.
const MISSED_A_TURN: usize = 1024;
/// Events that are taken in one wait.
const EVENTS: usize = 256;
/// Below this the thread does not sleep but looks again: a processor needs about as long to wake up.
const SPIN_NS: u64 = 60_000;
/// The longest sleep, after which the thread looks whether it is to stop.
const MAX_SLEEP_NS: u64 = 50_000_000;

/// What a worker is made of.
pub struct Parts {
    /// What is asked.
    pub queries: Arc<Queries>,
    /// In which order, by number; empty for that of the numbers.
    pub order: Arc<[u32]>,
    /// What is right.
    pub verifier: Verifier,
    /// What queries are signed with, if they are.
    pub key: Option<Arc<Key>>,
    /// The number of the worker and how many there are: it sends every query whose number has that remainder.
    pub share: (usize, usize),
    /// When it sends.
    pub pace: Pace,
    /// The UDP side, if it has one.
    pub udp: Option<Udp>,
    /// The TCP side, if it has one.
    pub streams: Option<Streams>,
    /// Of queries that can go either way, the share that goes over TCP.
    pub stream_share: f64,
    /// How long an answer may take.
    pub timeout_ns: u64,
    /// How long nothing is measured.
    pub warm_up_ns: u64,
    /// After how long the measurement is handed over, again and again.
    pub interval_ns: u64,
    /// The processor to stay on.
    pub cpu: Option<usize>,
}

/// What a worker hands over: the number of the interval and what was measured in it.
pub type Report = (u64, Measure);

/// A thread's run.
pub struct Worker {
    book: Book,
    /// What was measured in the interval at hand.
    measure: Measure,
    pacer: Pacer,
    order: Arc<[u32]>,
    udp: Option<Udp>,
    streams: Option<Streams>,
    stream_share: f64,
    /// Queries that are about to leave together: their numbers and intended times.
    bunch: Vec<(u32, u64)>,
    random: Random,
    poll: Poll,
    events: Events,
    interval_ns: u64,
    interval: u64,
    cpu: Option<usize>,
    cpu_before: Duration,
    /// The moment on the monotonic clock that all times are counted from.
    start: Duration,
}

impl Worker {
    /// Makes a worker; its sockets are open when this returns.
    pub fn new(parts: Parts) -> io::Result<Worker> {
        let poll = Poll::new()?;
        if let Some(udp) = &parts.udp {
            udp.register(&poll)?;
        }
        let source_count = parts.udp.as_ref().map_or(0, Udp::source_count);
        Ok(Worker {
            book: Book {
                flight: Flight::new(source_count as usize, parts.timeout_ns),
                queries: parts.queries.clone(),
                verifier: parts.verifier,
                signing: parts.key.map(Signing::new),
                warm_up_ns: parts.warm_up_ns,
                stream_base: source_count,
            },
            measure: Measure::default(),
            pacer: Pacer::new(parts.pace, parts.share, parts.queries.len(), parts.timeout_ns),
            order: parts.order,
            udp: parts.udp,
            streams: parts.streams,
            stream_share: parts.stream_share,
            bunch: Vec::new(),
            random: Random::new(parts.share.0 as u64),
            poll,
            events: Events::with_capacity(EVENTS),
            interval_ns: parts.interval_ns,
            interval: 0,
            cpu: parts.cpu,
            cpu_before: Duration::ZERO,
            start: Duration::ZERO,
        })
    }

    /// Runs until everything is sent and answered or timed out, or until `stop`. Times count from `start`, on the monotonic
    /// clock. Hands over every interval's measurement, the last one when it ends. Returns when it had sent its last query.
    pub fn run(mut self, start: Duration, stop: &AtomicBool, reports: &Sender<Report>) -> io::Result<Duration> {
        if let Some(cpu) = self.cpu {
            netio::pin::pin(cpu)?;
        }
        clock::sharpen_timers();
        self.start = start;
        std::thread::sleep(start.saturating_sub(clock::monotonic_exact()));
        self.cpu_before = clock::thread_cpu();
        let mut sent_ns = None;
        while !stop.load(Ordering::Relaxed) {
            let sent = self.send_due();
            let now = self.now();
            self.expire(now);
            self.hand_over_intervals(now, reports);
            if self.pacer.is_over(now) {
                sent_ns.get_or_insert(now);
                if self.book.flight.is_empty() {
                    break;
                }
            }
            let pause = if sent { 0 } else { self.pause_ns(now) };
            self.poll.wait_exact(&mut self.events, Duration::from_nanos(pause))?;
            self.take_events()?;
        }
        self.measure.interrupted = self.book.flight.len() as u64;
        self.hand_over(reports);
        Ok(Duration::from_nanos(sent_ns.unwrap_or_else(|| self.now())))
    }

    #[inline]
    fn now(&self) -> u64 {
        ns_since(self.start)
    }

    /// Sends what is due, a few bunches of it; returns whether there was any.
    fn send_due(&mut self) -> bool {
        let mut sent = 0;
        while sent < SENT_A_TURN {
            let now = self.now();
            self.gather_bunch(now);
            if self.bunch.is_empty() {
                break;
            }
            sent += self.bunch.len();
            for at in 0..self.bunch.len() {
                let (number, intended_ns) = self.bunch[at];
                self.send(number, intended_ns, now);
            }
            self.flush();
        }
        sent > 0
    }

    /// Takes the next queries that are due, as many as leave together.
    fn gather_bunch(&mut self, now: u64) {
        self.bunch.clear();
        let bunch = self.udp.as_ref().map_or(STREAM_BUNCH, Udp::bunch);
        let (most, mut missed) = (self.most_in_flight(now), 0);
        while self.bunch.len() < bunch && missed < MISSED_A_TURN {
            let in_flight = self.book.flight.len() + self.bunch.len();
            match self.pacer.next(now, in_flight, most) {
                Some(Due::Query { number, intended_ns }) => {
                    let number = self.order.get(number as usize).copied().unwrap_or(number);
                    self.bunch.push((number, intended_ns));
                }
                Some(Due::Missed { intended_ns }) => {
                    self.book.miss(intended_ns, &mut self.measure);
                    missed += 1;
                }
                None => break,
            }
        }
        if let (Some(udp), false) = (&mut self.udp, self.bunch.is_empty()) {
            udp.begin_bunch();
        }
    }

    /// How many queries a closed loop may have in flight: few until each of its connections was begun, since each query begins one.
    fn most_in_flight(&self, now: u64) -> usize {
        match (&self.udp, &self.streams) {
            (None, Some(streams)) if !streams.has_begun_all() => BEGUN_AT_ONCE + (now / BEGUN_AGAIN_NS) as usize,
            _ => usize::MAX,
        }
    }

    fn send(&mut self, number: u32, intended_ns: u64, now: u64) {
        if self.goes_by_stream(number) {
            return self.send_by_stream(number, intended_ns, now);
        }
        let Some(udp) = &mut self.udp else { return };
        let source = match self.book.queries.origin(number) {
            None => udp.next_source(),
            Some(origin) => udp.source_of_client(origin.client),
        };
        let Some(id) = self.book.send(source, number, intended_ns, now, &mut self.measure) else { return };
        let refused = udp.push(source, id, self.book.message(number));
        self.measure.refused += refused as u64;
    }

    fn goes_by_stream(&mut self, number: u32) -> bool {
        match (&self.udp, &self.streams) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(_), Some(_)) => match self.book.queries.origin(number) {
                Some(origin) => origin.stream,
                None => self.random.unit() < self.stream_share,
            },
        }
    }

    fn send_by_stream(&mut self, number: u32, intended_ns: u64, now: u64) {
        let Some(streams) = &mut self.streams else { return };
        let client = self.book.queries.origin(number).map(|origin| origin.client);
        match streams.choose(client, &self.poll, now) {
            Ok(connection) => {
                let source = self.book.stream_base + connection;
                self.book.flight.reserve_sources(self.book.stream_base as usize + streams.number_count());
                match self.book.send(source, number, intended_ns, now, &mut self.measure) {
                    Some(id) => streams.push(connection, id, self.book.message(number)),
                    None => streams.settle(connection, &mut self.measure),
                }
            }
            // No descriptor or no port is left: the query has nowhere to go.
            Err(error) => {
                self.measure.handshake_failed(&error);
                self.book.miss(intended_ns, &mut self.measure);
            }
        }
    }

    fn flush(&mut self) {
        if let Some(udp) = &mut self.udp {
            self.measure.refused += udp.flush() as u64;
        }
        if let Some(streams) = &mut self.streams {
            streams.flush(&self.poll, &mut self.measure);
        }
    }

    fn expire(&mut self, now: u64) {
        let Book { flight, stream_base, .. } = &mut self.book;
        let (streams, measure) = (&mut self.streams, &mut self.measure);
        flight.expire(now, |flying| {
            if flying.counted {
                measure.timed_out(now - flying.intended_ns, now - flying.sent_ns);
            }
            if let (Some(streams), Some(connection)) = (&mut *streams, flying.source.checked_sub(*stream_base)) {
                streams.settle(connection, measure);
            }
        });
    }

    fn take_events(&mut self) -> io::Result<()> {
        for index in 0..self.events.len() {
            let event = self.events.at(index);
            let (book, measure) = (&mut self.book, &mut self.measure);
            match (&mut self.udp, &mut self.streams) {
                (Some(udp), _) if event.token < udp.socket_count() as u64 => {
                    let start = self.start;
                    let mut received_ns = None;
                    udp.receive(event.token as usize, |source, answer| {
                        // One look at the clock for all that came in one call, behind it.
                        let now = *received_ns.get_or_insert_with(|| ns_since(start));
                        book.answer(source, answer, now, measure);
                    })?;
                }
                (_, Some(streams)) => {
                    let now = ns_since(self.start);
                    streams.handle(event, &self.poll, now, measure, |connection, answer, measure| {
                        book.answer(Some(book.stream_base + connection), answer, now, measure)
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// How long to wait for events before something else is to be done.
    fn pause_ns(&mut self, now: u64) -> u64 {
        let interval_end = (self.interval + 1) * self.interval_ns;
        let soonest = [self.book.flight.next_timeout_ns(), Some(interval_end)].into_iter().flatten().min();
        let other = soonest.map_or(MAX_SLEEP_NS, |time| time.saturating_sub(now)).min(MAX_SLEEP_NS);
        match self.pacer.next_ns() {
            Some(due) => due.saturating_sub(now).saturating_sub(SPIN_NS).min(other),
            None => other,
        }
    }

    fn hand_over_intervals(&mut self, now: u64, reports: &Sender<Report>) {
        while now >= (self.interval + 1) * self.interval_ns {
            self.hand_over(reports);
        }
    }

    fn hand_over(&mut self, reports: &Sender<Report>) {
        let cpu = clock::thread_cpu();
        let is_warm_up = (self.interval + 1) * self.interval_ns <= self.book.warm_up_ns;
        self.measure.cpu_ns = if is_warm_up { 0 } else { (cpu - self.cpu_before).as_nanos() as u64 };
        self.cpu_before = cpu;
        // Whoever no longer listens has given up the run.
        let _ = reports.send((self.interval, std::mem::take(&mut self.measure)));
        self.interval += 1;
    }
}

#[inline]
fn ns_since(start: Duration) -> u64 {
    clock::monotonic_exact().saturating_sub(start).as_nanos() as u64
}
