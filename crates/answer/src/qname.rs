//! The name that is being looked up: first that of the question, then what its aliases lead to.

use wire::{MAX_LABEL_LEN, MAX_NAME_LEN};
use zone::rrset::MAX_POINTER;

/// A name in lower case, with the places of its labels in itself and in the message where it stands.
pub(crate) struct Qname {
    wire: [u8; MAX_NAME_LEN],
    len: usize,
    labels: usize,
    /// Where each label starts in `wire`; one more entry is the root label.
    starts: [u8; MAX_LABELS + 1],
    /// Where each label starts in the message; one more entry is the root label.
    offsets: [u16; MAX_LABELS + 1],
}

/// Labels of one octet each in 255 octets, less the root label.
const MAX_LABELS: usize = 127;
/// A name that is written without loops has fewer pointers than labels.
const MAX_POINTERS: usize = MAX_LABELS;

impl Qname {
    pub(crate) fn new() -> Qname {
        Qname { wire: [0; MAX_NAME_LEN], len: 1, labels: 0, starts: [0; 128], offsets: [0; 128] }
    }

    /// Reads the name at `at` of `message`, which follows no pointers: that of a question.
    /// Returns where it ends, or `None` where it is no such name.
    #[inline]
    pub(crate) fn read_question(&mut self, message: &[u8], start: usize) -> Option<usize> {
        let (mut at, mut labels) = (start, 0);
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
        let wire = &mut self.wire[..self.len];
        wire.copy_from_slice(&message[start..at]);
        // Length octets are at most 63, so lower-casing leaves them alone.
        wire.make_ascii_lowercase();
        Some(at)
    }

    /// Reads the name at `at` of a message that this server has written, following its pointers.
    pub(crate) fn read_written(&mut self, message: &[u8], at: usize) -> Option<()> {
        let (mut at, mut len, mut labels, mut pointers) = (at, 0, 0, 0);
        loop {
            let octet = *message.get(at)? as usize;
            if octet & 0xc0 != 0 {
                pointers += 1;
                if pointers > MAX_POINTERS {
                    return None;
                }
                at = (octet << 8 | *message.get(at + 1)? as usize) & MAX_POINTER;
                continue;
            }
            if len + 1 + octet > MAX_NAME_LEN || labels > MAX_LABELS {
                return None;
            }
            self.starts[labels] = len as u8;
            self.offsets[labels] = at.min(usize::from(u16::MAX)) as u16;
            self.wire[len..len + 1 + octet].copy_from_slice(message.get(at..at + 1 + octet)?);
            len += 1 + octet;
            at += 1 + octet;
            if octet == 0 {
                break;
            }
            labels += 1;
        }
        self.labels = labels;
        self.len = len;
        self.wire[..len].make_ascii_lowercase();
        Some(())
    }

    /// The wire form in lower case.
    #[inline]
    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire[..self.len]
    }

    /// How many labels it has, without the root label.
    #[inline]
    pub(crate) fn labels(&self) -> usize {
        self.labels
    }

    /// The last `labels` labels of it, in wire form.
    #[inline]
    pub(crate) fn suffix(&self, labels: usize) -> &[u8] {
        &self.wire[self.starts[self.labels - labels] as usize..self.len]
    }

    /// Where in the message its last `labels` labels stand; too far for a pointer if over [`MAX_POINTER`].
    #[inline]
    pub(crate) fn offset(&self, labels: usize) -> usize {
        self.offsets[self.labels - labels] as usize
    }
}
