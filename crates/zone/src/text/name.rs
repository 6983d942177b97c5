//! Names in zone text, the fast way. For the parser and for RDATA.

use wire::name::{NameError, parse_text};
use wire::{MAX_LABEL_LEN, MAX_NAME_LEN, NameRef};

/// Appends the wire form of the text name to `out`; on an error `out` stays as it was.
///
/// `@` alone is the origin; a name without a final dot is completed by it (RFC 1035 5.1).
pub fn append(text: &[u8], origin: NameRef<'_>, out: &mut Vec<u8>) -> Result<(), NameError> {
    let start = out.len();
    if append_plain(text, origin, out).is_some() {
        return Ok(());
    }
    out.truncate(start);
    let mut wire = [0; MAX_NAME_LEN];
    let len = parse_text(text, Some(origin), &mut wire)?;
    out.extend_from_slice(&wire[..len]);
    Ok(())
}

/// The same for names without escapes; `None` for these, for `@` and the root, and for mistakes.
///
/// The wire form is the text moved by one octet, with the lengths of the labels in place of the dots.
fn append_plain(text: &[u8], origin: NameRef<'_>, out: &mut Vec<u8>) -> Option<()> {
    if text.is_empty() || text.len() >= MAX_NAME_LEN || text == b"@" {
        return None;
    }
    let start = out.len();
    out.push(0);
    out.extend_from_slice(text);
    let wire = &mut out[start..];
    let mut label = 0;
    for at in 1..wire.len() {
        match wire[at] {
            b'.' => {
                wire[label] = label_len(label, at)?;
                label = at;
            }
            b'\\' => return None,
            _ => {}
        }
    }
    if label + 1 == wire.len() {
        wire[label] = 0;
    } else {
        wire[label] = label_len(label, wire.len())?;
        out.extend_from_slice(origin.wire());
    }
    (out.len() - start <= MAX_NAME_LEN).then_some(())
}

/// The length octet of the label whose length octet is at `start` and whose end is `end`.
fn label_len(start: usize, end: usize) -> Option<u8> {
    let len = end - start - 1;
    (1..=MAX_LABEL_LEN).contains(&len).then_some(len as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::Name;

    proptest! {
        /// RFC 1035 5.1: the fast way and the careful way are one.
        #[test]
        fn agrees_with_the_careful_way(text in "([a@.*\\\\1]{0,8}|[ab.]{240,270}|a{60,66}(\\.|))") {
            let origin = Name::from_text(b"example.", None).expect("a name");
            let mut out = b"before".to_vec();
            let result = append(text.as_bytes(), origin.as_ref(), &mut out);
            match Name::from_text(text.as_bytes(), Some(origin.as_ref())) {
                Ok(name) => {
                    prop_assert_eq!(result, Ok(()));
                    prop_assert_eq!(&out[6..], name.wire());
                }
                Err(error) => {
                    prop_assert_eq!(result, Err(error));
                    prop_assert_eq!(out, b"before");
                }
            }
        }
    }
}
