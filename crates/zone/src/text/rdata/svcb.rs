//! Service parameters of SVCB and HTTPS records (RFC 9460 2.1, appendix A).

use std::fmt::Write;

use wire::rdata::svcb::{ALPN, KEYS, MANDATORY, NO_DEFAULT_ALPN, ValueFormat};
use wire::rdata::svcb::{check_value, identifiers, key, numbers, params, value_of};

use super::fields::RdataFields;
use super::{FieldError, FieldResult, address, number, octets, print_list, string};

/// The "invalid" key (RFC 9460 14.3.2).
const RESERVED: u16 = 65535;

/// A parameter: its key, the number of its field, its value in wire form.
struct Param {
    key: u16,
    field: usize,
    value: Vec<u8>,
}

/// Parses all remaining fields; appends the parameters in the order of their keys.
pub(super) fn parse(input: &mut RdataFields<'_>, out: &mut Vec<u8>) -> FieldResult {
    let mut params: Vec<Param> = Vec::new();
    while !input.is_at_end() {
        params.push(parse_param(input)?);
    }
    params.sort_by_key(|param| param.key);
    if let Some(pair) = params.windows(2).find(|pair| pair[0].key == pair[1].key) {
        let what = format_args!("has the key {} twice", KeyName(pair[1].key)).to_string();
        return Err(input.wrong_at(pair[1].field, what, "write each key once"));
    }
    check(&params, input)?;
    for param in &params {
        let len = u16::try_from(param.value.len());
        let len = len.map_err(|_| {
            input.wrong_at(param.field, "has a value over 65535 octets", "shorten it: a record holds 65535 octets")
        })?;
        out.extend_from_slice(&param.key.to_be_bytes());
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&param.value);
    }
    Ok(())
}

/// RFC 9460 8: mandatory keys must be present; 7.1.1: `no-default-alpn` needs `alpn`. `params` are sorted.
fn check(params: &[Param], input: &mut RdataFields<'_>) -> FieldResult {
    let find = |key: u16| params.binary_search_by_key(&key, |param| param.key).ok().map(|at| &params[at]);
    if let Some(mandatory) = find(MANDATORY)
        && let Some(missing) = numbers(&mandatory.value).find(|&key| find(key).is_none())
    {
        let what = format_args!("has {} without {}", KeyName(MANDATORY), KeyName(missing)).to_string();
        return Err(input.wrong_at(mandatory.field, what, "add the missing key"));
    }
    if let (Some(param), None) = (find(NO_DEFAULT_ALPN), find(ALPN)) {
        input.violates_at(param.field, "has no-default-alpn without alpn", "add the missing key (RFC 9460 7.1.1)");
    }
    Ok(())
}

//----------- parsing ----------------------------------------------------------

/// Parses a parameter: a key, or a key, `=` and a value, which may be quoted.
fn parse_param(input: &mut RdataFields<'_>) -> FieldResult<Param> {
    let text = input.word()?;
    let field = input.last();
    let (name, value) = match memchr::memchr(b'=', text) {
        Some(equals) => (&text[..equals], unquoted(&text[equals + 1..])),
        None => (text, &[][..]),
    };
    let key = key_number(name).ok_or_else(|| unknown_key(name, input))?;
    if name.starts_with(b"key0") && name.len() > 4 || key == RESERVED {
        // RFC 9460 2.1: no leading zeros; 14.3.2: the last number is reserved.
        input.violates(
            format_args!("has the invalid key {}", name.escape_ascii()),
            "write key and a number from 0 to 65534 without leading zeros",
        );
    }
    let form = if name.starts_with(b"key") { ValueFormat::Opaque } else { value_of(key) };
    let wrong = || format!("has a bad value for {}", name.escape_ascii());
    let mut wire = Vec::new();
    push_value(form, value, &mut wire).ok_or_else(|| input.wrong(wrong(), help(form)))?;
    if check_value(key, &wire).is_err() {
        // Values of keyNNNNN are any octets; BIND and NSD accept an empty ech.
        match form {
            ValueFormat::Opaque | ValueFormat::Base64 => input.violates(wrong(), help(value_of(key))),
            _ => return Err(input.wrong(wrong(), help(form))),
        }
    }
    Ok(Param { key, field, value: wire })
}

fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

/// The number of a registered key, or of `keyNNNNN` (RFC 9460 2.1).
fn key_number(name: &[u8]) -> Option<u16> {
    if let Some(key) = KEYS.iter().find(|key| key.name.as_bytes() == name) {
        return Some(key.number);
    }
    number::decimal(name.strip_prefix(b"key")?, RESERVED.into()).map(|number| number as u16)
}

fn unknown_key(name: &[u8], input: &RdataFields<'_>) -> Box<FieldError> {
    let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
    let what = format!("has the unknown key \"{}\"", name.escape_ascii());
    input.wrong(what, format!("write one of {}, or key and a number up to 65534, in lower case", known.join(", ")))
}

