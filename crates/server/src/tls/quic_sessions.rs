//! The sessions that QUIC clients may resume (RFC 8446 2.2), of all threads.
//!
//! `rustls` has such a cache, but it searches all entries for the one that it gives out: with thousands of them that costs more
//! than the resumed handshake saves.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::server::StoresServerSessions;

/// The most octets of a session. It has the certificate chain of the client, for which `rustls` accepts 64 KiB: 1 GiB in all sessions.
/// A client with a longer chain has full handshakes.
const MAX_SESSION_LEN: usize = 4096;

/// The latest sessions. Each is given out once, so that its early data is accepted once (RFC 8446 8.1).
pub(super) struct QuicSessions {
    capacity: usize,
    sessions: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    /// Tickets and their sessions; `None` for those that were given out.
    entries: Vec<Option<(Vec<u8>, Vec<u8>)>>,
    /// The index of the next entry. When all are in use, that of the oldest one.
    next: usize,
    /// The index of each session by its ticket.
    by_ticket: HashMap<Vec<u8>, usize>,
}

impl QuicSessions {
    /// A cache for up to `capacity` sessions, at least one.
    pub(super) fn new(capacity: usize) -> QuicSessions {
        QuicSessions { capacity: capacity.max(1), sessions: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoresServerSessions for QuicSessions {
    fn put(&self, ticket: Vec<u8>, session: Vec<u8>) -> bool {
        if session.len() > MAX_SESSION_LEN {
            return false;
        }
        let mut ring = self.lock();
        let at = ring.next;
        ring.next = (at + 1) % self.capacity;
        if at == ring.entries.len() {
            ring.entries.push(None);
        }
        if let Some((oldest, _)) = ring.entries[at].replace((ticket.clone(), session)) {
            ring.by_ticket.remove(&oldest);
        }
        ring.by_ticket.insert(ticket, at);
        true
    }

    fn get(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let ring = self.lock();
        let at = *ring.by_ticket.get(ticket)?;
        ring.entries[at].as_ref().map(|(_, session)| session.clone())
    }

    fn take(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let mut ring = self.lock();
        let at = ring.by_ticket.remove(ticket)?;
        ring.entries[at].take().map(|(_, session)| session)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

impl fmt::Debug for QuicSessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "QuicSessions({} of {})", self.lock().by_ticket.len(), self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netio::clock;
    use std::time::Duration;

    fn ticket(number: u32) -> Vec<u8> {
        number.to_be_bytes().repeat(8)
    }

    fn filled(capacity: usize, count: u32) -> QuicSessions {
        let sessions = QuicSessions::new(capacity);
        (0..count).for_each(|number| assert!(sessions.put(ticket(number), vec![number as u8])));
        sessions
    }

    #[test]
    fn a_session_is_given_out_once_and_the_oldest_makes_room() {
        let sessions = filled(4, 6);
        assert_eq!([0, 1, 6].map(|number| sessions.take(&ticket(number))), [None, None, None]);
        assert_eq!((sessions.get(&ticket(2)), sessions.take(&ticket(2))), (Some(vec![2]), Some(vec![2])));
        assert_eq!((sessions.get(&ticket(2)), sessions.take(&ticket(2))), (None, None));
        // In the place of those that are gone, and then of the oldest.
        (6..9).for_each(|number| assert!(sessions.put(ticket(number), vec![number as u8])));
        let left = (0..9).filter(|number| sessions.take(&ticket(*number)).is_some());
        assert_eq!(left.collect::<Vec<_>>(), [5, 6, 7, 8]);
        assert_eq!(sessions.lock().by_ticket.len(), 0);
    }

    #[test]
    fn a_session_with_a_long_certificate_chain_is_not_kept() {
        let sessions = filled(4, 0);
        assert!(sessions.put(ticket(1), vec![1; MAX_SESSION_LEN]));
        assert!(!sessions.put(ticket(2), vec![2; MAX_SESSION_LEN + 1]));
        assert_eq!([1, 2].map(|number| sessions.get(&ticket(number)).is_some()), [true, false]);
    }

    /// The processor time in which the newest session is given out and replaced many times.
    fn cost(capacity: usize) -> Duration {
        let sessions = filled(capacity, capacity as u32);
        let begin = clock::thread_cpu();
        for number in capacity as u32..capacity as u32 + 2000 {
            assert!(sessions.take(&ticket(number - 1)).is_some());
            sessions.put(ticket(number), Vec::new());
        }
        clock::thread_cpu().saturating_sub(begin)
    }

    #[test]
    fn the_cost_does_not_grow_with_the_number_of_sessions() {
        let lowest = |capacity| (0..5).map(|_| cost(capacity)).min().expect("five costs");
        let (few, many) = (lowest(16), lowest(16_384));
        assert!(many < 30 * few, "{few:?} with 16, {many:?} with 16,384");
    }
}
