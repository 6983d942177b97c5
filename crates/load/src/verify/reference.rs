//! The responses of a second server: fetched before a run, compared with those of the server under test.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netio::clock;
use netio::epoll::{Events, Interest, Poll};
use netio::udp_client::{ClientSocket, ReceiveBatch, SendBatch};
use wire::message::Rcode;
use wire::tsig::{TsigError, TsigKey};
use wire::{HEADER_LEN, Message};

use super::matches_question;
use crate::outstanding::OutstandingQueries;
use crate::queries::{MAX_QUERY_LEN, Queries};
use crate::tsig::TsigContext;

/// Queries outstanding at the second server: enough to keep it busy, few enough for any socket buffer.
const OUTSTANDING: usize = 128;
/// How often a query is sent to the second server before it counts as unanswered.
const TRIES: usize = 3;
/// The socket buffers, in octets.
const BUFFER_LEN: usize = 1 << 20;

/// The second server's response to a query.
#[derive(Clone, Debug)]
pub struct ReferenceResponse {
    expected: ComparedContent,
    /// The hash of the last response that was equal, so that the same octets are parsed only once.
    equal_hash: u64,
}

impl ReferenceResponse {
    fn parse(response: &[u8]) -> Option<ReferenceResponse> {
        Some(ReferenceResponse { expected: ComparedContent::parse(response)?, equal_hash: hash(response) })
    }

    /// How a response of at least a header differs; `None` if it is equal in all that is compared.
    pub(super) fn mismatch(&mut self, response: &[u8]) -> Option<String> {
        let hash = hash(response);
        if hash == self.equal_hash {
            return None;
        }
        let expected = &self.expected;
        let Some(found) = ComparedContent::parse(response) else {
            return Some("expected a message, got a malformed one".into());
        };
        if &found == expected {
            self.equal_hash = hash;
            return None;
        }
        let describe = |content: &ComparedContent| {
            let (aa, tc) = (u8::from(content.authoritative), u8::from(content.truncated));
            format!("{} AA={aa} TC={tc} with {} records", content.rcode, content.records.len())
        };
        let differing = found.records.symmetric_difference(&expected.records).count();
        Some(format!("expected {}, got {}; {differing} records differ", describe(expected), describe(&found)))
    }
}

/// The hash of all but the id.
fn hash(response: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    response[2..].hash(&mut hasher);
    hasher.finish()
}

/// The part of a response in which two correct servers agree.
///
/// It leaves out the additional section, which is optional (RFC 2181 9), the order of records and the case of owners.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ComparedContent {
    rcode: Rcode,
    authoritative: bool,
    truncated: bool,
    records: BTreeSet<ComparedRecord>,
}

/// Whether it is in the answer section, the owner in lower case, type, TTL, RDATA.
type ComparedRecord = (bool, Vec<u8>, u16, u32, Vec<u8>);

impl ComparedContent {
    fn parse(response: &[u8]) -> Option<ComparedContent> {
        let message = Message::parse(response).ok()?;
        let sections = [(true, &message.answer), (false, &message.authority)];
        let records = sections.into_iter().flat_map(|(is_answer, records)| {
            records.iter().map(move |record| {
                let owner = record.owner.to_lowercase().wire().to_vec();
                (is_answer, owner, record.rtype.0, record.ttl, record.rdata.clone())
            })
        });
        Some(ComparedContent {
            rcode: message.rcode,
            authoritative: message.flags.authoritative,
            truncated: message.flags.truncated,
            records: records.collect(),
        })
    }
}

//----------- fetching ---------------------------------------------------------

/// Sends `server` every query over UDP, signed if there is a key, [`OUTSTANDING`] at a time; returns its responses by
/// query number.
pub(super) fn fetch(
    server: SocketAddr,
    key: Option<Arc<TsigKey>>,
    queries: &Queries,
    timeout: Duration,
) -> io::Result<Vec<ReferenceResponse>> {
    let mut fetcher = ReferenceFetcher::new(server, key, queries, timeout)?;
    let mut events = Events::with_capacity(1);
    while fetcher.answered < queries.len() {
        fetcher.send();
        let now = clock::monotonic_exact();
        let end = Duration::from_nanos(fetcher.outstanding.next_timeout_ns().unwrap_or_default());
        fetcher.poll.wait_precise(&mut events, end.saturating_sub(now))?;
        fetcher.receive()?;
        fetcher.retry_unanswered()?;
    }
    Ok(fetcher.references.into_iter().map(|reference| reference.expect("all are answered")).collect())
}

