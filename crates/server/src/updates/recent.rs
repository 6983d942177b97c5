//! Updates that were received lately: a client repeats its message if it gets no response, and an attacker may replay it.
//!
//! Each change of an update can be repeated without harm, but not after a later update has undone it. So a repeated message gets the
//! response of the first one, and is not applied again.
//!
//! A datagram is known by its sender, its client, which a PROXY header may name, and its octets. A signed message is known by what was
//! signed, from whichever port it comes, until its signature is too old (RFC 8945 10: the fudge limits replays). No more is kept per
//! key than [`MAX_SIGNED`]; then the messages that expire first are forgotten, and nothing that expires before them is accepted.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use wire::Name;
use wire::message::Rcode;
use wire::tsig::Tsig;

use super::budget::QueuedUpdate;
use super::repetitions::{Repetitions, UpdateAnswer};

/// How long unsigned messages are remembered: nsupdate repeats a message three times within 12 seconds.
const MEMORY: Duration = Duration::from_secs(30);
/// Unsigned messages remembered at most: the oldest are forgotten.
const MAX_RECENT: usize = 8192;
/// Signed messages remembered per key: 200 a second with the usual fudge of 300 s, in some 5 MB.
const MAX_SIGNED: usize = 1 << 16;

/// Identifies a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpdateId {
    /// A keyed hash of its sender, its client and its octets.
    Datagram(u64),
    /// The key that signed it, and its place among the messages of that key.
    Signed(Name, SignedId),
}

/// When the signature expires, in seconds since 1970, and a keyed hash of what was signed.
type SignedId = (u64, u64);

/// What is known of a message that was received before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// It is not answered yet. Its response goes to this client if it came as a datagram.
    Pending(Option<SocketAddr>),
    /// It was answered so.
    Answered(UpdateAnswer),
    /// It may be a replay of one that was forgotten.
    Forgotten,
    /// It is another request with the same octets.
    AnotherRequest,
}

/// The messages received lately. Clones share them: the writer adds, whoever answers notes the response.
#[derive(Clone, Default)]
pub struct RecentUpdates {
    hasher: RandomState,
    messages: Arc<Mutex<Messages>>,
}

#[derive(Default)]
struct Messages {
    by_id: HashMap<u64, (Instant, Repeated)>,
    /// In the order of their arrival. Those that were forgotten early stay until their time.
    order: VecDeque<(Instant, u64)>,
    by_key: HashMap<Name, SignedMessages>,
}

/// What is known of a signed message.
struct SignedMessage {
    is_over_quic: bool,
    known: Repeated,
    /// While it is pending: those that wait for its response.
    repetitions: Weak<Repetitions>,
}

/// A message that was noted and is to be answered. Dropped without an answer, it has its repetitions answered with SERVFAIL.
pub struct UnansweredUpdate {
    recent: RecentUpdates,
    id: UpdateId,
    repetitions: Arc<Repetitions>,
}

impl UnansweredUpdate {
    /// Notes the response, and sends it to the repetitions.
    pub fn answered(self, answer: UpdateAnswer) {
        self.recent.answered(&self.id, answer.clone());
        self.repetitions.answer(&answer);
    }

    /// Forgets a message that has changed nothing: it may succeed if it is repeated. The repetitions that came before get this response.
    pub fn forget(self, answer: UpdateAnswer) {
        self.recent.forget(&self.id);
        self.repetitions.answer(&answer);
    }
}

/// The messages that one key has signed.
#[derive(Default)]
struct SignedMessages {
    known: BTreeMap<SignedId, SignedMessage>,
    /// The latest time at which a message expires that was forgotten. It never goes back: the clock may.
    forgotten_s: u64,
}

