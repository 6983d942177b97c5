//! Answers the messages of all connections of a thread, over TCP, TLS or QUIC, into one shared buffer.

use super::counters::ListenerCounters;
use super::late_reply::LateReplies;
use super::limits::REPLACED_TRANSFER_MAX;
use super::memory_sampler::MemorySampler;
use super::outgoing_transfer::OutgoingTransfer;
use super::responder::{Responder, finish_notify, pass_on_update};
use super::worker_setup::WorkerSetup;
use crate::rate_limited_log::RateLimitedLog;
use answer::{PendingUpdate, Request, Response, Transport};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::Name;
use wire::framing::{PREFIX_LEN, split_message};

/// Maximum length of a TCP message in octets.
const MESSAGE_MAX: usize = u16::MAX as usize;

// Bounds for one turn of a connection. Each alone takes about a millisecond; they replace a clock, which the hot path does not
// read.
/// Octets written: three messages of maximum length.
pub(super) const TURN_OCTETS: usize = 3 * (PREFIX_LEN + MESSAGE_MAX);
/// Messages, empty ones too.
const TURN_MESSAGES: usize = 1024;
/// SHA-1 digests for NSEC3 proofs: about nine denials with 150 iterations, a thousand without.
const TURN_DIGESTS: u64 = 4096;
/// The turns of a round share the messages of two, so that many busy connections do not make the others wait for a quarter of a
/// second. But each gets some, as a turn without many costs mostly system calls.
const ROUND_MESSAGES: usize = 2 * TURN_MESSAGES;
const SHARE_MIN: usize = 8;
/// The turns of transfers in a round share these octets, about two milliseconds, so that many transfers do not delay queries. Each turn
/// writes at least one message; transfers for which none is left are served in a later round.
pub(super) const ROUND_TRANSFER_OCTETS: usize = 5 * TURN_OCTETS;

/// Transfers logged per interval. Only clients in a zone's `allow-transfer` can cause them.
const TRANSFER_LINES: u32 = 100;
const TRANSFER_LINES_INTERVAL: Duration = Duration::from_secs(10);

/// The client of a connection.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub(super) peer: IpAddr,
    pub(super) encryption: Encryption<'a>,
}

/// What encrypts a connection, with the names of the client's certificate.
#[derive(Clone, Copy)]
pub(super) enum Encryption<'a> {
    Nothing,
    Tls(&'a [Name]),
    Quic(&'a [Name]),
}

impl Encryption<'_> {
    /// The transport, as metrics name it.
    fn transport(self) -> &'static str {
        match self {
            Encryption::Nothing => "tcp",
            Encryption::Tls(_) => "tls",
            Encryption::Quic(_) => "quic",
        }
    }
}

/// Answers the messages of all connections of a thread.
pub(super) struct StreamResponder<R> {
    responder: R,
    pub(super) output: TurnOutput,
    pub(super) late: LateReplies,
    pub(super) memory_sampler: MemorySampler,
    counters: Arc<ListenerCounters>,
    /// The idle timeout to announce (RFC 7828 3.1), in units of 100 milliseconds.
    idle_ds: u16,
    now_s: u32,
    /// Messages answered in one turn of this round.
    turn_messages: usize,
    /// The digests after which the turn answers no more.
    digests_max: u64,
    /// Octets after which a turn of a transfer writes no other message.
    transfer_share: usize,
    /// Octets that transfers may still write in this round.
    transfer_octets_left: usize,
    transfer_log: RateLimitedLog,
}

impl<R: Responder> StreamResponder<R> {
    /// Announces `idle_timeout` until [`StreamResponder::announce_idle_timeout`] changes it.
    pub(super) fn new(setup: WorkerSetup<R>, idle_timeout: Duration) -> StreamResponder<R> {
        let WorkerSetup { responder, counters, waker } = setup;
        let idle_ds = u16::try_from(idle_timeout.as_millis() / 100).unwrap_or(u16::MAX);
        StreamResponder {
            responder,
            output: TurnOutput::new(),
            late: LateReplies::new(waker),
            memory_sampler: MemorySampler::new(),
            counters,
            idle_ds,
            now_s: 0,
            turn_messages: TURN_MESSAGES,
            digests_max: 0,
            transfer_share: TURN_OCTETS,
            transfer_octets_left: ROUND_TRANSFER_OCTETS,
            transfer_log: RateLimitedLog::new(TRANSFER_LINES, TRANSFER_LINES_INTERVAL),
        }
    }

    /// Refreshes the responder and the time before a round of turns, of up to `turns` connections.
    pub(super) fn begin_round(&mut self, now: Duration, turns: usize) {
        self.responder.refresh();
        self.turn_messages = (ROUND_MESSAGES / turns.max(1)).clamp(SHARE_MIN, TURN_MESSAGES);
        self.now_s = now.as_secs() as u32;
        self.transfer_octets_left = ROUND_TRANSFER_OCTETS;
    }

