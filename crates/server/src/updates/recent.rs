//! Updates that were received over UDP lately: a client repeats its message if it gets no response.
//!
//! Each change of an update can be repeated without harm, but not after a later update has undone it. So a repeated message gets the
//! response of the first one, and is not applied again.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wire::message::Rcode;

/// How long messages are remembered: nsupdate repeats a message three times within 12 seconds.
const MEMORY: Duration = Duration::from_secs(30);
/// Messages remembered at most: the oldest are forgotten.
const MAX_RECENT: usize = 8192;

/// Identifies a message: a keyed hash of its client and octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpdateId(u64);

/// The response that a message got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateAnswer {
    /// This RCODE.
    Rcode(Rcode),
    /// The response of a primary.
    Relayed(Arc<[u8]>),
}

/// What is known of a message that was received before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// It is not answered yet; its response goes to the same client.
    Pending,
    /// It was answered so.
    Answered(UpdateAnswer),
}

/// The messages received lately. Clones share them: the writer adds, whoever answers notes the response.
#[derive(Clone, Default)]
pub struct RecentUpdates {
    hasher: RandomState,
    messages: Arc<Mutex<Messages>>,
}

#[derive(Default)]
struct Messages {
    by_id: HashMap<UpdateId, (Instant, Repeated)>,
    /// In the order of their arrival. Those that were forgotten early stay until their time.
    order: VecDeque<(Instant, UpdateId)>,
}

impl RecentUpdates {
    /// Notes a message; what is known of it if it was received before. The ID is for [`RecentUpdates::answered`].
    pub fn receive(&self, from: SocketAddr, message: &[u8], now: Instant) -> (UpdateId, Option<Repeated>) {
        let id = UpdateId(self.hasher.hash_one((from, message)));
        let mut messages = self.lock();
        messages.forget(now);
        if let Some(known) = messages.by_id.get(&id) {
            return (id, Some(known.1.clone()));
        }
        messages.by_id.insert(id, (now, Repeated::Pending));
        messages.order.push_back((now, id));
        (id, None)
    }

    /// Notes the response to a message.
    pub fn answered(&self, id: UpdateId, answer: UpdateAnswer) {
        if let Some(known) = self.lock().by_id.get_mut(&id) {
            known.1 = Repeated::Answered(answer);
        }
    }

    /// Forgets a message: it may succeed if it is repeated.
    pub fn forget(&self, id: UpdateId) {
        self.lock().by_id.remove(&id);
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Messages {
    fn forget(&mut self, now: Instant) {
        while let Some((at, id)) = self.order.front()
            && (self.order.len() >= MAX_RECENT || now.duration_since(*at) >= MEMORY)
        {
            // Unless it was received again since.
            if self.by_id.get(id).is_some_and(|(received, _)| received == at) {
                self.by_id.remove(id);
            }
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    #[test]
    fn a_repeated_message_is_known_by_its_client_and_octets() {
        let (recent, now) = (RecentUpdates::default(), Instant::now());
        let (id, known) = recent.receive(client(1), b"message", now);
        assert_eq!(known, None);
        assert_eq!(recent.receive(client(1), b"message", now), (id, Some(Repeated::Pending)));
        let answer = UpdateAnswer::Rcode(Rcode::YXDOMAIN);
        recent.answered(id, answer.clone());
        assert_eq!(recent.receive(client(1), b"message", now).1, Some(Repeated::Answered(answer)));
        assert_eq!(recent.receive(client(2), b"message", now).1, None);
        assert_eq!(recent.receive(client(1), b"another", now).1, None);
        recent.forget(id);
        assert_eq!(recent.receive(client(1), b"message", now).1, None);
    }

    #[test]
    fn a_message_that_failed_first_is_remembered_for_as_long_as_any() {
        let (recent, now) = (RecentUpdates::default(), Instant::now());
        let (id, _) = recent.receive(client(1), b"message", now);
        recent.forget(id);
        let again = now + MEMORY / 2;
        assert_eq!(recent.receive(client(1), b"message", again), (id, None));
        assert!(recent.receive(client(1), b"message", now + MEMORY).1.is_some());
        assert!(recent.receive(client(1), b"message", again + MEMORY).1.is_none());
    }

    #[test]
    fn messages_are_forgotten_by_age_and_number() {
        let (recent, now) = (RecentUpdates::default(), Instant::now());
        recent.receive(client(1), b"message", now);
        assert!(recent.receive(client(1), b"message", now + MEMORY - Duration::from_millis(1)).1.is_some());
        assert!(recent.receive(client(1), b"message", now + MEMORY).1.is_none());
        for number in 0..2 * MAX_RECENT {
            recent.receive(client(2), &number.to_be_bytes(), now + MEMORY);
        }
        assert_eq!(recent.lock().by_id.len(), MAX_RECENT);
        assert_eq!(recent.lock().order.len(), MAX_RECENT);
    }
}
