//! Where a part of a given form ends on the wire, and the rules that it must keep.

use super::{Form, RdataError, svcb};
use crate::name::{NameError, NameRef};

/// Why a part is not well-formed.
pub(super) enum Fault {
    Short,
    Name(NameError),
    Rule(&'static str),
}

impl Fault {
    pub(super) fn in_part(self, part: &'static str) -> RdataError {
        match self {
            Fault::Short | Fault::Name(NameError::Short) => RdataError::Short(part),
            Fault::Name(error) => RdataError::Name(part, error),
            Fault::Rule(rule) => RdataError::Form(part, rule),
        }
    }
}

/// The end of the part of that form that starts at `at`, which is at most the length of `rdata`.
pub(super) fn end(form: Form, rdata: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = &rdata[at..];
    let len = match form {
        Form::U8 | Form::Named8(_) | Form::Discovery => sized(rest, 1)?,
        Form::U16 | Form::Named16(_) | Form::Type => sized(rest, 2)?,
        Form::U32 | Form::Interval | Form::Time | Form::Addr4 => sized(rest, 4)?,
        Form::U64 | Form::Locator64 => sized(rest, 8)?,
        Form::Addr6 => sized(rest, 16)?,
        Form::Eui(len) => sized(rest, len)?,
        Form::CompressibleName | Form::Name => name(rest)?,
        Form::Names => all(rest, name)?,
        Form::CharString | Form::Salt => string(rest)?,
        Form::OptionalCharString if rest.is_empty() => 0,
        Form::OptionalCharString => string(rest)?,
        Form::CharStrings => string(rest).and_then(|_| all(rest, string))?,
        Form::Digits => string_where(rest, is_address_of_digits, "is not a number of at least four digits")?,
        Form::Decimal => string_where(rest, is_decimal, "is not a decimal number")?,
        Form::Tag => string_where(rest, is_tag, "does not consist of letters and digits")?,
        Form::Hash => string_where(rest, |hash| !hash.is_empty(), "is empty")?,
        Form::Text(least) | Form::Hex(least) | Form::Digest(least, _) | Form::Base64(least) => at_least(rest, least)?,
        Form::Base64OrDash | Form::Opaque => rest.len(),
        Form::Nsap => at_least(rest, 1)?,
        Form::Types(least) => types(rest, least)?,
        Form::NxtTypes => whole(rest, nxt_types)?,
        Form::Services => whole(rest, services)?,
        Form::AtmAddress => whole(rest, atm_address)?,
        Form::Location => whole(rest, location)?,
        Form::PrefixLength => prefix_length(rest)?,
        Form::AddressSuffix => sized(rest, usize::from(128 - rdata[0]).div_ceil(8))?,
        Form::PrefixName if rdata[0] == 0 => 0,
        Form::PrefixName => name(rest)?,
        Form::Prefixes => all(rest, prefix)?,
        Form::Gateway(mask) => gateway(rdata[1] & mask, rest)?,
        Form::HostIdentity => host_identity(rest)?,
        Form::SvcParams => svcb::check(rest).map(|()| rest.len()).map_err(Fault::Rule)?,
    };
    Ok(at + len)
}

//----------- shapes -----------------------------------------------------------

fn sized(rest: &[u8], len: usize) -> Result<usize, Fault> {
    if rest.len() < len { Err(Fault::Short) } else { Ok(len) }
}

fn at_least(rest: &[u8], least: usize) -> Result<usize, Fault> {
    sized(rest, least).map(|_| rest.len())
}

fn whole(rest: &[u8], rule: fn(&[u8]) -> Result<(), Fault>) -> Result<usize, Fault> {
    rule(rest).map(|()| rest.len())
}

fn name(rest: &[u8]) -> Result<usize, Fault> {
    NameRef::from_wire(rest).map(|name| name.wire().len()).map_err(Fault::Name)
}

fn string(rest: &[u8]) -> Result<usize, Fault> {
    let len = *rest.first().ok_or(Fault::Short)?;
    sized(rest, 1 + usize::from(len))
}

fn string_where(rest: &[u8], holds: impl Fn(&[u8]) -> bool, rule: &'static str) -> Result<usize, Fault> {
    let len = string(rest)?;
    if holds(&rest[1..len]) { Ok(len) } else { Err(Fault::Rule(rule)) }
}

/// The length of as many items as there are up to the end.
fn all(rest: &[u8], item: impl Fn(&[u8]) -> Result<usize, Fault>) -> Result<usize, Fault> {
    let mut at = 0;
    while at < rest.len() {
        at += item(&rest[at..])?;
    }
    Ok(at)
}

fn rule(holds: bool, rule: &'static str) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::Rule(rule)) }
}

//----------- strings ----------------------------------------------------------

/// RFC 1183 3.1: a PSDN address begins with the four digits of the data network.
fn is_address_of_digits(string: &[u8]) -> bool {
    string.len() >= 4 && string.iter().all(u8::is_ascii_digit)
}

/// RFC 1712 3: digits with an optional sign and an optional fraction.
fn is_decimal(string: &[u8]) -> bool {
    let digits = string.strip_prefix(b"-").or(string.strip_prefix(b"+")).unwrap_or(string);
    let mut halves = digits.splitn(2, |&byte| byte == b'.');
    halves.all(|half| !half.is_empty() && half.iter().all(u8::is_ascii_digit))
}

/// RFC 8659 4.1: tags are letters and digits, at least one.
fn is_tag(string: &[u8]) -> bool {
    !string.is_empty() && string.iter().all(u8::is_ascii_alphanumeric)
}

//----------- bitmaps ----------------------------------------------------------

/// RFC 4034 4.1.2: windows in ascending order, none empty, none with trailing zero octets.
fn types(rest: &[u8], least: usize) -> Result<usize, Fault> {
    rule(rest.len() >= least, "is empty")?;
    let mut lowest = 0;
    all(rest, |rest| {
        let len = usize::from(*rest.get(1).ok_or(Fault::Short)?);
        rule((1..=32).contains(&len), "has a window that is not 1 to 32 octets long")?;
        sized(rest, 2 + len)?;
        rule(rest[1 + len] != 0, "has a window with trailing zero octets")?;
        Ok(2 + len)
    })?;
    let mut at = 0;
    while at < rest.len() {
        rule(u16::from(rest[at]) >= lowest, "has windows out of order")?;
        lowest = u16::from(rest[at]) + 1;
        at += 2 + usize::from(rest[at + 1]);
    }
    Ok(at)
}

/// RFC 2535 5.2: up to 16 octets, the first bit (which would say that the format is another one) clear.
fn nxt_types(rest: &[u8]) -> Result<(), Fault> {
    rule((1..=16).contains(&rest.len()), "is not 1 to 16 octets long")?;
    rule(rest[0] & 0x80 == 0, "has its first bit set")?;
    rule(rest.last() != Some(&0), "has trailing zero octets")
}

/// RFC 1035 3.4.2: a bit a port, 65536 at most.
fn services(rest: &[u8]) -> Result<(), Fault> {
    rule(rest.len() <= 8192, "has more than 65536 bits")?;
    rule(rest.last() != Some(&0), "has trailing zero octets")
}

//----------- addresses and places ---------------------------------------------

/// ATM Forum af-dans-0152.000: format 1 is an E.164 number, its digits as characters.
fn atm_address(rest: &[u8]) -> Result<(), Fault> {
    at_least(rest, 2)?;
    rule(rest[0] != 1 || rest[1..].iter().all(u8::is_ascii_digit), "is not a number")
}

/// RFC 1876 2: only version 0 is known; what other versions mean is open.
fn location(rest: &[u8]) -> Result<(), Fault> {
    sized(rest, 1)?;
    if rest[0] != 0 {
        return Ok(());
    }
    at_least(rest, 16)?;
    rule(rest.len() == 16, "is longer than 16 octets")?;
    let is_size = |octet: u8| octet >> 4 <= 9 && octet & 0xf <= 9;
    rule(rest[1..4].iter().copied().all(is_size), "has a size or precision with a digit over 9")?;
    let angle = |at: usize| u32::from_be_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]).abs_diff(1 << 31);
    rule(angle(4) <= 90 * 3_600_000, "has a latitude beyond 90 degrees")?;
    rule(angle(8) <= 180 * 3_600_000, "has a longitude beyond 180 degrees")
}

