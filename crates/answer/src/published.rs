//! The published value, [`Served`]: replaced by one thread, refreshed once per batch by every worker (read-copy-update).
//!
//! Subscribers never wait for the publisher and never free a value: the [`Publisher`] keeps each value until no subscriber
//! holds it and drops it on its own thread. All atomic operations of the data path are here.

use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

#[cfg(loom)]
use loom::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::config::AnswerConfig;
use crate::zone_map::ZoneMap;

/// What the server publishes.
#[derive(Clone, Default)]
pub struct Served {
    /// The zones.
    pub zones: ZoneMap,
    /// How to answer.
    pub config: std::sync::Arc<AnswerConfig>,
}

struct Shared<T> {
    /// Counts publications: one load shows whether there is a new value.
    generation: AtomicU64,
    current: Mutex<Arc<T>>,
}

/// The writing end.
pub struct Publisher<T> {
    shared: Arc<Shared<T>>,
    /// Replaced values that a subscriber may still hold.
    retired: Vec<Arc<T>>,
}

/// A reading end, one per worker; made by [`Publisher::subscribe`].
pub struct Subscriber<T> {
    shared: Arc<Shared<T>>,
    generation: u64,
    value: Arc<T>,
}

/// A reading end for a thread that reads rarely; made by [`Publisher::occasional_reader`]. It holds no value meanwhile: a
/// [`Subscriber`] that is not refreshed would keep a replaced one in memory.
pub struct OccasionalReader<T>(Arc<Shared<T>>);

impl<T> OccasionalReader<T> {
    /// The current value.
    pub fn current(&self) -> Arc<T> {
        self.0.load()
    }
}

impl<T> Publisher<T> {
    /// Publishes a first value.
    pub fn new(first: T) -> Publisher<T> {
        let current = Mutex::new(Arc::new(first));
        Publisher { shared: Arc::new(Shared { generation: AtomicU64::new(0), current }), retired: Vec::new() }
    }

    /// Adds a subscriber.
    pub fn subscribe(&self) -> Subscriber<T> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        Subscriber { shared: self.shared.clone(), generation, value: self.current() }
    }

    /// Adds a reader that reads rarely.
    pub fn occasional_reader(&self) -> OccasionalReader<T> {
        OccasionalReader(self.shared.clone())
    }

    /// The current value.
    pub fn current(&self) -> Arc<T> {
        self.shared.load()
    }

    /// Replaces the value; subscribers see it at their next batch. Once one has seen it, no other sees an older one.
    pub fn publish(&mut self, next: T) {
        let next = Arc::new(next);
        let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.retired.push(std::mem::replace(&mut *current, next));
        // Within the lock: nobody may load the new value while others still see the old generation. Release pairs with the
        // Acquire in `refresh`: a subscriber that sees the new generation finds the new value.
        self.shared.generation.fetch_add(1, Ordering::Release);
        drop(current);
        self.reclaim();
    }

    /// Frees replaced values that no subscriber holds; returns how many are still held.
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
    /// The current value; costs one load if there is no new one. Call it once per batch.
    pub fn refresh(&mut self) -> &Arc<T> {
        let generation = self.shared.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.value = self.shared.load();
            self.generation = generation;
        }
        &self.value
    }

    /// The value of the last [`Subscriber::refresh`].
    pub fn last(&self) -> &Arc<T> {
        &self.value
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn subscribers_see_new_values_and_the_publisher_frees_old_ones() {
        let mut publisher = Publisher::new(1);
        let mut subscriber = publisher.subscribe();
        assert_eq!(**subscriber.refresh(), 1);
        publisher.publish(2);
        assert_eq!(publisher.reclaim(), 1, "the subscriber has not refreshed yet");
        assert_eq!(**subscriber.refresh(), 2);
        assert_eq!(publisher.reclaim(), 0);
    }

    #[test]
    fn an_occasional_reader_keeps_no_old_value() {
        let mut publisher = Publisher::new(1);
        let reader = publisher.occasional_reader();
        assert_eq!(*reader.current(), 1);
        publisher.publish(2);
        assert_eq!(publisher.reclaim(), 0);
        assert_eq!(*reader.current(), 2);
    }
}

/// Every interleaving of the threads, and every value that an atomic load may return: `make loom`.
#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::PoisonError;

    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    /// A value that reports when it is freed.
    struct Value {
        number: u32,
        freed: Arc<Mutex<Vec<u32>>>,
    }

    impl Drop for Value {
        fn drop(&mut self) {
            self.freed.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        }
    }

    /// What one subscriber has seen is the least that another sees that learns of it.
    #[test]
    fn no_subscriber_sees_an_older_value_than_another_has_seen() {
        loom::model(|| {
            let mut publisher = Publisher::new(0);
            let (mut first, mut second) = (publisher.subscribe(), publisher.subscribe());
            let reader = thread::spawn(move || **first.refresh());
            let other = thread::spawn(move || {
                let before = **second.refresh();
                let seen = reader.join().expect("no panic");
                assert!(**second.refresh() >= seen.max(before), "an older value than {seen}");
            });
            publisher.publish(1);
            publisher.publish(2);
            other.join().expect("no panic");
        });
    }

    /// As above, where a reader without a value of its own learns of it.
    #[test]
    fn an_occasional_reader_sees_no_older_value_than_a_subscriber_has_seen() {
        loom::model(|| {
            let mut publisher = Publisher::new(0);
            let (mut subscriber, reader) = (publisher.subscribe(), publisher.occasional_reader());
            let seen = thread::spawn(move || **subscriber.refresh());
            let other = thread::spawn(move || {
                let before = *reader.current();
                let seen = seen.join().expect("no panic");
                assert!(*reader.current() >= seen.max(before), "an older value than {seen}");
            });
            publisher.publish(1);
            publisher.publish(2);
            other.join().expect("no panic");
        });
    }

    /// Subscribers never see older values again, nor one that was freed, and the publisher frees each value once, on its
    /// own thread, while none holds it.
    #[test]
    fn values_are_seen_in_order_and_freed_by_the_publisher() {
        loom::model(|| {
            let freed = Arc::new(Mutex::new(Vec::new()));
            let value = |number| Value { number, freed: freed.clone() };
            let mut publisher = Publisher::new(value(0));
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let (mut subscriber, freed) = (publisher.subscribe(), freed.clone());
                    thread::spawn(move || {
                        let mut last = 0;
                        for _ in 0..2 {
                            let number = subscriber.refresh().number;
                            assert!(number >= last, "a value came back");
                            last = number;
                            let freed = freed.lock().unwrap_or_else(PoisonError::into_inner);
                            assert!(!freed.contains(&number), "a value was freed while it was held");
                        }
                        subscriber
                    })
                })
                .collect();
            publisher.publish(value(1));
            publisher.publish(value(2));
            let mut subscribers: Vec<_> = readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
            subscribers.iter_mut().for_each(|subscriber| assert_eq!(subscriber.refresh().number, 2));
            assert_eq!(publisher.reclaim(), 0);
            let mut freed = freed.lock().unwrap_or_else(PoisonError::into_inner).clone();
            freed.sort_unstable();
            assert_eq!(freed, [0, 1]);
        });
    }
}
