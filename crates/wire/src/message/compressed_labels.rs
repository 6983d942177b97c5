//! Names in messages, with their compression pointers followed (RFC 1035 4.1.4).

use super::MessageError;
use crate::{HEADER_LEN, MAX_LABEL_LEN, MAX_NAME_LEN};

/// The most pointers followed in one name: it has at most 127 labels, and a pointer to a pointer saves nothing.
pub(super) const MAX_POINTERS: u8 = 127;

/// The labels of a name in a message up to the root label: the offset of each, and its octets with the length octet.
///
/// Each pointer must point before all earlier parts of the name, and there are at most 127, so the iteration ends.
#[derive(Clone, Debug)]
pub struct CompressedLabels<'m> {
    message: &'m [u8],
    at: usize,
    /// Pointers must point before this offset.
    limit: usize,
    pointers: u8,
    /// Where the name ends in the field that it starts in, once that is known.
    end: Option<usize>,
    is_done: bool,
}

impl<'m> CompressedLabels<'m> {
    /// The labels of the name at `start`.
    #[inline]
    pub fn new(message: &'m [u8], start: usize) -> CompressedLabels<'m> {
        CompressedLabels { message, at: start, limit: start, pointers: 0, end: None, is_done: false }
    }

    /// Where the name ends in its field, after the root label or the first pointer. Call it after the last label.
    #[inline]
    pub fn end(&self) -> usize {
        self.end.unwrap_or(self.at)
    }

    #[inline]
    fn next_label(&mut self) -> Result<(usize, &'m [u8]), MessageError> {
        loop {
            let at = self.at;
            let len = usize::from(*self.message.get(at).ok_or(MessageError::Short)?);
            if len <= MAX_LABEL_LEN {
                self.at = at + 1 + len;
                self.is_done = len == 0;
                return Ok((at, self.message.get(at..self.at).ok_or(MessageError::Short)?));
            }
            if len < 0xc0 {
                return Err(MessageError::LabelType);
            }
            self.at = (len & 0x3f) << 8 | usize::from(*self.message.get(at + 1).ok_or(MessageError::Short)?);
            self.pointers += 1;
            if !(HEADER_LEN..self.limit).contains(&self.at) || self.pointers > MAX_POINTERS {
                return Err(MessageError::Pointer);
            }
            self.limit = self.at;
            self.end.get_or_insert(at + 2);
        }
    }
}

impl<'m> Iterator for CompressedLabels<'m> {
    type Item = Result<(usize, &'m [u8]), MessageError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let label = self.next_label();
        self.is_done |= label.is_err();
        Some(label)
    }
}

/// Decompresses the name at `start` into `out`; returns its length and where it ends in its field.
#[inline]
pub fn read_name(message: &[u8], start: usize, out: &mut [u8; MAX_NAME_LEN]) -> Result<(usize, usize), MessageError> {
    let (mut labels, mut len) = (CompressedLabels::new(message, start), 0);
    for label in &mut labels {
        let (_, octets) = label?;
        out.get_mut(len..len + octets.len()).ok_or(MessageError::LongName)?.copy_from_slice(octets);
        len += octets.len();
    }
    Ok((len, labels.end()))
}
