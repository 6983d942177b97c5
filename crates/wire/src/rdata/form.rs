//! The end of a field of each form on the wire, and the rules of its RFC.

use std::ops::Range;

use super::{Form, RdataError, svcb};
use crate::name::{NameError, NameRef};
use crate::rtype::numbers::digest_len;

/// Why a field has no end.
pub(super) enum FieldEndError {
    Short,
    Name(NameError),
}

impl FieldEndError {
    pub(super) fn in_field(self, field: &'static str) -> RdataError {
        match self {
            FieldEndError::Short | FieldEndError::Name(NameError::Short) => RdataError::Short(field),
            FieldEndError::Name(error) => RdataError::Name(field, error),
        }
    }
}

/// The end of a field of this form that starts at `at`, at most the length of `rdata`.
///
/// Errors that do not affect the end are left to [`rule`]: such RDATA can still be stored and served.
pub(super) fn end(form: Form, rdata: &[u8], at: usize) -> Result<usize, FieldEndError> {
    let rest = &rdata[at..];
    let len = match form {
        Form::U8 | Form::Named8(_) | Form::Discovery | Form::PrefixLength => sized(rest, 1)?,
        Form::U16 | Form::Named16(_) | Form::Type => sized(rest, 2)?,
        Form::U32 | Form::Interval | Form::Time | Form::Addr4 => sized(rest, 4)?,
        Form::U64 | Form::Locator64 => sized(rest, 8)?,
        Form::Addr6 => sized(rest, 16)?,
        Form::Eui(len) => sized(rest, len)?,
        Form::CompressibleName | Form::Name => name(rest)?,
        Form::Names => all(rest, name)?,
        Form::CharString | Form::Digits | Form::Decimal | Form::Tag | Form::Salt | Form::Hash => string(rest)?,
        Form::OptionalCharString if rest.is_empty() => 0,
        Form::OptionalCharString => string(rest)?,
        Form::CharStrings | Form::Nsap => at_least(rest, 1)?,
        Form::Base64(least) => at_least(rest, least)?,
        // RFC 2535 3.1.2: the first two flags together say that there is no key.
        Form::Key => at_least(rest, usize::from(rdata[0] & 0xc0 != 0xc0))?,
        Form::AtmAddress => at_least(rest, 2)?,
        // RFC 1876 2: only version 0 is known; what other versions mean is open.
        Form::Location if rest.first() == Some(&0) => at_least(rest, 16)?,
        Form::Location => at_least(rest, 1)?,
        Form::AddressSuffix => sized(rest, usize::from(128u8.saturating_sub(rdata[0])).div_ceil(8))?,
        Form::PrefixName if rdata[0] == 0 => 0,
        Form::PrefixName => name(rest)?,
        Form::Gateway(mask) => gateway(rdata[1] & mask, rest)?,
        Form::HostIdentity => host_identity(rest)?,
        Form::Text(_) | Form::Hex(_) | Form::Digest(..) | Form::Base64OrDash | Form::Opaque => rest.len(),
        Form::Types(_) | Form::NxtTypes | Form::Services | Form::Prefixes | Form::SvcParams => rest.len(),
    };
    Ok(at + len)
}

/// Checks the field at `range` against the rules of its RFC. The error is a predicate of the field, as in "the tag is empty".
pub(super) fn rule(form: Form, rdata: &[u8], range: Range<usize>) -> Result<(), &'static str> {
    let field = &rdata[range.clone()];
    match form {
        Form::CharStrings => strings(field),
        Form::Digits => require(is_address_of_digits(&field[1..]), "is not a number of at least four digits"),
        Form::Decimal => require(is_decimal(&field[1..]), "is not a decimal number"),
        Form::Tag => require(is_tag(&field[1..]), "does not consist of letters and digits"),
        Form::Hash => hash(rdata[0], &field[1..]),
        Form::Text(least) | Form::Hex(least) => require(field.len() >= least, "is empty"),
        Form::Digest(least, lens) => digest(rdata[range.start - 1], least, lens, field),
        Form::Types(least) => types(field, least),
        Form::NxtTypes => nxt_types(field),
        Form::Services => services(field),
        Form::AtmAddress => require(field[0] != 1 || field[1..].iter().all(u8::is_ascii_digit), "is not a number"),
        Form::Location => location(field),
        Form::PrefixLength => require(field[0] <= 128, "is over 128"),
        Form::Prefixes => prefixes(field),
        Form::Gateway(mask) => require(rdata[1] & mask <= 3, "is of an unknown type"),
        Form::HostIdentity => require(field[0] > 0 && field[2..4] != [0, 0], "has an empty identity or key"),
        Form::SvcParams => svcb::check(field),
        _ => Ok(()),
    }
}

//----------- lengths ----------------------------------------------------------

fn sized(rest: &[u8], len: usize) -> Result<usize, FieldEndError> {
    if rest.len() < len { Err(FieldEndError::Short) } else { Ok(len) }
}

fn at_least(rest: &[u8], least: usize) -> Result<usize, FieldEndError> {
    sized(rest, least).map(|_| rest.len())
}

fn name(rest: &[u8]) -> Result<usize, FieldEndError> {
    NameRef::from_wire(rest).map(|name| name.wire().len()).map_err(FieldEndError::Name)
}

fn string(rest: &[u8]) -> Result<usize, FieldEndError> {
    let len = *rest.first().ok_or(FieldEndError::Short)?;
    sized(rest, 1 + usize::from(len))
}