    /// Shares the octets of the round among this many transfers that are ready.
    pub(super) fn share_among_transfers(&mut self, transfers: usize) {
        self.transfer_share = ROUND_TRANSFER_OCTETS / transfers.max(1);
    }

    /// Whether another transfer may have its turn in this round.
    pub(super) fn may_transfer(&self) -> bool {
        self.transfer_octets_left > 0
    }

    /// Counts octets that a turn of a transfer writes.
    pub(super) fn charge_transfer(&mut self, octets: usize) {
        self.transfer_octets_left = self.transfer_octets_left.saturating_sub(octets);
    }

    /// Sets the idle timeout to announce.
    pub(super) fn announce_idle_timeout(&mut self, timeout_ms: u32) {
        self.idle_ds = u16::try_from(timeout_ms / 100).unwrap_or(u16::MAX);
    }

    /// Publishes the counters after a round of turns.
    pub(super) fn end_round(&mut self) {
        self.responder.log_refused();
        self.counters.copy_from(self.responder.counters());
    }

    /// The turn of a connection begins. Over QUIC it has several inputs, each of which is a message.
    pub(super) fn begin_turn(&mut self) {
        self.digests_max = self.digests() + TURN_DIGESTS;
    }

    /// Whether the turn may go on.
    pub(super) fn may_answer(&self) -> bool {
        self.digests() < self.digests_max
    }

    /// Answers the complete messages in `input`, in order, into the empty output, until a bound of the turn is reached or a
    /// transfer begins. Returns how many octets of the input are consumed, and the transfer.
    pub(super) fn answer_messages(
        &mut self,
        client: Client<'_>,
        input: &[u8],
    ) -> (usize, Option<Box<OutgoingTransfer>>) {
        // The input is newer than the round: its client may have seen a later version meanwhile, from another thread.
        self.responder.refresh();
        let mut used = 0;
        for _ in 0..self.turn_messages {
            if !self.output.has_room() || !self.may_answer() {
                break;
            }
            let Some((message, _)) = split_message(&input[used..]) else { break };
            used += PREFIX_LEN + message.len();
            let transfer = self.answer_message(client, message);
            if transfer.is_some() {
                return (used, transfer);
            }
        }
        (used, None)
    }

    #[inline]
    fn answer_message(&mut self, client: Client<'_>, message: &[u8]) -> Option<Box<OutgoingTransfer>> {
        self.counters.queries.add(1);
        self.counters.query_octets.add(message.len());
        let idle_ds = self.idle_ds;
        // RFC 7858 3.3: messages over TLS are those of TCP.
        let transport = match client.encryption {
            Encryption::Nothing => Transport::Tcp { idle_ds },
            Encryption::Tls(client_names) => Transport::Tls { idle_ds, client_names },
            Encryption::Quic(client_names) => Transport::Quic { client_names },
        };
        let request = Request { message, peer: client.peer, transport, now_s: self.now_s };
        match self.responder.answer(request, self.output.room()) {
            Response::Send(len) => {
                self.output.push(len);
                self.counters.answered(len);
            }
            Response::Notify(pending) => {
                let len = finish_notify(*pending, &mut self.responder, &self.counters, self.output.room());
                self.output.push(len);
                self.counters.answered(len);
            }
            Response::Update(pending) => {
                self.pass_on_update(*pending, matches!(client.encryption, Encryption::Quic(_)));
            }
            Response::Drop => self.counters.dropped.add(1),
            Response::Stream(transfer) => {
                self.counters.transfers.add(1);
                return Some(Box::new(OutgoingTransfer::new(*transfer, client.encryption.transport())));
            }
        }
        None
    }

    /// Passes on an UPDATE message of the connection whose turn it is.
    #[cold]
    fn pass_on_update(&mut self, pending: PendingUpdate, is_over_quic: bool) {
        let reply = self.late.reply(pending.response).over_quic(is_over_quic);
        pass_on_update(pending.update, reply, &mut self.responder, &self.counters);
    }

    /// Writes messages of a transfer into the empty output, as many as a turn may and at least one; logs the end of the transfer,
    /// and returns whether it is reached.
    pub(super) fn stream_transfer(&mut self, peer: IpAddr, transfer: &mut OutgoingTransfer) -> bool {
        while self.output.has_room() && self.output.filled < self.transfer_share {
            let Some(len) = transfer.next_message(self.output.room(), self.now_s) else {
                self.log_transfer(peer, transfer, transfer.end());
                return true;
            };
            self.output.push(len);
            self.charge_transfer(len);
            self.counters.transfer_octets.add(len);
        }
        false
    }

    /// Whether a transfer takes too long, for a version that is not served any more.
    pub(super) fn is_overdue(&self, transfer: &OutgoingTransfer) -> bool {
        transfer.age() >= REPLACED_TRANSFER_MAX && !self.responder.serves_version_of(transfer.stream())
    }

