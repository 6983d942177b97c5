//! LOC, a location on earth (RFC 1876 3):
//! `d1 [m1 [s1]] N|S d2 [m2 [s2]] E|W altitude[m] [size[m] [horizontal[m] [vertical[m]]]]`.

use std::fmt::Write;

use super::fields::RdataFields;
use super::{FieldError, FieldResult, NoTextForm, number};

/// The equator and the prime meridian on the wire; angles are in thousandths of a second of arc.
const ZERO_ANGLE: u32 = 1 << 31;
const DEGREE: u32 = 3_600_000;
const MINUTE: u32 = 60_000;
/// The altitude 0 on the wire, in centimetres: the reference is 100,000 m below.
const ZERO_ALTITUDE: u32 = 10_000_000;

pub(super) fn parse(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let latitude = angle("latitude", 90, [b'N', b'S'], input)?;
    let longitude = angle("longitude", 180, [b'E', b'W'], input)?;
    let altitude = altitude(input)?;
    // RFC 1876 3: the defaults are 1 m, 10,000 m and 10 m.
    let sizes = [
        size("size", 0x12, input)?,
        size("horizontal precision", 0x16, input)?,
        size("vertical precision", 0x13, input)?,
    ];
    out.push(0);
    out.extend_from_slice(&sizes);
    for number in [latitude, longitude, altitude] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    Ok(())
}

//----------- reading ----------------------------------------------------------

/// Degrees up to `limit`, optional minutes and seconds, and the first letter for plus or the second for minus.
fn angle(name: &'static str, limit: u64, letters: [u8; 2], input: &mut RdataFields<'_>) -> FieldResult<u32> {
    input.call(name);
    let degrees = number::take(input, limit)? as u32;
    let mut angle = degrees * DEGREE;
    for is_minutes in [true, false] {
        let text = input.word()?;
        if let Some(angle) = signed(angle, text, letters) {
            return Ok(within(angle, limit, input));
        }
        angle += match is_minutes {
            true => number::decimal(text, 59).map(|minutes| minutes as u32 * MINUTE),
            false => fixed(text, 3).filter(|&thousandths| thousandths < 60_000).map(|thousandths| thousandths as u32),
        }
        .ok_or_else(|| not_an_angle(letters, input))?;
    }
    let text = input.word()?;
    let angle = signed(angle, text, letters).ok_or_else(|| not_an_angle(letters, input))?;
    Ok(within(angle, limit, input))
}

/// The angle on the wire, if `text` is one of the letters.
fn signed(angle: u32, text: &[u8], letters: [u8; 2]) -> Option<u32> {
    match text {
        [letter] if letter.eq_ignore_ascii_case(&letters[0]) => Some(ZERO_ANGLE + angle),
        [letter] if letter.eq_ignore_ascii_case(&letters[1]) => Some(ZERO_ANGLE - angle),
        _ => None,
    }
}

fn within(angle: u32, limit: u64, input: &mut RdataFields<'_>) -> u32 {
    if u64::from(angle.abs_diff(ZERO_ANGLE)) > limit * u64::from(DEGREE) {
        input.violates(format_args!("is over {limit} degrees"), "degrees, minutes and seconds are added up");
    }
    angle
}

fn not_an_angle(letters: [u8; 2], input: &RdataFields<'_>) -> Box<FieldError> {
    let [plus, minus] = letters.map(char::from);
    let help =
        format!("write degrees, minutes below 60, seconds below 60 with up to three decimals, and {plus} or {minus}");
    input.wrong("is not an angle", help)
}

