//! An estimate of the memory that received frames take in `quinn-proto`, which does not report it.
//!
//! Flow control counts octets; the memory is that of frames. A frame of one octet after a gap keeps an entry, and its datagram. The
//! entries of a stream stay allocated for later streams of the connection. So a client could take megabytes with few octets.

use super::transport::STREAMS;

/// An entry has 56 octets, in a vector that doubles when it is full.
const ENTRY_LEN: usize = 2 * 56;
/// The entries that the vector has at first, which the memory of an idle connection contains.
const FIRST_ENTRIES: usize = 4;
/// The most entries of a stream, after which `quinn-proto` merges them.
const STREAM_ENTRIES: usize = 2048;
/// The longest datagram.
const DATAGRAM_LEN: usize = netio::udp_endpoint::DATAGRAM_LEN;
/// The most octets of datagrams that the entries of a stream keep, before they are copied: 32 KiB besides the data.
const STREAM_DATAGRAMS: usize = 40 << 10;
/// More CRYPTO frames than a handshake needs; a client certificate takes a few.
const HANDSHAKE_FRAMES: u64 = 16;

/// The frames of one stream.
#[derive(Default)]
pub(super) struct StreamFrames {
    /// Those that may have an entry.
    kept: usize,
    /// Those that were read in this turn.
    read: usize,
    /// The most that may have had an entry at once.
    most: usize,
}

impl StreamFrames {
    /// A frame has arrived.
    pub(super) fn arrived(&mut self) {
        self.kept += 1;
        self.most = self.most.max(self.kept);
    }

    /// An entry was read. It counts until the end of the turn: all frames of a turn arrive before any is read.
    pub(super) fn was_read(&mut self) {
        self.read += 1;
    }

    /// A turn ends. A complete query has no more entries.
    pub(super) fn end_turn(&mut self, is_complete: bool) {
        let read = std::mem::take(&mut self.read);
        self.kept = if is_complete { 0 } else { self.kept.saturating_sub(read) };
    }

    /// Entries besides the first ones that stay allocated.
    fn entries(&self) -> usize {
        self.most.saturating_sub(FIRST_ENTRIES).min(STREAM_ENTRIES)
    }

    /// The octets.
    pub(super) fn octets(&self) -> usize {
        self.entries() * ENTRY_LEN + (self.kept * DATAGRAM_LEN).min(STREAM_DATAGRAMS)
    }
}

/// What other frames of a connection may keep: CRYPTO frames, and those of streams that are over.
#[derive(Default)]
pub(super) struct FrameMemory {
    /// The entries of the streams that had the most: no more than may be open at once, whose entries later streams get.
    over: Vec<usize>,
    crypto_frames: usize,
}

impl FrameMemory {
    /// A stream is over.
    pub(super) fn end_stream(&mut self, frames: &StreamFrames) {
        let entries = frames.entries();
        if entries == 0 {
            return;
        }
        if self.over.len() < STREAMS as usize {
            self.over.push(entries);
        } else if let Some(least) = self.over.iter_mut().min() {
            *least = entries.max(*least);
        }
    }

    /// A turn ends, with all CRYPTO frames so far.
    pub(super) fn end_turn(&mut self, crypto_frames: u64) {
        self.crypto_frames = crypto_frames.saturating_sub(HANDSHAKE_FRAMES) as usize;
    }

    /// The octets.
    pub(super) fn octets(&self) -> usize {
        let entries = self.over.iter().sum::<usize>() + self.crypto_frames.min(STREAM_ENTRIES);
        entries * ENTRY_LEN + self.crypto_frames.saturating_mul(DATAGRAM_LEN).min(STREAM_DATAGRAMS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(frames: usize, read: usize) -> StreamFrames {
        let mut stream = StreamFrames::default();
        (0..frames).for_each(|_| stream.arrived());
        (0..read).for_each(|_| stream.was_read());
        stream.end_turn(false);
        stream
    }

    #[test]
    fn frames_that_are_read_take_nothing_and_others_their_datagrams() {
        assert_eq!(stream(1, 1).octets(), 0);
        assert_eq!(stream(4, 1).octets(), 3 * DATAGRAM_LEN);
        assert_eq!(stream(10, 10).octets(), 6 * ENTRY_LEN, "all of them arrived before they were read");
        assert_eq!(stream(100_000, 0).octets(), STREAM_ENTRIES * ENTRY_LEN + STREAM_DATAGRAMS);
        let mut complete = stream(10, 3);
        complete.end_turn(true);
        assert_eq!(complete.octets(), 6 * ENTRY_LEN);
    }

    #[test]
    fn the_entries_of_streams_that_are_over_stay() {
        let mut memory = FrameMemory::default();
        (0..1000).for_each(|_| memory.end_stream(&stream(4, 0)));
        assert_eq!(memory.octets(), 0);
        (0..1000).for_each(|_| memory.end_stream(&stream(6, 0)));
        assert_eq!(memory.octets(), STREAMS as usize * 2 * ENTRY_LEN, "later streams use them again");
        (0..3).for_each(|_| memory.end_stream(&stream(3000, 0)));
        assert_eq!(memory.octets(), ((STREAMS as usize - 3) * 2 + 3 * STREAM_ENTRIES) * ENTRY_LEN);
        memory.end_stream(&stream(5, 0));
        assert_eq!(memory.octets(), ((STREAMS as usize - 3) * 2 + 3 * STREAM_ENTRIES) * ENTRY_LEN);
    }

    #[test]
    fn crypto_frames_after_the_handshake_are_counted() {
        let mut memory = FrameMemory::default();
        memory.end_turn(HANDSHAKE_FRAMES);
        assert_eq!(memory.octets(), 0);
        memory.end_turn(26);
        assert_eq!(memory.octets(), 10 * (ENTRY_LEN + DATAGRAM_LEN));
        memory.end_turn(1 << 40);
        assert_eq!(memory.octets(), STREAM_ENTRIES * ENTRY_LEN + STREAM_DATAGRAMS);
    }
}
