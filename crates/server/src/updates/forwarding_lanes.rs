//! Which updates are forwarded at once: a few of each zone, so that a primary that never answers delays only its own zones, and
//! each message once, so that servers that forward to each other do not do so for ever.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasher;
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

/// The updates that are being forwarded, as jobs of the type `T`. Clones share them.
pub struct ForwardingLanes<T> {
    hasher: RandomState,
    lanes: Arc<Mutex<Lanes<T>>>,
}

struct Lanes<T> {
    /// Keyed hashes of the zones and messages, without their IDs, which every server replaces (RFC 2136 6).
    messages: HashSet<u64>,
    zones: HashMap<Name, Lane<T>>,
}

struct Lane<T> {
    running: usize,
    /// With the hashes of their messages.
    waiting: VecDeque<(u64, T)>,
}

impl<T> Default for ForwardingLanes<T> {
    fn default() -> ForwardingLanes<T> {
        let lanes = Lanes { messages: HashSet::new(), zones: HashMap::new() };
        ForwardingLanes { hasher: RandomState::new(), lanes: Arc::new(Mutex::new(lanes)) }
    }
}

impl<T> ForwardingLanes<T> {
    /// A place for this message of a zone; it must be given to [`ForwardingLanes::start`].
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

    /// Queues the job of an admitted message. If another worker may run for its zone, returns that one: it gets this job, and those
    /// of the zone that are queued meanwhile.
    pub fn start(&self, permit: ForwardingPermit, job: T) -> Option<LaneWorker<T>> {
        let ForwardingPermit { zone, hash } = permit;
        let mut lanes = self.lock();
        let lane = lanes.zones.entry(zone.clone()).or_insert_with(|| Lane { running: 0, waiting: VecDeque::new() });
        lane.waiting.push_back((hash, job));
        if lane.running == MAX_RUNNING {
            return None;
        }
        lane.running += 1;
        Some(LaneWorker { lanes: self.clone(), zone, current: None })
    }

    fn lock(&self) -> MutexGuard<'_, Lanes<T>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for ForwardingLanes<T> {
    fn clone(&self) -> ForwardingLanes<T> {
        ForwardingLanes { hasher: self.hasher.clone(), lanes: self.lanes.clone() }
    }
}

/// The place of an update in the lane of its zone.
#[derive(Debug, PartialEq, Eq)]
pub struct ForwardingPermit {
    zone: Name,
    hash: u64,
}

/// Runs jobs of one zone, one after the other.
pub struct LaneWorker<T> {
    lanes: ForwardingLanes<T>,
    zone: Name,
    /// The hash of the message of the job that was taken last.
    current: Option<u64>,
}

impl<T> LaneWorker<T> {
    /// Ends the last job, and takes the next. After `None` the worker has ended.
    pub fn next_job(&mut self) -> Option<T> {
        let mut lanes = self.lanes.lock();
        if let Some(ended) = self.current.take() {
            lanes.messages.remove(&ended);
        }
        let lane = lanes.zones.get_mut(&self.zone)?;
        if let Some((hash, job)) = lane.waiting.pop_front() {
            self.current = Some(hash);
            return Some(job);
        }
        lane.running -= 1;
        if lane.running == 0 {
            lanes.zones.remove(&self.zone);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn start(lanes: &ForwardingLanes<usize>, zone: &str, number: usize) -> Option<LaneWorker<usize>> {
        let message = [&[0, 0][..], &number.to_be_bytes()].concat();
        let permit = lanes.admit(&name(zone), &message).expect("there is room");
        lanes.start(permit, number)
    }

    #[test]
    fn a_zone_whose_primary_never_answers_takes_a_part_of_the_workers() {
        let lanes = ForwardingLanes::default();
        let mut workers = Vec::new();
        for number in 0..MAX_RUNNING {
            let mut worker = start(&lanes, "dead.", number).expect("a free worker");
            assert_eq!(worker.next_job(), Some(number));
            workers.push(worker);
        }
        for number in MAX_RUNNING..MAX_RUNNING + MAX_WAITING {
            assert!(start(&lanes, "dead.", number).is_none());
        }
        assert_eq!(lanes.admit(&name("dead."), b"another"), Err(LaneRefusal::Full));
        let mut live = start(&lanes, "live.", 1000).expect("a free worker");
        assert_eq!((live.next_job(), live.next_job()), (Some(1000), None));
        let rest: Vec<usize> = workers.iter_mut().flat_map(|worker| std::iter::from_fn(|| worker.next_job())).collect();
        assert_eq!(rest, (MAX_RUNNING..MAX_RUNNING + MAX_WAITING).collect::<Vec<_>>(), "in the order of their arrival");
        assert!(lanes.lock().zones.is_empty() && lanes.lock().messages.is_empty());
    }

    #[test]
    fn a_message_that_comes_back_is_not_forwarded_again() {
        let lanes = ForwardingLanes::default();
        let permit = lanes.admit(&name("a."), b"\x01\x01message").expect("there is room");
        assert_eq!(lanes.admit(&name("A."), b"\x02\x02message"), Err(LaneRefusal::Loop), "with another ID");
        assert!(lanes.admit(&name("b."), b"\x02\x02message").is_ok());
        let mut worker = lanes.start(permit, ()).expect("a free worker");
        assert_eq!((worker.next_job(), worker.next_job()), (Some(()), None));
        assert!(lanes.admit(&name("a."), b"\x03\x03message").is_ok(), "it was forwarded, or has failed");
    }
}
