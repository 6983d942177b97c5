//! What the fuzz targets share: the oracle and the random zones of the conformance tests, and checks of any answer.

#[path = "../../crates/answer/tests/conformance/compare.rs"]
pub mod compare;
#[path = "../../crates/answer/tests/conformance/oracle/mod.rs"]
pub mod oracle;
#[path = "../../crates/answer/tests/conformance/random/mod.rs"]
pub mod random;
#[path = "../../crates/answer/tests/conformance/subject/mod.rs"]
pub mod subject;
#[path = "../../crates/answer/tests/conformance/text.rs"]
pub mod text;

use std::cell::RefCell;
use std::sync::Arc;

use answer::{MAX_UDP, Response, WorkerState, Served, Transport};
use wire::{HEADER_LEN, Message};

/// Sends any bytes as a query. The result must be nothing, a transfer, or a well-formed response to this query within the
/// transport's length limit.
pub fn ask_anything(served: &Arc<Served>, query: &[u8], transport: Transport) -> Option<Message> {
    let mut out = vec![0; if transport == Transport::Udp { MAX_UDP } else { usize::from(u16::MAX) }];
    let Response::Send(len) = subject::reply(served, query, transport, &mut out) else {
        return None;
    };
    assert_eq!(out[..len], again(served, query, transport, out.len()), "another answer from memory");
    let answer = Message::parse(&out[..len]).expect("a well-formed answer");
    assert!(answer.flags.response);
    assert_eq!(answer.id.to_be_bytes(), query[..2]);
    assert_eq!(answer.opcode.0, query[2] >> 3 & 0xf);
    if !answer.questions.is_empty() {
        let asked = &query[HEADER_LEN..];
        assert_eq!(&out[HEADER_LEN..HEADER_LEN + question_len(&answer)], &asked[..question_len(&answer)]);
    }
    if transport == Transport::Udp {
        assert!(len <= usize::from(limit(query)), "{len} octets");
    }
    Some(answer)
}

/// The answer of a worker with cached state, from all kinds of zones.
fn again(served: &Arc<Served>, query: &[u8], transport: Transport, room: usize) -> Vec<u8> {
    thread_local!(static WORKER: RefCell<WorkerState> = RefCell::default());
    let mut out = vec![0; room];
    let reply = WORKER.with_borrow_mut(|worker| subject::reply_of(worker, served, query, transport, &mut out));
    let Response::Send(len) = reply else { panic!("no answer from memory") };
    out.truncate(len);
    out
}

fn question_len(answer: &Message) -> usize {
    answer.questions.iter().map(|question| question.name.wire().len() + 4).sum()
}

/// RFC 6891 6.2.3: the payload that the query allows, at least 512 octets; at most 1232 by this server's own limit.
fn limit(query: &[u8]) -> u16 {
    let edns = Message::parse(query).ok().and_then(|query| query.edns);
    edns.map_or(512, |edns| edns.payload.clamp(512, 1232))
}
