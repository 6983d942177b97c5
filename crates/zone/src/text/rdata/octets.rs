//! Octets in hexadecimal, base64 (RFC 4648 4) and base32hex (RFC 4648 7), by the `data-encoding` library.

use std::borrow::Cow;
use std::sync::LazyLock;

use data_encoding::{BASE32_DNSSEC, BASE32HEX_NOPAD, BASE64, DecodeError, DecodeKind, Encoding};
use data_encoding::{HEXLOWER_PERMISSIVE, HEXUPPER};

use super::FieldResult;
use super::fields::RdataFields;

const HEX_HELP: &str = "write an even number of digits from 0 to 9 and A to F";
const BASE64_HELP: &str = "base64 consists of groups of four characters, the last one padded with = (RFC 4648)";

/// Takes all remaining fields as one text: blanks may be anywhere in it.
fn joined<'i>(input: &mut RdataFields<'i>) -> FieldResult<Cow<'i, [u8]>> {
    let mut text = Cow::Borrowed(input.word()?);
    while !input.is_at_end() {
        text.to_mut().extend_from_slice(input.word()?);
    }
    Ok(text)
}

/// Goes back to after the field that has the octet at `position` of the joined text, which starts with the field `first`.
#[cold]
fn rewind_to(mut position: usize, first: usize, input: &mut RdataFields<'_>) {
    input.rewind(first);
    while let Ok(text) = input.string()
        && position >= text.len()
        && !input.is_at_end()
    {
        position -= text.len();
    }
}

/// Appends the octets of `text`; on an error `out` is unchanged.
fn decode(encoding: &Encoding, text: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let start = out.len();
    out.resize(start + encoding.decode_len(text.len())?, 0);
    let result = encoding.decode_mut(text, &mut out[start..]);
    out.truncate(start + result.as_ref().map_or(0, |len| *len));
    result.map(|_| ()).map_err(|partial| partial.error)
}

//----------- hexadecimal ------------------------------------------------------

pub(super) fn parse_hex(min: usize, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if min == 0 && input.is_at_end() {
        return Ok(());
    }
    let (first, start) = (input.position(), out.len());
    let text = joined(input)?;
    if let Err(error) = decode(&HEXLOWER_PERMISSIVE, &text, out) {
        if error.kind == DecodeKind::Length && text.iter().all(u8::is_ascii_hexdigit) {
            return Err(input.wrong("has an odd number of digits", HEX_HELP));
        }
        rewind_to(error.position, first, input);
        return Err(input.wrong("is not hexadecimal", HEX_HELP));
    }
    if out.len() - start < min {
        return Err(input.wrong(format_args!("is shorter than {min} octets"), HEX_HELP));
    }
    Ok(())
}

/// Parses a digest; a length other than that of its type is a violation.
pub(super) fn parse_digest(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let start = out.len();
    parse_hex(1, input, out)?;
    input.check(out, start);
    Ok(())
}

/// The octets of `text` in hexadecimal, without separators.
pub(super) fn hex_without(separator: u8, text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.iter().copied().filter(|&byte| byte != separator).collect();
    HEXLOWER_PERMISSIVE.decode(&digits).ok()
}

/// The value of one to four hexadecimal digits.
pub(super) fn hex_group(text: &[u8]) -> Option<u16> {
    let mut number = 0;
    for &byte in text {
        number = number << 4 | char::from(byte).to_digit(16)? as u16;
    }
    (1..=4).contains(&text.len()).then_some(number)
}

pub(super) fn print_hex(bytes: &[u8], out: &mut String) {
    HEXUPPER.encode_append(bytes, out);
}

/// RFC 5155 3.3: one field, `-` for no salt.
pub(super) fn parse_salt(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    let start = out.len();
    out.push(0);
    if text == b"-" {
        return Ok(());
    }
    if text.is_empty() || decode(&HEXLOWER_PERMISSIVE, text, out).is_err() {
        return Err(input.wrong("is not hexadecimal", "write hexadecimal digits without blanks, or - for no salt"));
    }
    out[start] = u8::try_from(out.len() - start - 1)
        .map_err(|_| input.wrong("is longer than 255 octets", "RFC 9276 recommends no salt"))?;
    Ok(())
}

