//! The text form of names (RFC 1035 5.1): reading and writing.

use std::fmt;

use super::{NameError, NameRef};
use crate::{MAX_LABEL_LEN, MAX_NAME_LEN};

/// Writes the wire form of a name in text form into `out` and returns its length.
///
/// The origin completes names without a final dot, and `@` stands for it (RFC 1035 5.1).
pub fn parse_text(text: &[u8], origin: Option<NameRef<'_>>, out: &mut [u8; MAX_NAME_LEN]) -> Result<usize, NameError> {
    if text == b"." {
        out[0] = 0;
        return Ok(1);
    }
    let mut wire = TextName { out, start: 0, at: 1 };
    let mut bytes = text.iter().copied();
    if text != b"@" {
        while let Some(byte) = bytes.next() {
            match byte {
                b'.' => wire.end_label()?,
                b'\\' => wire.push(unescape(&mut bytes)?)?,
                _ => wire.push(byte)?,
            }
        }
        if wire.is_between_labels() && !text.is_empty() {
            return wire.finish(NameRef::ROOT);
        }
        wire.end_label()?;
    }
    wire.finish(origin.ok_or(NameError::Relative)?)
}

/// Decodes an escape after its backslash: `X` or `DDD` (RFC 1035 5.1).
pub fn unescape(bytes: &mut impl Iterator<Item = u8>) -> Result<u8, NameError> {
    let first = bytes.next().ok_or(NameError::BadEscape)?;
    if !first.is_ascii_digit() {
        return Ok(first);
    }
    let mut value = u32::from(first - b'0');
    for _ in 0..2 {
        match bytes.next() {
            Some(digit @ b'0'..=b'9') => value = value * 10 + u32::from(digit - b'0'),
            _ => return Err(NameError::BadEscape),
        }
    }
    u8::try_from(value).map_err(|_| NameError::BadEscape)
}

/// A name being written: the current label starts at `start`, and its next octet goes to `at`.
struct TextName<'o> {
    out: &'o mut [u8; MAX_NAME_LEN],
    start: usize,
    at: usize,
}

impl TextName<'_> {
    fn push(&mut self, byte: u8) -> Result<(), NameError> {
        if self.at - self.start > MAX_LABEL_LEN {
            return Err(NameError::LongLabel);
        }
        // One octet is reserved for the root label.
        if self.at + 1 >= MAX_NAME_LEN {
            return Err(NameError::LongName);
        }
        self.out[self.at] = byte;
        self.at += 1;
        Ok(())
    }

    fn end_label(&mut self) -> Result<(), NameError> {
        if self.is_between_labels() {
            return Err(NameError::EmptyLabel);
        }
        self.out[self.start] = (self.at - self.start - 1) as u8;
        self.start = self.at;
        self.at += 1;
        Ok(())
    }

    fn is_between_labels(&self) -> bool {
        self.at == self.start + 1
    }

    fn finish(self, origin: NameRef<'_>) -> Result<usize, NameError> {
        let end = self.start + origin.wire().len();
        self.out.get_mut(self.start..end).ok_or(NameError::LongName)?.copy_from_slice(origin.wire());
        Ok(end)
    }
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str(".");
        }
        if self.labels().all(|label| label.iter().copied().all(is_plain)) {
            return self.fmt_plain(f);
        }
        for label in self.labels() {
            for part in label.chunk_by(|a, b| is_plain(*a) && is_plain(*b)) {
                match (std::str::from_utf8(part), part) {
                    (Ok(text), [first, ..]) if is_plain(*first) => f.write_str(text)?,
                    (_, [byte @ 0x21..=0x7e, ..]) => write!(f, "\\{}", *byte as char)?,
                    (_, [byte, ..]) => write!(f, "\\{byte:03}")?,
                    (_, []) => (),
                }
            }
            f.write_str(".")?;
        }
        Ok(())
    }
}

impl NameRef<'_> {
    /// Writes a name of plain characters at once: a dot replaces the length of each label but the first, and the root label.
    fn fmt_plain(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; MAX_NAME_LEN];
        let text = &mut buffer[..self.0.len() - 1];
        text.copy_from_slice(&self.0[1..]);
        let mut end = 0;
        for label in self.labels() {
            text[end + label.len()] = b'.';
            end += label.len() + 1;
        }
        f.write_str(std::str::from_utf8(text).expect("plain characters are ASCII"))
    }
}

/// Whether a character is written as itself in the text form (RFC 1035 5.1).
fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !matches!(byte, b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    fn name(text: &str) -> Name {
        text.parse().expect("a good name")
    }

    #[test]
    fn text_round_trips() {
        for text in [".", "a.", "www.example.com.", "a\\.b.c.", "\\000\\255.x.", "*.a.", "\\@.x."] {
            assert_eq!(name(text).to_string(), text);
        }
    }

    #[test]
    fn relative_names_take_the_origin() {
        let origin = name("example.com.");
        for (text, full) in
            [("www", "www.example.com."), ("@", "example.com."), ("a.", "a."), ("a.b", "a.b.example.com.")]
        {
            assert_eq!(Name::from_text(text.as_bytes(), Some(origin.as_ref())), Ok(name(full)));
        }
        assert_eq!(Name::from_text(b"www", None), Err(NameError::Relative));
    }

    #[test]
    fn bad_text_is_refused() {
        let label = "a".repeat(64);
        let long = format!("{}.{}.{}.{}.", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(62));
        for (text, error) in [
            (label.as_str(), NameError::LongLabel),
            (long.as_str(), NameError::LongName),
            ("a..b.", NameError::EmptyLabel),
            (".a.", NameError::EmptyLabel),
            ("..", NameError::EmptyLabel),
            ("", NameError::EmptyLabel),
            ("a\\", NameError::BadEscape),
            ("a\\25x", NameError::BadEscape),
            ("a\\256", NameError::BadEscape),
        ] {
            assert_eq!(text.parse::<Name>(), Err(error), "{text}");
        }
        let longest = format!("{}.{}.{}.{}.", "a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61));
        assert_eq!(name(&longest).wire().len(), MAX_NAME_LEN);
    }
}
