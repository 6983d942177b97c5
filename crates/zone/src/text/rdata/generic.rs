//! RDATA of any type as `\# LENGTH HEX...` (RFC 3597 5).

use wire::rdata::{self, Form, RdataError, RdataField, fields_of};

use super::fields::RdataFields;
use super::{FieldError, FieldResult};
use super::{number, octets};

const HELP: &str = "write \\#, the number of octets, and the octets in hexadecimal (RFC 3597)";
const FIT_HELP: &str = "correct the octets, or use the text form of the type";

/// Whether the RDATA is in this form. As in BIND and NSD, `\#` is text if the type has a presentation format and no
/// number follows.
pub(super) fn is_next(input: &mut RdataFields<'_>) -> bool {
    if !input.peek().is_some_and(|field| field.text == b"\\#" && !field.quoted) {
        return false;
    }
    let has_text_form = !matches!(fields_of(input.rtype()), [RdataField { form: Form::Opaque, .. }]);
    let is_text =
        has_text_form && input.peek_second().is_some_and(|field| number::decimal(field.text, u64::MAX).is_none());
    if is_text {
        input.violates_at(0, "has \\# without a number of octets after it: it is read as text", HELP);
    }
    !is_text
}

/// Parses the whole RDATA. RFC 3597 5: known types may use this form as well, within the rules of the type.
pub(super) fn parse(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    input.word()?;
    let start = out.len();
    let len = number::take(input, 65535)? as usize;
    let len_field = input.last();
    octets::parse_hex(0, input, out)?;
    let found = out.len() - start;
    if found != len {
        return Err(input.wrong_at(len_field, format_args!("has {found} octets, not {len}"), HELP));
    }
    match rdata::check(input.rtype(), &out[start..]) {
        Ok(()) => Ok(()),
        Err(error @ RdataError::Form(..)) => {
            input.violates_at(
                len_field,
                format_args!("violates a rule of the type {}: {error}", input.rtype()),
                FIT_HELP,
            );
            Ok(())
        }
        Err(error) => {
            Err(input.wrong_at(len_field, format_args!("does not fit the type {}: {error}", input.rtype()), FIT_HELP))
        }
    }
}

pub(super) fn print(rdata: &[u8], out: &mut String) {
    out.push_str("\\# ");
    number::print_decimal(rdata.len() as u64, out);
    if !rdata.is_empty() {
        out.push(' ');
        octets::print_hex(rdata, out);
    }
}

/// The error for a type without a presentation format.
pub(super) fn required(input: &RdataFields<'_>) -> Box<FieldError> {
    let message = format!("the type {} has no text form of its own", input.rtype());
    Box::new(FieldError { field: 0, message: message.into(), help: HELP.into() })
}
