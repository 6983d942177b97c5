//! Names and character strings, with their escapes (RFC 1035 5.1).

use std::fmt::Write;

use wire::{NameRef, name};

use super::super::name::append;
use super::fields::RdataFields;
use super::{FieldError, FieldResult};

const NAME_HELP: &str = "write labels of 1 to 63 octets, separated by dots, with at most 255 octets in all";

//----------- names ------------------------------------------------------------

pub(super) fn parse_name(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let text = input.word()?;
    if text.ends_with(b"\"") && !text.ends_with(b"\\\"") {
        // Only a service parameter ends in a quote: the name before it is missing.
        return Err(input.wrong("is missing", "write the name, or . for none, before the parameters"));
    }
    append(text, input.origin(), out)
        .map_err(|error| input.wrong(format_args!("is not a domain name: {error}"), NAME_HELP))
}

pub(super) fn parse_names(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    while !input.is_at_end() {
        parse_name(input, out)?;
    }
    Ok(())
}

pub(super) fn print_names(mut bytes: &[u8], out: &mut String) {
    let mut separator = "";
    while let Ok(name) = NameRef::from_wire(bytes) {
        write!(out, "{separator}{name}").expect("a String takes all");
        separator = " ";
        bytes = &bytes[name.wire().len()..];
    }
}

//----------- strings ----------------------------------------------------------

/// Parses a character string and checks its contents.
pub(super) fn parse_checked_string(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let start = out.len();
    parse_string(input, out)?;
    input.check(out, start);
    Ok(())
}

pub(super) fn parse_optional_string(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    if input.is_at_end() { Ok(()) } else { parse_string(input, out) }
}

pub(super) fn parse_strings(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    parse_long_string(input, out)?;
    while !input.is_at_end() {
        parse_long_string(input, out)?;
    }
    Ok(())
}

/// RFC 8659 4.1: a tag is not quoted; quotes are a violation.
pub(super) fn parse_tag(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let is_quoted = input.peek().is_some_and(|field| field.quoted);
    parse_checked_string(input, out)?;
    if is_quoted {
        input.violates("is in quotes", "write it without quotes");
    }
    Ok(())
}

pub(super) fn parse_text(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let start = out.len();
    let text = input.string()?;
    unescape(text, out).ok_or_else(|| bad_escape(input))?;
    input.check(out, start);
    Ok(())
}

pub(super) fn parse_string(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let len = push_string(input, out)?;
    match len {
        ..=255 => Ok(()),
        _ => Err(input.wrong("is longer than 255 octets", "shorten it: this type has one string here")),
    }
}

/// Parses a character string and splits one that is too long.
fn parse_long_string(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let start = out.len();
    if push_string(input, out)? > 255 {
        let octets = out.split_off(start + 1);
        out.truncate(start);
        for string in octets.chunks(255) {
            out.push(string.len() as u8);
            out.extend_from_slice(string);
        }
        input.violates("is longer than 255 octets: it is split", "write it as several strings of up to 255 octets");
    }
    Ok(())
}

/// Appends the next field as a length octet and octets; returns their number, over 255 if they do not fit.
fn push_string(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult<usize> {
    let start = out.len();
    let text = input.string()?;
    out.push(0);
    unescape(text, out).ok_or_else(|| bad_escape(input))?;
    let len = out.len() - start - 1;
    out[start] = len as u8;
    Ok(len)
}

fn bad_escape(input: &RdataFields<'_>) -> Box<FieldError> {
    let help = "write a backslash as \\\\, and other octets as a backslash and three digits up to 255";
    input.wrong("has a bad escape", help)
}

/// Appends `text` with escapes resolved; `None` if one is bad.
pub(super) fn unescape(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let plain = memchr::memchr(b'\\', text).unwrap_or(text.len());
    out.extend_from_slice(&text[..plain]);
    let mut bytes = text[plain..].iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(if byte == b'\\' { name::unescape(&mut bytes).ok()? } else { byte });
    }
    Some(())
}

pub(super) fn print_strings(mut bytes: &[u8], out: &mut String) {
    let mut is_first = true;
    while let Some((&len, rest)) = bytes.split_first() {
        if !is_first {
            out.push(' ');
        }
        is_first = false;
        let (string, rest) = rest.split_at(usize::from(len));
        print_quoted(string, out);
        bytes = rest;
    }
}

pub(super) fn print_quoted(string: &[u8], out: &mut String) {
    out.push('"');
    for &byte in string {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => print_code(byte, out),
        }
    }
    out.push('"');
}

/// Prints a string without quotes, with special characters escaped.
pub(super) fn print_bare(string: &[u8], out: &mut String) {
    for &byte in string {
        match byte {
            b'"' | b'\\' | b';' | b'(' | b')' => out.extend(['\\', char::from(byte)]),
            b'!'..=b'~' => out.push(char::from(byte)),
            _ => print_code(byte, out),
        }
    }
}

fn print_code(byte: u8, out: &mut String) {
    write!(out, "\\{byte:03}").expect("a String takes all");
}
