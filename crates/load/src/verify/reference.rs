//! What a second server answers: asked before a run, and held against the answers in it. Used by [`super::Verifier`].

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netio::client::{Inbox, Outbox, Socket};
use netio::clock;
use netio::stream::{Events, Interest, Poll};
use wire::tsig::{Fault, Key};
use wire::{HEADER_LEN, Message};

use super::{is_answer_to, rcode_name};
use crate::flight::Flight;
use crate::queries::{MAX_QUERY_LEN, Queries};
use crate::signing::Signing;

/// Queries in flight to the second server: enough to keep it busy, few enough for any socket buffer.
const OUTSTANDING: usize = 128;
/// How often a query is asked that the second server does not answer.
const TRIES: usize = 3;
/// Room for answers that wait, in octets.
const BUFFER_LEN: usize = 1 << 20;

/// The answer of the second server.
#[derive(Clone, Debug)]
pub struct Reference {
    essence: Essence,
    /// The hash of the last octets that were found equal to it, so that the same answer is compared octet by octet only once.
    known: u64,
}

impl Reference {
    fn of(answer: &[u8]) -> Option<Reference> {
        Some(Reference { essence: Essence::of(answer)?, known: hash(answer) })
    }

    /// How an answer of at least a header differs; `None` when it says the same.
    pub(super) fn fault(&mut self, answer: &[u8]) -> Option<String> {
        let hash = hash(answer);
        if hash == self.known {
            return None;
        }
        let expected = &self.essence;
        let Some(found) = Essence::of(answer) else { return Some("expected a message, got broken octets".into()) };
        if &found == expected {
            self.known = hash;
            return None;
        }
        let tell = |essence: &Essence| {
            let (aa, tc) = (u8::from(essence.authoritative), u8::from(essence.truncated));
            format!("{} AA={aa} TC={tc} with {} records", rcode_name(essence.rcode as u8), essence.records.len())
        };
        let differing = found.records.symmetric_difference(&expected.records).count();
        Some(format!("expected {}, got {}; {differing} records differ", tell(expected), tell(&found)))
    }
}

/// The hash of all but the id.
fn hash(answer: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    answer[2..].hash(&mut hasher);
    hasher.finish()
}

/// What two right servers have in common: all but the additional section, which is up to them (RFC 2181 9),
/// the order of records and the case of owners.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Essence {
    rcode: u16,
    authoritative: bool,
    truncated: bool,
    records: BTreeSet<Said>,
}

/// A record: whether it is in the answer section, owner in lower case, type, TTL, RDATA.
type Said = (bool, Vec<u8>, u16, u32, Vec<u8>);

impl Essence {
    fn of(answer: &[u8]) -> Option<Essence> {
        let message = Message::parse(answer).ok()?;
        let sections = [(true, &message.answer), (false, &message.authority)];
        let records = sections.into_iter().flat_map(|(is_answer, records)| {
            records.iter().map(move |record| {
                let owner = record.owner.to_lowercase().wire().to_vec();
                (is_answer, owner, record.rtype.0, record.ttl, record.rdata.clone())
            })
        });
        Some(Essence {
            rcode: message.rcode.0,
            authoritative: message.flags.authoritative,
            truncated: message.flags.truncated,
            records: records.collect(),
        })
    }
}

//----------- Asking -----------------------------------------------------------

/// Asks `server` every query over UDP, signed if there is a key, [`OUTSTANDING`] at a time; returns its answers by the number
/// of the query.
pub(super) fn ask(
    server: SocketAddr,
    key: Option<Arc<Key>>,
    queries: &Queries,
    timeout: Duration,
) -> io::Result<Vec<Reference>> {
    let mut asking = Asking::new(server, key, queries, timeout)?;
    let mut events = Events::with_capacity(1);
    while asking.answered < queries.len() {
        asking.send();
        let now = clock::monotonic_exact();
        let end = Duration::from_nanos(asking.flight.next_timeout_ns().unwrap_or_default());
        asking.poll.wait_exact(&mut events, end.saturating_sub(now))?;
        asking.receive()?;
        asking.repeat()?;
    }
    Ok(asking.references.into_iter().map(|reference| reference.expect("all are answered")).collect())
}

struct Asking<'q> {
    queries: &'q Queries,
    signing: Option<Signing>,
    socket: Socket,
    outbox: Outbox,
    inbox: Inbox,
    poll: Poll,
    flight: Flight,
    references: Vec<Option<Reference>>,
    answered: usize,
    /// The first query that was not asked yet.
    next: u32,
    /// Queries to be asked again.
    again: Vec<u32>,
    /// Queries that were asked in vain just now.
    unanswered: Vec<u32>,
    /// How often queries were asked in vain.
    failures: HashMap<u32, usize>,
    /// What was wrong with the signature of an answer last.
    fault: Option<Fault>,
}