struct ReferenceFetcher<'q> {
    queries: &'q Queries,
    tsig: Option<TsigContext>,
    socket: ClientSocket,
    send_batch: SendBatch,
    receive_batch: ReceiveBatch,
    poll: Poll,
    outstanding: OutstandingQueries,
    references: Vec<Option<ReferenceResponse>>,
    answered: usize,
    /// The first query that was never sent.
    next: u32,
    /// Queries to send again.
    retries: Vec<u32>,
    /// Queries that failed since the last call of [`ReferenceFetcher::retry_unanswered`].
    unanswered: Vec<u32>,
    /// How often each query failed.
    failures: HashMap<u32, usize>,
    /// The last invalid signature.
    tsig_fault: Option<TsigError>,
}

impl<'q> ReferenceFetcher<'q> {
    fn new(
        server: SocketAddr,
        key: Option<Arc<TsigKey>>,
        queries: &'q Queries,
        timeout: Duration,
    ) -> io::Result<ReferenceFetcher<'q>> {
        let (socket, poll) = (ClientSocket::open(server, None, BUFFER_LEN)?, Poll::new()?);
        poll.add(&socket, 0, Interest::Readable)?;
        Ok(ReferenceFetcher {
            queries,
            tsig: key.map(TsigContext::new),
            socket,
            send_batch: SendBatch::new(OUTSTANDING, 2 * MAX_QUERY_LEN, 1),
            receive_batch: ReceiveBatch::new(OUTSTANDING),
            poll,
            outstanding: OutstandingQueries::new(1, timeout.as_nanos() as u64),
            references: vec![None; queries.len()],
            answered: 0,
            next: 0,
            retries: Vec::new(),
            unanswered: Vec::new(),
            failures: HashMap::new(),
            tsig_fault: None,
        })
    }

    fn send(&mut self) {
        let now = clock::monotonic_exact().as_nanos() as u64;
        while self.outstanding.len() < OUTSTANDING {
            let fresh = (self.next < self.queries.len() as u32).then_some(self.next);
            let Some(number) = self.retries.pop().or(fresh) else { break };
            self.next += u32::from(Some(number) == fresh);
            let id = self.outstanding.insert(0, number, now, now, false).expect("more ids than outstanding queries");
            let mut message = self.queries.at(number).message;
            if let Some(tsig) = &mut self.tsig {
                tsig.sign(0, id, message);
                message = tsig.message();
            }
            self.send_batch.push(0, message)[..2].copy_from_slice(&id.to_be_bytes());
        }
        // Datagrams that the kernel refuses time out and are sent again.
        self.send_batch.send(&self.socket);
    }

    fn receive(&mut self) -> io::Result<()> {
        self.receive_batch.receive(&self.socket, |received| {
            let response = received.bytes;
            let Some([high, low, ..]) = response.first_chunk::<HEADER_LEN>() else { return };
            let id = u16::from_be_bytes([*high, *low]);
            let Some(query) = self.outstanding.remove(0, id) else { return };
            let fault = self.tsig.as_mut().and_then(|tsig| tsig.verify(0, id, response).err());
            let is_valid = fault.is_none() && matches_question(self.queries.at(query.number).question(), response);
            self.tsig_fault = fault.or(self.tsig_fault);
            match ReferenceResponse::parse(response).filter(|_| is_valid) {
                Some(reference) => {
                    self.references[query.number as usize] = Some(reference);
                    self.answered += 1;
                }
                None => self.unanswered.push(query.number),
            }
        })?;
        Ok(())
    }

    /// Schedules the queries for a retry that timed out or got an unusable response.
    fn retry_unanswered(&mut self) -> io::Result<()> {
        let now = clock::monotonic_exact().as_nanos() as u64;
        self.outstanding.expire(now, |query| self.unanswered.push(query.number));
        for number in self.unanswered.drain(..) {
            let failures = self.failures.entry(number).or_default();
            *failures += 1;
            if *failures == TRIES {
                let why = self.tsig_fault.map(|fault| format!(": {fault}")).unwrap_or_default();
                let what = format!("the second server does not answer {}{why}", self.queries.describe(number));
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            self.retries.push(number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::tests::{message, record};
    use wire::Rtype;

    #[test]
    fn only_record_order_and_owner_case_may_differ() {
        let (one, two) = (record("a.example", Rtype::A, 60), record("a.example", Rtype::NS, 60));
        let expected = message(true, Rcode::NOERROR, vec![one.clone(), two.clone()], vec![]).to_wire();
        let mut reference = ReferenceResponse::parse(&expected).expect("well-formed");
        let other_order = message(true, Rcode::NOERROR, vec![two, record("A.example", Rtype::A, 60)], vec![]);
        assert_eq!(reference.mismatch(&other_order.to_wire()), None);
        assert_eq!(reference.mismatch(&expected), None);
        let other_ttl = message(true, Rcode::NOERROR, vec![one, record("a.example", Rtype::NS, 61)], vec![]);
        let mismatch = reference.mismatch(&other_ttl.to_wire()).expect("a TTL differs");
        assert!(mismatch.ends_with("2 records differ"), "{mismatch}");
        assert!(reference.mismatch(&expected[..expected.len() - 1]).is_some());
    }
}
