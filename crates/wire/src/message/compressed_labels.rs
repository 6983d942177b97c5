//! Names in messages, with their compression pointers followed (RFC 1035 4.1.4).

use super::MessageError;
use crate::name::labels_end;
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
            self.follow(len)?;
        }
    }

    /// The labels up to the next pointer, or the last ones with the root label.
    #[inline]
    fn next_part(&mut self) -> Result<&'m [u8], MessageError> {
        loop {
            let (start, end) = (self.at, labels_end(self.message, self.at));
            let len = *self.message.get(end).ok_or(MessageError::Short)?;
            (self.at, self.is_done) = (end + usize::from(len == 0), len == 0);
            if self.at > start {
                return Ok(&self.message[start..self.at]);
            }
            self.follow(len.into())?;
        }
    }

    /// Follows the pointer at the current offset, whose first octet is `high`.
    #[inline]
    fn follow(&mut self, high: usize) -> Result<(), MessageError> {
        if high < 0xc0 {
            return Err(MessageError::LabelType);
        }
        let low = *self.message.get(self.at + 1).ok_or(MessageError::Short)?;
        self.end.get_or_insert(self.at + 2);
        self.at = (high & 0x3f) << 8 | usize::from(low);
        self.pointers += 1;
        if !(HEADER_LEN..self.limit).contains(&self.at) || self.pointers > MAX_POINTERS {
            return Err(MessageError::Pointer);
        }
        self.limit = self.at;
        Ok(())
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
    while !labels.is_done {
        let part = labels.next_part()?;
        out.get_mut(len..len + part.len()).ok_or(MessageError::LongName)?.copy_from_slice(part);
        len += part.len();
    }
    Ok((len, labels.end()))
}

/// Appends the decompressed name at `start` to `out`; returns where it ends in its field.
#[inline]
pub fn append_name(message: &[u8], start: usize, out: &mut Vec<u8>) -> Result<usize, MessageError> {
    let (mut labels, max_len) = (CompressedLabels::new(message, start), out.len() + MAX_NAME_LEN);
    while !labels.is_done {
        let part = labels.next_part()?;
        if out.len() + part.len() > max_len {
            return Err(MessageError::LongName);
        }
        out.extend_from_slice(part);
    }
    Ok(labels.end())
}
