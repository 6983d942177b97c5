//! The octets of an active connection that wait to be answered or sent.

use std::io;

/// A queue of octets, consumed from the front.
#[derive(Default)]
pub(super) struct Buffer {
    octets: Vec<u8>,
    start: usize,
}

impl From<&[u8]> for Buffer {
    fn from(octets: &[u8]) -> Buffer {
        Buffer { octets: octets.to_vec(), start: 0 }
    }
}

impl Buffer {
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.octets().is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        self.octets.capacity()
    }

    /// Removes `len` octets from the front. When half are gone, the rest moves to a smaller allocation; in total that copies each
    /// octet at most once.
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
        if self.start * 2 >= self.octets.len() {
            *self = Buffer::from(self.octets());
        }
    }

    pub(super) fn extend(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    /// Appends what `receive` reads, at most `room` octets.
    pub(super) fn fill(
        &mut self,
        room: usize,
        receive: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<()> {
        let len = self.octets.len();
        self.octets.resize(len + room, 0);
        let received = receive(&mut self.octets[len..]);
        self.octets.truncate(len + received.as_ref().map_or(0, |received| received.unwrap_or(0)));
        received.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consuming_a_buffer_copies_each_octet_at_most_once() {
        let all: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let mut buffer = Buffer::from(&all[..]);
        let (mut copied, mut taken) = (0, 0);
        while !buffer.is_empty() {
            assert_eq!(buffer.octets(), &all[taken..]);
            let before = buffer.octets.as_ptr();
            buffer.consume(1000);
            taken += 1000;
            if buffer.octets.as_ptr() != before {
                copied += buffer.octets.len();
            }
            assert!(buffer.memory() <= 2 * (all.len() - taken), "{} for {}", buffer.memory(), all.len() - taken);
        }
        assert!(copied <= all.len(), "{copied}");
    }
}