/// Appends the wire form of a value; `check_value` checks it.
fn push_value(form: ValueFormat, text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    match form {
        ValueFormat::Text | ValueFormat::Opaque => string::unescape(text, out),
        ValueFormat::Empty => text.is_empty().then_some(()),
        ValueFormat::Port => push_list(text, out, number16).filter(|()| out.len() == 2),
        ValueFormat::Base64 => octets::push_base64(text, out).ok().map(|_| ()),
        ValueFormat::Addrs4 => push_list(text, out, address::addr4),
        ValueFormat::Addrs6 => push_list(text, out, address::addr6),
        ValueFormat::Numbers => push_list(text, out, number16),
        ValueFormat::Keys => push_keys(text, out),
        ValueFormat::Identifiers(_) => push_identifiers(text, out),
    }
}

fn number16(text: &[u8]) -> Option<[u8; 2]> {
    number::decimal(text, u16::MAX.into()).map(|number| (number as u16).to_be_bytes())
}

/// Appends the wire form of each item of a comma-separated list.
fn push_list<const N: usize>(text: &[u8], out: &mut Vec<u8>, item: fn(&[u8]) -> Option<[u8; N]>) -> Option<()> {
    text.split(|&byte| byte == b',').try_for_each(|text| item(text).map(|item| out.extend_from_slice(&item)))
}

/// RFC 9460 8: any order in text, ascending in wire form; `mandatory` itself is not allowed.
fn push_keys(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut keys = Vec::new();
    for name in text.split(|&byte| byte == b',') {
        keys.push(key_number(name).filter(|&key| key != MANDATORY)?);
    }
    keys.sort_unstable();
    out.extend(keys.iter().flat_map(|key| key.to_be_bytes()));
    Some(())
}

/// RFC 9460 appendix A.1: after string unescaping, `\,` and `\\` are a comma and a backslash in an identifier.
fn push_identifiers(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut list = Vec::new();
    string::unescape(text, &mut list)?;
    if list.is_empty() {
        return Some(());
    }
    let mut identifier = Vec::new();
    let mut bytes = list.into_iter().chain([b',']);
    while let Some(byte) = bytes.next() {
        match byte {
            b',' => {
                out.push(u8::try_from(identifier.len()).ok()?);
                out.append(&mut identifier);
            }
            b'\\' => identifier.push(bytes.next().filter(|byte| matches!(byte, b',' | b'\\'))?),
            _ => identifier.push(byte),
        }
    }
    identifier.is_empty().then_some(())
}

fn help(form: ValueFormat) -> &'static str {
    match form {
        ValueFormat::Keys => "write each other key once, separated by commas, without \"mandatory\"",
        ValueFormat::Identifiers(_) => "write identifiers of 1 to 255 octets, separated by commas",
        ValueFormat::Empty => "this key has no value",
        ValueFormat::Port => "write a number from 0 to 65535",
        ValueFormat::Addrs4 => "write IPv4 addresses, separated by commas",
        ValueFormat::Addrs6 => "write IPv6 addresses, separated by commas",
        ValueFormat::Base64 => "write base64",
        ValueFormat::Text => "this key needs a value",
        ValueFormat::Numbers => "write each number from 0 to 65535 once, separated by commas",
        ValueFormat::Opaque => "write the octets of the value, escaped as in strings",
    }
}

//----------- printing ---------------------------------------------------------

struct KeyName(u16);

impl std::fmt::Display for KeyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match key(self.0) {
            Some(key) => f.write_str(key.name),
            None => write!(f, "key{}", self.0),
        }
    }
}

pub(super) fn print(bytes: &[u8], out: &mut String) {
    print_list(params(bytes), ' ', out, |(key, value), out| {
        print_key(key, out);
        if !value.is_empty() {
            out.push('=');
            print_value(value_of(key), value, out);
        }
    });
}

fn print_key(key: u16, out: &mut String) {
    write!(out, "{}", KeyName(key)).expect("a String takes all");
}

fn print_value(form: ValueFormat, value: &[u8], out: &mut String) {
    match form {
        ValueFormat::Empty => {}
        ValueFormat::Text | ValueFormat::Opaque => string::print_bare(value, out),
        ValueFormat::Port => number::print(value, out),
        ValueFormat::Base64 => octets::print_base64(value, out),
        ValueFormat::Addrs4 => print_list(value.chunks(4), ',', out, address::print_addr4),
        ValueFormat::Addrs6 => print_list(value.chunks(16), ',', out, address::print_addr6),
        ValueFormat::Numbers => print_list(value.chunks(2), ',', out, number::print),
        ValueFormat::Keys => print_list(numbers(value), ',', out, print_key),
        ValueFormat::Identifiers(_) => print_list(identifiers(value), ',', out, print_identifier),
    }
}

fn print_identifier(identifier: &[u8], out: &mut String) {
    for &byte in identifier {
        if matches!(byte, b',' | b'\\') {
            string::print_bare(b"\\", out);
        }
        string::print_bare(&[byte], out);
    }
}