/// RFC 2874 3.1: from 0 to 128.
fn prefix_length(rest: &[u8]) -> Result<usize, Fault> {
    sized(rest, 1)?;
    rule(rest[0] <= 128, "is over 128")?;
    Ok(1)
}

/// RFC 3123 4: one prefix, without trailing zero octets.
fn prefix(rest: &[u8]) -> Result<usize, Fault> {
    sized(rest, 4)?;
    let len = 4 + usize::from(rest[3] & 0x7f);
    sized(rest, len)?;
    let (octets, bits) = match u16::from_be_bytes([rest[0], rest[1]]) {
        1 => (4, 32),
        2 => (16, 128),
        _ => return Ok(len),
    };
    rule(len - 4 <= octets && rest[2] <= bits, "has an address or a prefix that is too long")?;
    rule(len == 4 || rest[len - 1] != 0, "has an address with trailing zero octets")?;
    Ok(len)
}

/// RFC 4025 2.5, RFC 8777 4.2.4: what the gateway type says.
fn gateway(kind: u8, rest: &[u8]) -> Result<usize, Fault> {
    match kind {
        0 => Ok(0),
        1 => sized(rest, 4),
        2 => sized(rest, 16),
        3 => name(rest),
        _ => Err(Fault::Rule("is of an unknown type")),
    }
}

/// RFC 8005 5: identity length, algorithm, key length, identity, key; neither of them empty.
fn host_identity(rest: &[u8]) -> Result<usize, Fault> {
    sized(rest, 4)?;
    let (identity, key) = (usize::from(rest[0]), usize::from(u16::from_be_bytes([rest[2], rest[3]])));
    rule(identity > 0 && key > 0, "has an empty identity or key")?;
    sized(rest, 4 + identity + key)
}
