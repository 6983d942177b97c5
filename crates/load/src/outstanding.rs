//! The queries in flight: found by source and id when an answer comes, in the order of sending when their time is out.
//!
//! Entries stand in one ring in the order of sending. Each source remembers which of them had its last ids, in a ring of its
//! own that grows with what it has in flight. Nothing allocates once the rings have their sizes.

/// A query that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flying {
    /// When the schedule wanted it to leave, in nanoseconds from the start.
    pub intended_ns: u64,
    /// When it left.
    pub sent_ns: u64,
    /// Its number among the queries.
    pub query: u32,
    /// Where it was sent from.
    pub source: u32,
    /// The id of its header.
    pub id: u16,
    /// Whether it is part of the measurement and not of the warm-up.
    pub counted: bool,
    is_open: bool,
}

/// All queries in flight.
pub struct Flight {
    timeout_ns: u64,
    /// A power of two of entries; that of number `n` stands at `n` modulo the length.
    ring: Vec<Flying>,
    /// The number of the oldest entry that may be open.
    tail: u64,
    /// The number of the next entry.
    head: u64,
    open: usize,
    sources: Vec<Source>,
}

/// The last ids of a source.
#[derive(Clone, Default)]
struct Source {
    next_id: u16,
    /// A power of two of entry numbers, cut to 32 bits; that of an id stands at the id modulo the length.
    recent: Vec<u32>,
}

/// How far a source's ring can grow: one place for each id.
const MAX_RECENT: usize = 1 << 16;
const FIRST_RECENT: usize = 16;
/// How many ids are tried that an unanswered query still has, before the query is given up.
const MAX_TRIES: usize = 64;

impl Flight {
    /// No queries yet, from sources numbered up to `sources`; each has `timeout_ns` to be answered in.
    pub fn new(sources: usize, timeout_ns: u64) -> Flight {
        let mut flight =
            Flight { timeout_ns, ring: vec![CLOSED; 1024], tail: 0, head: 0, open: 0, sources: Vec::new() };
        flight.reserve_sources(sources);
        flight
    }

    /// Makes room for sources numbered up to `sources`.
    pub fn reserve_sources(&mut self, sources: usize) {
        if sources > self.sources.len() {
            self.sources.resize(sources, Source::default());
        }
    }