impl<'q> Asking<'q> {
    fn new(
        server: SocketAddr,
        key: Option<Arc<Key>>,
        queries: &'q Queries,
        timeout: Duration,
    ) -> io::Result<Asking<'q>> {
        let (socket, poll) = (Socket::open(server, None, BUFFER_LEN)?, Poll::new()?);
        poll.add(&socket, 0, Interest::Readable)?;
        Ok(Asking {
            queries,
            signing: key.map(Signing::new),
            socket,
            outbox: Outbox::new(OUTSTANDING, 2 * MAX_QUERY_LEN, true),
            inbox: Inbox::new(OUTSTANDING),
            poll,
            flight: Flight::new(1, timeout.as_nanos() as u64),
            references: vec![None; queries.len()],
            answered: 0,
            next: 0,
            again: Vec::new(),
            unanswered: Vec::new(),
            failures: HashMap::new(),
            fault: None,
        })
    }

    fn send(&mut self) {
        let now = clock::monotonic_exact().as_nanos() as u64;
        while self.flight.len() < OUTSTANDING {
            let fresh = (self.next < self.queries.len() as u32).then_some(self.next);
            let Some(number) = self.again.pop().or(fresh) else { break };
            self.next += u32::from(Some(number) == fresh);
            let id = self.flight.send(0, number, now, now, false).expect("there are more ids than are in flight");
            let mut message = self.queries.at(number).message;
            if let Some(signing) = &mut self.signing {
                signing.sign(0, id, message);
                message = signing.message();
            }
            self.outbox.push(0, message)[..2].copy_from_slice(&id.to_be_bytes());
        }
        // What the kernel does not take is as good as lost, and asked again.
        self.outbox.send(&self.socket);
    }

    fn receive(&mut self) -> io::Result<()> {
        let Asking { queries, signing, inbox, socket, flight, references, answered, unanswered, fault, .. } = self;
        inbox.receive(socket, |answer| {
            let Some([high, low, ..]) = answer.bytes.first_chunk::<HEADER_LEN>() else { return };
            let id = u16::from_be_bytes([*high, *low]);
            let Some(flying) = flight.answer(0, id) else { return };
            let unsigned = signing.as_mut().and_then(|signing| signing.fault(0, id, answer.bytes));
            let is_answer = unsigned.is_none() && is_answer_to(queries.at(flying.query).question(), answer.bytes);
            *fault = unsigned.or(*fault);
            match Reference::of(answer.bytes).filter(|_| is_answer) {
                Some(reference) => {
                    references[flying.query as usize] = Some(reference);
                    *answered += 1;
                }
                None => unanswered.push(flying.query),
            }
        })?;
        Ok(())
    }

    /// Has those asked again that got no answer in time, or none that can be read.
    fn repeat(&mut self) -> io::Result<()> {
        let Asking { flight, unanswered, .. } = self;
        flight.expire(clock::monotonic_exact().as_nanos() as u64, |flying| unanswered.push(flying.query));
        for number in self.unanswered.drain(..) {
            let failures = self.failures.entry(number).or_default();
            *failures += 1;
            if *failures == TRIES {
                let why = self.fault.map(|fault| format!(": {fault}")).unwrap_or_default();
                let what = format!("the second server does not answer {}{why}", self.queries.describe(number));
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            self.again.push(number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::{message, record};
    use wire::Rtype;
    use wire::message::Rcode;
    #[test]
    fn a_reference_allows_another_order_and_case_and_nothing_else() {
        let (one, two) = (record("a.example", Rtype::A, 60), record("a.example", Rtype::NS, 60));
        let expected = message(true, Rcode::NOERROR, vec![one.clone(), two.clone()], vec![]).to_wire();
        let mut reference = Reference::of(&expected).expect("well-formed");
        let other_order = message(true, Rcode::NOERROR, vec![two, record("A.example", Rtype::A, 60)], vec![]);
        assert_eq!(reference.fault(&other_order.to_wire()), None);
        assert_eq!(reference.fault(&expected), None);
        let other_ttl = message(true, Rcode::NOERROR, vec![one, record("a.example", Rtype::NS, 61)], vec![]);
        let fault = reference.fault(&other_ttl.to_wire()).expect("a TTL differs");
        assert!(fault.ends_with("2 records differ"), "{fault}");
        assert!(reference.fault(&expected[..expected.len() - 1]).is_some());
    }
}
