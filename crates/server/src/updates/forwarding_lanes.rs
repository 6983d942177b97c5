//! Which updates are forwarded at once: a few of each zone, so that a primary that never answers delays only its own zones, and
//! each message once, so that servers that forward to each other do not do so for ever.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::Name;

/// Updates of one zone that are forwarded at once: a quarter of the threads.
pub const MAX_RUNNING: usize = 8;
/// Updates of one zone that wait for others of it: a quarter of all that may be queued.
const MAX_WAITING: usize = 64;

/// Why an update is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneRefusal {
    /// It is being forwarded already.
    #[error("the same update is being forwarded already: do the primaries forward updates to this server?")]
    Loop,
    /// The primaries of the zone are too slow.
    #[error("too many updates of the zone wait for its primaries")]
    Full,
}

/// The updates that are being forwarded. Clones share them.
#[derive(Clone, Default)]
pub struct ForwardingLanes {
    hasher: RandomState,
    lanes: Arc<Mutex<Lanes>>,
}

#[derive(Default)]
struct Lanes {
    /// Keyed hashes of the zones and messages, without their IDs, which every server replaces (RFC 2136 6).
    messages: HashSet<u64>,
    zones: HashMap<Name, Lane>,
}

#[derive(Default)]
struct Lane {
    running: usize,
    waiting: VecDeque<Job>,
}

/// Forwards one update; with the hash of its message.
type Job = (u64, Box<dyn FnOnce() + Send>);

impl ForwardingLanes {
    /// A place for this message of a zone; it must be given to [`ForwardingLanes::run`].
    pub fn admit(&self, zone: &Name, message: &[u8]) -> Result<ForwardingPermit, LaneRefusal> {
        let mut lanes = self.lock();
        if lanes.zones.get(zone).is_some_and(|lane| lane.waiting.len() >= MAX_WAITING) {
            return Err(LaneRefusal::Full);
        }
        let hash = self.hasher.hash_one((zone, message.get(2..)));
        match lanes.messages.insert(hash) {
            true => Ok(ForwardingPermit { zone: zone.clone(), hash }),
            false => Err(LaneRefusal::Loop),
        }
    }

    /// Queues the job of an admitted message. If a thread is free for its zone, returns the work of that thread: this job, and
    /// those of the zone that are queued meanwhile.
    pub fn run(
        &self,
        permit: ForwardingPermit,
        job: impl FnOnce() + Send + 'static,
    ) -> Option<Box<dyn FnOnce() + Send>> {
        let ForwardingPermit { zone, hash } = permit;
        let mut lanes = self.lock();
        let lane = lanes.zones.entry(zone.clone()).or_default();
        lane.waiting.push_back((hash, Box::new(job)));
        if lane.running == MAX_RUNNING {
            return None;
        }
        lane.running += 1;
        let shared = self.clone();
        Some(Box::new(move || {
            while let Some((hash, job)) = shared.next(&zone) {
                let result = catch_unwind(AssertUnwindSafe(job));
                shared.lock().messages.remove(&hash);
                if result.is_err() {
                    tracing::error!("zonda panicked while forwarding an update; this is a bug, please report it");
                }
            }
        }))
    }

    /// The next job of a zone; without one, its thread ends.
    fn next(&self, zone: &Name) -> Option<Job> {
        let mut lanes = self.lock();
        let lane = lanes.zones.get_mut(zone)?;
        let job = lane.waiting.pop_front();
        if job.is_none() {
            lane.running -= 1;
            if lane.running == 0 {
                lanes.zones.remove(zone);
            }
        }
        job
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of an update in the lane of its zone.
#[derive(Debug, PartialEq, Eq)]
pub struct ForwardingPermit {
    zone: Name,
    hash: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn start(lanes: &ForwardingLanes, zone: &str, message: &[u8], job: impl FnOnce() + Send + 'static) -> bool {
        let permit = lanes.admit(&name(zone), message).expect("there is room");
        lanes.run(permit, job).map(thread::spawn).is_some()
    }

    #[test]
    fn a_zone_whose_primary_never_answers_takes_a_part_of_the_threads() {
        let lanes = ForwardingLanes::default();
        let (release, released) = channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let (sender, done) = channel();
        for number in 0..MAX_RUNNING + MAX_WAITING {
            let (released, sender) = (released.clone(), sender.clone());
            let waits = move || {
                _ = released.lock().expect("no panic").recv();
                _ = sender.send(number);
            };
            assert_eq!(start(&lanes, "dead.", &[0, 0, number as u8], waits), number < MAX_RUNNING);
            // Until each thread has taken its job.
            while number < MAX_RUNNING && !lanes.lock().zones[&name("dead.")].waiting.is_empty() {
                thread::yield_now();
            }
        }
        assert_eq!(lanes.admit(&name("dead."), b"another"), Err(LaneRefusal::Full));
        let live = sender.clone();
        assert!(start(&lanes, "live.", b"message", move || _ = live.send(1000)));
        assert_eq!(done.recv(), Ok(1000));
        drop((release, sender));
        assert_eq!(done.iter().count(), MAX_RUNNING + MAX_WAITING);
        while !lanes.lock().zones.is_empty() {
            thread::yield_now();
        }
        assert!(lanes.lock().messages.is_empty());
    }

    #[test]
    fn a_message_that_comes_back_is_not_forwarded_again() {
        let lanes = ForwardingLanes::default();
        let permit = lanes.admit(&name("a."), b"\x01\x01message").expect("there is room");
        assert_eq!(lanes.admit(&name("A."), b"\x02\x02message"), Err(LaneRefusal::Loop), "with another ID");
        assert!(lanes.admit(&name("b."), b"\x02\x02message").is_ok());
        lanes.run(permit, || panic!("a test")).expect("a free thread")();
        assert!(lanes.admit(&name("a."), b"\x01\x01message").is_ok(), "it is answered");
    }
}
