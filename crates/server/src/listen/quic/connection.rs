//! A connection: reads the query of each stream, has it answered, and writes the response or a transfer to the stream.

use super::super::Responder;
use super::super::buffer::Buffer;
use super::super::counters::ListenerCounters;
use super::super::outgoing_transfer::OutgoingTransfer;
use super::super::panic_guard::catch_panic;
use super::super::stream_responder::{Client, Encryption, StreamResponder};
use super::DoqError;
use super::doq_stream::{DoqStream, StreamState};
use super::frame_memory::FrameMemory;
use super::late_streams::LateStreams;
use super::query_stream::{FramingError, QueryStream};
use super::transport::{FIRST_STREAMS, SEND_WINDOW, STREAMS};
use crate::tls::{ClientCertificate, RETIRED_IDS, ServerTls};
use answer::has_keepalive;
use bytes::Bytes;
use quinn_proto::{Connection, Dir, Event, ReadError, StreamEvent, StreamId, VarInt, WriteError};
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::framing::{PREFIX_LEN, frame};
use wire::message::Opcode;
use wire::name::skip_name;
use wire::{HEADER_LEN, Name, Rtype};

/// The memory that `quinn-proto` keeps for more than the first streams, in octets: for each 84 in tables that are half empty, and 384
/// to receive in. It stays, so that an idle connection has it reserved.
const MORE_STREAMS_MEMORY: usize = (STREAMS - FIRST_STREAMS) as usize * (84 + 384);

/// One connection.
pub(super) struct QuicConnection {
    pub(super) inner: Connection,
    pub(super) peer: SocketAddr,
    /// The number of the socket that its packets go through.
    pub(super) socket: usize,
    /// Its index in the table.
    index: u32,
    client: Option<Box<ClientCertificate>>,
    /// The streams that are not over; no more than the client may have open.
    streams: Vec<DoqStream>,
    /// The index of the stream that is served first when several have something to write.
    next_to_write: usize,
    frame_memory: FrameMemory,
    /// Queries that became complete.
    queries: u64,
    /// There is work without another packet.
    pub(super) wants_turn: bool,
}

/// What a turn needs besides the connection.
pub(super) struct ConnectionTurn<'a, R> {
    pub(super) now: Instant,
    pub(super) responder: &'a mut StreamResponder<R>,
    pub(super) late: &'a mut LateStreams,
    pub(super) counters: &'a ListenerCounters,
    pub(super) tls: &'a ServerTls,
    /// A transfer may fill its buffer, which none has done in this turn.
    pub(super) may_fill: bool,
    /// How long a query may take until it is complete.
    pub(super) idle_timeout: Duration,
}

impl QuicConnection {
    pub(super) fn new(inner: Connection, peer: SocketAddr, socket: usize, index: u32) -> QuicConnection {
        QuicConnection {
            inner,
            peer,
            socket,
            index,
            client: None,
            streams: Vec::new(),
            next_to_write: 0,
            frame_memory: FrameMemory::default(),
            queries: 0,
            wants_turn: false,
        }
    }

