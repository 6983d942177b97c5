//! The state of one worker thread, and the prefetching of what a batch of queries needs.

use wire::{HEADER_LEN, Rtype};

use crate::counters::Counters;
use crate::find_zone::find_zone;
use crate::published::Served;
use crate::qname::Qname;
use crate::query::Query;
use crate::referral_cache::ReferralCache;
use crate::refused_request::{RefusalReason, RefusedRequest};
use crate::rrl::RateLimiter;
use crate::served_zone::ServedZone;

/// Queries whose data are prefetched together: enough that the first has arrived when needed, few enough that the last is
/// still cached then.
pub const PREFETCH_BATCH: usize = 16;

/// What one worker keeps between queries: buffers, counters, RRL accounts, cached referrals. Never shared.
#[derive(Default)]
pub struct WorkerState {
    pub(crate) names: QueryNames,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) referral_cache: ReferralCache,
    /// What this worker has done; its owner reads and publishes it.
    pub counters: Counters,
    refused: Option<Box<RefusedRequest>>,
}

impl WorkerState {
    /// The state of a worker that has answered nothing yet.
    pub fn new() -> WorkerState {
        WorkerState::default()
    }

    /// A request that was refused since the last call, the first of several.
    #[inline]
    pub fn take_refused(&mut self) -> Option<Box<RefusedRequest>> {
        self.refused.take()
    }

    /// Keeps one request to be logged. Others of the batch would flood the log, and cost an allocation each.
    #[cold]
    pub(crate) fn note_refused(&mut self, query: &Query<'_>, reason: RefusalReason) {
        if self.refused.is_none() {
            self.refused = Some(Box::new(RefusedRequest::new(self.names.current(), query, reason)));
        }
    }
}

/// The names of the queries that [`prefetch`] has parsed, in order.
pub(crate) struct QueryNames {
    names: Vec<Qname>,
    parsed: usize,
    next: usize,
    current: usize,
}

impl Default for QueryNames {
    fn default() -> QueryNames {
        let names = (0..PREFETCH_BATCH).map(|_| Qname::new()).collect();
        QueryNames { names, parsed: 0, next: 0, current: 0 }
    }
}

impl QueryNames {
    /// Advances to the query in `message`; returns where its name ends if [`QueryNames::current`] is that name already.
    #[inline]
    pub(crate) fn advance(&mut self, message: &[u8]) -> Option<usize> {
        self.current = 0;
        if self.next == self.parsed {
            return None;
        }
        (self.current, self.next) = (self.next, self.next + 1);
        let name = self.names[self.current].wire();
        let asked = message.get(HEADER_LEN..HEADER_LEN + name.len())?;
        // Most names are sent in lower case, and comparing those is quicker.
        let is_same = !name.is_empty() && (asked == name || asked.eq_ignore_ascii_case(name));
        is_same.then_some(HEADER_LEN + name.len())
    }

    /// The name of the query being answered.
    #[inline]
    pub(crate) fn current(&mut self) -> &mut Qname {
        &mut self.names[self.current]
    }
}

/// Prefetches the tree nodes that the answers to these queries start from, where a zone is big enough for cache misses to
/// matter. Call it for up to [`PREFETCH_BATCH`] queries before [`crate::respond`], so that the misses overlap.
#[inline]
pub fn prefetch<'m>(served: &Served, worker: &mut WorkerState, messages: impl Iterator<Item = &'m [u8]>) {
    let names = &mut worker.names;
    (names.next, names.parsed) = (0, 0);
    if served.zones.has_big() {
        for (message, name) in messages.zip(&mut names.names) {
            prefetch_owner(served, name, message);
            names.parsed += 1;
        }
    }
}

fn prefetch_owner(served: &Served, qname: &mut Qname, message: &[u8]) {
    if qname.read_question(message, HEADER_LEN).is_none() {
        return;
    }
    let zone = find_zone(&served.zones, qname, Rtype::ANY).and_then(ServedZone::zone);
    if let Some(zone) = zone.filter(|zone| zone.is_big()) {
        qname.set_key(zone.apex_labels());
        zone.prefetch(qname.key());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &[u8]) -> Vec<u8> {
        [&[0; HEADER_LEN], name, &[0, 1, 0, 1]].concat()
    }

    #[test]
    fn a_parsed_name_is_used_for_a_query_with_the_same_octets_only() {
        let [a, malformed, b] = [&b"\x01a\0"[..], b"\x40", b"\x01b\0"].map(message);
        let mut names = QueryNames::default();
        for (name, message) in names.names.iter_mut().zip([&a, &malformed, &b, &b]) {
            name.read_question(message, HEADER_LEN);
        }
        names.parsed = 4;
        assert_eq!(names.advance(&message(b"\x01A\0")), Some(HEADER_LEN + 3));
        assert_eq!(names.current().wire(), b"\x01a\0");
        assert_eq!(names.advance(&malformed), None);
        assert_eq!(names.advance(&a), None, "another name");
        assert_eq!(names.advance(&b[..HEADER_LEN + 2]), None, "a shorter message");
        assert_eq!(names.advance(&b), None, "no name is left");
    }
}
