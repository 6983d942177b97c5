//! Parses and prints RDATA: the presentation format of each type, and `\#` for all of them (RFC 3597 5).
//!
//! The table in [`wire::rtype`] lists the fields of each type; each module here parses and prints some of their forms.

mod address;
mod bitmap;
mod fields;
mod generic;
mod host;
mod location;
mod number;
mod octets;
mod string;
mod svcb;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

use wire::rdata::{Form, MAX_RDATA_LEN, fields_of, split};
use wire::{NameRef, Rtype};

use super::Field;
use fields::RdataFields;
pub(super) use number::decimal;

/// What is wrong with a field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The number of the field, from 0; the number of fields if one is missing after the last.
    pub field: usize,
    /// What is wrong: one sentence without a full stop.
    pub message: Cow<'static, str>,
    /// How to fix it: one sentence without a full stop.
    pub help: Cow<'static, str>,
}

/// The first violation of its type's RFC in a record that can be stored and served.
pub type RuleViolation = Option<Box<FieldError>>;

/// The error is boxed: results are passed on for every field.
type FieldResult<T = ()> = Result<T, Box<FieldError>>;

/// Appends the uncompressed RDATA of `fields` to `out`; on an error `out` is unchanged. Relative names are completed
/// with `origin`.
pub fn parse(
    rtype: Rtype,
    fields: &[Field<'_>],
    origin: NameRef<'_>,
    out: &mut Vec<u8>,
) -> Result<RuleViolation, Box<FieldError>> {
    let start = out.len();
    let mut input = RdataFields::new(rtype, fields, origin, start);
    match parse_parts(&mut input, out) {
        Ok(()) => Ok(input.into_violation()),
        Err(error) => {
            out.truncate(start);
            Err(error)
        }
    }
}

fn parse_parts(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if generic::is_next(input) {
        generic::parse(input, out)?;
    } else {
        for part in fields_of(input.rtype()) {
            input.begin(part);
            parse_form(part.form, input, out)?;
        }
    }
    input.end()?;
    if out.len() - input.start() > MAX_RDATA_LEN {
        return Err(input.wrong("makes the record too long", "a record holds at most 65535 octets"));
    }
    Ok(())
}

/// Appends the canonical text of `rdata`: one line that [`parse`] turns into the same octets.
///
/// RDATA that is malformed for its type, or has no presentation format, is printed as `\#` (RFC 3597 5).
pub fn print(rtype: Rtype, rdata: &[u8], out: &mut String) {
    let start = out.len();
    if print_parts(rtype, rdata, out).is_err() || out.len() == start {
        out.truncate(start);
        generic::print(rdata, out);
    }
}

fn print_parts(rtype: Rtype, rdata: &[u8], out: &mut String) -> Result<(), NoTextForm> {
    let start = out.len();
    for part in split(rtype, rdata) {
        let (part, place) = part.map_err(|_| NoTextForm)?;
        part.check(rdata, place.clone()).map_err(|_| NoTextForm)?;
        if out.len() > start {
            out.push(' ');
        }
        print_form(part.form, rdata, place, out)?;
        // No form prints a blank at its end.
        if out.ends_with(' ') {
            out.pop();
        }
    }
    Ok(())
}

/// Prints items with a separator between them.
fn print_list<T>(
    items: impl Iterator<Item = T>,
    separator: char,
    out: &mut String,
    mut print: impl FnMut(T, &mut String),
) {
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(separator);
        }
        print(item, out);
    }
}

/// The RDATA has no text form but `\#`.
struct NoTextForm;

//----------- the forms --------------------------------------------------------