/// Metres with up to two decimals, from -100000.00 to 42849672.95.
fn altitude(input: &mut RdataFields<'_>) -> FieldResult<u32> {
    input.call("altitude");
    let text = input.word()?;
    let (is_below, metres) = match text.strip_prefix(b"-") {
        Some(metres) => (true, metres),
        None => (false, text.strip_prefix(b"+").unwrap_or(text)),
    };
    let altitude = centimetres(metres).and_then(|centimetres| match is_below {
        true => u64::from(ZERO_ALTITUDE).checked_sub(centimetres),
        false => centimetres.checked_add(ZERO_ALTITUDE.into()),
    });
    let altitude = altitude.and_then(|altitude| u32::try_from(altitude).ok());
    altitude.ok_or_else(|| input.wrong("is not an altitude", "write metres from -100000.00 to 42849672.95"))
}

/// A size or precision: a digit and a power of ten of centimetres (RFC 1876 2); the default if no field remains.
fn size(name: &'static str, default: u8, input: &mut RdataFields<'_>) -> FieldResult<u8> {
    input.call(name);
    if input.is_at_end() {
        return Ok(default);
    }
    let text = input.word()?;
    let size = centimetres(text).filter(|&size| size / 100 <= 90_000_000);
    let mut digits = size.ok_or_else(|| input.wrong("is not a length", "write metres from 0.00 to 90000000.00"))?;
    let mut power = 0;
    while digits > 9 {
        digits /= 10;
        power += 1;
    }
    Ok((digits as u8) << 4 | power)
}

fn centimetres(text: &[u8]) -> Option<u64> {
    fixed(text.strip_suffix(b"m").unwrap_or(text), 2)
}

/// A number as a multiple of 10^-`decimals`; `1.` and `.5` are numbers as well.
fn fixed(text: &[u8], decimals: usize) -> Option<u64> {
    let point = memchr::memchr(b'.', text).unwrap_or(text.len());
    let (whole, fraction) = (&text[..point], text.get(point + 1..).unwrap_or_default());
    if fraction.len() > decimals || whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut number = if whole.is_empty() { 0 } else { number::decimal(whole, u32::MAX.into())? };
    for decimal in 0..decimals {
        let digit = fraction.get(decimal).map_or(Some(0), |digit| number::decimal(&[*digit], 9))?;
        number = number * 10 + digit;
    }
    Some(number)
}

//----------- printing ---------------------------------------------------------

pub(super) fn print(bytes: &[u8], out: &mut String) -> Result<(), NoTextForm> {
    let [0, size, horizontal, vertical, angles_and_altitude @ ..] = bytes else { return Err(NoTextForm) };
    let number =
        |at: usize| angles_and_altitude[at..at + 4].iter().fold(0u32, |number, &byte| number << 8 | u32::from(byte));
    print_angle(number(0), ['N', 'S'], out);
    out.push(' ');
    print_angle(number(4), ['E', 'W'], out);
    let altitude = i64::from(number(8)) - i64::from(ZERO_ALTITUDE);
    out.push_str(if altitude < 0 { " -" } else { " " });
    print_metres(altitude.unsigned_abs(), out);
    for &size in [size, horizontal, vertical] {
        // RFC 1876 2: zero times a power of ten has no text of its own.
        if size >> 4 == 0 && size != 0 {
            return Err(NoTextForm);
        }
        out.push(' ');
        print_metres(u64::from(size >> 4) * 10u64.pow(u32::from(size & 0xf)), out);
    }
    Ok(())
}

fn print_angle(angle: u32, letters: [char; 2], out: &mut String) {
    let letter = letters[usize::from(angle < ZERO_ANGLE)];
    let angle = angle.abs_diff(ZERO_ANGLE);
    let (degrees, minutes, thousandths) = (angle / DEGREE, angle % DEGREE / MINUTE, angle % MINUTE);
    let (seconds, thousandths) = (thousandths / 1000, thousandths % 1000);
    write!(out, "{degrees} {minutes} {seconds}.{thousandths:03} {letter}").expect("a String takes all");
}

fn print_metres(centimetres: u64, out: &mut String) {
    write!(out, "{}.{:02}m", centimetres / 100, centimetres % 100).expect("a String takes all");
}