    /// How many queries are neither answered nor timed out.
    pub fn len(&self) -> usize {
        self.open
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Takes a query and returns the id that it gets; `None` when the source has none left. Times of sending must not descend.
    pub fn send(&mut self, source: u32, query: u32, intended_ns: u64, sent_ns: u64, counted: bool) -> Option<u16> {
        let id = self.free_id(source)?;
        if self.head - self.tail == self.ring.len() as u64 {
            self.grow();
        }
        let at = self.place(self.head);
        self.ring[at] = Flying { intended_ns, sent_ns, query, source, id, counted, is_open: true };
        self.sources[source as usize].note(id, self.head);
        self.head += 1;
        self.open += 1;
        Some(id)
    }

    /// The query that an answer with this id to this source belongs to; it is in flight no longer.
    #[inline]
    pub fn answer(&mut self, source: u32, id: u16) -> Option<Flying> {
        let at = self.find(source, id)?;
        self.open -= 1;
        let flying = self.ring[at];
        self.ring[at].is_open = false;
        Some(flying)
    }

    /// Takes out the queries that were sent at least a time-out before `now_ns`, in the order of sending.
    pub fn expire(&mut self, now_ns: u64, mut take: impl FnMut(Flying)) {
        while self.tail < self.head {
            let at = self.place(self.tail);
            let flying = self.ring[at];
            if flying.is_open {
                if flying.sent_ns + self.timeout_ns > now_ns {
                    break;
                }
                self.ring[at].is_open = false;
                self.open -= 1;
                take(flying);
            }
            self.tail += 1;
        }
    }

    /// When the next query times out, unless it is answered before.
    pub fn next_timeout_ns(&self) -> Option<u64> {
        (self.tail < self.head).then(|| self.ring[self.place(self.tail)].sent_ns + self.timeout_ns)
    }

    fn place(&self, number: u64) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    fn find(&self, source: u32, id: u16) -> Option<usize> {
        let recent = &self.sources.get(source as usize)?.recent;
        let number = *recent.get(usize::from(id) & recent.len().wrapping_sub(1))?;
        let at = number as usize & (self.ring.len() - 1);
        let flying = &self.ring[at];
        (flying.is_open && flying.source == source && flying.id == id).then_some(at)
    }

    /// An id that no query in flight from the source has, and whose place in the source's ring is free.
    fn free_id(&mut self, source: u32) -> Option<u16> {
        for _ in 0..MAX_TRIES {
            let id = self.sources[source as usize].next_id;
            if self.is_free(source, id) {
                self.sources[source as usize].next_id = id.wrapping_add(1);
                return Some(id);
            }
            if self.sources[source as usize].recent.len() < MAX_RECENT {
                self.grow_source(source);
            } else {
                self.sources[source as usize].next_id = id.wrapping_add(1);
            }
        }
        None
    }

    fn is_free(&self, source: u32, id: u16) -> bool {
        let recent = &self.sources[source as usize].recent;
        let Some(&number) = recent.get(usize::from(id) & recent.len().wrapping_sub(1)) else { return false };
        let flying = &self.ring[number as usize & (self.ring.len() - 1)];
        let mask = recent.len() - 1;
        !(flying.is_open && flying.source == source && (usize::from(flying.id) ^ usize::from(id)) & mask == 0)
    }

    fn grow(&mut self) {
        let mut ring = vec![CLOSED; 2 * self.ring.len()];
        for number in self.tail..self.head {
            ring[number as usize & (2 * self.ring.len() - 1)] = self.ring[self.place(number)];
        }
        self.ring = ring;
    }

    fn grow_source(&mut self, source: u32) {
        let len = (2 * self.sources[source as usize].recent.len()).max(FIRST_RECENT);
        let old = std::mem::replace(&mut self.sources[source as usize].recent, vec![u32::MAX; len]);
        for number in old {
            let flying = self.ring[number as usize & (self.ring.len() - 1)];
            if flying.is_open && flying.source == source {
                self.sources[source as usize].recent[usize::from(flying.id) & (len - 1)] = number;
            }
        }
    }
}

impl Source {
    fn note(&mut self, id: u16, number: u64) {
        let mask = self.recent.len() - 1;
        self.recent[usize::from(id) & mask] = number as u32;
    }
}

const CLOSED: Flying =
    Flying { intended_ns: 0, sent_ns: 0, query: 0, source: 0, id: 0, counted: false, is_open: false };

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn ids_of_unanswered_queries_are_not_used_again() {
        let mut flight = Flight::new(1, 1000);
        let stuck = flight.send(0, 9, 0, 0, true).expect("the first id");
        for query in 0..200_000 {
            let id = flight.send(0, query, 0, 0, true).expect("all but one are answered");
            assert_ne!(id, stuck);
            assert_eq!(flight.answer(0, id).map(|flying| flying.query), Some(query));
        }
        assert_eq!(flight.answer(0, stuck).map(|flying| flying.query), Some(9));
        assert!(flight.is_empty());
    }

    #[test]
    fn a_source_has_65536_queries_in_flight_and_no_more() {
        let mut flight = Flight::new(2, 1000);
        let mut ids: Vec<u16> = (0..65536).map(|query| flight.send(0, query, 0, 0, true).expect("an id")).collect();
        assert_eq!(flight.send(0, 0, 0, 0, true), None);
        assert!(flight.send(1, 0, 0, 0, true).is_some(), "another source has its own");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 65536);
        flight.expire(1000, |_| ());
        assert!(flight.is_empty() && flight.send(0, 0, 1000, 1000, true).is_some());
    }

    proptest! {
        /// Against a map from source and id to what was sent.
        #[test]
        fn every_query_is_found_once_or_times_out(
            steps in prop::collection::vec((0u32..3, any::<u8>(), 0u64..30), 1..2000),
        ) {
            let (mut flight, mut model, mut now) = (Flight::new(3, 500), HashMap::new(), 0);
            for (number, (source, choice, pause)) in steps.into_iter().enumerate() {
                now += pause;
                let mut expired = 0;
                flight.expire(now, |flying| {
                    expired += 1;
                    assert_eq!(model.remove(&(flying.source, flying.id)), Some((flying.query, flying.sent_ns)));
                });
                prop_assert!(model.values().all(|&(_, sent)| sent + 500 > now), "{expired} timed out, not all");
                if choice < 150 {
                    let id = flight.send(source, number as u32, now, now, true).expect("few are in flight");
                    prop_assert_eq!(model.insert((source, id), (number as u32, now)), None);
                } else {
                    let id = flight.sources[source as usize].next_id.wrapping_sub(u16::from(choice) - 149);
                    let found = flight.answer(source, id).map(|flying| (flying.query, flying.sent_ns));
                    prop_assert_eq!(found, model.remove(&(source, id)));
                }
                prop_assert_eq!(flight.len(), model.len());
            }
        }
    }
}