pub(super) fn print_salt(bytes: &[u8], out: &mut String) {
    if bytes.is_empty() { out.push('-') } else { print_hex(bytes, out) }
}

//----------- base64 -----------------------------------------------------------

/// Base64 whose unused bits may be set.
static LENIENT_BASE64: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = BASE64.specification();
    specification.check_trailing_bits = false;
    specification.encoding().expect("BASE64 is valid with any trailing bits")
});

pub(super) fn parse_base64(min: usize, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if min == 0 && input.is_at_end() {
        return Ok(());
    }
    let (first, start) = (input.position(), out.len());
    let text = joined(input)?;
    let has_spare_bits = push_base64(&text, out).map_err(|error| {
        rewind_to(error.position, first, input);
        input.wrong(base64_error(error), BASE64_HELP)
    })?;
    if out.len() - start < min {
        return Err(input.wrong("is empty", BASE64_HELP));
    }
    if has_spare_bits {
        input.violates("has bits after its last octet", "encode it again: those bits are zero (RFC 4648 3.5)");
    }
    Ok(())
}

/// RFC 2535 3.1.2: there is no key if the first two flags are set.
pub(super) fn parse_key(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let has_key = out[input.start()] & 0xc0 != 0xc0;
    parse_base64(usize::from(has_key), input, out)
}

pub(super) fn parse_base64_or_dash(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    match input.peek() {
        Some(field) if field.text == b"-" => input.word().map(|_| ()),
        _ => parse_base64(1, input, out),
    }
}

/// Appends the octets of base64; returns whether bits after the last octet are set.
pub(super) fn push_base64(text: &[u8], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
    // The library also decodes concatenated texts, each with padding.
    if let Some(padding) = memchr::memchr(b'=', text)
        && let Some(after) = text[padding..].iter().position(|&byte| byte != b'=')
    {
        return Err(DecodeError { position: padding + after, kind: DecodeKind::Padding });
    }
    match decode(&BASE64, text, out) {
        Err(DecodeError { kind: DecodeKind::Trailing, .. }) => decode(&LENIENT_BASE64, text, out).map(|()| true),
        result => result.map(|()| false),
    }
}

/// The predicate of an error.
#[cold]
pub(super) fn base64_error(error: DecodeError) -> &'static str {
    match error.kind {
        DecodeKind::Symbol => "is not base64",
        DecodeKind::Padding => "is badly padded",
        DecodeKind::Length | DecodeKind::Trailing => "is cut off",
    }
}

pub(super) fn print_base64(bytes: &[u8], out: &mut String) {
    BASE64.encode_append(bytes, out);
}

//----------- base32hex --------------------------------------------------------

/// RFC 5155 3.3: one field without padding; padding is a violation.
pub(super) fn parse_hash(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    const HELP: &str = "write base32hex: 0 to 9 and A to V, without padding or blanks (RFC 4648 7)";
    let padded = input.word()?;
    let len = padded.iter().rposition(|&byte| byte != b'=').map_or(0, |last| last + 1);
    let text = &padded[..len];
    let start = out.len();
    out.push(0);
    if text.is_empty() || decode(&BASE32_DNSSEC, text, out).is_err() {
        return Err(input.wrong("is not base32hex", HELP));
    }
    out[start] = u8::try_from(out.len() - start - 1)
        .map_err(|_| input.wrong("is longer than 255 octets", "a SHA-1 hash has 20 octets, 32 characters"))?;
    input.check(out, start);
    if text.len() < padded.len() {
        input.violates("is padded", HELP);
    }
    Ok(())
}

pub(super) fn print_base32(bytes: &[u8], out: &mut String) {
    BASE32HEX_NOPAD.encode_append(bytes, out);
}
