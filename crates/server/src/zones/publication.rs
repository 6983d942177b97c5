//! Publication of loaded zones: at once where few are loaded, in batches while many are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::{Publisher, Served, ServedZone, Subscriber};

/// Publishes zones in batches.
pub struct BatchedPublisher {
    publisher: Publisher<Served>,
    /// The next batch. It is inserted into the map all at once: zones stay and each batch replaces branches of the map, so
    /// that allocating both alternately would fragment the heap.
    batch: Vec<Arc<ServedZone>>,
    /// Zones inserted into the map since it was compacted.
    inserted: usize,
    /// When the next batch is due.
    next_batch: Instant,
}

/// The minimum time between batches.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// A batch copies every branch of the map that it changes. The next one waits this many times as long as that took.
const COST_FACTOR: u32 = 20;

/// The map is copied to compact it once more than 1/`COMPACT_FRACTION` of its zones were inserted.
const COMPACT_FRACTION: usize = 4;

impl BatchedPublisher {
    /// Publishes a first value.
    pub fn new(first: Served) -> BatchedPublisher {
        let publisher = Publisher::new(first);
        BatchedPublisher { publisher, batch: Vec::new(), inserted: 0, next_batch: Instant::now() }
    }

    /// Access to what is published.
    pub fn subscribe(&self) -> Subscriber<Served> {
        self.publisher.subscribe()
    }

    /// What is published now.
    #[cfg(test)]
    pub fn current(&self) -> Arc<Served> {
        self.publisher.current()
    }

    /// Adds a zone to the next batch.
    pub fn queue(&mut self, zone: Arc<ServedZone>) {
        self.batch.push(zone);
    }

    /// When the next batch is due, if it is not empty.
    pub fn due(&self) -> Option<Instant> {
        (!self.batch.is_empty()).then_some(self.next_batch)
    }

    /// Publishes the batch now.
    pub fn publish(&mut self) {
        if !self.batch.is_empty() {
            self.change(|_| ());
        }
    }

    /// Publishes the batch and another change together.
    pub fn change(&mut self, change: impl FnOnce(&mut Served)) {
        let begin = Instant::now();
        let mut next = Served::clone(&self.publisher.current());
        self.inserted += self.batch.len();
        self.batch.drain(..).for_each(|zone| next.zones.insert(zone));
        change(&mut next);
        self.publisher.publish(next);
        self.next_batch = Instant::now() + MIN_INTERVAL.max(begin.elapsed() * COST_FACTOR);
    }

    /// Copies the map if many batches have fragmented it.
    pub fn compact(&mut self) {
        if self.inserted > self.publisher.current().zones.len() / COMPACT_FRACTION {
            self.change(|next| next.zones = next.zones.compacted());
        }
        self.inserted = 0;
    }

    /// Frees replaced values that no thread reads any more; returns how many are still read.
    pub fn reclaim(&mut self) -> usize {
        self.publisher.reclaim()
    }
}

#[cfg(test)]
mod tests {
    use answer::ZoneState;

    use super::*;

    fn zone(name: &str) -> Arc<ServedZone> {
        let state = ZoneState::Unavailable(name.parse().expect("a name"));
        Arc::new(ServedZone { state, allow_transfer: Arc::default() })
    }

    #[test]
    fn zones_are_published_in_batches() {
        let mut publisher = BatchedPublisher::new(Served::default());
        let mut subscriber = publisher.subscribe();
        assert_eq!(publisher.due(), None);
        publisher.queue(zone("a."));
        assert!(publisher.due().is_some_and(|due| due <= Instant::now()), "the first batch is due at once");
        publisher.publish();
        assert_eq!((subscriber.refresh().zones.len(), publisher.due()), (1, None));
        publisher.queue(zone("b."));
        publisher.queue(zone("c."));
        assert!(publisher.due().is_some_and(|due| due > Instant::now()));
        assert_eq!(subscriber.refresh().zones.len(), 1);
        publisher.change(|next| _ = next.zones.remove(zone("b.").apex()));
        assert_eq!((subscriber.refresh().zones.len(), publisher.due()), (2, None));
        publisher.compact();
        assert_eq!(subscriber.refresh().zones.len(), 2);
    }
}
