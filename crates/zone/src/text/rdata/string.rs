//! Names and strings, with their escapes (RFC 1035 5.1).

use std::fmt::Write;

use wire::name::{self, NameError};
use wire::{MAX_LABEL_LEN, MAX_NAME_LEN, NameRef};

use super::FieldError;
use super::input::Input;

const ESCAPES: &str = "write a backslash as \\\\, and other octets as a backslash and three digits up to 255";

//----------- names ------------------------------------------------------------

pub(super) fn parse_name(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let text = input.word()?;
    push_name(text, input.origin(), out).map_err(|error| input.wrong(format_args!("is not a domain name: {error}"), ""))
}

pub(super) fn parse_names(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    while !input.is_at_end() {
        parse_name(input, out)?;
    }
    Ok(())
}

/// Appends the wire form of the name `text`; a relative one is completed by `origin`. What it appends in case of an error is of no use.
fn push_name(text: &[u8], origin: NameRef<'_>, out: &mut Vec<u8>) -> Result<(), NameError> {
    if text.len() > MAX_NAME_LEN || matches!(text, b"" | b"@" | b".") || memchr::memchr(b'\\', text).is_some() {
        return push_escaped_name(text, origin, out);
    }
    // Moved one octet to the right, every dot of the text stands where the length of the next label belongs.
    let start = out.len();
    out.push(0);
    out.extend_from_slice(text);
    let wire = &mut out[start..];
    let mut label = 0;
    for at in 1..wire.len() {
        if wire[at] == b'.' {
            wire[label] = label_len(label, at)?;
            label = at;
        }
    }
    if label + 1 == wire.len() {
        wire[label] = 0;
    } else {
        wire[label] = label_len(label, wire.len())?;
        out.extend_from_slice(origin.wire());
    }
    if out.len() - start > MAX_NAME_LEN { Err(NameError::LongName) } else { Ok(()) }
}

fn label_len(start: usize, end: usize) -> Result<u8, NameError> {
    match end - start - 1 {
        0 => Err(NameError::EmptyLabel),
        len if len > MAX_LABEL_LEN => Err(NameError::LongLabel),
        len => Ok(len as u8),
    }
}

fn push_escaped_name(text: &[u8], origin: NameRef<'_>, out: &mut Vec<u8>) -> Result<(), NameError> {
    let mut wire = [0; MAX_NAME_LEN];
    let len = name::parse_text(text, Some(origin), &mut wire)?;
    out.extend_from_slice(&wire[..len]);
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

/// Takes a character string and checks the rules of its form.
pub(super) fn parse_string(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let start = out.len();
    parse_plain_string(input, out)?;
    input.check(out, start)
}

pub(super) fn parse_optional_string(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    if input.is_at_end() { Ok(()) } else { parse_plain_string(input, out) }
}

pub(super) fn parse_strings(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    parse_plain_string(input, out)?;
    while !input.is_at_end() {
        parse_plain_string(input, out)?;
    }
    Ok(())
}

pub(super) fn parse_tag(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let start = out.len();
    let tag = input.word()?;
    push_string(tag, input, out)?;
    input.check(out, start)
}

pub(super) fn parse_text(least: usize, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let start = out.len();
    let text = input.string()?;
    unescape(text, input, out)?;
    if out.len() - start < least {
        return Err(input.wrong("is empty", ""));
    }
    Ok(())
}

fn parse_plain_string(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let text = input.string()?;
    push_string(text, input, out)
}

fn push_string(text: &[u8], input: &Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let start = out.len();
    out.push(0);
    unescape(text, input, out)?;
    out[start] = u8::try_from(out.len() - start - 1).map_err(|_| {
        input.wrong("is longer than 255 octets", "where the type allows it, split it into several strings")
    })?;
    Ok(())
}

/// Appends `text` with its escapes resolved.
pub(super) fn unescape(text: &[u8], input: &Input<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let Some(plain) = memchr::memchr(b'\\', text) else {
        out.extend_from_slice(text);
        return Ok(());
    };
    out.extend_from_slice(&text[..plain]);
    let mut bytes = text[plain..].iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'\\' => name::unescape(&mut bytes).map_err(|_| input.wrong("has a bad escape", ESCAPES))?,
            _ => byte,
        });
    }
    Ok(())
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

/// Prints a string without quotes, everything escaped that would end a field or mean something else.
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
