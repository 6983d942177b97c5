//! RDATA of any type as `\# LENGTH HEX...` (RFC 3597 5).

use wire::rdata;

use super::FieldError;
use super::input::Input;
use super::{number, octets};

const HELP: &str = "write \\#, the number of octets, and the octets in hexadecimal (RFC 3597)";

/// Whether the RDATA is written in this form.
pub(super) fn is_next(input: &Input<'_>) -> bool {
    input.peek().is_some_and(|field| field.text == b"\\#" && !field.quoted)
}

/// Reads the whole RDATA.
///
/// RFC 3597 5: known types may be written like this too, and stay subject to the rules of their type.
pub(super) fn parse(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    input.word()?;
    let start = out.len();
    let len = number::take(input, 65535)? as usize;
    let len_field = input.last();
    octets::parse_hex(0, input, out)?;
    let found = out.len() - start;
    if found != len {
        return Err(input.wrong_at(len_field, format_args!("should be {len} octets, but are {found}"), HELP));
    }
    rdata::check(input.rtype(), &out[start..])
        .map_err(|error| input.wrong_at(len_field, format_args!("do not fit the type {}: {error}", input.rtype()), ""))
}

pub(super) fn print(rdata: &[u8], out: &mut String) {
    out.push_str("\\# ");
    number::print_decimal(rdata.len() as u64, out);
    if !rdata.is_empty() {
        out.push(' ');
        octets::print_hex(rdata, out);
    }
}

/// The error that the type has no other form.
pub(super) fn required(input: &Input<'_>) -> FieldError {
    let message = format!("the type {} has no text form of its own", input.rtype());
    FieldError { field: 0, message: message.into(), help: HELP.into() }
}