fn parse_form(form: Form, input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    match form {
        Form::CompressibleName | Form::Name => string::parse_name(input, out),
        Form::Names => string::parse_names(input, out),
        Form::U8 => number::parse::<1>(input, out),
        Form::U16 => number::parse::<2>(input, out),
        Form::U32 => number::parse::<4>(input, out),
        Form::U64 => number::parse::<8>(input, out),
        Form::Named8(names) => number::parse_named8(names, input, out),
        Form::Named16(names) => number::parse_named16(names, input, out),
        Form::Interval => number::parse_seconds(input, out),
        Form::Time => number::parse_time(input, out),
        Form::Type => number::parse_type(input, out),
        Form::Addr4 => address::parse_addr4(input, out),
        Form::Addr6 => address::parse_addr6(input, out),
        Form::Locator64 => address::parse_locator(input, out),
        Form::Eui(len) => address::parse_eui(len, input, out),
        Form::CharString => string::parse_string(input, out),
        Form::Digits | Form::Decimal => string::parse_checked_string(input, out),
        Form::OptionalCharString => string::parse_optional_string(input, out),
        Form::CharStrings => string::parse_strings(input, out),
        Form::Tag => string::parse_tag(input, out),
        Form::Text(_) => string::parse_text(input, out),
        Form::Salt => octets::parse_salt(input, out),
        Form::Hash => octets::parse_hash(input, out),
        Form::Hex(min) => octets::parse_hex(min, input, out),
        Form::Digest(..) => octets::parse_digest(input, out),
        Form::Base64(min) => octets::parse_base64(min, input, out),
        Form::Key => octets::parse_key(input, out),
        Form::Base64OrDash => octets::parse_base64_or_dash(input, out),
        Form::Types(_) => bitmap::parse_types(input, out),
        Form::NxtTypes => bitmap::parse_nxt_types(input, out),
        Form::Services => bitmap::parse_services(input, out),
        Form::Nsap => address::parse_nsap(input, out),
        Form::AtmAddress => address::parse_atm(input, out),
        Form::Location => location::parse(input, out),
        Form::PrefixLength => address::parse_prefix_length(input, out),
        Form::AddressSuffix => address::parse_suffix(input, out),
        Form::PrefixName => address::parse_prefix_name(input, out),
        Form::Prefixes => address::parse_prefixes(input, out),
        Form::Discovery => host::parse_discovery(input, out),
        Form::Gateway(mask) => host::parse_gateway(mask, input, out),
        Form::HostIdentity => host::parse_identity(input, out),
        Form::SvcParams => svcb::parse(input, out),
        Form::Opaque => Err(generic::required(input)),
    }
}

/// Prints the part at `place`, which is valid for its form.
fn print_form(form: Form, rdata: &[u8], place: Range<usize>, out: &mut String) -> Result<(), NoTextForm> {
    let bytes = &rdata[place.clone()];
    match form {
        Form::CompressibleName | Form::Name | Form::Names | Form::PrefixName => string::print_names(bytes, out),
        Form::U8 | Form::U16 | Form::U32 | Form::U64 | Form::PrefixLength => number::print(bytes, out),
        Form::Named8(_) | Form::Named16(_) | Form::Interval => number::print(bytes, out),
        Form::Time => number::print_time(bytes, out),
        Form::Type => number::print_type(bytes, out),
        Form::Addr4 => address::print_addr4(bytes, out),
        Form::Addr6 => address::print_addr6(bytes, out),
        Form::Locator64 => address::print_locator(bytes, out),
        Form::Eui(_) => address::print_eui(bytes, out),
        Form::CharString | Form::OptionalCharString | Form::CharStrings => string::print_strings(bytes, out),
        Form::Digits | Form::Decimal | Form::Tag => string::print_bare(&bytes[1..], out),
        Form::Text(_) => string::print_quoted(bytes, out),
        Form::Salt => octets::print_salt(&bytes[1..], out),
        Form::Hash => octets::print_base32(&bytes[1..], out),
        Form::Hex(_) | Form::Digest(..) => octets::print_hex(bytes, out),
        Form::Base64(_) | Form::Key => octets::print_base64(bytes, out),
        Form::Base64OrDash if bytes.is_empty() => out.push('-'),
        Form::Base64OrDash => octets::print_base64(bytes, out),
        Form::Types(_) => bitmap::print_types(bytes, out),
        Form::NxtTypes => bitmap::print_nxt_types(bytes, out),
        Form::Services => bitmap::print_services(bytes, out),
        Form::Nsap => address::print_nsap(bytes, out),
        Form::AtmAddress => return address::print_atm(bytes, out),
        Form::Location => return location::print(bytes, out),
        Form::AddressSuffix => return address::print_suffix(rdata[0], bytes, out),
        Form::Prefixes => return address::print_prefixes(bytes, out),
        Form::Discovery => host::print_discovery(bytes[0], out),
        Form::Gateway(mask) => host::print_gateway(rdata[1] & mask, bytes, out),
        Form::HostIdentity => host::print_identity(bytes, out),
        Form::SvcParams => svcb::print(bytes, out),
        Form::Opaque => return Err(NoTextForm),
    }
    Ok(())
}
