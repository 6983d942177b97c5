//! What all connections of a thread share: the answerer, and the buffer that it writes to.

use super::Responder;
use super::counters::ListenerCounters;
use super::rate_limited_log::RateLimitedLog;
use answer::{Request, Response, Transport};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use zone::axfr::AxfrStream;

/// The longest message over TCP, in octets, and the length that precedes it.
const MESSAGE_MAX: usize = u16::MAX as usize;
pub(super) const PREFIX_LEN: usize = 2;

// What one turn of a connection may cost, counted instead of timed, as the hot path reads no clock. Each bound alone is about
// a millisecond of one processor.
/// Octets written: three messages of the greatest length.
const TURN_OCTETS: usize = 3 * (PREFIX_LEN + MESSAGE_MAX);
/// Messages, empty ones too.
const TURN_MESSAGES: usize = 1024;
/// SHA-1 digests for NSEC3 proofs: some nine denials with 150 iterations, a thousand without.
const TURN_DIGESTS: u64 = 4096;

/// How many transfers are logged in an interval. Only those that a zone's `allow-transfer` names can cause them.
const TRANSFER_LINES: u32 = 100;
const TRANSFER_LINES_INTERVAL: Duration = Duration::from_secs(10);

/// Answers the messages of all connections of a thread.
pub(super) struct TcpResponder<R> {
    responder: R,
    pub(super) output: TurnOutput,
    pub(super) samples: MemorySampler,
    counters: Arc<ListenerCounters>,
    transport: Transport,
    now_s: u32,
    transfer_log: RateLimitedLog,
}

impl<R: Responder> TcpResponder<R> {
    pub(super) fn new(responder: R, counters: Arc<ListenerCounters>, idle_timeout: Duration) -> TcpResponder<R> {
        // RFC 7828 3.1: in units of 100 milliseconds.
        let idle_ds = u16::try_from(idle_timeout.as_millis() / 100).unwrap_or(u16::MAX);
        TcpResponder {
            responder,
            output: TurnOutput::new(),
            samples: MemorySampler::new(),
            counters,
            transport: Transport::Tcp { idle_ds },
            now_s: 0,
            transfer_log: RateLimitedLog::new(TRANSFER_LINES, TRANSFER_LINES_INTERVAL),
        }
    }

    /// Prepares for a round of turns.
    pub(super) fn begin_round(&mut self, now: Duration) {
        self.responder.refresh();
        self.now_s = now.as_secs() as u32;
    }

    /// Publishes what was counted in a round of turns.
    pub(super) fn end_round(&mut self) {
        self.counters.take_over(self.responder.counters());
    }

    /// Answers the whole messages in `input` into the empty output, in order, until the turn is used up or a transfer begins.
    /// Returns how many octets of the input are done, and the transfer.
    pub(super) fn answer_messages(&mut self, peer: IpAddr, input: &[u8]) -> (usize, Option<Box<AxfrStream>>) {
        let mut used = 0;
        let digests_max = self.digests() + TURN_DIGESTS;
        for _ in 0..TURN_MESSAGES {
            if !self.output.has_room() || self.digests() >= digests_max {
                break;
            }
            let Some(message) = first_message(&input[used..]) else { break };
            used += PREFIX_LEN + message.len();
            let transfer = self.answer_message(peer, message);
            if transfer.is_some() {
                return (used, transfer);
            }
        }
        (used, None)
    }

    #[inline]
    fn answer_message(&mut self, peer: IpAddr, message: &[u8]) -> Option<Box<AxfrStream>> {
        self.counters.queries.add(1);
        self.counters.query_octets.add(message.len());
        let request = Request { message, peer, transport: self.transport, now_s: self.now_s };
        match self.responder.answer(request, self.output.room()) {
            Response::Send(len) => {
                self.output.push(len);
                self.counters.answered(len);
            }
            Response::Drop => self.counters.dropped.add(1),
            Response::Transfer(transfer) => {
                self.counters.transfers.add(1);
                return Some(transfer);
            }
        }
        None
    }

    /// Writes as many messages of a transfer as a turn may into the empty output; returns whether the transfer is complete.
    pub(super) fn stream_transfer(&mut self, transfer: &mut AxfrStream) -> bool {
        while self.output.has_room() {
            let Some(len) = transfer.next_message(self.output.room()) else { return true };
            self.output.push(len);
            self.counters.transfer_octets.add(len);
        }
        false
    }

    /// Logs the end of a transfer.
    pub(super) fn log_transfer(&mut self, peer: IpAddr, transfer: &AxfrStream, end: &str) {
        if let Some(left_out) = self.transfer_log.permit() {
            let (zone, serial, records) = (transfer.apex(), transfer.serial(), transfer.records());
            tracing::info!(%zone, serial, records, %peer, left_out, "{end}");
        }
    }