impl RecentUpdates {
    /// Notes a datagram; what is known of it if it was received before. The ID is for [`RecentUpdates::unanswered`].
    ///
    /// `from` may be a proxy with many `client`s, of which one must not get the response to another.
    pub fn receive(
        &self,
        from: SocketAddr,
        client: IpAddr,
        message: &[u8],
        now: Instant,
    ) -> (UpdateId, Option<Repeated>) {
        let id = self.hasher.hash_one((from, client, message));
        let mut messages = self.lock();
        messages.forget(now);
        if let Some(known) = messages.by_id.get(&id) {
            return (UpdateId::Datagram(id), Some(known.1.clone()));
        }
        messages.by_id.insert(id, (now, Repeated::Pending(Some(from))));
        messages.order.push_back((now, id));
        (UpdateId::Datagram(id), None)
    }

    /// As [`Self::receive`], for a message with a verified signature, over any transport; `from` is the client of a datagram. What
    /// precedes the TSIG record is `body`; `now_s` is in seconds since 1970.
    ///
    /// RFC 9250 4.2.1: all messages over QUIC have the ID 0, so two requests of the same second may have the same octets. QUIC delivers
    /// each of them once and lets nobody read it, so a message is no repetition if both came over QUIC.
    pub fn receive_signed(
        &self,
        from: Option<SocketAddr>,
        is_over_quic: bool,
        key: &Name,
        (tsig, body): (&Tsig<'_>, &[u8]),
        now_s: u64,
    ) -> (UpdateId, Option<Repeated>) {
        // RFC 8945 4.3: the ID in the header is not signed, and the MAC may be truncated on the way (5.2.2.1).
        let signed = (tsig.time_s, tsig.fudge_s, tsig.original_id, body.get(2..));
        let id = (tsig.time_s.saturating_add(tsig.fudge_s.into()), self.hasher.hash_one(signed));
        let mut messages = self.lock();
        let of_key = messages.by_key.entry(key.clone()).or_default();
        of_key.forget(now_s);
        let known = match of_key.known.get(&id) {
            None if id.0 <= of_key.forgotten_s => Some(Repeated::Forgotten),
            None => {
                of_key.known.insert(
                    id,
                    SignedMessage { is_over_quic, known: Repeated::Pending(from), repetitions: Weak::new() },
                );
                None
            }
            Some(first) if first.is_over_quic && is_over_quic => Some(Repeated::AnotherRequest),
            Some(first) => Some(first.known.clone()),
        };
        (UpdateId::Signed(key.clone(), id), known)
    }

    /// A message with this ID is to be answered. Its repetitions may wait until then if it is signed.
    pub fn unanswered(&self, id: UpdateId) -> UnansweredUpdate {
        let repetitions = Arc::new(Repetitions::default());
        if let Some(message) = self.lock().signed(&id) {
            message.repetitions = Arc::downgrade(&repetitions);
        }
        UnansweredUpdate { recent: self.clone(), id, repetitions }
    }

    /// The repetition of a pending message gets its response: once that is known, or at once if it is known by now. It gets SERVFAIL if too
    /// many wait, or if there will be no response.
    pub fn wait(&self, id: &UpdateId, repetition: QueuedUpdate) {
        let mut messages = self.lock();
        let first = messages.signed(id);
        let waiting = first.as_ref().and_then(|first| first.repetitions.upgrade());
        let answer = match first.map(|first| &first.known) {
            Some(Repeated::Answered(answer)) => answer.clone(),
            _ => UpdateAnswer::Rcode(Rcode::SERVFAIL),
        };
        let rejected = match &waiting {
            Some(waiting) => waiting.add(repetition).err(),
            None => Some(repetition),
        };
        drop(messages);
        if let Some(QueuedUpdate { incoming, .. }) = rejected {
            answer.send(incoming.reply);
        }
    }

    fn answered(&self, id: &UpdateId, answer: UpdateAnswer) {
        let mut messages = self.lock();
        let known = match id {
            UpdateId::Datagram(id) => messages.by_id.get_mut(id).map(|(_, known)| known),
            UpdateId::Signed(..) => messages.signed(id).map(|message| {
                message.repetitions = Weak::new();
                &mut message.known
            }),
        };
        if let Some(known) = known {
            *known = Repeated::Answered(answer);
        }
    }

    fn forget(&self, id: &UpdateId) {
        let mut messages = self.lock();
        match id {
            UpdateId::Datagram(id) => _ = messages.by_id.remove(id),
            UpdateId::Signed(key, id) => _ = messages.by_key.get_mut(key).and_then(|of_key| of_key.known.remove(id)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SignedMessages {
    /// Forgets what has expired, and makes room for one more.
    fn forget(&mut self, now_s: u64) {
        while let Some(entry) = self.known.first_entry()
            && (entry.key().0 < now_s || self.known.len() >= MAX_SIGNED)
        {
            let ((expires_s, _), _) = self.known.pop_first().expect("there is a first one");
            self.forgotten_s = self.forgotten_s.max(expires_s);
        }
    }
}

impl Messages {
    fn signed(&mut self, id: &UpdateId) -> Option<&mut SignedMessage> {
        let UpdateId::Signed(key, id) = id else { return None };
        self.by_key.get_mut(key)?.known.get_mut(id)
    }

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

    /// A datagram of a client without a proxy.
    fn receive(recent: &RecentUpdates, port: u16, message: &[u8], now: Instant) -> (UpdateId, Option<Repeated>) {
        recent.receive(client(port), client(port).ip(), message, now)
    }

    #[test]
    fn a_repeated_message_is_known_by_its_client_and_octets() {
        let (recent, now) = (RecentUpdates::default(), Instant::now());
        let (id, known) = receive(&recent, 1, b"message", now);
        assert_eq!(known, None);
        assert_eq!(receive(&recent, 1, b"message", now), (id.clone(), Some(Repeated::Pending(Some(client(1))))));
        let answer = UpdateAnswer::Rcode(Rcode::YXDOMAIN);
        recent.answered(&id, answer.clone());
        assert_eq!(receive(&recent, 1, b"message", now).1, Some(Repeated::Answered(answer)));
        assert_eq!(receive(&recent, 2, b"message", now).1, None);
        assert_eq!(receive(&recent, 1, b"another", now).1, None);
        recent.forget(&id);
        assert_eq!(receive(&recent, 1, b"message", now).1, None);
    }

    #[test]
    fn clients_of_a_proxy_may_send_the_same_message() {
        let (recent, now, proxy) = (RecentUpdates::default(), Instant::now(), client(1));
        let receive = |address: [u8; 4]| recent.receive(proxy, address.into(), b"message", now).1;
        assert_eq!([[192, 0, 2, 8], [192, 0, 2, 9]].map(receive), [None, None]);
        assert_eq!(receive([192, 0, 2, 9]), Some(Repeated::Pending(Some(proxy))));
    }

    #[test]
    fn a_message_that_failed_first_is_remembered_for_as_long_as_any() {
        let (recent, now) = (RecentUpdates::default(), Instant::now());
        let (id, _) = receive(&recent, 1, b"message", now);
        recent.forget(&id);
        let again = now + MEMORY / 2;
        assert_eq!(receive(&recent, 1, b"message", again), (id, None));
        assert!(receive(&recent, 1, b"message", now + MEMORY).1.is_some());
        assert!(receive(&recent, 1, b"message", again + MEMORY).1.is_none());
    }

    #[test]
    fn messages_are_forgotten_by_age_and_number() {
        let (recent, now) = (RecentUpdates::default(), Instant::now());
        receive(&recent, 1, b"message", now);
        assert!(receive(&recent, 1, b"message", now + MEMORY - Duration::from_millis(1)).1.is_some());
        assert!(receive(&recent, 1, b"message", now + MEMORY).1.is_none());
        for number in 0..2 * MAX_RECENT {
            receive(&recent, 2, &number.to_be_bytes(), now + MEMORY);
        }
        assert_eq!(recent.lock().by_id.len(), MAX_RECENT);
        assert_eq!(recent.lock().order.len(), MAX_RECENT);
    }

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn tsig(time_s: u64, fudge_s: u16, mac: &[u8]) -> Tsig<'_> {
        let (owner, original_id) = (name("k.").as_ref().into(), [1, 2]);
        let algorithm = wire::NameRef::ROOT;
        Tsig { owner, algorithm, time_s, fudge_s, mac, original_id, error: 0, other: &[] }
    }

    /// RFC 8945 10: a signed message could be replayed within the fudge, from anywhere.
    #[test]
    fn a_signed_message_is_known_by_what_was_signed() {
        let (recent, key) = (RecentUpdates::default(), name("k."));
        let receive =
            |tsig: &Tsig<'_>, body: &[u8], now_s| recent.receive_signed(None, false, &key, (tsig, body), now_s);
        let (id, known) = receive(&tsig(1000, 300, b"long mac"), b"id-body", 1000);
        assert_eq!(known, None);
        let pending = receive(&tsig(1000, 300, b"long"), b"ID-body", 1300);
        assert_eq!(pending, (id.clone(), Some(Repeated::Pending(None))), "with another ID and a truncated MAC");
        recent.answered(&id, UpdateAnswer::Rcode(Rcode::NOERROR));
        let answered = Some(Repeated::Answered(UpdateAnswer::Rcode(Rcode::NOERROR)));
        assert_eq!(receive(&tsig(1000, 300, b""), b"id-body", 1300).1, answered);
        for other in [tsig(1001, 300, b""), tsig(1000, 301, b"")] {
            assert_eq!(receive(&other, b"id-body", 1300).1, None);
        }
        assert_eq!(receive(&tsig(1000, 300, b""), b"id-other", 1300).1, None);
        assert_eq!(recent.receive_signed(None, false, &name("l."), (&tsig(1000, 300, b""), b"id-body"), 1300).1, None);
    }

    /// Otherwise a record that is added, deleted and added again within a second would be missing.
    #[test]
    fn rfc_9250_4_2_1_a_signed_message_over_quic_repeats_none_over_quic() {
        let (recent, key, tsig) = (RecentUpdates::default(), name("k."), tsig(1000, 300, b""));
        let receive = |is_over_quic| recent.receive_signed(None, is_over_quic, &key, (&tsig, b"id-body"), 1000);
        let (id, known) = receive(true);
        assert_eq!((known, receive(true).1), (None, Some(Repeated::AnotherRequest)));
        recent.answered(&id, UpdateAnswer::Rcode(Rcode::NOERROR));
        let answered = Some(Repeated::Answered(UpdateAnswer::Rcode(Rcode::NOERROR)));
        assert_eq!(
            [true, false].map(|is_over_quic| receive(is_over_quic).1),
            [Some(Repeated::AnotherRequest), answered]
        );
        let other = [true, false]
            .map(|is_over_quic| recent.receive_signed(None, !is_over_quic, &key, (&tsig, b"id-other"), 1000).1);
        assert_eq!(
            other,
            [None, Some(Repeated::Pending(None))],
            "it may be a replay of a message that others could read"
        );
    }

    /// Otherwise many messages, or a clock that is set forward and back, would allow replays.
    #[test]
    fn a_signed_message_that_was_forgotten_is_not_accepted_again() {
        let (recent, key) = (RecentUpdates::default(), name("k."));
        let receive = |time_s, number: usize, now_s| {
            recent.receive_signed(None, false, &key, (&tsig(time_s, 300, b""), &number.to_be_bytes()), now_s).1
        };
        assert_eq!(receive(1000, 0, 1000), None);
        assert_eq!(receive(1400, 1, 1400), None);
        assert_eq!(receive(1000, 0, 1000), Some(Repeated::Forgotten), "the clock went back");
        for number in 0..MAX_SIGNED {
            assert_eq!(receive(1401, number, 1400), None);
        }
        assert_eq!(recent.lock().by_key[&key].known.len(), MAX_SIGNED);
        assert_eq!(receive(1400, 1, 1400), Some(Repeated::Forgotten));
        assert_eq!(receive(1402, 1, 1400), None);
    }
}
