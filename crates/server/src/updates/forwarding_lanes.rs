//! Which updates are forwarded: a part of the queue and of the threads for each primary, so that one that never answers delays only its own
//! zones; and each message once, so that servers that forward to each other do not do so for ever.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use wire::Name;

/// Updates that are forwarded to one primary at once: a quarter of the threads.
pub const MAX_RUNNING: usize = 8;
/// Updates of one primary that are being forwarded or wait: a quarter of all that may be queued, besides those that run.
const MAX_ADMITTED: usize = 64 + MAX_RUNNING;

/// Why an update is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaneRefusal {
    /// It is being forwarded already.
    #[error("the same update is being forwarded already: do the primaries forward updates to this server?")]
    Loop,
    /// The primary is too slow.
    #[error("too many updates wait for the first primary of the zone")]
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
    /// How many updates each lane has.
    admitted: HashMap<u64, usize>,
}

impl ForwardingLanes {
    /// A place for this message of a zone whose first primary has this address.
    pub fn admit(
        &self,
        zone: &Name,
        primary: Option<SocketAddr>,
        message: &[u8],
    ) -> Result<ForwardingPermit, LaneRefusal> {
        // The first one decides how long an update takes: the others are asked once it has failed.
        let lane = self.hasher.hash_one(primary);
        let hash = self.hasher.hash_one((zone, message.get(2..)));
        let mut lanes = self.lock();
        if lanes.admitted.get(&lane).is_some_and(|count| *count >= MAX_ADMITTED) {
            return Err(LaneRefusal::Full);
        }
        if !lanes.messages.insert(hash) {
            return Err(LaneRefusal::Loop);
        }
        *lanes.admitted.entry(lane).or_default() += 1;
        Ok(ForwardingPermit { lanes: self.clone(), lane, hash })
    }

    fn lock(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of an update in the lane of its primary, until it is dropped.
pub struct ForwardingPermit {
    lanes: ForwardingLanes,
    lane: u64,
    hash: u64,
}

impl ForwardingPermit {
    /// The number of the lane.
    pub fn lane(&self) -> u64 {
        self.lane
    }
}

impl Drop for ForwardingPermit {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lock();
        lanes.messages.remove(&self.hash);
        if let Some(count) = lanes.admitted.get_mut(&self.lane) {
            *count -= 1;
            if *count == 0 {
                lanes.admitted.remove(&self.lane);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn primary(last: u8) -> Option<SocketAddr> {
        Some(([192, 0, 2, last], 53).into())
    }

    #[test]
    fn the_zones_of_a_primary_that_never_answers_take_a_part_of_the_queue() {
        let lanes = ForwardingLanes::default();
        let admit = |zone: usize, last| lanes.admit(&name(&format!("z{zone}.")), primary(last), b"\x01\x01message");
        let mut places: Vec<_> = (0..MAX_ADMITTED).map(|zone| admit(zone, 1).expect("there is room")).collect();
        assert_eq!(admit(1000, 1).err(), Some(LaneRefusal::Full));
        let other = admit(1000, 2).expect("of another primary");
        assert_ne!(other.lane(), places[0].lane());
        places.pop();
        places.push(admit(1001, 1).expect("there is room again"));
        drop((places, other));
        assert!(lanes.lock().admitted.is_empty() && lanes.lock().messages.is_empty());
    }

    #[test]
    fn a_message_that_comes_back_is_not_forwarded_again() {
        let lanes = ForwardingLanes::default();
        let admit = |zone: &str, message: &[u8]| lanes.admit(&name(zone), primary(1), message);
        let permit = admit("a.", b"\x01\x01message").expect("there is room");
        assert_eq!(admit("A.", b"\x02\x02message").err(), Some(LaneRefusal::Loop), "with another ID");
        assert!(admit("b.", b"\x02\x02message").is_ok());
        drop(permit);
        assert!(admit("a.", b"\x03\x03message").is_ok(), "it was forwarded, or has failed");
    }
}
