//! Addresses: IPv4, IPv6 and parts of it, EUI, NSAP, ATM, and prefixes of APL.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::fields::RdataFields;
use super::{FieldResult, NoTextForm, number, octets, print_list, string};

const HELP4: &str = "write four numbers from 0 to 255 without leading zeros, as in 192.0.2.1";
const HELP6: &str = "write groups of up to four hexadecimal digits, as in 2001:db8::1 (RFC 4291 2.2)";

//----------- IPv4 and IPv6 ----------------------------------------------------

pub(super) fn parse_addr4(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    let address = addr4(text).ok_or_else(|| input.wrong("is not an IPv4 address", HELP4))?;
    out.extend_from_slice(&address);
    Ok(())
}

/// Four decimal numbers without leading zeros: some software reads those as octal.
pub(super) fn addr4(text: &[u8]) -> Option<[u8; 4]> {
    let mut address = [0; 4];
    let (mut octet, mut number, mut digits) = (0, 0u32, 0);
    for &byte in text {
        if byte == b'.' {
            if digits == 0 || octet == 3 {
                return None;
            }
            address[octet] = number as u8;
            (octet, number, digits) = (octet + 1, 0, 0);
            continue;
        }
        let digit = u32::from(byte.wrapping_sub(b'0'));
        number = number * 10 + digit;
        if digit > 9 || number > 255 || digits > 0 && number == digit {
            return None;
        }
        digits += 1;
    }
    address[octet] = number as u8;
    (octet == 3 && digits > 0).then_some(address)
}

pub(super) fn print_addr4(bytes: &[u8], out: &mut String) {
    let address = Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
    write!(out, "{address}").expect("a String takes all");
}

pub(super) fn parse_addr6(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    let address = addr6(text).ok_or_else(|| input.wrong("is not an IPv6 address", HELP6))?;
    out.extend_from_slice(&address);
    Ok(())
}

/// RFC 4291 2.2: eight groups; `::` replaces one or more groups of zeros; an IPv4 address may replace the last two.
pub(super) fn addr6(text: &[u8]) -> Option<[u8; 16]> {
    let mut address = [0; 16];
    let mut at = 0;
    let mut gap = None;
    let mut rest = text;
    if let Some(after) = text.strip_prefix(b"::") {
        (gap, rest) = (Some(0), after);
    }
    while !rest.is_empty() {
        let len = rest.iter().position(|&byte| byte == b':').unwrap_or(rest.len());
        let (group, after) = rest.split_at(len);
        if group.contains(&b'.') {
            address.get_mut(at..at + 4)?.copy_from_slice(&addr4(rest)?);
            at += 4;
            break;
        }
        address.get_mut(at..at + 2)?.copy_from_slice(&octets::hex_group(group)?.to_be_bytes());
        at += 2;
        rest = match after {
            [] => after,
            [_, b':', rest @ ..] if gap.is_none() => {
                gap = Some(at);
                rest
            }
            [_, rest @ ..] if !rest.is_empty() => rest,
            _ => return None,
        };
    }
    match gap {
        None if at == 16 => Some(address),
        Some(gap) if at < 16 => {
            address.copy_within(gap..at, 16 - (at - gap));
            address[gap..16 - (at - gap)].fill(0);
            Some(address)
        }
        _ => None,
    }
}

pub(super) fn print_addr6(bytes: &[u8], out: &mut String) {
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).expect("the form has 16 octets"));
    write!(out, "{address}").expect("a String takes all");
}

//----------- parts of IPv6 addresses ------------------------------------------

/// RFC 6742 2.1.2: four groups of hexadecimal digits.
pub(super) fn parse_locator(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    const HELP: &str = "write four groups of up to four digits, as in 14:4fff:ff20:ee64";
    let groups: Option<Vec<u16>> = text.split(|&byte| byte == b':').map(octets::hex_group).collect();
    let groups = groups.filter(|groups| groups.len() == 4);
    let groups = groups.ok_or_else(|| input.wrong("is not 64 bits in hexadecimal", HELP))?;
    out.extend(groups.into_iter().flat_map(u16::to_be_bytes));
    Ok(())
}

pub(super) fn print_locator(bytes: &[u8], out: &mut String) {
    let [a, b, c, d] = [0, 2, 4, 6].map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    write!(out, "{a:04x}:{b:04x}:{c:04x}:{d:04x}").expect("a String takes all");
}

pub(super) fn parse_prefix_length(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    out.push(number::take(input, 128)? as u8);
    Ok(())
}

/// RFC 2874 3.2: the address without the octets that the prefix covers; absent if it covers all 128 bits.
pub(super) fn parse_suffix(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let prefix = out[input.start()];
    if prefix == 128 {
        return Ok(());
    }
    let text = input.word()?;
    let address = addr6(text).ok_or_else(|| input.wrong("is not an IPv6 address", HELP6))?;
    if u128::from_be_bytes(address).leading_zeros() < u32::from(prefix) {
        return Err(input.wrong("has bits within the prefix", "clear the bits that the prefix covers"));
    }
    out.extend_from_slice(&address[usize::from(prefix / 8)..]);
    Ok(())
}

pub(super) fn print_suffix(prefix: u8, bytes: &[u8], out: &mut String) -> Result<(), NoTextForm> {
    if prefix == 128 {
        return Ok(());
    }
    let mut address = [0; 16];
    address[16 - bytes.len()..].copy_from_slice(bytes);
    if u128::from_be_bytes(address).leading_zeros() < u32::from(prefix) {
        return Err(NoTextForm);
    }
    print_addr6(&address, out);
    Ok(())
}

