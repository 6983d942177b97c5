//! NOTIFY (RFC 1996): notifies secondaries that a zone has changed, until they acknowledge it.
//!
//! Takes the time and the octets of responses, and passes on messages to send.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use netio::clock;
use wire::message::Opcode;
use wire::tsig::{TsigKey, TsigSigner};
use wire::{HEADER_LEN, NameRef};

use crate::queries::{Queries, QueryError, maintenance};

/// RFC 1996 3.6 suggests a minute; a test must see within seconds that a secondary does not answer.
const RETRY_NS: u64 = 1_000_000_000;
/// RFC 1996 3.6: how often a NOTIFY is sent at most.
const MAX_ATTEMPTS: u8 = 5;

/// The notifications of a primary.
pub struct Notifier {
    /// A message for each zone, with id 0.
    messages: Queries,
    secondaries: Vec<SocketAddr>,
    /// Signs messages, if there is one. Acknowledgements are not verified: they change nothing but a count.
    key: Option<Arc<TsigKey>>,
    next_id: u16,
    outstanding: HashMap<u16, Notification>,
    /// When to send again, ascending; entries of acknowledged messages are skipped.
    retries: VecDeque<(u64, u16)>,
    /// What has happened so far.
    pub counts: NotifyCounts,
}

/// The counts of a [`Notifier`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotifyCounts {
    /// Messages sent, with repetitions.
    pub sent: u64,
    /// Notifications that were acknowledged.
    pub acknowledged: u64,
    /// Notifications that were not, after all attempts, or for which no message id was free.
    pub failed: u64,
}

#[derive(Clone, Copy)]
struct Notification {
    zone: u32,
    secondary: SocketAddr,
    attempts: u8,
    retry_ns: u64,
}