    /// A transfer ends before its last message.
    pub(super) fn broken_off(&mut self, peer: IpAddr, transfer: &OutgoingTransfer) {
        let is_overdue = self.is_overdue(transfer);
        self.counters.transfers_overdue.add(is_overdue.into());
        let end = match is_overdue {
            true => "zone transfer broken off: it takes too long, and its version has been replaced",
            false => "zone transfer broken off",
        };
        self.log_transfer(peer, transfer, end);
    }

    /// Logs the end of a transfer.
    fn log_transfer(&mut self, peer: IpAddr, transfer: &OutgoingTransfer, end: &str) {
        if let Some(left_out) = self.transfer_log.permit() {
            transfer.log(peer, end, left_out);
        }
    }

    fn digests(&self) -> u64 {
        self.responder.counters().nsec3_digests
    }
}

/// The responses of a turn, each preceded by its length.
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

    /// The buffer for the next message, if [`TurnOutput::has_room`].
    fn room(&mut self) -> &mut [u8] {
        &mut self.octets[self.filled + PREFIX_LEN..][..MESSAGE_MAX]
    }

    /// Appends the first `len` octets of the room as a message.
    fn push(&mut self, len: usize) {
        let prefix = u16::try_from(len).expect("the room is no larger");
        self.octets[self.filled..][..PREFIX_LEN].copy_from_slice(&prefix.to_be_bytes());
        self.filled += PREFIX_LEN + len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drops every query; the first octet of the message is the number of digests it costs, in hundreds.
    #[derive(Default)]
    struct Digesting {
        counters: answer::Counters,
        refreshes: u32,
    }

    impl Responder for Digesting {
        fn refresh(&mut self) {
            self.refreshes += 1;
        }

        fn counters(&self) -> &answer::Counters {
            &self.counters
        }

        fn answer(&mut self, request: Request<'_>, _out: &mut [u8]) -> Response {
            self.counters.nsec3_digests += request.message.first().map_or(0, |hundreds| u64::from(*hundreds) * 100);
            Response::Drop
        }
    }

    fn responder() -> StreamResponder<Digesting> {
        let waker = Arc::new(netio::epoll::Waker::new().expect("a descriptor"));
        let setup = WorkerSetup { responder: Digesting::default(), counters: Arc::default(), waker };
        StreamResponder::new(setup, Duration::from_secs(1))
    }

    /// A query that was read after the round began may be from a client that has seen a later version.
    #[test]
    fn each_input_is_answered_from_the_version_after_it_was_read() {
        let (mut responder, client) =
            (responder(), Client { peer: IpAddr::from([192, 0, 2, 1]), encryption: Encryption::Nothing });
        responder.begin_round(Duration::ZERO, 1);
        let before = responder.responder.refreshes;
        for turn in 1..=3 {
            responder.begin_turn();
            responder.answer_messages(client, &[0, 1, 0]);
            assert_eq!(responder.responder.refreshes, before + turn);
        }
    }

    #[test]
    fn a_turn_is_bounded_by_messages_and_by_digests() {
        let mut responder = responder();
        let peer = Client { peer: IpAddr::from([192, 0, 2, 1]), encryption: Encryption::Nothing };
        responder.begin_turn();
        assert_eq!(responder.answer_messages(peer, &[0; 5000]).0, 2 * TURN_MESSAGES);
        let ten_hundred = [0, 1, 10].repeat(20);
        for _ in 0..2 {
            responder.begin_turn();
            assert_eq!(responder.answer_messages(peer, &ten_hundred).0, 5 * 3, "the fifth message exceeds 4096");
        }
        responder.begin_turn();
        assert_eq!(responder.answer_messages(peer, &[0, 1, 255, 0, 1, 255]).0, 3, "one message is always answered");
    }

    #[test]
    fn the_turns_of_a_round_share_the_messages() {
        let mut responder = responder();
        let peer = Client { peer: IpAddr::from([192, 0, 2, 1]), encryption: Encryption::Nothing };
        for (turns, messages) in [(0, 1024), (1, 1024), (2, 1024), (4, 512), (64, 32), (256, 8), (10_000, 8)] {
            responder.begin_round(Duration::ZERO, turns);
            responder.begin_turn();
            assert_eq!(responder.answer_messages(peer, &[0; 5000]).0, 2 * messages, "{turns} turns");
        }
    }

    #[test]
    fn output_has_room_for_messages_of_maximum_length() {
        let mut output = TurnOutput::new();
        let mut count = 0;
        while output.has_room() {
            assert_eq!(output.room().len(), MESSAGE_MAX);
            output.push(MESSAGE_MAX);
            count += 1;
        }
        assert_eq!(count, TURN_OCTETS / (PREFIX_LEN + MESSAGE_MAX));
    }
}
