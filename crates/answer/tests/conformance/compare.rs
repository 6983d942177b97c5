//! Compares a response of `respond` with what the oracle expects.

use wire::message::{Flags, Message, Rcode, Record};
use wire::{Name, Rtype};

use crate::oracle::{Expected, Section};
use crate::text::line;

/// The faults of a response without a length limit; empty if it is correct.
pub fn faults(query: &Message, got: &Message, expected: &Expected) -> Vec<String> {
    let mut faults = header_faults(query, got);
    if got.flags.truncated {
        faults.push("TC is set".to_string());
    }
    faults.extend(verdict_faults(got, expected));
    for (name, got, expected) in sections(got, expected) {
        faults.extend(case_faults(got, expected));
        let got = folded(got);
        let (required, allowed) = (folded(&expected.required), folded(&expected.allowed));
        let missing = required.iter().filter(|record| !got.contains(record));
        faults.extend(missing.map(|record| format!("{name} lacks {}", line(record))));
        let known = |record: &Record| required.contains(record) || allowed.contains(record);
        let surplus = got.iter().filter(|record| !known(record));
        faults.extend(surplus.map(|record| format!("{name} has {}", line(record))));
    }
    if owners(&got.answer) != owners(&expected.answer.required) {
        faults.push("the links of the chain are out of order".to_string());
    }
    faults
}

/// RFC 4343 4.1: owners whose case differs from the zone's.
fn case_faults(got: &[Record], expected: &Section) -> Vec<String> {
    let is_right = |owner: &&Name| {
        let mut spellings = expected.spellings.iter().filter(|(name, _)| name == *owner).peekable();
        spellings.peek().is_none() || spellings.any(|(name, len)| name.wire()[..*len] == owner.wire()[..*len])
    };
    let owners = got.iter().map(|record| &record.owner);
    owners.filter(|owner| !is_right(owner)).map(|owner| format!("{owner} is in another case in the zone")).collect()
}

/// The faults of a response with a length limit. `full` is the response without one; `fits` is whether it is within the limit.
pub fn limited_faults(query: &Message, got: &Message, full: &Message, expected: &Expected, fits: bool) -> Vec<String> {
    let mut faults = header_faults(query, got);
    // The RCODE of a truncated CNAME chain is not checked: the client will retry over TCP.
    if !(got.flags.truncated && got.rcode == Rcode::NOERROR) {
        faults.extend(verdict_faults(got, expected));
    }
    for (name, got, full) in [
        ("answer", &got.answer, &full.answer),
        ("authority", &got.authority, &full.authority),
        ("additional", &got.additional, &full.additional),
    ] {
        faults.extend(split_faults(name, got, full));
    }
    // RFC 2181 9: TC says that something required is missing, and only that. RFC 9471 3.1: glue below the cut is required.
    let complete = got.answer.len() == full.answer.len()
        && got.authority.len() == full.authority.len()
        && folded(&expected.glue).iter().all(|record| folded(&got.additional).contains(record));
    if got.flags.truncated == complete {
        faults.push(format!("TC is {}, the answer is complete: {complete}", got.flags.truncated));
    }
    if fits && got.additional.len() != full.additional.len() {
        faults.push("additional records were left out for which there was room".to_string());
    }
    faults
}

/// RFC 2181 9: RRsets are sent whole or not at all; signatures may be left out of the additional section (RFC 4035 3.1.1).
fn split_faults(name: &str, got: &[Record], full: &[Record]) -> Vec<String> {
    let (got, full) = (folded(got), folded(full));
    let surplus =
        got.iter().filter(|record| !full.contains(record)).map(|it| format!("{name} has only now {}", line(it)));
    let is_split = |record: &&Record| {
        !got.contains(record)
            && got.iter().any(|other| other.owner == record.owner && other.rtype == record.rtype)
            && record.rtype != Rtype::RRSIG
    };
    let split = full.iter().filter(is_split).map(|it| format!("{name} has not all of a set: {}", line(it)));
    surplus.chain(split).collect()
}

/// Rules for every response to a query with one question.
fn header_faults(query: &Message, got: &Message) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, fault: &str| {
        if !holds {
            faults.push(fault.to_string());
        }
    };
    check(got.id == query.id, "the ID is another one");
    check(got.opcode == query.opcode, "the opcode is another one");
    let free = Flags { authoritative: got.flags.authoritative, truncated: got.flags.truncated, ..Flags::default() };
    let flags = Flags { response: true, recursion_desired: query.flags.recursion_desired, ..free };
    check(got.flags == flags, "QR, RD, RA, Z, AD or CD is not as it has to be");
    let asked = |message: &Message| message.questions.iter().map(|it| it.name.wire().to_vec()).collect::<Vec<_>>();
    check(got.questions == query.questions && asked(got) == asked(query), "the question is another one");
    // RFC 6891 6.1.1, 7: OPT answers OPT. RFC 3225 3: DO is copied.
    check(got.edns.is_some() == query.edns.is_some(), "OPT is there or not unlike in the query");
    if let (Some(got), Some(query)) = (&got.edns, &query.edns) {
        check(got.dnssec_ok == query.dnssec_ok && got.version == 0 && got.reserved == 0, "the flags of OPT are wrong");
    }
    for (name, records) in [("answer", &got.answer), ("authority", &got.authority), ("additional", &got.additional)] {
        let twice = (1..records.len()).any(|at| records[..at].contains(&records[at]));
        check(!twice, &format!("{name} has a record twice"));
    }
    faults
}

fn verdict_faults(got: &Message, expected: &Expected) -> Vec<String> {
    let mut faults = Vec::new();
    if got.rcode != expected.rcode {
        faults.push(format!("rcode is {}, not {}", got.rcode.0, expected.rcode.0));
    }
    if got.flags.authoritative != expected.authoritative {
        faults.push(format!("AA is {}", got.flags.authoritative));
    }
    faults
}

fn sections<'a>(got: &'a Message, expected: &'a Expected) -> [(&'static str, &'a [Record], &'a Section); 3] {
    [
        ("answer", &got.answer, &expected.answer),
        ("authority", &got.authority, &expected.authority),
        ("additional", &got.additional, &expected.additional),
    ]
}

/// The distinct owners of a section.
fn owners(records: &[Record]) -> Vec<Name> {
    let mut owners: Vec<Name> = records.iter().map(|record| record.owner.clone()).collect();
    owners.dedup();
    owners
}

/// The records with those names in lower case that may be compressed and so take the case of the question.
fn folded(records: &[Record]) -> Vec<Record> {
    let fold = |record: &Record| {
        let mut record = record.clone();
        if matches!(record.rtype, Rtype::NS | Rtype::CNAME | Rtype::PTR | Rtype::SOA | Rtype::MX) {
            record.rdata.make_ascii_lowercase();
        }
        record
    };
    records.iter().map(fold).collect()
}
