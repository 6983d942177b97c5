//! Records as zone text, to load zones and to print failures.

use std::fmt::Write;

use wire::message::{Flags, Message, Record};
use zone::text::rdata::print;

/// A record on one line: owner, TTL, type, data.
pub fn line(record: &Record) -> String {
    let mut line = format!("{} {} {} ", record.owner, record.ttl, record.rtype);
    print(record.rtype, &record.rdata, &mut line);
    line
}

/// Records, a line each.
pub fn lines(records: &[Record]) -> String {
    records.iter().map(|record| line(record) + "\n").collect()
}

/// A message as dig shows it.
pub fn dig(message: &Message) -> String {
    let mut out = format!("rcode {}, flags{}\n", message.rcode.0, flags(message.flags));
    for question in &message.questions {
        let _ = writeln!(out, ";; {} {} {}", question.name, question.qtype, question.qclass);
    }
    for (section, records) in
        [("answer", &message.answer), ("authority", &message.authority), ("additional", &message.additional)]
    {
        let _ = write!(out, ";; {section}\n{}", lines(records));
    }
    let _ = writeln!(out, ";; {:?}", message.edns);
    out
}

fn flags(flags: Flags) -> String {
    [
        (flags.response, " QR"),
        (flags.authoritative, " AA"),
        (flags.truncated, " TC"),
        (flags.recursion_desired, " RD"),
        (flags.recursion_available, " RA"),
        (flags.reserved, " Z"),
        (flags.authentic_data, " AD"),
        (flags.checking_disabled, " CD"),
    ]
    .iter()
    .filter_map(|(set, name)| set.then_some(*name))
    .collect()
}
