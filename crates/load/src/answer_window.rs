//! The window in which answers count towards the rate: the time of sending, and afterwards as long as answers travel.
//!
//! Later answers are those of queries that the server has buffered. How long an answer travels is estimated by the
//! smallest latency of the whole run: it has the round-trip time and the least of the time in queues. Each transport has
//! its own, and a query that waited for its connection to be established also has the shortest handshake.

use std::time::Duration;

/// How a response came.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// 0 over UDP, otherwise 1 + the number of the pool.
    pub transport: usize,
    /// That of the connection; `None` over UDP.
    pub handshake: Option<Handshake>,
}

impl Route {
    /// Over UDP.
    pub const UDP: Route = Route { transport: 0, handshake: None };
    /// Over QUIC, where queries leave when their connection is established, and which has runs of its own.
    pub const QUIC: Route = Route::UDP;
}

/// When a connection was opened and when it was established, in nanoseconds from the start.
#[derive(Clone, Copy, Debug)]
pub struct Handshake {
    pub opened_ns: u64,
    pub established_ns: u64,
}

/// UDP, and at most two pools.
const TRANSPORTS: usize = 3;
/// The longest [`grace`].
const MAX_GRACE: Duration = Duration::from_millis(10);

/// How much longer than the fastest answer one may take after the end of sending and still count as in the window: time
/// for differences on the way, too short to count what a server has buffered.
pub fn grace(window: Duration) -> Duration {
    MAX_GRACE.min(window / 100)
}

/// Which answers of a worker arrived in the window.
pub struct AnswerWindow {
    /// When sending ended; `None` before.
    end_ns: Option<u64>,
    /// How much longer than the fastest one an answer may take.
    grace_ns: u64,
    fastest: [Fastest; TRANSPORTS],
    /// The answers after the end of sending. Which of them are late is only known when the run ends, because a faster
    /// answer may still come.
    after_end: Vec<AnswerAfterEnd>,
}

/// The shortest times of a transport so far; the maximum before the first one.
#[derive(Clone, Copy)]
struct Fastest {
    /// From when a query could leave, which is after the handshake, to its answer.
    latency_ns: u64,
    handshake_ns: u64,
}

#[derive(Clone, Copy)]
struct AnswerAfterEnd {
    /// From the end of sending to its arrival.
    delay_ns: u64,
    transport: usize,
    /// Whether the query waited for its connection to be established.
    has_waited: bool,
}

impl AnswerWindow {
    /// A window that is open until [`AnswerWindow::end`], and then for the time that answers travel and this grace.
    pub fn new(grace: Duration) -> AnswerWindow {
        let fastest = Fastest { latency_ns: u64::MAX, handshake_ns: u64::MAX };
        let grace_ns = grace.as_nanos() as u64;
        AnswerWindow { end_ns: None, grace_ns, fastest: [fastest; TRANSPORTS], after_end: Vec::new() }
    }

    /// Ends the time of sending; only the first call counts.
    pub fn end(&mut self, now_ns: u64) {
        self.end_ns.get_or_insert(now_ns);
    }

    /// Records how long the answer to a query that was sent at `sent_ns` travelled; also of the warm-up.
    #[inline]
    pub fn record_latency(&mut self, route: Route, sent_ns: u64, now_ns: u64) {
        let fastest = &mut self.fastest[route.transport];
        let left_ns = route.handshake.map_or(sent_ns, |handshake| sent_ns.max(handshake.established_ns));
        fastest.latency_ns = fastest.latency_ns.min(now_ns.saturating_sub(left_ns));
        if let Some(Handshake { opened_ns, established_ns }) = route.handshake {
            fastest.handshake_ns = fastest.handshake_ns.min(established_ns.saturating_sub(opened_ns));
        }
    }

    /// Records when an answer that is counted arrived.
    #[inline]
    pub fn record_arrival(&mut self, route: Route, sent_ns: u64, now_ns: u64) {
        let Some(delay_ns) = self.end_ns.and_then(|end_ns| now_ns.checked_sub(end_ns)) else { return };
        let has_waited = route.handshake.is_some_and(|handshake| sent_ns < handshake.established_ns);
        self.after_end.push(AnswerAfterEnd { delay_ns, transport: route.transport, has_waited });
    }

    /// How many answers arrived after the window. To be called when all have arrived.
    pub fn late_answers(&self) -> u64 {
        self.after_end.iter().filter(|answer| self.is_late(answer)).count() as u64
    }

    fn is_late(&self, answer: &AnswerAfterEnd) -> bool {
        let Fastest { latency_ns, handshake_ns } = self.fastest[answer.transport];
        let waited_ns = if answer.has_waited { handshake_ns } else { 0 };
        // They are at their maximum if all responses were to other questions.
        answer.delay_ns > latency_ns.saturating_add(waited_ns).saturating_add(self.grace_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn window() -> AnswerWindow {
        AnswerWindow::new(Duration::from_millis(10))
    }

    /// Records the answer to a query that was sent at `sent_ms` and took `latency_ms`.
    fn answer(window: &mut AnswerWindow, route: Route, sent_ms: u64, latency_ms: u64) {
        let now_ns = (sent_ms + latency_ms) * MS;
        window.record_latency(route, sent_ms * MS, now_ns);
        window.record_arrival(route, sent_ms * MS, now_ns);
    }

    #[test]
    fn answers_that_travel_for_long_are_not_late() {
        let mut window = window();
        answer(&mut window, Route::UDP, 0, 50);
        window.end(1000 * MS);
        answer(&mut window, Route::UDP, 950, 55);
        answer(&mut window, Route::UDP, 1000, 60);
        assert_eq!(window.late_answers(), 0);
        answer(&mut window, Route::UDP, 1000, 61);
        assert_eq!(window.late_answers(), 1);
    }

    /// The server first answers when sending has ended: the last query shows that its answers travel for a short time only.
    #[test]
    fn a_faster_answer_makes_those_before_it_late() {
        let mut window = window();
        window.end(100 * MS);
        answer(&mut window, Route::UDP, 0, 200);
        answer(&mut window, Route::UDP, 50, 152);
        assert_eq!(window.late_answers(), 0);
        answer(&mut window, Route::UDP, 100, 103);
        assert_eq!(window.late_answers(), 0);
        answer(&mut window, Route::UDP, 99, 20);
        assert_eq!(window.late_answers(), 3);
    }

    #[test]
    fn a_transport_does_not_have_the_latency_of_another() {
        let mut window = window();
        let tcp = |opened_ms: u64, established_ms: u64| Route {
            transport: 1,
            handshake: Some(Handshake { opened_ns: opened_ms * MS, established_ns: established_ms * MS }),
        };
        answer(&mut window, Route::UDP, 0, 1);
        answer(&mut window, tcp(0, 20), 100, 20);
        window.end(1000 * MS);
        answer(&mut window, tcp(0, 20), 1000, 30);
        assert_eq!(window.late_answers(), 0, "20 ms and the grace");
        answer(&mut window, tcp(1000, 1020), 1000, 50);
        assert_eq!(window.late_answers(), 0, "and 20 ms for the handshake");
        answer(&mut window, tcp(0, 20), 1000, 50);
        assert_eq!(window.late_answers(), 1, "it did not wait for a handshake");
        answer(&mut window, Route::UDP, 1000, 12);
        assert_eq!(window.late_answers(), 2);
    }
}
