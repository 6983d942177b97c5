//! Names and strings, with their escapes (RFC 1035 5.1).

use std::fmt::Write;

use wire::{NameRef, name};

use super::super::name::append;
use super::input::Input;
use super::{FieldError, Outcome};

const NAME_HELP: &str = "write labels of 1 to 63 octets with single dots between, 255 octets in all";

//----------- names ------------------------------------------------------------

pub(super) fn parse_name(input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
    let text = input.word()?;
    if text.ends_with(b"\"") && !text.ends_with(b"\\\"") {
        // Only a service parameter can look like this, where the name before it was forgotten.
        return Err(input.wrong("is missing", "write the name, or . for none, before the parameters"));
    }
    append(text, input.origin(), out)
        .map_err(|error| input.wrong(format_args!("is not a domain name: {error}"), NAME_HELP))
}

pub(super) fn parse_names(input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
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

/// Takes a character string and checks the rules of its form.
pub(super) fn parse_string(input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
    let start = out.len();
    parse_plain_string(input, out)?;
    input.check(out, start)
}

pub(super) fn parse_optional_string(input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
    if input.is_at_end() { Ok(()) } else { parse_plain_string(input, out) }
}

pub(super) fn parse_strings(input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
    parse_plain_string(input, out)?;
    while !input.is_at_end() {
        parse_plain_string(input, out)?;
    }
    Ok(())
}

pub(super) fn parse_tag(input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
    let start = out.len();
    let tag = input.word()?;
    push_string(tag, input, out)?;
    input.check(out, start)
}

pub(super) fn parse_text(least: usize, input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
    let start = out.len();
    let text = input.string()?;
    unescape(text, out).ok_or_else(|| bad_escape(input))?;
    if out.len() - start < least {
        return Err(input.wrong("is empty", "write at least one character"));
    }
    Ok(())
}

fn parse_plain_string(input: &mut Input<'_>, out: &mut Vec<u8>) -> Outcome {
    let text = input.string()?;
    push_string(text, input, out)
}

fn push_string(text: &[u8], input: &Input<'_>, out: &mut Vec<u8>) -> Outcome {
    let start = out.len();
    out.push(0);
    unescape(text, out).ok_or_else(|| bad_escape(input))?;
    out[start] = u8::try_from(out.len() - start - 1).map_err(|_| {
        input.wrong("is longer than 255 octets", "where the type allows it, split it into several strings")
    })?;
    Ok(())
}

fn bad_escape(input: &Input<'_>) -> Box<FieldError> {
    let help = "write a backslash as \\\\, and other octets as a backslash and three digits up to 255";
    input.wrong("has a bad escape", help)
}

/// Appends `text` with its escapes resolved; `None` if one of them is bad.
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
