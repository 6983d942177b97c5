//! The one published value: written by one thread, looked at once per batch by every worker.
//!
//! Readers never wait for the writer and never free what they read: the [`Publisher`] keeps each value
//! until no reader holds it and drops it on its own thread. All atomics of the data path are ordered here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

struct Shared<T> {
    /// Counts publications, so that a reader sees with one load whether there is news.
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

/// The writer's end.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    /// Values that were replaced and that a reader may still hold.
    retired: Vec<Arc<T>>,
}

/// A worker's end; make one per worker with [`Publisher::subscribe`].
pub struct Subscriber<T> {
    shared: Arc<Shared<T>>,
    generation: u64,
    value: Arc<T>,
}

impl<T> Publisher<T> {
    /// Publishes a first value.
    pub fn new(first: T) -> Publisher<T> {
        let current = Mutex::new(Arc::new(first));
        Publisher { shared: Arc::new(Shared { generation: AtomicU64::new(0), current }), retired: Vec::new() }
    }

    /// A further reader.
    pub fn subscribe(&self) -> Subscriber<T> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        Subscriber { shared: self.shared.clone(), generation, value: self.current() }
    }

    /// The value published now.
    pub fn current(&self) -> Arc<T> {
        self.shared.load()
    }

    /// Replaces the published value; readers see it with their next batch.
    pub fn publish(&mut self, next: T) {
        let next = Arc::new(next);
        let old = std::mem::replace(&mut *self.shared.current.lock().unwrap_or_else(PoisonError::into_inner), next);
        // Release pairs with the Acquire in `refresh`: whoever sees the new number finds the new value.
        self.shared.generation.fetch_add(1, Ordering::Release);
        self.retired.push(old);
        self.reclaim();
    }

    /// Frees replaced values that no reader holds any more; returns how many are still held.
    pub fn reclaim(&mut self) -> usize {
        self.retired.retain(|value| Arc::strong_count(value) > 1);
        self.retired.len()
    }
}

impl<T> Shared<T> {
    fn load(&self) -> Arc<T> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T> Subscriber<T> {
    /// The newest value; one relaxed-cost load when there is no news. Call once per batch.
    pub fn refresh(&mut self) -> &Arc<T> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.value = self.shared.load();
            self.generation = generation;
        }
        &self.value
    }

    /// The value that [`Subscriber::refresh`] saw last.
    pub fn last(&self) -> &Arc<T> {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_news_and_the_writer_frees() {
        let mut publisher = Publisher::new(1);
        let mut subscriber = publisher.subscribe();
        assert_eq!(**subscriber.refresh(), 1);
        publisher.publish(2);
        assert_eq!(publisher.reclaim(), 1, "the reader has not looked yet");
        assert_eq!(**subscriber.refresh(), 2);
        assert_eq!(publisher.reclaim(), 0);
    }
}