    /// Handles what happened since the last turn. Returns whether there was progress: a query answered, or response octets
    /// accepted.
    pub(super) fn turn<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) -> bool {
        turn.responder.begin_turn();
        // RFC 9000 10.2: all streams end with the connection. None is answered after that, nor waits for a late response, which the
        // next connection with this index would get.
        if self.inner.is_closed() {
            self.drop_streams(turn);
        }
        let mut may_write = std::mem::take(&mut self.wants_turn);
        let mut progress = may_write && !self.inner.is_handshaking() && self.answer_delayed(turn);
        let (mut readable, mut ends) = (Vec::new(), Vec::new());
        // All frames of a stream are counted before it is read, as they arrived before.
        while let Some(event) = self.inner.poll() {
            match event {
                Event::Connected => progress |= self.established(turn),
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => self.accept_streams(&mut readable, turn.now),
                Event::Stream(StreamEvent::Readable { id }) => {
                    self.count_frame(id);
                    readable.push(id);
                }
                Event::Stream(StreamEvent::Writable { .. }) => may_write = true,
                Event::Stream(event) => ends.push(event),
                _ => {}
            }
        }
        readable.dedup();
        for id in readable {
            progress |= self.read(id, turn);
        }
        for event in ends {
            progress |= self.end_stream(&event, turn);
        }
        progress |= may_write && self.write_all(turn);
        self.end_turn(turn);
        progress
    }

    /// Handles that a stream is over. Returns whether it ended well.
    fn end_stream<R: Responder>(&mut self, event: &StreamEvent, turn: &mut ConnectionTurn<'_, R>) -> bool {
        match *event {
            StreamEvent::Finished { id } => self.forget(id, turn),
            StreamEvent::Stopped { id, .. } => self.cancel(id, DoqError::RequestCancelled, turn),
            _ => false,
        }
    }

    fn end_turn<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) {
        self.end_costly_streams(turn);
        if self.streams.is_empty() {
            self.streams = Vec::new();
        }
        for stream in &mut self.streams {
            let is_complete = !stream.is_query();
            stream.frames.end_turn(is_complete);
        }
        let frames = self.inner.stats().frame_rx;
        self.frame_memory.end_turn(frames.crypto);
        // A client may retire one for each query besides.
        if frames.retire_connection_id > RETIRED_IDS + self.queries && !self.inner.is_closed() {
            self.close(DoqError::ExcessiveLoad, turn);
        }
    }

    //---------- Queries

    /// Adds the streams that a client has opened, which may be read.
    fn accept_streams(&mut self, readable: &mut Vec<StreamId>, now: Instant) {
        // Bounded by the streams that the client may open.
        while !self.inner.is_closed()
            && let Some(id) = self.inner.streams().accept(Dir::Bi)
        {
            self.streams.push(DoqStream::new(id, now));
            readable.push(id);
        }
        if !self.may_open_more() && self.streams.len() >= FIRST_STREAMS as usize / 2 {
            self.inner.set_max_concurrent_streams(Dir::Bi, VarInt::from_u32(STREAMS));
        }
    }

    /// Counts a frame of a stream, of which `quinn-proto` reports each one that it keeps.
    fn count_frame(&mut self, id: StreamId) {
        if let Some(at) = self.find(id) {
            self.streams[at].frames.arrived();
        }
    }

    /// Reads what has arrived of a query, and answers it when it is complete.
    fn read<R: Responder>(&mut self, id: StreamId, turn: &mut ConnectionTurn<'_, R>) -> bool {
        let Some(at) = self.find(id) else { return false };
        let DoqStream { state: StreamState::Query(query), frames, .. } = &mut self.streams[at] else { return false };
        let mut stream = self.inner.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return false };
        let end = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    frames.was_read();
                    if query.push(&chunk.bytes).is_err() {
                        break Err(FramingError);
                    }
                }
                Ok(None) => break Ok(Some(std::mem::take(query))),
                Err(ReadError::Blocked) => break Ok(None),
                Err(ReadError::Reset(_)) => {
                    // What the client may send again is announced with the next packet.
                    _ = chunks.finalize();
                    return self.cancel(id, DoqError::RequestCancelled, turn);
                }
            }
        };
        _ = chunks.finalize();
        match end.and_then(|query| query.map(QueryStream::finish).transpose()) {
            Ok(None) => false,
            Ok(Some(query)) => {
                self.queries += 1;
                self.answer(id, query, turn)
            }
            Err(FramingError) => self.fail(turn),
        }
    }

    /// Ends the streams of queries that take too long, which other queries would keep open, of responses in too many pieces, and of
    /// transfers that are overdue.
    fn end_costly_streams<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) {
        let is_slow = |stream: &DoqStream| stream.is_query() && turn.now >= stream.begin + turn.idle_timeout;
        let is_overdue =
            |stream: &DoqStream| stream.transfer().is_some_and(|transfer| turn.responder.is_overdue(transfer));
        let is_costly = |stream: &&DoqStream| is_slow(stream) || stream.has_many_pieces() || is_overdue(stream);
        let costly: Vec<StreamId> = self.streams.iter().filter(is_costly).map(|stream| stream.id).collect();
        for id in costly {
            self.cancel(id, DoqError::ExcessiveLoad, turn);
        }
    }

    /// Answers a complete query, now or when the handshake is complete.
    fn answer<R: Responder>(&mut self, id: StreamId, query: Vec<u8>, turn: &mut ConnectionTurn<'_, R>) -> bool {
        let message = &query[PREFIX_LEN..];
        // RFC 9250 4.2.1: the message ID is 0. 5.5.2: there is no edns-tcp-keepalive option.
        if message.iter().take(2).any(|octet| *octet != 0) || has_keepalive(message) {
            return self.fail(turn);
        }
        let Some(at) = self.find(id) else { return false };
        // The names of a client are known once it has proved who it is: a query that needs them must not be refused before.
        if self.inner.is_handshaking()
            && (!may_be_early(message) || self.inner.crypto_session().peer_identity().is_some())
        {
            self.streams[at].state = StreamState::Delayed(query);
            return false;
        }
        // The queries of a turn may all be costly ones: the other connections have their turns first, as over TCP.
        if !turn.responder.may_answer() {
            self.streams[at].state = StreamState::Delayed(query);
            self.wants_turn = true;
            return false;
        }
        turn.responder.output.clear();
        let ticket = turn.late.next_ticket();
        turn.responder.late.begin_turn(ticket);
        let names: &[Name] = self.client.as_mut().map_or(&[], |client| turn.tls.client_names(client));
        let client = Client { peer: self.peer.ip(), encryption: Encryption::Quic(names) };
        let Some((_, transfer)) = catch_panic(|| turn.responder.answer_messages(client, &query)) else {
            turn.counters.panics.add(1);
            // A reply that it may have promised is not that of the next stream with this ticket.
            turn.responder.late.forget(ticket);
            return self.cancel(id, DoqError::InternalError, turn);
        };
        if turn.responder.late.current_waits() {
            turn.late.wait(ticket, self.index, id);
            self.streams[at].state = StreamState::Late(ticket);
        } else if transfer.is_none() && turn.responder.output.filled().is_empty() {
            // RFC 9250 4.3.3: no client sends a message without a response, such as one that is a response itself.
            return self.fail(turn);
        } else {
            self.respond(at, transfer, turn);
        }
        true
    }

    /// Writes the responder's output to a stream, and then a transfer.
    fn respond<R: Responder>(
        &mut self,
        at: usize,
        transfer: Option<Box<OutgoingTransfer>>,
        turn: &mut ConnectionTurn<'_, R>,
    ) {
        let output = turn.responder.output.filled();
        let stream = &mut self.streams[at];
        let accepted = self.inner.send_stream(stream.id).write(output).unwrap_or(0);
        stream.accepted.add(accepted);
        stream.state = StreamState::Response(Buffer::from(&output[accepted..]), transfer);
        self.write(at, turn);
    }

    /// The handshake is complete: answers what waited for that.
    fn established<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) -> bool {
        let chain = self.inner.crypto_session().peer_identity();
        if let Some(chain) = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok()) {
            self.client = (!chain.is_empty()).then(|| turn.tls.client_certificate((*chain).into()));
        }
        self.answer_delayed(turn);
        true
    }

    /// Answers the queries that have waited. Returns whether any was answered.
    fn answer_delayed<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) -> bool {
        let delayed = self.streams.iter_mut().filter_map(|stream| match &mut stream.state {
            StreamState::Delayed(query) => Some((stream.id, std::mem::take(query))),
            _ => None,
        });
        let delayed: Vec<(StreamId, Vec<u8>)> = delayed.collect();
        delayed.into_iter().fold(false, |progress, (id, query)| self.answer(id, query, turn) | progress)
    }

    //---------- Responses

    /// The response to an earlier query.
    pub(super) fn respond_late(&mut self, id: StreamId, response: &[u8]) {
        let Some(at) = self.find(id) else { return };
        self.streams[at].state = StreamState::Response(Buffer::from(&frame(response)[..]), None);
        self.wants_turn = true;
    }

    /// Writes to all streams, beginning after the one that was the first to be served the last time: it may have taken all that the
    /// connection accepts.
    fn write_all<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) -> bool {
        let (first, count) = (self.next_to_write, self.streams.len());
        let mut served = None;
        for at in (0..count).map(|number| (first + number) % count) {
            if self.write(at, turn) {
                served = served.or(Some(at));
            }
        }
        self.next_to_write = served.map_or(first, |at| at + 1);
        served.is_some()
    }

    /// Writes what the connection accepts of a response; one transfer per turn fills its buffer, while octets of the round are left.
    /// Returns whether any was accepted.
    fn write<R: Responder>(&mut self, at: usize, turn: &mut ConnectionTurn<'_, R>) -> bool {
        let stream = &mut self.streams[at];
        let StreamState::Response(output, transfer) = &mut stream.state else { return false };
        let mut progress = false;
        if output.is_empty()
            && let Some(source) = transfer
        {
            if !turn.responder.may_transfer() || !std::mem::take(&mut turn.may_fill) {
                self.wants_turn = true;
                return false;
            }
            turn.responder.output.clear();
            if turn.responder.stream_transfer(self.peer.ip(), source) {
                *transfer = None;
            }
            *output = Buffer::from(turn.responder.output.filled());
        }
        // Until nothing is accepted, or else no event would say when there is room again.
        while !output.is_empty() {
            match self.inner.send_stream(stream.id).write(output.octets()) {
                Ok(accepted) => {
                    output.consume(accepted);
                    stream.accepted.add(accepted);
                    progress = true;
                }
                // If the client has stopped the stream, the event that follows removes it.
                Err(WriteError::Blocked | WriteError::Stopped(_) | WriteError::ClosedStream) => return progress,
            }
        }
        if transfer.is_some() {
            self.wants_turn = true;
        } else {
            // It fails if the client has stopped the stream, which an event reports.
            _ = self.inner.send_stream(stream.id).finish();
            stream.state = StreamState::Sent;
        }
        progress
    }

    //---------- Ends

    /// RFC 9250 4.3.3: ends the connection because of a protocol error.
    fn fail<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) -> bool {
        turn.counters.protocol_errors.add(1);
        self.close(DoqError::ProtocolError, turn);
        false
    }

    pub(super) fn close<R: Responder>(&mut self, error: DoqError, turn: &mut ConnectionTurn<'_, R>) {
        self.inner.close(turn.now, error.into(), Bytes::new());
        self.drop_streams(turn);
    }

    /// RFC 9250 4.3.1, 4.3.2: abandons the transaction of a stream.
    fn cancel<R: Responder>(&mut self, id: StreamId, error: DoqError, turn: &mut ConnectionTurn<'_, R>) -> bool {
        // They fail if the directions have ended.
        _ = self.inner.recv_stream(id).stop(error.into());
        _ = self.inner.send_stream(id).reset(error.into());
        self.forget(id, turn);
        false
    }

    /// Ends the newest transfer, as the client has too many.
    pub(super) fn refuse_transfer<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) {
        let transfers = self.streams.iter().filter(|stream| stream.transfer().is_some());
        if let Some(id) = transfers.map(|stream| stream.id).max() {
            self.cancel(id, DoqError::ExcessiveLoad, turn);
        }
    }

    /// Forgets a stream that is over. Returns whether it ended well.
    fn forget<R: Responder>(&mut self, id: StreamId, turn: &mut ConnectionTurn<'_, R>) -> bool {
        let Some(at) = self.find(id) else { return false };
        let stream = self.streams.swap_remove(at);
        self.frame_memory.end_stream(&stream.frames);
        self.end(&stream, turn);
        matches!(stream.state, StreamState::Sent)
    }

    /// Forgets all streams, as the connection ends.
    pub(super) fn drop_streams<R: Responder>(&mut self, turn: &mut ConnectionTurn<'_, R>) {
        for stream in std::mem::take(&mut self.streams) {
            self.end(&stream, turn);
        }
    }

    fn end<R: Responder>(&self, stream: &DoqStream, turn: &mut ConnectionTurn<'_, R>) {
        if let StreamState::Late(ticket) = stream.state {
            turn.late.forget(ticket);
            turn.responder.late.forget(ticket);
        }
        if let Some(transfer) = stream.transfer() {
            turn.responder.broken_off(self.peer.ip(), transfer);
        }
    }

    //---------- State

    fn find(&self, id: StreamId) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// Its memory besides what every connection has, in octets.
    pub(super) fn memory(&self) -> usize {
        let written: usize = self.streams.iter().map(|stream| stream.accepted.unacknowledged).sum();
        let kept: usize = self.streams.iter().map(|stream| size_of::<DoqStream>() + stream.memory()).sum();
        let more_streams = if self.may_open_more() && !self.is_idle() { MORE_STREAMS_MEMORY } else { 0 };
        kept + written.min(SEND_WINDOW as usize) + more_streams + self.frame_memory.octets()
    }

    /// Whether the client may open more than the first streams.
    fn may_open_more(&self) -> bool {
        self.inner.max_concurrent_streams(Dir::Bi) > FIRST_STREAMS.into()
    }

    /// The number of transfers in progress.
    pub(super) fn transfers(&self) -> usize {
        self.streams.iter().filter(|stream| stream.transfer().is_some()).count()
    }

    /// Whether a response waits to be written or acknowledged, or comes later.
    pub(super) fn owes_response(&self) -> bool {
        self.streams.iter().any(|stream| !stream.is_query())
    }

    /// Whether the costly step of its handshake is still to come.
    pub(super) fn is_before_key_exchange(&self) -> bool {
        self.inner.is_handshaking() && self.inner.crypto_session().handshake_data().is_none()
    }

    /// Whether there are streams.
    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Whether a response comes later that is worth waiting for.
    pub(super) fn awaits_late_response<R: Responder>(&self, responder: &StreamResponder<R>) -> bool {
        let keeps_open = |stream: &DoqStream| match stream.state {
            StreamState::Late(ticket) => responder.late.keeps_open(ticket),
            _ => false,
        };
        self.streams.iter().any(keeps_open)
    }
}

/// Whether a message may be answered before the handshake is complete. It may be a copy of what another client has sent, so
/// RFC 9250 4.5 allows QUERY and NOTIFY. NOTIFY and transfers wait all the same: they start more work than an answer.
fn may_be_early(message: &[u8]) -> bool {
    let Some(&flags) = message.get(2) else { return true };
    Opcode((flags >> 3) & 15) == Opcode::QUERY && !matches!(question_type(message), Some(Rtype::AXFR | Rtype::IXFR))
}

/// The type of the first question.
fn question_type(message: &[u8]) -> Option<Rtype> {
    let end = skip_name(message, HEADER_LEN)?;
    Some(Rtype(u16::from_be_bytes(*message.get(end..)?.first_chunk()?)))
}
