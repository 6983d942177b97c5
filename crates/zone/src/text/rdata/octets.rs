//! Octets in hexadecimal, base64 (RFC 4648 4) and base32hex (RFC 4648 7).

use super::FieldResult;
use super::fields::RdataFields;

const HEX: &[u8; 16] = b"0123456789ABCDEF";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"0123456789ABCDEFGHIJKLMNOPQRSTUV";

/// What no digit has as its value.
const NONE: u8 = 0xff;
const HEX_VALUES: [u8; 256] = values(HEX, true);
const BASE64_VALUES: [u8; 256] = values(BASE64, false);
const BASE32_VALUES: [u8; 256] = values(BASE32, true);

/// The value of each digit, by its character.
const fn values(digits: &[u8], in_any_case: bool) -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < digits.len() {
        values[digits[value] as usize] = value as u8;
        if in_any_case {
            values[digits[value].to_ascii_lowercase() as usize] = value as u8;
        }
        value += 1;
    }
    values
}

const HEX_HELP: &str = "write an even number of digits from 0 to 9 and A to F";
const BASE64_HELP: &str = "base64 consists of groups of four characters, the last one padded with = (RFC 4648)";

//----------- hexadecimal ------------------------------------------------------

/// Parses all remaining fields: blanks may be anywhere between digits.
pub(super) fn parse_hex(least: usize, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if least > 0 && input.is_at_end() {
        return Err(input.missing());
    }
    let start = out.len();
    let mut open = None;
    while !input.is_at_end() {
        let text = input.word()?;
        open = push_hex(text, open, out).ok_or_else(|| input.wrong("is not hexadecimal", HEX_HELP))?;
    }
    if open.is_some() {
        return Err(input.wrong("has an odd number of digits", HEX_HELP));
    }
    if out.len() - start < least {
        return Err(input.wrong(format_args!("is shorter than {least} octets"), HEX_HELP));
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

/// Appends the octets of the digits of `text`, which follow the digit `open`; returns the unpaired digit at the end.
/// `None` if `text` has other characters.
fn push_hex(text: &[u8], open: Option<u8>, out: &mut Vec<u8>) -> Option<Option<u8>> {
    let (text, open) = match (open, text) {
        (Some(high), [low, text @ ..]) => {
            out.push(high << 4 | hex_value(*low)?);
            (text, None)
        }
        _ => (text, open),
    };
    let (pairs, rest) = text.as_chunks();
    let start = out.len();
    out.resize(start + pairs.len(), 0);
    let mut seen = 0;
    for (octet, [high, low]) in out[start..].iter_mut().zip(pairs) {
        let (high, low) = (HEX_VALUES[usize::from(*high)], HEX_VALUES[usize::from(*low)]);
        seen |= high | low;
        *octet = high << 4 | low;
    }
    match rest {
        _ if seen == NONE => None,
        [digit] => hex_value(*digit).map(Some),
        _ => Some(open),
    }
}

fn hex_value(digit: u8) -> Option<u8> {
    Some(HEX_VALUES[usize::from(digit)]).filter(|&value| value != NONE)
}

/// The octets of `text` in hexadecimal, without separators.
pub(super) fn hex_without(separator: u8, text: &[u8]) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.iter().copied().filter(|&byte| byte != separator).collect();
    let mut octets = Vec::new();
    let open = push_hex(&digits, None, &mut octets)?;
    open.is_none().then_some(octets)
}

/// The value of one to four hexadecimal digits.
pub(super) fn hex_group(text: &[u8]) -> Option<u16> {
    let mut number = 0;
    for &byte in text {
        number = number << 4 | u16::from(hex_value(byte)?);
    }
    (1..=4).contains(&text.len()).then_some(number)
}

pub(super) fn print_hex(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]].map(char::from));
    }
}

/// RFC 5155 3.3: one field, `-` for no salt.
pub(super) fn parse_salt(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    let start = out.len();
    out.push(0);
    if text == b"-" {
        return Ok(());
    }
    const HELP: &str = "write hexadecimal digits without blanks, or - for no salt";
    if push_hex(text, None, out) != Some(None) || text.is_empty() {
        return Err(input.wrong("is not hexadecimal", HELP));
    }
    out[start] = u8::try_from(out.len() - start - 1)
        .map_err(|_| input.wrong("is longer than 255 octets", "RFC 9276 recommends no salt"))?;
    Ok(())
}

pub(super) fn print_salt(bytes: &[u8], out: &mut String) {
    if bytes.is_empty() {
        out.push('-');
    } else {
        print_hex(bytes, out);
    }
}

//----------- base64 -----------------------------------------------------------

