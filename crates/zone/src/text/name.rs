//! Domain names in zone text; fast for names without escapes.

use wire::name::{NameError, parse_text};
use wire::{MAX_LABEL_LEN, MAX_NAME_LEN, NameRef};

/// Appends the wire form of a name to `out`; on an error `out` is unchanged.
///
/// `@` alone is the origin; a name without a final dot is completed with it (RFC 1035 5.1).
pub(super) fn append(text: &[u8], origin: NameRef<'_>, out: &mut Vec<u8>) -> Result<(), NameError> {
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

/// The same for names without escapes; `None` for other names, `@`, the root, and on errors.
///
/// The wire form is the text shifted by one octet, with label lengths in place of the dots.
fn append_plain(text: &[u8], origin: NameRef<'_>, out: &mut Vec<u8>) -> Option<()> {
    if text.is_empty() || text.len() >= MAX_NAME_LEN || text == b"@" {
        return None;
    }
    let start = out.len();
    out.push(0);
    out.extend_from_slice(text);
    let wire = &mut out[start..];
    let mut label = 0;
    let mut end_label = |at: usize| {
        wire[label] = label_len(label, at)?;
        label = at;
        Some(())
    };
    let (eights, rest) = text.as_chunks();
    for (number, eight) in eights.iter().enumerate() {
        if positions(eight, b'\\') != 0 {
            return None;
        }
        let mut dots = positions(eight, b'.');
        while dots != 0 {
            end_label(number * 8 + dots.trailing_zeros() as usize / 8 + 1)?;
            dots &= dots - 1;
        }
    }
    for (number, byte) in rest.iter().enumerate() {
        match byte {
            b'\\' => return None,
            b'.' => end_label(eights.len() * 8 + number + 1)?,
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

/// The positions of `byte` among the eight, as the top bits of the octets of the result.
fn positions(eight: &[u8; 8], byte: u8) -> u64 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let zero_where_equal = u64::from_le_bytes(*eight) ^ u64::from_le_bytes([byte; 8]);
    !((zero_where_equal & LOW_BITS).wrapping_add(LOW_BITS) | zero_where_equal | LOW_BITS)
}

/// The length octet, at `start`, of the label that ends at `end`.
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
        /// RFC 1035 5.1: agrees with the general parser.
        #[test]
        fn agrees_with_the_general_parser(text in "([a@.*\\\\1]{0,8}|[ab.]{240,270}|a{60,66}(\\.|))") {
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