pub(super) fn parse_prefix_name(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if out[input.start()] == 0 { Ok(()) } else { string::parse_name(input, out) }
}

//----------- link layer, OSI, ATM ---------------------------------------------

/// RFC 7043 3.2, 4.2: two digits for each octet, separated by hyphens; one digit is a violation.
pub(super) fn parse_eui(len: usize, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    const HELP: &str = "write two digits for each octet, as in 00-00-5e-00-53-2a";
    let text = input.word()?;
    let octet = |group: &[u8]| octets::hex_group(group).filter(|_| group.len() <= 2).map(|octet| octet as u8);
    let octets: Option<Vec<u8>> = text.split(|&byte| byte == b'-').map(octet).collect();
    let octets = octets.filter(|octets| octets.len() == len);
    let wrong = || input.wrong(format_args!("is not {len} octets in hexadecimal"), HELP);
    out.extend_from_slice(&octets.ok_or_else(wrong)?);
    if text.len() != 3 * len - 1 {
        input.violates("has octets of one digit", HELP);
    }
    Ok(())
}

pub(super) fn print_eui(bytes: &[u8], out: &mut String) {
    print_list(bytes.iter(), '-', out, |byte, out| write!(out, "{byte:02x}").expect("a String takes all"));
}

/// RFC 1706 5: `0x` and hexadecimal digits, with dots anywhere.
pub(super) fn parse_nsap(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    let digits = text.strip_prefix(b"0x").or(text.strip_prefix(b"0X"));
    let address = digits.and_then(|digits| octets::hex_without(b'.', digits)).filter(|address| !address.is_empty());
    let wrong = || input.wrong("is not an NSAP address", "write 0x and hexadecimal digits, with dots anywhere");
    out.extend_from_slice(&address.ok_or_else(wrong)?);
    Ok(())
}

pub(super) fn print_nsap(bytes: &[u8], out: &mut String) {
    out.push_str("0x");
    octets::print_hex(bytes, out);
}

/// ATM Forum af-dans-0152.000: `+` and the digits of an E.164 number, or an AESA in hexadecimal; dots anywhere.
pub(super) fn parse_atm(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    const AESA: u8 = 0;
    const E164: u8 = 1;
    let text = input.word()?;
    let (format, address) = match text.strip_prefix(b"+") {
        Some(digits) => (E164, Some(digits.iter().copied().filter(|&byte| byte != b'.').collect())),
        None => (AESA, octets::hex_without(b'.', text)),
    };
    let is_right =
        |address: &Vec<u8>| !address.is_empty() && (format == AESA || address.iter().all(u8::is_ascii_digit));
    let wrong = || input.wrong("is not an ATM address", "write + and decimal digits, or hexadecimal digits");
    let address = address.filter(is_right).ok_or_else(wrong)?;
    out.push(format);
    out.extend_from_slice(&address);
    Ok(())
}

pub(super) fn print_atm(bytes: &[u8], out: &mut String) -> Result<(), NoTextForm> {
    match bytes {
        [0, address @ ..] => octets::print_hex(address, out),
        [1, digits @ ..] => {
            out.push('+');
            string::print_bare(digits, out);
        }
        _ => return Err(NoTextForm),
    }
    Ok(())
}

//----------- prefixes ---------------------------------------------------------

/// RFC 3123 5: any number of `[!]family:address/prefix`.
pub(super) fn parse_prefixes(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    const HELP: &str =
        "write [!]1:ADDRESS/PREFIX for IPv4, [!]2:ADDRESS/PREFIX for IPv6, with the prefix from 0 to 32 or 128";
    while !input.is_at_end() {
        let text = input.word()?;
        push_prefix(text, out).ok_or_else(|| input.wrong("has an item that is not an address prefix", HELP))?;
    }
    Ok(())
}

fn push_prefix(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (negation, text) = text.strip_prefix(b"!").map_or((0, text), |text| (0x80, text));
    let slash = memchr::memrchr(b'/', text)?;
    let (text, prefix) = (&text[..slash], &text[slash + 1..]);
    let (family, max, v4, v6);
    let address: &[u8] = if let Some(text) = text.strip_prefix(b"1:") {
        v4 = addr4(text)?;
        (family, max) = (1, 32);
        &v4
    } else {
        v6 = addr6(text.strip_prefix(b"2:")?)?;
        (family, max) = (2, 128);
        &v6
    };
    let prefix = number::decimal(prefix, max)? as u8;
    // RFC 3123 4: trailing zero octets are not sent.
    let len = address.iter().rposition(|&octet| octet != 0).map_or(0, |last| last + 1);
    out.extend_from_slice(&[0, family, prefix, negation | len as u8]);
    out.extend_from_slice(&address[..len]);
    Some(())
}

pub(super) fn print_prefixes(mut bytes: &[u8], out: &mut String) -> Result<(), NoTextForm> {
    let mut separator = "";
    while let [high, low, prefix, len, rest @ ..] = bytes {
        let (octets, rest) = rest.split_at(usize::from(len & 0x7f));
        let mut address = [0; 16];
        address.get_mut(..octets.len()).ok_or(NoTextForm)?.copy_from_slice(octets);
        let family = u16::from_be_bytes([*high, *low]);
        write!(out, "{separator}{}{family}:", if len & 0x80 == 0 { "" } else { "!" }).expect("a String takes all");
        match family {
            1 => print_addr4(&address[..4], out),
            2 => print_addr6(&address, out),
            _ => return Err(NoTextForm),
        }
        write!(out, "/{prefix}").expect("a String takes all");
        separator = " ";
        bytes = rest;
    }
    Ok(())
}
