//! Publishes zones as they are read: at once where nothing else is going on, in steps where much is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use answer::{Publisher, Served, ServedZone};

/// What is served, and what will be with the next step.
pub struct BatchedPublisher {
    publisher: Publisher<Served>,
    /// What is to be published next. It goes into the map all at once: zones stay and branches of the map are replaced
    /// with each step, so that in turns they would leave a heap full of holes.
    taken: Vec<Arc<ServedZone>>,
    /// How many zones went into the map since it was compacted.
    inserted: usize,
    /// Before this time there is no further step, unless asked for.
    next_step: Instant,
}

/// The least time from one step to the next.
const STEP: Duration = Duration::from_millis(100);

/// A step costs a copy of every branch of the map that changes. The next one is so many times as long in coming as this
/// one took.
const STEP_COST_FACTOR: u32 = 20;

/// Where more than one in so many zones were put into the map, it may as well be copied.
const COMPACT_SHARE: usize = 4;

impl BatchedPublisher {
    /// Publishes a first value.
    pub fn new(first: Served) -> BatchedPublisher {
        let publisher = Publisher::new(first);
        BatchedPublisher { publisher, taken: Vec::new(), inserted: 0, next_step: Instant::now() }
    }

    /// The thread that publishes.
    pub fn publisher(&self) -> &Publisher<Served> {
        &self.publisher
    }

    /// Serves a zone from the next step on.
    pub fn take(&mut self, zone: Arc<ServedZone>) {
        self.taken.push(zone);
    }

    /// When the next step is due, if there is anything to publish.
    pub fn due(&self) -> Option<Instant> {
        (!self.taken.is_empty()).then_some(self.next_step)
    }

    /// Publishes what was taken.
    pub fn publish(&mut self) {
        if !self.taken.is_empty() {
            self.change(|_| ());
        }
    }

    /// Publishes what was taken, with `change` done to it.
    pub fn change(&mut self, change: impl FnOnce(&mut Served)) {
        let begin = Instant::now();
        let mut next = Served::clone(&self.publisher.current());
        self.inserted += self.taken.len();
        self.taken.drain(..).for_each(|zone| next.zones.insert(zone));
        change(&mut next);
        self.publisher.publish(next);
        self.next_step = Instant::now() + STEP.max(begin.elapsed() * STEP_COST_FACTOR);
    }

    /// Tidies up behind many steps.
    pub fn compact(&mut self) {
        if self.inserted > self.publisher.current().zones.len() / COMPACT_SHARE {
            self.change(|next| next.zones = next.zones.compacted());
        }
        self.inserted = 0;
    }

    /// Frees versions that no thread reads any more; returns how many are still read.
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
    fn zones_are_published_in_steps() {
        let mut publication = BatchedPublisher::new(Served::default());
        let mut reader = publication.publisher().subscribe();
        assert_eq!(publication.due(), None);
        publication.take(zone("a."));
        assert!(publication.due().is_some_and(|due| due <= Instant::now()), "the first step is due at once");
        publication.publish();
        assert_eq!((reader.refresh().zones.len(), publication.due()), (1, None));
        publication.take(zone("b."));
        publication.take(zone("c."));
        assert!(publication.due().is_some_and(|due| due > Instant::now()));
        assert_eq!(reader.refresh().zones.len(), 1);
        publication.change(|next| _ = next.zones.remove(zone("b.").apex()));
        assert_eq!((reader.refresh().zones.len(), publication.due()), (2, None));
        publication.compact();
        assert_eq!(reader.refresh().zones.len(), 2);
    }
}
