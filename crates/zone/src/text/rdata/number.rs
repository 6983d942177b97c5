//! Numbers, mnemonics, types, intervals and times.

use std::fmt::Write;

use wire::Rtype;

use super::super::ttl;
use super::fields::RdataFields;
use super::{FieldError, FieldResult};

//----------- numbers ----------------------------------------------------------

/// Parses a number of `N` octets.
pub(super) fn parse<const N: usize>(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let number = take(input, u64::MAX >> (64 - 8 * N))?;
    out.extend_from_slice(&number.to_be_bytes()[8 - N..]);
    Ok(())
}

/// Takes a number from 0 to `max`.
pub(super) fn take(input: &mut RdataFields<'_>, max: u64) -> FieldResult<u64> {
    let text = input.word()?;
    decimal(text, max).ok_or_else(|| not_a_number(input, text, max))
}

/// The value of decimal digits, up to `max`; `None` for anything else, such as a sign.
pub(in crate::text) fn decimal(text: &[u8], max: u64) -> Option<u64> {
    let mut number = 0u64;
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (number <= max && !text.is_empty()).then_some(number)
}

#[cold]
fn not_a_number(input: &RdataFields<'_>, text: &[u8], max: u64) -> Box<FieldError> {
    let help = format!("write a whole number from 0 to {max}");
    if !text.is_empty() && text.iter().all(u8::is_ascii_digit) {
        input.wrong(format_args!("is larger than {max}"), help)
    } else {
        input.wrong("is not a number", help)
    }
}

/// Prints up to eight octets in network byte order as a number.
pub(super) fn print(bytes: &[u8], out: &mut String) {
    print_decimal(bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)), out);
}

pub(super) fn print_decimal(number: u64, out: &mut String) {
    write!(out, "{number}").expect("a String takes all");
}

//----------- mnemonics --------------------------------------------------------

pub(super) fn parse_named8(names: &[(u8, &str)], input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    out.push(take_named(names, u8::MAX.into(), input)? as u8);
    Ok(())
}

pub(super) fn parse_named16(names: &[(u16, &str)], input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    out.extend_from_slice(&(take_named(names, u16::MAX.into(), input)? as u16).to_be_bytes());
    Ok(())
}

/// Takes a number up to `max` or one of the names.
pub(super) fn take_named<N: Copy + Into<u64>>(
    names: &[(N, &str)],
    max: u64,
    input: &mut RdataFields<'_>,
) -> FieldResult<u64> {
    let text = input.word()?;
    if let Some(number) = decimal(text, max) {
        return Ok(number);
    }
    if text.first().is_some_and(u8::is_ascii_digit) {
        return Err(not_a_number(input, text, max));
    }
    let named = names.iter().find(|(_, name)| text.eq_ignore_ascii_case(name.as_bytes()));
    named.map(|&(number, _)| number.into()).ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|&(_, name)| name).collect();
        input.wrong("is not known", format!("write a number from 0 to {max} or one of {}", known.join(", ")))
    })
}

pub(super) fn parse_type(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let rtype = take_type(input)?;
    out.extend_from_slice(&rtype.0.to_be_bytes());
    Ok(())
}

pub(super) fn take_type(input: &mut RdataFields<'_>) -> FieldResult<Rtype> {
    let text = input.word()?;
    Rtype::from_text(text).ok_or_else(|| {
        let what = format!("has the unknown type \"{}\"", text.escape_ascii());
        input.wrong(what, "write a mnemonic, or TYPE and a number")
    })
}

pub(super) fn print_type(bytes: &[u8], out: &mut String) {
    write!(out, "{}", Rtype(u16::from_be_bytes([bytes[0], bytes[1]]))).expect("a String takes all");
}

//----------- intervals --------------------------------------------------------

pub(super) fn parse_seconds(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    let seconds = ttl::parse(text).map_err(|_| {
        input
            .wrong("is not a number of seconds", "write seconds up to 4294967295, or weeks to seconds as in 1w2d3h4m5s")
    })?;
    out.extend_from_slice(&seconds.to_be_bytes());
    Ok(())
}

//----------- times ------------------------------------------------------------

/// RFC 4034 3.2: fourteen digits are `YYYYMMDDHHmmSS` in UTC, up to ten are seconds since 1970.
pub(super) fn parse_time(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    const HELP: &str = "write YYYYMMDDHHmmSS from 19700101000000 to 21060207062815, or seconds since 1970";
    let text = input.word()?;
    let seconds =
        if text.len() == 14 { seconds_of_date(text) } else { decimal(text, u32::MAX.into()).map(u64::cast_signed) };
    let seconds = seconds.ok_or_else(|| input.wrong("is not a time", HELP))?;
    // RFC 4034 3.1.5: times are compared in serial number arithmetic, so they wrap in 2106.
    let wrapped = seconds as u32;
    if i64::from(wrapped) != seconds || text.len() == 14 && text[12..] == *b"60" {
        input.violates(
            format_args!("is not a time from 1970 to 2106: it is read as {wrapped} seconds since 1970"),
            HELP,
        );
    }
    out.extend_from_slice(&wrapped.to_be_bytes());
    Ok(())
}

/// The seconds from 1970 to a date of any year; a minute may have a leap second.
fn seconds_of_date(text: &[u8]) -> Option<i64> {
    let number = |from: usize, to: usize, max: u64| decimal(&text[from..to], max);
    let (year, month, day) = (number(0, 4, 9999)?, number(4, 6, 12)?, number(6, 8, 31)?);
    let (hour, minute, second) = (number(8, 10, 23)?, number(10, 12, 59)?, number(12, 14, 60)?);
    if year < 1 || month < 1 || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let days = days_before_year(year) + (1..month).map(|month| days_in_month(year, month)).sum::<u64>() + day - 1;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds.cast_signed() - days_before_year(1970).cast_signed() * 86_400)
}

pub(super) fn print_time(bytes: &[u8], out: &mut String) {
    let seconds = u64::from(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    let mut days = days_before_year(1970) + seconds / 86_400;
    let mut year = days / 366;
    while days_before_year(year + 1) <= days {
        year += 1;
    }
    days -= days_before_year(year);
    let mut month = 1;
    while days_in_month(year, month) <= days {
        days -= days_in_month(year, month);
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    write!(out, "{year}{month:02}{:02}{hour:02}{minute:02}{second:02}", days + 1).expect("a String takes all");
}

/// The days from the start of year 1 to the start of `year`.
fn days_before_year(year: u64) -> u64 {
    let before = year - 1;
    before * 365 + before / 4 - before / 100 + before / 400
}

fn days_in_month(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
