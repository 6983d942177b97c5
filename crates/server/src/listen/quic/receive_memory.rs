//! An estimate of the memory that received frames take in `quinn-proto`, which does not report it.
//!
//! Flow control counts octets; the memory is that of frames. A frame of one octet after a gap keeps an entry, and its datagram. The
//! entries of a stream stay allocated for later streams of the connection. So a client could take megabytes with few octets.

use super::transport::STREAMS;

/// An entry has 56 octets, in a vector that doubles when it is full.
const ENTRY_LEN: usize = 2 * 56;
/// The most entries of a stream, after which `quinn-proto` merges them.
const STREAM_ENTRIES: usize = 2048;
/// The longest datagram.
const DATAGRAM_LEN: usize = netio::udp_endpoint::DATAGRAM_LEN;
/// The most octets of datagrams that the entries of a stream keep, before they are copied: 32 KiB besides the data.
const STREAM_DATAGRAMS: usize = 40 << 10;
/// Frames of a query: its octets, and the end of its stream.
const QUERY_FRAMES: usize = 2;
/// More CRYPTO frames than a handshake needs; a client certificate takes a few.
const HANDSHAKE_FRAMES: u64 = 16;

/// What the frames of a connection may keep.
#[derive(Default)]
pub(super) struct ReceiveMemory {
    /// The frames at the end of the last turn.
    frames: u64,
    has_crypto: bool,
    /// Frames that were more than the queries needed, since the connection began.
    entries: usize,
    /// Of these, those since all queries were complete.
    unread: usize,
}

impl ReceiveMemory {
    /// A turn ends: with all STREAM and CRYPTO frames so far, the queries that became complete in it, and those that are not
    /// complete.
    pub(super) fn end_turn(&mut self, stream_frames: u64, crypto_frames: u64, complete: usize, incomplete: usize) {
        let frames = stream_frames + crypto_frames.saturating_sub(HANDSHAKE_FRAMES);
        let new = (frames - self.frames) as usize;
        let excess = new.saturating_sub(complete * QUERY_FRAMES);
        self.frames = frames;
        self.has_crypto = crypto_frames > HANDSHAKE_FRAMES;
        self.entries = (self.entries + excess).min((STREAMS as usize + 1) * STREAM_ENTRIES);
        self.unread = if incomplete == 0 && !self.has_crypto { 0 } else { self.unread + excess };
    }

    /// The octets, with this many incomplete queries.
    pub(super) fn octets(&self, incomplete: usize) -> usize {
        let streams = incomplete + usize::from(self.has_crypto);
        self.entries * ENTRY_LEN + self.unread.saturating_mul(DATAGRAM_LEN).min(streams * STREAM_DATAGRAMS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_take_nothing_and_other_frames_are_counted() {
        let mut memory = ReceiveMemory::default();
        memory.end_turn(20, 4, 10, 0);
        assert_eq!(memory.octets(0), 0);
        memory.end_turn(25, 4, 1, 1);
        assert_eq!(memory.octets(1), 3 * (ENTRY_LEN + DATAGRAM_LEN));
        // Their datagrams are released, their entries are not.
        memory.end_turn(26, 4, 1, 0);
        assert_eq!(memory.octets(0), 3 * ENTRY_LEN);
        memory.end_turn(26, 26, 0, 0);
        assert_eq!(memory.octets(0), 13 * ENTRY_LEN + 10 * DATAGRAM_LEN);
        memory.end_turn(1 << 40, 26, 0, 100);
        assert_eq!(memory.octets(100), 101 * (STREAM_ENTRIES * ENTRY_LEN + STREAM_DATAGRAMS));
    }
}