impl Notifier {
    /// A notifier for these zones, which are numbered from 0.
    pub fn new<'z>(
        zones: impl IntoIterator<Item = NameRef<'z>>,
        secondaries: Vec<SocketAddr>,
        key: Option<Arc<TsigKey>>,
    ) -> Result<Notifier, QueryError> {
        Ok(Notifier {
            messages: maintenance::notifies(zones)?,
            secondaries,
            key,
            next_id: 1,
            outstanding: HashMap::new(),
            retries: VecDeque::new(),
            counts: NotifyCounts::default(),
        })
    }

    /// Notifies all secondaries that a zone has changed.
    pub fn changed(&mut self, zone: u32, now_ns: u64, mut send: impl FnMut(SocketAddr, &[u8])) {
        for at in 0..self.secondaries.len() {
            let notification = Notification { zone, secondary: self.secondaries[at], attempts: 0, retry_ns: 0 };
            match self.free_id() {
                Some(id) => self.send(id, notification, now_ns, &mut send),
                None => self.counts.failed += 1,
            }
        }
    }

    /// Sends again what has not been acknowledged in time.
    pub fn advance(&mut self, now_ns: u64, mut send: impl FnMut(SocketAddr, &[u8])) {
        while let Some((_, id)) = self.retries.front().copied().filter(|(due_ns, _)| *due_ns <= now_ns) {
            let due_ns = self.retries.pop_front().map(|(due_ns, _)| due_ns);
            // The id may have been used again since.
            let notification = self.outstanding.get(&id).copied().filter(|found| Some(found.retry_ns) == due_ns);
            match notification {
                Some(found) if found.attempts < MAX_ATTEMPTS => self.send(id, found, now_ns, &mut send),
                Some(_) => {
                    self.outstanding.remove(&id);
                    self.counts.failed += 1;
                }
                None => {}
            }
        }
    }

    /// Handles a datagram; RFC 1996 4.7: any response ends a notification.
    pub fn receive(&mut self, from: SocketAddr, message: &[u8]) {
        let Some([id_high, id_low, flags, ..]) = message.first_chunk::<HEADER_LEN>() else { return };
        let id = u16::from_be_bytes([*id_high, *id_low]);
        let is_response = flags & 0x80 != 0 && flags >> 3 & 0x0f == Opcode::NOTIFY.0;
        if is_response && self.outstanding.get(&id).is_some_and(|found| found.secondary == from) {
            self.outstanding.remove(&id);
            self.counts.acknowledged += 1;
        }
    }

    /// When [`Notifier::advance`] has something to do.
    pub fn next_ns(&self) -> Option<u64> {
        self.retries.front().map(|(due_ns, _)| *due_ns)
    }

    fn free_id(&mut self) -> Option<u16> {
        let first = self.next_id;
        let mut ids = (0..=u16::MAX).map(|step| first.wrapping_add(step));
        let id = ids.find(|id| !self.outstanding.contains_key(id))?;
        self.next_id = id.wrapping_add(1);
        Some(id)
    }

    fn send(&mut self, id: u16, notification: Notification, now_ns: u64, send: &mut impl FnMut(SocketAddr, &[u8])) {
        let mut message = self.messages.at(notification.zone).message.to_vec();
        message[..2].copy_from_slice(&id.to_be_bytes());
        if let Some(key) = &self.key {
            TsigSigner::for_query(&**key).sign(&mut message, 0, clock::real().as_secs()).expect("it is short");
        }
        send(notification.secondary, &message);
        self.counts.sent += 1;
        let retry_ns = now_ns + RETRY_NS;
        self.outstanding.insert(id, Notification { attempts: notification.attempts + 1, retry_ns, ..notification });
        self.retries.push_back((retry_ns, id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Message, Name, Rtype};

    fn secondary(last: u8) -> SocketAddr {
        ([127, 0, 0, last], 53).into()
    }

    fn notifier() -> Notifier {
        let zones: Vec<Name> = ["a.example", "b.example"].map(|name| name.parse().expect("a literal")).into();
        Notifier::new(zones.iter().map(Name::as_ref), vec![secondary(1), secondary(2)], None).expect("short")
    }

    fn acknowledged(message: &[u8]) -> Vec<u8> {
        let mut octets = message.to_vec();
        octets[2] |= 0x80;
        octets
    }

    #[test]
    fn rfc_1996_3_6_a_notify_is_repeated_until_it_is_acknowledged() {
        let (mut notifier, mut sent) = (notifier(), Vec::new());
        notifier.changed(1, 0, |to, message| sent.push((to, message.to_vec())));
        assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [secondary(1), secondary(2)]);
        let message = Message::parse(&sent[0].1).expect("well-formed");
        assert_eq!((message.opcode, message.questions[0].qtype), (Opcode::NOTIFY, Rtype::SOA));
        assert_eq!(message.questions[0].name, "b.example".parse().expect("a literal"));

        notifier.receive(secondary(2), &acknowledged(&sent[0].1));
        notifier.receive(secondary(1), &sent[0].1);
        assert_eq!(notifier.counts.acknowledged, 0, "from another address, and no response");
        notifier.receive(secondary(1), &acknowledged(&sent[0].1));
        assert_eq!((notifier.counts.acknowledged, notifier.next_ns()), (1, Some(RETRY_NS)));

        for attempt in 1..=u64::from(MAX_ATTEMPTS) {
            let mut repeated = Vec::new();
            notifier.advance(attempt * RETRY_NS, |to, message| repeated.push((to, message.to_vec())));
            let expected = if attempt < MAX_ATTEMPTS.into() { vec![sent[1].clone()] } else { vec![] };
            assert_eq!(repeated, expected, "attempt {attempt}");
        }
        assert_eq!(notifier.counts, NotifyCounts { sent: 6, acknowledged: 1, failed: 1 });
        assert_eq!(notifier.next_ns(), None);
    }

    #[test]
    fn without_a_free_message_id_a_notification_fails() {
        let mut notifier = notifier();
        for _ in 0..1 << 15 {
            notifier.changed(0, 0, |_, _| ());
        }
        assert_eq!((notifier.counts.sent, notifier.counts.failed), (1 << 16, 0));
        notifier.changed(0, 0, |_, _| ());
        assert_eq!((notifier.counts.sent, notifier.counts.failed), (1 << 16, 2));
    }
}
