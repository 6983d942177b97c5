//! Parses and prints RDATA of every type; checks errors and violations; printing and parsing are inverse.

mod bad;
mod domain;
mod good;
mod inverse;

use wire::{Name, Rtype};

use super::super::Field;
use super::{FieldError, RuleViolation, parse, print};

/// Parses `text` as the RDATA of a record in the zone `example.`, with a violation or not.
fn rdata(rtype: &str, text: &str) -> Result<Vec<u8>, Box<FieldError>> {
    rdata_and_violation(rtype, text).map(|(rdata, _)| rdata)
}

/// The RDATA and its violation, if any.
fn rdata_and_violation(rtype: &str, text: &str) -> Result<(Vec<u8>, RuleViolation), Box<FieldError>> {
    let rtype: Rtype = rtype.parse().expect("a type");
    let origin = Name::from_text(b"example.", None).expect("a name");
    let mut out = b"before".to_vec();
    let result = parse(rtype, &fields(text), origin.as_ref(), &mut out);
    let rdata = out.split_off(6);
    assert_eq!(out, b"before");
    assert!(result.is_ok() || rdata.is_empty(), "nothing is appended in case of an error");
    result.map(|violation| (rdata, violation))
}

fn printed(rtype: &str, rdata: &[u8]) -> String {
    let mut text = String::new();
    print(rtype.parse().expect("a type"), rdata, &mut text);
    text
}

/// Splits at blanks outside quotes. A quoted field loses its quotes; a quoted value after `=` keeps them.
fn fields(text: &str) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let quoted = rest.starts_with('"');
        let len = if quoted { 2 + closing(&rest[1..]) } else { word_len(rest) };
        let text = if quoted { &rest[1..len - 1] } else { &rest[..len] };
        fields.push(Field { text: text.as_bytes(), quoted, line: 1, column: 1 });
        rest = rest[len..].trim_start();
    }
    fields
}

fn word_len(text: &str) -> usize {
    let blank = text.find(' ').unwrap_or(text.len());
    match text.find("=\"") {
        Some(at) if at < blank => at + 3 + closing(&text[at + 2..]),
        _ => blank,
    }
}

/// The offset of the closing quote in `text`.
fn closing(text: &str) -> usize {
    let mut is_escaped = false;
    let at = text.bytes().position(|byte| {
        let is_closing = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_closing
    });
    at.expect("quotes in tests are closed")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
