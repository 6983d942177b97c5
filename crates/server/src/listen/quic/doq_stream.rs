//! A stream of a connection: how far its query and its response have got, and the memory that they take.

use std::time::Instant;

use quinn_proto::StreamId;

use super::super::buffer::Buffer;
use super::super::outgoing_transfer::OutgoingTransfer;
use super::frame_memory::StreamFrames;
use super::query_stream::QueryStream;

/// What `quinn-proto` keeps besides the octets for each piece of a response until it is acknowledged, in octets: an entry in a queue that
/// doubles, and an allocation.
const PIECE_MEMORY: usize = 96;
/// Octets of a response above which a piece counts for nothing besides them.
const PIECE_LEN: usize = 1024;
/// A client whose flow control lets less pass at a time, on average, is refused: `quinn-proto` walks over all pieces of a stream for each that
/// it sends. Other clients grant at least an eighth of a window of many KiB.
const PIECE_MIN: usize = 64;
/// Pieces of a stream that may be shorter.
const FREE_PIECES: usize = 64;

/// One stream.
pub(super) struct DoqStream {
    pub(super) id: StreamId,
    pub(super) state: StreamState,
    /// When it was opened.
    pub(super) begin: Instant,
    /// What the connection has accepted of its response.
    pub(super) accepted: AcceptedOctets,
    /// What arrived of its query.
    pub(super) frames: StreamFrames,
}

/// How far its query or response has got.
pub(super) enum StreamState {
    /// The query is not complete.
    Query(QueryStream),
    /// A query that waits for the end of the handshake, or for the next turn.
    Delayed(Vec<u8>),
    /// The response comes later; its ticket.
    Late(u32),
    /// Octets that the connection has not accepted yet, and the transfer that follows them.
    Response(Buffer, Option<Box<OutgoingTransfer>>),
    /// Everything is written.
    Sent,
}

/// Octets of a response that the connection has accepted.
#[derive(Default)]
pub(super) struct AcceptedOctets {
    /// Those that may not be acknowledged.
    pub(super) unacknowledged: usize,
    /// In how many pieces they were accepted.
    pieces: usize,
}

impl AcceptedOctets {
    /// The connection has accepted a piece of this length, or nothing.
    pub(super) fn add(&mut self, octets: usize) {
        self.unacknowledged += octets;
        self.pieces += usize::from(octets > 0);
    }

    /// Whether there are more pieces than a client may cause.
    fn has_many_pieces(&self) -> bool {
        self.pieces > FREE_PIECES + self.unacknowledged / PIECE_MIN
    }

    /// The memory that the pieces take besides the octets.
    fn memory(&self) -> usize {
        self.pieces.saturating_sub(self.unacknowledged / PIECE_LEN) * PIECE_MEMORY
    }
}

impl DoqStream {
    /// A stream that was opened at `begin`, with its first frame, which no event reports.
    pub(super) fn new(id: StreamId, begin: Instant) -> DoqStream {
        let mut frames = StreamFrames::default();
        frames.arrived();
        let state = StreamState::Query(QueryStream::default());
        DoqStream { id, state, begin, accepted: AcceptedOctets::default(), frames }
    }

    /// Whether its query is not complete.
    pub(super) fn is_query(&self) -> bool {
        matches!(self.state, StreamState::Query(_))
    }

    /// Whether its response was accepted in more pieces than a client may cause.
    pub(super) fn has_many_pieces(&self) -> bool {
        self.accepted.has_many_pieces()
    }

    /// The transfer in progress.
    pub(super) fn transfer(&self) -> Option<&OutgoingTransfer> {
        match &self.state {
            StreamState::Response(_, transfer) => transfer.as_deref(),
            _ => None,
        }
    }

    /// What it takes besides itself and the octets that are not acknowledged.
    pub(super) fn memory(&self) -> usize {
        let waiting = match &self.state {
            StreamState::Query(query) => query.memory(),
            StreamState::Delayed(query) => query.capacity(),
            StreamState::Response(output, _) => output.memory(),
            StreamState::Late(_) | StreamState::Sent => 0,
        };
        waiting + self.frames.octets() + self.accepted.memory()
    }
}
