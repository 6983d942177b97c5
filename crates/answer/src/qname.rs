//! The name being looked up: that of the question, then the targets of its CNAME chain.

use wire::message::CompressedLabels;
use wire::{MAX_LABEL_LEN, MAX_NAME_LEN};
use zone::canonical_key::CanonicalKey;

/// A name in lower case, with the offsets of its labels in itself and in the message, and its key.
pub(crate) struct Qname {
    /// 0 while no name is read.
    len: usize,
    labels: usize,
    /// The label count of the apex below which `key` is set; [`NO_KEY`] if there is no such key.
    key_apex_labels: usize,
    wire: [u8; WIRE_CAPACITY],
    /// Where each label starts in `wire`; one more entry is the root label.
    starts: [u8; MAX_LABELS + 1],
    /// Where each label starts in the message; one more entry is the root label.
    offsets: [u16; MAX_LABELS + 1],
    key: CanonicalKey,
}

const NO_KEY: usize = usize::MAX;

/// Names are lower-cased in chunks of this many octets, without a loop over the odd octets at the end.
const LOWERCASE_CHUNK: usize = 16;
const WIRE_CAPACITY: usize = MAX_NAME_LEN.next_multiple_of(LOWERCASE_CHUNK);
/// 255 octets hold 127 labels of one octet, and the root label.
const MAX_LABELS: usize = 127;

impl Default for Qname {
    fn default() -> Qname {
        Qname::new()
    }
}

impl Qname {
    pub(crate) fn new() -> Qname {
        Qname {
            len: 0,
            labels: 0,
            key_apex_labels: NO_KEY,
            wire: [0; _],
            starts: [0; _],
            offsets: [0; _],
            key: CanonicalKey::new(),
        }
    }

    /// Reads the uncompressed name at `start` of `message`, that of a question. Returns where it ends; `None` if malformed.
    #[inline]
    pub(crate) fn read_question(&mut self, message: &[u8], start: usize) -> Option<usize> {
        // By hand, as every query comes here: `wire::name::Labels` would have to be walked twice.
        let (mut at, mut labels) = (start, 0);
        (self.len, self.key_apex_labels) = (0, NO_KEY);
        loop {
            let len = *message.get(at)? as usize;
            self.starts[labels] = (at - start) as u8;
            self.offsets[labels] = at as u16;
            at += 1 + len;
            if len == 0 {
                break;
            }
            if len > MAX_LABEL_LEN || at - start >= MAX_NAME_LEN {
                return None;
            }
            labels += 1;
        }
        self.labels = labels;
        self.len = at - start;
        self.wire[..self.len].copy_from_slice(&message[start..at]);
        self.lowercase();
        Some(at)
    }

    /// Reads the name at `at` of a message that this server writes, following pointers.
    pub(crate) fn read_compressed(&mut self, message: &[u8], at: usize) -> Option<()> {
        let (mut len, mut labels) = (0, 0);
        for (count, label) in CompressedLabels::new(message, at).enumerate() {
            let (offset, octets) = label.ok()?;
            self.wire[..MAX_NAME_LEN].get_mut(len..len + octets.len())?.copy_from_slice(octets);
            self.starts[count] = len as u8;
            self.offsets[count] = offset.min(usize::from(u16::MAX)) as u16;
            (labels, len) = (count, len + octets.len());
        }
        (self.labels, self.len, self.key_apex_labels) = (labels, len, NO_KEY);
        self.lowercase();
        Some(())
    }

    /// Lower-cases the name, and what follows it up to the end of a chunk, which is never read. Length octets are at most 63, so they
    /// stay the same.
    #[inline]
    fn lowercase(&mut self) {
        let end = self.len.next_multiple_of(LOWERCASE_CHUNK);
        let (chunks, _) = self.wire[..end].as_chunks_mut::<LOWERCASE_CHUNK>();
        chunks.iter_mut().for_each(|chunk| chunk.make_ascii_lowercase());
    }

    /// The wire form in lower case.
    #[inline]
    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire[..self.len]
    }

    /// The label count, without the root label.
    #[inline]
    pub(crate) fn labels(&self) -> usize {
        self.labels
    }

    /// The last `labels` labels, in wire form.
    #[inline]
    pub(crate) fn suffix(&self, labels: usize) -> &[u8] {
        &self.wire[self.starts[self.labels - labels] as usize..self.len]
    }

    /// Sets the key to that of this name below an apex of `apex_labels` labels.
    #[inline]
    pub(crate) fn set_key(&mut self, apex_labels: usize) {
        if self.key_apex_labels == apex_labels {
            return;
        }
        self.key_apex_labels = apex_labels;
        self.key.truncate(0);
        for label in (0..self.labels - apex_labels).rev() {
            let (start, end) = (self.starts[label] as usize + 1, self.starts[label + 1] as usize);
            self.key.push_lowercase_label(&self.wire[start..end]);
        }
    }

    /// Sets the key to that of the wildcard below an ancestor whose key has `encloser_len` octets.
    pub(crate) fn set_wildcard_key(&mut self, encloser_len: usize) {
        self.key_apex_labels = NO_KEY;
        self.key.truncate(encloser_len);
        self.key.push_label(b"*");
    }

    /// The key that was set last.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    /// Where the message has the last `labels` labels; no pointer reaches offsets over [`MAX_POINTER`].
    #[inline]
    pub(crate) fn offset(&self, labels: usize) -> usize {
        self.offsets[self.labels - labels] as usize
    }
}