/// The length of a list of items up to the end.
fn all(rest: &[u8], item: impl Fn(&[u8]) -> Result<usize, FieldEndError>) -> Result<usize, FieldEndError> {
    let mut at = 0;
    while at < rest.len() {
        at += item(&rest[at..])?;
    }
    Ok(at)
}

fn require(holds: bool, rule: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(rule) }
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

/// RFC 1035 3.3.14: whole strings up to the end.
fn strings(mut field: &[u8]) -> Result<(), &'static str> {
    while let [len, rest @ ..] = field {
        field = rest.get(usize::from(*len)..).ok_or("has a string that is cut off")?;
    }
    Ok(())
}

//----------- digests ----------------------------------------------------------

/// RFC 5155 3.2: a hash is as long as its algorithm makes it; algorithm 1 is SHA-1.
fn hash(algorithm: u8, hash: &[u8]) -> Result<(), &'static str> {
    require(!hash.is_empty(), "is empty")?;
    require(algorithm != 1 || hash.len() == 20, "has a length that its algorithm does not make")
}

fn digest(kind: u8, least: usize, lens: &[(u8, usize)], field: &[u8]) -> Result<(), &'static str> {
    match digest_len(lens, kind) {
        Some(len) => require(field.len() == len, "has the wrong length"),
        None => require(field.len() >= least, "is too short"),
    }
}

//----------- bitmaps ----------------------------------------------------------

/// RFC 4034 4.1.2: windows in ascending order, none empty, none with trailing zero octets.
fn types(mut field: &[u8], least: usize) -> Result<(), &'static str> {
    require(field.len() >= least, "is empty")?;
    let mut lowest = 0;
    while let [window, rest @ ..] = field {
        let (&len, rest) = rest.split_first().ok_or("is cut off")?;
        require((1..=32).contains(&len), "has a window that is not 1 to 32 octets long")?;
        let (bitmap, rest) = rest.split_at_checked(len.into()).ok_or("is cut off")?;
        require(bitmap.last() != Some(&0), "has a window with trailing zero octets")?;
        require(u16::from(*window) >= lowest, "has windows out of order")?;
        lowest = u16::from(*window) + 1;
        field = rest;
    }
    Ok(())
}

/// RFC 2535 5.2: up to 16 octets, the first bit (which would say that the format is another one) clear.
fn nxt_types(field: &[u8]) -> Result<(), &'static str> {
    require((1..=16).contains(&field.len()), "is not 1 to 16 octets long")?;
    require(field[0] & 0x80 == 0, "has its first bit set")?;
    require(field.last() != Some(&0), "has trailing zero octets")
}

/// RFC 1035 3.4.2: a bit a port, 65536 at most.
fn services(field: &[u8]) -> Result<(), &'static str> {
    require(field.len() <= 8192, "has more than 65536 bits")?;
    require(field.last() != Some(&0), "has trailing zero octets")
}

//----------- addresses and locations ---------------------------------------------

/// RFC 1876 2: the rules of version 0.
fn location(field: &[u8]) -> Result<(), &'static str> {
    if field[0] != 0 {
        return Ok(());
    }
    require(field.len() == 16, "is longer than 16 octets")?;
    // A zero with a power of ten is a zero.
    let is_size = |octet: u8| octet >> 4 <= 9 && octet & 0xf <= 9;
    require(field[1..4].iter().copied().all(is_size), "has a size or precision with a digit over 9")?;
    let angle =
        |at: usize| u32::from_be_bytes([field[at], field[at + 1], field[at + 2], field[at + 3]]).abs_diff(1 << 31);
    require(angle(4) <= 90 * 3_600_000, "has a latitude over 90 degrees")?;
    require(angle(8) <= 180 * 3_600_000, "has a longitude over 180 degrees")
}

/// RFC 3123 4: prefixes without trailing zero octets.
fn prefixes(mut field: &[u8]) -> Result<(), &'static str> {
    while !field.is_empty() {
        let (&[high, low, prefix, len], rest) = field.split_first_chunk().ok_or("is cut off")?;
        let (address, rest) = rest.split_at_checked(usize::from(len & 0x7f)).ok_or("is cut off")?;
        let (octets, bits) = match u16::from_be_bytes([high, low]) {
            1 => (4, 32),
            2 => (16, 128),
            _ => (usize::MAX, u8::MAX),
        };
        require(address.len() <= octets && prefix <= bits, "has an address or a prefix that is too long")?;
        require(octets == usize::MAX || address.last() != Some(&0), "has an address with trailing zero octets")?;
        field = rest;
    }
    Ok(())
}

/// RFC 4025 2.5, RFC 8777 4.2.4: the length by gateway type; for unknown types the whole rest.
fn gateway(kind: u8, rest: &[u8]) -> Result<usize, FieldEndError> {
    match kind {
        0 => Ok(0),
        1 => sized(rest, 4),
        2 => sized(rest, 16),
        3 => name(rest),
        _ => Ok(rest.len()),
    }
}

/// RFC 8005 5: identity length, algorithm, key length, identity, key.
fn host_identity(rest: &[u8]) -> Result<usize, FieldEndError> {
    sized(rest, 4)?;
    let (identity, key) = (usize::from(rest[0]), usize::from(u16::from_be_bytes([rest[2], rest[3]])));
    sized(rest, 4 + identity + key)
}
