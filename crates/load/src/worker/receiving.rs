//! Receives responses, and times out the queries that got none.

use std::io;
use std::time::Duration;

use netio::clock;

use super::{Worker, ns_since};
use crate::answer_window::Route;
use crate::ledger::Ledger;

impl Worker {
    /// Times out queries, and closes idle connections.
    pub(super) fn expire(&mut self, now: u64) {
        let Ledger { outstanding, first_connection, queries, has_breakdown, .. } = &mut self.ledger;
        let (pools, metrics) = (&mut self.pools, &mut self.metrics);
        outstanding.expire(now, |query| {
            if query.counted {
                metrics.record_timeout(now - query.intended_ns, now - query.sent_ns);
                if *has_breakdown {
                    metrics.breakdown.record(queries.qtype(query.number), None, now - query.intended_ns);
                }
            }
            if let (Some(pools), Some(connection)) = (&mut *pools, query.source.checked_sub(*first_connection)) {
                pools.query_timed_out(connection, now, metrics);
            }
        });
        if let Some(pools) = pools {
            pools.close_idle(now, metrics);
        }
    }

    pub(super) fn handle_events(&mut self) -> io::Result<()> {
        for index in 0..self.events.len() {
            let event = self.events.at(index);
            let (ledger, metrics) = (&mut self.ledger, &mut self.metrics);
            match (&mut self.udp, &mut self.pools) {
                (Some(udp), _) if event.token < udp.socket_count() as u64 => {
                    let mut arrivals = ArrivalClock { start: self.start, read: None };
                    udp.receive(event.token as usize, |source, response, received_at| {
                        ledger.record_response(source, Route::UDP, response, arrivals.ns(received_at), metrics);
                    })?;
                }
                (_, Some(pools)) => {
                    let now = ns_since(self.start);
                    pools.handle(event, &self.poll, now, metrics, |connection, route, response, metrics| {
                        let source = Some(ledger.first_connection + connection);
                        ledger.record_response(source, route, response, now, metrics)
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The times at which the responses of a batch arrived. The clock is read once, after the system call.
struct ArrivalClock {
    start: Duration,
    /// Nanoseconds from the start, and the time since 1970 if the kernel notes arrivals.
    read: Option<(u64, Duration)>,
}

impl ArrivalClock {
    /// When a response arrived, in nanoseconds from the start: when the kernel received it, or else now.
    #[inline]
    fn ns(&mut self, received_at: Option<Duration>) -> u64 {
        let read = || {
            let real = if received_at.is_some() { clock::real_exact() } else { Duration::ZERO };
            (ns_since(self.start), real)
        };
        let (now, real) = *self.read.get_or_insert_with(read);
        received_at.map_or(now, |at| now.saturating_sub(real.saturating_sub(at).as_nanos() as u64))
    }
}
