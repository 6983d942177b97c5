//! RDATA as text: every type with a presentation form, both ways.

use super::Field;
use std::borrow::Cow;
use wire::{NameRef, Rtype};

/// What is wrong with the fields of RDATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The number of the field; the number of fields if something is missing at the end.
    pub field: usize,
    /// What is wrong.
    pub message: Cow<'static, str>,
    /// What to do.
    pub help: Cow<'static, str>,
}

fn wrong(field: usize, message: &'static str) -> FieldError {
    FieldError { field, message: message.into(), help: "".into() }
}

/// Stub.
pub fn parse(rtype: Rtype, fields: &[Field<'_>], origin: NameRef<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let get = |i: usize| fields.get(i).ok_or(wrong(fields.len(), "missing"));
    let name = |i: usize, out: &mut Vec<u8>| {
        super::name::append(get(i)?.text, origin, out).map_err(|e| FieldError {
            field: i,
            message: e.to_string().into(),
            help: "".into(),
        })
    };
    let mut n = 1;
    match rtype {
        Rtype::A => {
            let t = std::str::from_utf8(get(0)?.text).map_err(|_| wrong(0, "addr"))?;
            let a: std::net::Ipv4Addr = t.parse().map_err(|_| wrong(0, "not an IPv4 address"))?;
            out.extend(a.octets());
        }
        Rtype::NS => {
            name(0, out)?;
        }
        Rtype::SOA => {
            name(0, out)?;
            name(1, out)?;
            for i in 2..7 {
                let t = std::str::from_utf8(get(i)?.text).map_err(|_| wrong(i, "num"))?;
                let v: u32 = t.parse().map_err(|_| wrong(i, "not a number"))?;
                out.extend(v.to_be_bytes());
            }
            n = 7;
        }
        Rtype::MX => {
            let t = std::str::from_utf8(get(0)?.text).map_err(|_| wrong(0, "num"))?;
            let v: u16 = t.parse().map_err(|_| wrong(0, "not a number"))?;
            out.extend(v.to_be_bytes());
            name(1, out)?;
            n = 2;
        }
        _ => {
            for f in fields {
                out.push(f.text.len() as u8);
                out.extend(f.text);
            }
            n = fields.len();
        }
    }
    if fields.len() > n {
        return Err(wrong(n, "too much"));
    }
    Ok(())
}

/// Stub.
pub fn print(_: Rtype, rdata: &[u8], out: &mut String) {
    out.push_str(&format!("\\# {} ", rdata.len()));
    for b in rdata {
        out.push_str(&format!("{b:02x}"));
    }
}
