//! The outstanding queries: looked up by source and message id, timed out in the order they were sent.
//!
//! All entries are in one ring buffer, in sending order. Each source has a second ring that maps its recent message ids
//! to entries. Both grow with the number of outstanding queries; once they are large enough, nothing allocates.

/// A query that was sent and is not answered yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutstandingQuery {
    /// When it was scheduled, in nanoseconds from the start.
    pub intended_ns: u64,
    pub sent_ns: u64,
    /// Its number in [`crate::queries::Queries`].
    pub number: u32,
    /// The number of the UDP source or TCP connection that sent it.
    pub source: u32,
    pub id: u16,
    /// Whether it is measured; queries of the warm-up are not.
    pub counted: bool,
    is_outstanding: bool,
}

/// All outstanding queries of a worker.
#[derive(Default)]
pub struct OutstandingQueries {
    timeout_ns: u64,
    /// The entry with sequence number `n` is at `n` modulo the length, which is a power of two.
    ring: Vec<OutstandingQuery>,
    /// The sequence number of the oldest entry that may be outstanding.
    tail: u64,
    /// The sequence number of the next entry.
    head: u64,
    count: usize,
    sources: Vec<Source>,
}

/// The recent message ids of a source.
#[derive(Clone, Default)]
struct Source {
    next_id: u16,
    /// The lower 32 bits of the sequence number of an id's entry, at the id modulo the length, which is a power of two.
    by_id: Vec<u32>,
}

/// The maximum length of a source's ring: one slot for every message id.
const MAX_SOURCE_LEN: usize = 1 << 16;
const INITIAL_SOURCE_LEN: usize = 16;
/// How many ids in use are skipped in search of a free one before the query is given up.
const MAX_TRIES: usize = 64;

impl OutstandingQueries {
    /// No queries yet, from sources numbered below `sources`. Each times out `timeout_ns` after it was sent.
    pub fn new(sources: usize, timeout_ns: u64) -> OutstandingQueries {
        let ring = vec![OutstandingQuery::default(); 1024];
        let mut queries = OutstandingQueries { timeout_ns, ring, ..OutstandingQueries::default() };
        queries.reserve_sources(sources);
        queries
    }

    /// Makes room for sources numbered below `sources`.
    pub fn reserve_sources(&mut self, sources: usize) {
        if sources > self.sources.len() {
            self.sources.resize(sources, Source::default());
        }
    }

    pub fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }

    /// How many queries are neither answered nor timed out.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a query and returns its message id; `None` if the source has none free. `sent_ns` must never decrease.
    pub fn insert(&mut self, source: u32, number: u32, intended_ns: u64, sent_ns: u64, counted: bool) -> Option<u16> {
        let id = self.next_free_id(source)?;
        if self.head - self.tail == self.ring.len() as u64 {
            self.grow();
        }
        let slot = self.slot(self.head);
        self.ring[slot] = OutstandingQuery { intended_ns, sent_ns, number, source, id, counted, is_outstanding: true };
        self.sources[source as usize].set(id, self.head);
        self.head += 1;
        self.count += 1;
        Some(id)
    }

    /// Removes the query that a response to this source with this id belongs to.
    #[inline]
    pub fn remove(&mut self, source: u32, id: u16) -> Option<OutstandingQuery> {
        let slot = self.find(source, id)?;
        self.count -= 1;
        let query = self.ring[slot];
        self.ring[slot].is_outstanding = false;
        Some(query)
    }

    /// Removes the queries that have timed out at `now_ns`, in the order they were sent.
    pub fn expire(&mut self, now_ns: u64, mut on_timeout: impl FnMut(OutstandingQuery)) {
        while self.tail < self.head {
            let slot = self.slot(self.tail);
            let query = self.ring[slot];
            if query.is_outstanding {
                if query.sent_ns + self.timeout_ns > now_ns {
                    break;
                }
                self.ring[slot].is_outstanding = false;
                self.count -= 1;
                on_timeout(query);
            }
            self.tail += 1;
        }
    }

    /// A time before which no query times out; `None` without queries.
    pub fn next_timeout_ns(&self) -> Option<u64> {
        (self.tail < self.head).then(|| self.ring[self.slot(self.tail)].sent_ns + self.timeout_ns)
    }

    fn slot(&self, sequence: u64) -> usize {
        sequence as usize & (self.ring.len() - 1)
    }

    fn find(&self, source: u32, id: u16) -> Option<usize> {
        let slot = self.slot(self.sources.get(source as usize)?.get(id)?);
        let query = &self.ring[slot];
        (query.is_outstanding && query.source == source && query.id == id).then_some(slot)
    }

    /// An id that no outstanding query of the source has, and whose slot in the source's ring is free.
    fn next_free_id(&mut self, source: u32) -> Option<u16> {
        for _ in 0..MAX_TRIES {
            let id = self.sources[source as usize].next_id;
            if self.is_free(source, id) {
                self.sources[source as usize].next_id = id.wrapping_add(1);
                return Some(id);
            }
            if self.sources[source as usize].by_id.len() < MAX_SOURCE_LEN {
                self.grow_source(source);
            } else {
                self.sources[source as usize].next_id = id.wrapping_add(1);
            }
        }
        None
    }

    fn is_free(&self, source: u32, id: u16) -> bool {
        let ring = &self.sources[source as usize];
        let Some(sequence) = ring.get(id) else { return false };
        let query = &self.ring[self.slot(sequence)];
        let same_slot = (usize::from(query.id) ^ usize::from(id)) & (ring.by_id.len() - 1) == 0;
        !(query.is_outstanding && query.source == source && same_slot)
    }

    fn grow(&mut self) {
        let mut ring = vec![OutstandingQuery::default(); 2 * self.ring.len()];
        for sequence in self.tail..self.head {
            ring[sequence as usize & (2 * self.ring.len() - 1)] = self.ring[self.slot(sequence)];
        }
        self.ring = ring;
    }

    fn grow_source(&mut self, source: u32) {
        let len = (2 * self.sources[source as usize].by_id.len()).max(INITIAL_SOURCE_LEN);
        let old = std::mem::replace(&mut self.sources[source as usize].by_id, vec![u32::MAX; len]);
        for sequence in old {
            let query = self.ring[self.slot(sequence.into())];
            if query.is_outstanding && query.source == source {
                self.sources[source as usize].set(query.id, sequence.into());
            }
        }
    }
}