/// Parses all remaining fields: blanks may be anywhere between characters.
pub(super) fn parse_base64(least: usize, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if least > 0 && input.is_at_end() {
        return Err(input.missing());
    }
    let start = out.len();
    let mut group = Group::default();
    while !input.is_at_end() {
        let text = input.word()?;
        group.push(text, out).map_err(|what| input.wrong(what, BASE64_HELP))?;
    }
    let has_spare_bits = group.has_spare_bits;
    group.end().map_err(|what| input.wrong(what, BASE64_HELP))?;
    if out.len() - start < least {
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

/// Appends the octets of one field in base64.
pub(super) fn push_base64(text: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut group = Group::default();
    group.push(text, out)?;
    group.end()
}

/// An incomplete group of four base64 characters.
#[derive(Default)]
struct Group {
    bits: u32,
    digits: u8,
    padding: u8,
    /// The bits that padding leaves unused are not zero.
    has_spare_bits: bool,
}

impl Group {
    /// Appends the octets of all groups that `text` completes; an error is a predicate.
    fn push(&mut self, mut text: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
        if self.digits == 0 {
            text = push_whole_groups(text, out);
        }
        for &byte in text {
            match BASE64_VALUES[usize::from(byte)] {
                _ if byte == b'=' => self.pad(out)?,
                NONE => return Err("is not base64"),
                _ if self.padding > 0 => return Err("continues after its padding"),
                value => self.add(value, out),
            }
        }
        Ok(())
    }

    fn add(&mut self, value: u8, out: &mut Vec<u8>) {
        self.bits = self.bits << 6 | u32::from(value);
        self.digits += 1;
        if self.digits == 4 {
            out.extend_from_slice(&self.bits.to_be_bytes()[1..]);
            *self = Group::default();
        }
    }

    /// RFC 4648 3.5: the bits that padding leaves unused should be zero.
    fn pad(&mut self, out: &mut Vec<u8>) -> Result<(), &'static str> {
        self.padding += 1;
        match (self.digits, self.padding) {
            (2, 1) => {}
            (2, 2) => {
                self.has_spare_bits = self.bits & 0xf != 0;
                out.push((self.bits >> 4) as u8);
            }
            (3, 1) => {
                self.has_spare_bits = self.bits & 0x3 != 0;
                out.extend_from_slice(&((self.bits >> 2) as u16).to_be_bytes());
            }
            _ => return Err("is badly padded"),
        }
        Ok(())
    }

    fn end(self) -> Result<(), &'static str> {
        if self.digits == 0 || self.digits + self.padding == 4 { Ok(()) } else { Err("is cut off") }
    }
}

/// Appends the octets of the groups of four digits at the start of `text`; returns the rest.
fn push_whole_groups<'t>(text: &'t [u8], out: &mut Vec<u8>) -> &'t [u8] {
    let (groups, _) = text.as_chunks::<4>();
    let start = out.len();
    out.resize(start + groups.len() * 3, 0);
    let mut done = 0;
    for (octets, group) in out[start..].as_chunks_mut::<3>().0.iter_mut().zip(groups) {
        let [a, b, c, d] = group.map(|byte| BASE64_VALUES[usize::from(byte)]);
        if a | b | c | d == NONE {
            break;
        }
        *octets = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
        done += 1;
    }
    out.truncate(start + done * 3);
    &text[done * 4..]
}

pub(super) fn print_base64(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let bits = u32::from_be_bytes([0, group[0], *group.get(1).unwrap_or(&0), *group.get(2).unwrap_or(&0)]);
        for digit in 0..4 {
            out.push(match digit > group.len() {
                true => '=',
                false => char::from(BASE64[(bits >> (18 - 6 * digit) & 0x3f) as usize]),
            });
        }
    }
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
    if !push_base32(text, out) || text.is_empty() {
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

/// Appends the octets of `text`; false if it is not base32hex. Unused bits must be zero.
fn push_base32(text: &[u8], out: &mut Vec<u8>) -> bool {
    let (mut bits, mut count) = (0u32, 0);
    for &byte in text {
        let value = BASE32_VALUES[usize::from(byte)];
        if value == NONE {
            return false;
        }
        bits = bits << 5 | u32::from(value);
        count += 5;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    count < 5 && bits == 0
}

pub(super) fn print_base32(bytes: &[u8], out: &mut String) {
    let (mut bits, mut count) = (0u32, 0);
    for &byte in bytes {
        bits = bits << 8 | u32::from(byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(char::from(BASE32[(bits >> count & 0x1f) as usize]));
        }
        bits &= 0x1f;
    }
    if count > 0 {
        out.push(char::from(BASE32[(bits << (5 - count) & 0x1f) as usize]));
    }
}
