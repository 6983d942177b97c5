//! Prints records as zone text, one line each, which parses back to the same record.

use std::fmt::Write;

use wire::NameRef;

use super::{ZoneRecord, rdata};

/// How owners are printed.
#[derive(Clone, Copy, Debug)]
pub enum OwnerStyle<'a> {
    /// In full, with the final dot.
    Absolute,
    /// Relative to the origin, which must be that of the parser; `@` is the origin itself.
    RelativeTo(NameRef<'a>),
}

/// Appends the record as a line: owner, TTL, class, type, RDATA. Names in the RDATA are absolute.
pub fn write_record(out: &mut String, record: &ZoneRecord<'_>, style: OwnerStyle<'_>) {
    write_owner(out, record.owner, style);
    write!(out, " {} IN {} ", record.ttl, record.rtype).expect("strings take all writes");
    rdata::print(record.rtype, record.rdata, out);
    out.push('\n');
}

fn write_owner(out: &mut String, owner: NameRef<'_>, style: OwnerStyle<'_>) {
    let start = out.len();
    write!(out, "{owner}").expect("strings take all writes");
    let OwnerStyle::RelativeTo(origin) = style else { return };
    if owner == origin {
        out.replace_range(start.., "@");
    } else if owner.is_at_or_below(origin) {
        // The origin and the dot before it; the case of letters does not change the length of the text.
        let cut = if origin.is_root() { 1 } else { origin.to_string().len() + 1 };
        out.truncate(out.len() - cut);
    }
}