impl Source {
    fn set(&mut self, id: u16, sequence: u64) {
        let mask = self.by_id.len() - 1;
        self.by_id[usize::from(id) & mask] = sequence as u32;
    }

    /// What was set last for the id, or for another one with the same slot.
    fn get(&self, id: u16) -> Option<u64> {
        self.by_id.get(usize::from(id) & self.by_id.len().wrapping_sub(1)).map(|&sequence| sequence.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn ids_of_outstanding_queries_are_not_reused() {
        let mut queries = OutstandingQueries::new(1, 1000);
        let unanswered = queries.insert(0, 9, 0, 0, true).expect("the first id");
        for number in 0..200_000 {
            let id = queries.insert(0, number, 0, 0, true).expect("all but one are answered");
            assert_ne!(id, unanswered);
            assert_eq!(queries.remove(0, id).map(|query| query.number), Some(number));
        }
        assert_eq!(queries.remove(0, unanswered).map(|query| query.number), Some(9));
        assert!(queries.is_empty());
    }

    #[test]
    fn a_source_has_at_most_65536_outstanding_queries() {
        let mut queries = OutstandingQueries::new(2, 1000);
        let mut ids: Vec<u16> =
            (0..65536).map(|number| queries.insert(0, number, 0, 0, true).expect("an id")).collect();
        assert_eq!(queries.insert(0, 0, 0, 0, true), None);
        assert!(queries.insert(1, 0, 0, 0, true).is_some(), "another source has its own ids");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 65536);
        queries.expire(1000, |_| ());
        assert!(queries.is_empty() && queries.insert(0, 0, 1000, 1000, true).is_some());
    }

    proptest! {
        /// Compared with a map from source and id to number and send time.
        #[test]
        fn every_query_is_found_once_or_times_out(
            steps in prop::collection::vec((0u32..3, any::<u8>(), 0u64..30), 1..2000),
        ) {
            let (mut queries, mut model, mut now) = (OutstandingQueries::new(3, 500), HashMap::new(), 0);
            for (number, (source, choice, pause)) in steps.into_iter().enumerate() {
                now += pause;
                let mut expired = 0;
                queries.expire(now, |query| {
                    expired += 1;
                    assert_eq!(model.remove(&(query.source, query.id)), Some((query.number, query.sent_ns)));
                });
                prop_assert!(model.values().all(|&(_, sent)| sent + 500 > now), "{expired} timed out, not all");
                if choice < 150 {
                    let id = queries.insert(source, number as u32, now, now, true).expect("few are outstanding");
                    prop_assert_eq!(model.insert((source, id), (number as u32, now)), None);
                } else {
                    let id = queries.sources[source as usize].next_id.wrapping_sub(u16::from(choice) - 149);
                    let found = queries.remove(source, id).map(|query| (query.number, query.sent_ns));
                    prop_assert_eq!(found, model.remove(&(source, id)));
                }
                prop_assert_eq!(queries.len(), model.len());
            }
        }
    }
}
