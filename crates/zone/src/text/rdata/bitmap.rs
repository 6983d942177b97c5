//! Type bitmaps (RFC 4034 4.1.2, RFC 2535 5.2) and service bitmaps of WKS (RFC 1035 3.4.2).

use super::fields::RdataFields;
use super::{FieldResult, number, print_list};

//----------- types ------------------------------------------------------------

/// Parses all remaining fields as types, in any order.
///
/// They are parsed once for each window of 256 types that has any, mostly once, instead of being collected.
pub(super) fn parse_types(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let (first, start) = (input.position(), out.len());
    if input.is_at_end() {
        input.check(out, start);
    }
    let mut window = Some(0);
    while let Some(current) = window {
        input.rewind(first);
        window = parse_window(current, input, out)?;
    }
    Ok(())
}

/// Appends a window if it has any types; returns the number of the next window that has.
fn parse_window(window: u8, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult<Option<u8>> {
    let mut bitmap = [0; 32];
    let mut next = None;
    while !input.is_at_end() {
        let [high, low] = number::take_type(input)?.0.to_be_bytes();
        if high == window {
            set_bit(low.into(), &mut bitmap);
        } else if high > window && next.is_none_or(|next| high < next) {
            next = Some(high);
        }
    }
    let bitmap = without_trailing_zeros(&bitmap);
    if !bitmap.is_empty() {
        out.extend_from_slice(&[window, bitmap.len() as u8]);
        out.extend_from_slice(bitmap);
    }
    Ok(next)
}

pub(super) fn print_types(mut bytes: &[u8], out: &mut String) {
    let windows = std::iter::from_fn(|| {
        let [window, len, rest @ ..] = bytes else { return None };
        let (bitmap, rest) = rest.split_at(usize::from(*len));
        bytes = rest;
        Some(bits(bitmap).map(|low| [*window, low as u8]))
    });
    print_list(windows.flatten(), ' ', out, |rtype, out| number::print_type(&rtype, out));
}

/// RFC 2535 5.2: only types up to 127.
pub(super) fn parse_nxt_types(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if input.is_at_end() {
        return Err(input.missing());
    }
    let mut bitmap = [0; 16];
    while !input.is_at_end() {
        let rtype = number::take_type(input)?;
        if !(1..=127).contains(&rtype.0) {
            return Err(input.wrong("has a type that is not from 1 to 127", "use NSEC: NXT is obsolete (RFC 3755)"));
        }
        set_bit(rtype.0.into(), &mut bitmap);
    }
    out.extend_from_slice(without_trailing_zeros(&bitmap));
    Ok(())
}

pub(super) fn print_nxt_types(bytes: &[u8], out: &mut String) {
    print_list(bits(bytes), ' ', out, |bit, out| number::print_type(&(bit as u16).to_be_bytes(), out));
}

//----------- services ---------------------------------------------------------

/// Services of WKS records (RFC 1010) whose names are still registered.
const SERVICES: &[(u16, &str)] = &[
    (7, "echo"),
    (9, "discard"),
    (11, "systat"),
    (13, "daytime"),
    (17, "qotd"),
    (19, "chargen"),
    (20, "ftp-data"),
    (21, "ftp"),
    (22, "ssh"),
    (23, "telnet"),
    (25, "smtp"),
    (37, "time"),
    (42, "nameserver"),
    (43, "nicname"),
    (53, "domain"),
    (67, "bootps"),
    (68, "bootpc"),
    (69, "tftp"),
    (70, "gopher"),
    (79, "finger"),
    (80, "http"),
    (101, "hostname"),
    (109, "pop2"),
    (110, "pop3"),
    (111, "sunrpc"),
    (113, "auth"),
    (119, "nntp"),
    (123, "ntp"),
    (143, "imap"),
    (161, "snmp"),
    (162, "snmptrap"),
    (443, "https"),
];

pub(super) fn parse_services(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let start = out.len();
    while !input.is_at_end() {
        let port = number::take_named(SERVICES, u16::MAX.into(), input)? as usize;
        if out.len() <= start + port / 8 {
            out.resize(start + port / 8 + 1, 0);
        }
        set_bit(port, &mut out[start..]);
    }
    Ok(())
}

pub(super) fn print_services(bytes: &[u8], out: &mut String) {
    print_list(bits(bytes), ' ', out, |port, out| number::print_decimal(port as u64, out));
}

//----------- bits -------------------------------------------------------------

/// Sets a bit; 0 is the most significant one of the first octet.
fn set_bit(bit: usize, bitmap: &mut [u8]) {
    bitmap[bit / 8] |= 0x80 >> (bit % 8);
}

fn bits(bitmap: &[u8]) -> impl Iterator<Item = usize> {
    (0..bitmap.len() * 8).filter(|bit| bitmap[bit / 8] & 0x80 >> (bit % 8) != 0)
}

fn without_trailing_zeros(bitmap: &[u8]) -> &[u8] {
    let len = bitmap.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
    &bitmap[..len]
}
