//! Responses that are sent after their turn: those to UPDATE messages, once these were applied or a primary has answered
//! (RFC 2136 3.8, 6.6).

use crate::clock;
use answer::{ReceivedUpdate, UpdateResponse};
use netio::epoll::Waker;
use netio::udp_server::LateDatagram;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::message::Rcode;

/// An UPDATE message of a client that may send it, and where its response goes.
pub struct IncomingUpdate {
    /// The message.
    pub update: ReceivedUpdate,
    /// Its response.
    pub reply: LateReply,
}

/// The response to an UPDATE message, which any thread may send. Without one, the client repeats its message or gives up.
pub struct LateReply {
    response: UpdateResponse,
    datagram_from: Option<SocketAddr>,
    is_over_quic: bool,
    send: Box<dyn FnOnce(Vec<u8>) + Send>,
}

impl LateReply {
    /// A response that is passed to `send`. `datagram_from` is the client of a message that came over UDP.
    pub fn new(
        response: UpdateResponse,
        datagram_from: Option<SocketAddr>,
        send: impl FnOnce(Vec<u8>) + Send + 'static,
    ) -> LateReply {
        LateReply { response, datagram_from, is_over_quic: false, send: Box::new(send) }
    }

    /// The reply to a message that came over QUIC.
    pub fn over_quic(self, is_over_quic: bool) -> LateReply {
        LateReply { is_over_quic, ..self }
    }

    /// Whether the message came over QUIC.
    pub fn is_over_quic(&self) -> bool {
        self.is_over_quic
    }

    /// Of a message that came over UDP, and may come again, the client.
    pub fn datagram_from(&self) -> Option<SocketAddr> {
        self.datagram_from
    }

    /// Sends the response with this RCODE.
    pub fn send(self, rcode: Rcode) {
        (self.send)(self.response.finish(rcode, clock::real_s()));
    }

    /// Sends the response of a primary to the same message; SERVFAIL if that cannot be sent.
    pub fn relay(self, from_primary: Vec<u8>) {
        match self.response.relay(from_primary) {
            Some(response) => (self.send)(response),
            None => self.send(Rcode::SERVFAIL),
        }
    }
}

/// The reply to a datagram.
pub(super) fn udp_reply(response: UpdateResponse, datagram: LateDatagram) -> LateReply {
    let from = datagram.peer();
    // A client whose response is lost repeats its message.
    LateReply::new(response, Some(from), move |octets| _ = datagram.send(&octets))
}

//----------- TCP ------------------------------------------------------------------

/// The late responses of one TCP thread: which connections wait for one, and those that have been sent to the thread.
pub(super) struct LateReplies {
    mailbox: Arc<Mailbox>,
    /// The connection whose turn it is.
    current: u32,
    /// The connections that wait, by their index.
    waiting: HashMap<u32, Waiting>,
    last_number: u64,
}

/// A connection that waits for responses.
struct Waiting {
    /// Its number, as indices are reused.
    number: u64,
    /// How many responses it waits for.
    count: usize,
    /// When its last message was passed on.
    since: Duration,
}

/// How long a connection stays open for a late response: longer than primaries have to answer a forwarded update.
pub(super) const MAX_LATE: Duration = Duration::from_secs(30);

struct Mailbox {
    /// Bounded by the queue of updates.
    responses: Mutex<Vec<LateResponse>>,
    waker: Arc<Waker>,
}

/// A response that was sent to a TCP thread.
pub(super) struct LateResponse {
    pub(super) index: u32,
    number: u64,
    pub(super) octets: Vec<u8>,
}

impl LateReplies {
    /// None wait; the waker wakes the thread.
    pub(super) fn new(waker: Arc<Waker>) -> LateReplies {
        let mailbox = Arc::new(Mailbox { responses: Mutex::default(), waker });
        LateReplies { mailbox, current: 0, waiting: HashMap::new(), last_number: 0 }
    }

    /// A turn of this connection begins.
    pub(super) fn begin_turn(&mut self, index: u32) {
        self.current = index;
    }

    /// The reply to a message of the connection whose turn it is.
    pub(super) fn reply(&mut self, response: UpdateResponse) -> LateReply {
        let (index, mailbox) = (self.current, self.mailbox.clone());
        let waiting = self.waiting.entry(index).or_insert_with(|| {
            self.last_number += 1;
            Waiting { number: self.last_number, count: 0, since: Duration::ZERO }
        });
        waiting.count += 1;
        waiting.since = netio::clock::monotonic();
        let number = waiting.number;
        LateReply::new(response, None, move |octets| {
            let mut responses = mailbox.responses.lock().unwrap_or_else(PoisonError::into_inner);
            responses.push(LateResponse { index, number, octets });
            drop(responses);
            mailbox.waker.wake();
        })
    }

    /// The responses that were sent and whose connections are still there.
    pub(super) fn take(&mut self) -> Vec<LateResponse> {
        let mut responses = std::mem::take(&mut *self.mailbox.responses.lock().unwrap_or_else(PoisonError::into_inner));
        responses.retain(|LateResponse { index, number, .. }| {
            let Some(waiting) = self.waiting.get_mut(index).filter(|waiting| waiting.number == *number) else {
                return false;
            };
            waiting.count -= 1;
            if waiting.count == 0 {
                self.waiting.remove(index);
            }
            true
        });
        responses
    }

    /// Whether the connection whose turn it is waits for a response.
    pub(super) fn current_waits(&self) -> bool {
        self.waits(self.current)
    }

    /// Whether a connection waits for a response.
    pub(super) fn waits(&self, index: u32) -> bool {
        self.waiting.contains_key(&index)
    }

    /// RFC 7766 3: a connection is not idle before it has all its responses. Whether this one still waits, and may.
    pub(super) fn keeps_open(&self, index: u32) -> bool {
        self.waiting.get(&index).is_some_and(|waiting| netio::clock::monotonic() < waiting.since + MAX_LATE)
    }

    /// A connection is closed.
    pub(super) fn forget(&mut self, index: u32) {
        self.waiting.remove(&index);
    }
}