    fn digests(&self) -> u64 {
        self.responder.counters().nsec3_digests
    }
}

/// The message at the front of `stream`, if all of it is there (RFC 1035 4.2.2).
pub(super) fn first_message(stream: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = stream.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*prefix)))
}

/// The answers of a turn, each preceded by its length.
pub(super) struct TurnOutput {
    octets: Box<[u8]>,
    filled: usize,
}

impl TurnOutput {
    fn new() -> TurnOutput {
        TurnOutput { octets: vec![0; TURN_OCTETS].into(), filled: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.filled = 0;
    }

    pub(super) fn filled(&self) -> &[u8] {
        &self.octets[..self.filled]
    }

    fn has_room(&self) -> bool {
        self.octets.len() - self.filled >= PREFIX_LEN + MESSAGE_MAX
    }

    /// Where the next message is written to; only when there is room.
    fn room(&mut self) -> &mut [u8] {
        &mut self.octets[self.filled + PREFIX_LEN..][..MESSAGE_MAX]
    }

    /// Makes a message of the first `len` octets of the room.
    fn push(&mut self, len: usize) {
        let prefix = u16::try_from(len).expect("the room is no larger");
        self.octets[self.filled..][..PREFIX_LEN].copy_from_slice(&prefix.to_be_bytes());
        self.filled += PREFIX_LEN + len;
    }
}

/// Picks the turns after which the kernel is asked what it holds for a connection: one for every 16 KiB written on average, at
/// random, so that clients who read cost next to nothing and none who does not read can avoid it.
pub(super) struct MemorySampler {
    key: RandomState,
    drawn: u64,
    /// How much is written before the next one.
    left: usize,
}

/// A turn that writes as much as this is always picked.
const SAMPLE_MAX: usize = 32 << 10;

impl MemorySampler {
    fn new() -> MemorySampler {
        MemorySampler { key: RandomState::new(), drawn: 0, left: 0 }
    }

    /// Whether a turn that wrote `len` octets is picked.
    pub(super) fn pick(&mut self, len: usize) -> bool {
        if len <= self.left {
            self.left -= len;
            return false;
        }
        self.drawn += 1;
        self.left = self.key.hash_one(self.drawn) as usize % SAMPLE_MAX;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_from_the_stream_only_when_whole() {
        let stream = [0, 3, 1, 2, 3, 0, 0, 0, 2, 9];
        assert_eq!(first_message(&stream), Some(&[1, 2, 3][..]));
        assert_eq!(first_message(&stream[5..]), Some(&[][..]));
        assert_eq!(first_message(&stream[7..]), None);
        assert_eq!((first_message(&stream[..1]), first_message(&[])), (None, None));
    }

    /// Answers nothing, after as many digests as the first octet of a message says, in hundreds.
    #[derive(Default)]
    struct Digesting(answer::Counters);

    impl Responder for Digesting {
        fn refresh(&mut self) {}

        fn counters(&self) -> &answer::Counters {
            &self.0
        }

        fn answer(&mut self, request: Request<'_>, _out: &mut [u8]) -> Response {
            self.0.nsec3_digests += request.message.first().map_or(0, |hundreds| u64::from(*hundreds) * 100);
            Response::Drop
        }
    }

    #[test]
    fn a_turn_is_bounded_by_messages_and_by_digests() {
        let mut responder = TcpResponder::new(Digesting::default(), Arc::default(), Duration::from_secs(1));
        let peer = IpAddr::from([192, 0, 2, 1]);
        assert_eq!(responder.answer_messages(peer, &[0; 5000]).0, 2 * TURN_MESSAGES);
        let ten_hundred = [0, 1, 10].repeat(20);
        for _ in 0..2 {
            assert_eq!(responder.answer_messages(peer, &ten_hundred).0, 5 * 3, "the fifth went beyond 4096");
        }
        assert_eq!(responder.answer_messages(peer, &[0, 1, 255, 0, 1, 255]).0, 3, "one message is always answered");
    }

    #[test]
    fn output_has_room_for_messages_of_the_greatest_length() {
        let mut output = TurnOutput::new();
        let mut count = 0;
        while output.has_room() {
            assert_eq!(output.room().len(), MESSAGE_MAX);
            output.push(MESSAGE_MAX);
            count += 1;
        }
        assert_eq!(count, TURN_OCTETS / (PREFIX_LEN + MESSAGE_MAX));
    }

    #[test]
    fn samples_are_spread_over_what_is_written() {
        let mut samples = MemorySampler::new();
        let picked = (0..10_000).filter(|_| samples.pick(1600)).count();
        assert!((800..1200).contains(&picked), "{picked} of 16 MB");
        assert!((0..100).all(|_| samples.pick(SAMPLE_MAX)));
        assert!(!(0..100).any(|_| samples.pick(0)));
    }
}
