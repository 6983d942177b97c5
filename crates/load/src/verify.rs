//! Whether an answer is the right one: by an expectation for each query, or by what a second server says.

mod question;
mod reference;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::Rtype;
use wire::tsig::Key;

pub(crate) use self::question::is_answer_to;
pub use self::reference::Reference;

use crate::queries::Queries;
use crate::records::records;

/// What the answers must be.
#[derive(Clone, Debug, Default)]
pub enum Verifier {
    /// An answer to the question that was asked.
    #[default]
    Question,
    /// Of a kind, by the number of the query.
    Kinds(Vec<Expectation>),
    /// What a second server answers, by the number of the query.
    Reference(Vec<Reference>),
}

/// The RCODE and the kind of an answer (RFC 2308 2, RFC 1034 4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    rcode: u8,
    kind: Kind,
}

/// What an answer says, whatever its RCODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// AA and an answer.
    Answer,
    /// No AA, NS records in the authority section.
    Referral,
    /// NOERROR, AA, no answer, SOA in the authority section.
    Nodata,
    /// NXDOMAIN, AA, SOA in the authority section.
    Nxdomain,
    /// None of these.
    Other,
}

/// A line of an expectation file that says nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpectationError {
    /// The line is not understood.
    #[error("line {0}: not of the form `RCODE answer|referral|nodata|nxdomain`")]
    Line(usize),
    /// There is a line too many or too few.
    #[error("there are {expectations} expectations for {queries} queries")]
    Count {
        /// Lines of expectations.
        expectations: usize,
        /// Queries.
        queries: usize,
    },
}

const RCODE_NAMES: [&str; 11] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH",
    "NOTZONE",
];
const KIND_NAMES: [(&str, Kind); 5] = [
    ("answer", Kind::Answer),
    ("referral", Kind::Referral),
    ("nodata", Kind::Nodata),
    ("nxdomain", Kind::Nxdomain),
    ("other", Kind::Other),
];

/// The mnemonic of an RCODE of a header (RFC 6895 2.3).
pub fn rcode_name(rcode: u8) -> String {
    RCODE_NAMES.get(usize::from(rcode)).map_or_else(|| format!("RCODE{rcode}"), |name| (*name).into())
}

impl Verifier {
    /// Reads an expectation file: a line for each query, `RCODE answer|referral|nodata|nxdomain`.
    pub fn from_text(text: &str, queries: &Queries) -> Result<Verifier, ExpectationError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let kinds = lines
            .map(|(index, line)| Expectation::from_text(line).ok_or(ExpectationError::Line(index + 1)))
            .collect::<Result<Vec<_>, _>>()?;
        if kinds.len() != queries.len() {
            return Err(ExpectationError::Count { expectations: kinds.len(), queries: queries.len() });
        }
        Ok(Verifier::Kinds(kinds))
    }

    /// Asks a second server every query over UDP, signed if there is a key, many at a time. A query that it does not answer,
    /// or not with a right signature (RFC 8945 5.3), is an error.
    pub fn from_server(
        server: SocketAddr,
        key: Option<Arc<Key>>,
        queries: &Queries,
        timeout: Duration,
    ) -> io::Result<Verifier> {
        reference::ask(server, key, queries, timeout).map(Verifier::Reference)
    }

    /// Whether answers are compared with anything but the question.
    pub fn is_thorough(&self) -> bool {
        !matches!(self, Verifier::Question)
    }

    /// What is wrong with the answer to a query, which is at least a header long; `None` when it is right.
    pub fn fault(&mut self, query: u32, answer: &[u8]) -> Option<String> {
        match self {
            Verifier::Question => None,
            Verifier::Kinds(kinds) => {
                let (expected, found) = (kinds[query as usize], Expectation::of(answer));
                // A truncated answer is one (RFC 2181 9), but not whole.
                let is_right = expected == found || answer[2] & 0x02 != 0 && expected.rcode == found.rcode;
                (!is_right).then(|| format!("expected {expected}, got {found}"))
            }
            Verifier::Reference(references) => references[query as usize].fault(answer),
        }
    }
}

//----------- Expectation ------------------------------------------------------

impl Expectation {
    fn from_text(line: &str) -> Option<Expectation> {
        let (rcode, kind) = line.trim().split_once(char::is_whitespace)?;
        let rcode = RCODE_NAMES.iter().position(|name| name.eq_ignore_ascii_case(rcode))? as u8;
        let (_, kind) = KIND_NAMES.iter().find(|(name, _)| *name == kind.trim())?;
        Some(Expectation { rcode, kind: *kind })
    }

    /// What an answer of at least a header is.
    fn of(answer: &[u8]) -> Expectation {
        let rcode = answer[3] & 0x0f;
        let authoritative = answer[2] & 0x04 != 0;
        let answers = u16::from_be_bytes([answer[6], answer[7]]);
        let kind = match rcode {
            0 if authoritative && answers > 0 => Kind::Answer,
            0 if authoritative && has_authority(answer, Rtype::SOA) => Kind::Nodata,
            0 if !authoritative && answers == 0 && has_authority(answer, Rtype::NS) => Kind::Referral,
            3 if authoritative && has_authority(answer, Rtype::SOA) => Kind::Nxdomain,
            _ => Kind::Other,
        };
        Expectation { rcode, kind }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KIND_NAMES.iter().find(|(_, kind)| *kind == self.kind).map_or("other", |(name, _)| name);
        write!(f, "{} {kind}", rcode_name(self.rcode))
    }
}

/// Whether the authority section has a record of the type.
fn has_authority(message: &[u8], rtype: Rtype) -> bool {
    records(message).any(|record| record.section == 1 && record.rtype == rtype)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::Message;
    use wire::message::{Edns, Flags, Rcode, Record};
    use wire::{Class, Name};

    pub(crate) fn record(owner: &str, rtype: Rtype, ttl: u32) -> Record {
        let rdata = match rtype {
            Rtype::A => vec![192, 0, 2, 1],
            Rtype::NS => b"\x02ns\x00".to_vec(),
            _ => [&b"\x00\x00"[..], &[0; 20]].concat(),
        };
        Record { owner: owner.parse::<Name>().expect("a literal"), rtype, class: Class::IN, ttl, rdata }
    }

    pub(crate) fn message(aa: bool, rcode: Rcode, answer: Vec<Record>, authority: Vec<Record>) -> Message {
        let flags = Flags { response: true, authoritative: aa, ..Flags::default() };
        Message { flags, rcode, answer, authority, edns: Some(Edns::default()), ..Message::default() }
    }

    fn kind(message: &Message) -> String {
        Expectation::of(&message.to_wire()).to_string()
    }

    #[test]
    fn kinds_are_told_apart() {
        let (a, ns, soa) =
            (record("a.example", Rtype::A, 60), record("example", Rtype::NS, 60), record("example", Rtype::SOA, 60));
        let denial = vec![record("a.example", Rtype::A, 1), soa.clone()];
        for (text, message) in [
            ("NOERROR answer", message(true, Rcode::NOERROR, vec![a.clone()], vec![ns.clone()])),
            ("NOERROR referral", message(false, Rcode::NOERROR, vec![], vec![ns.clone()])),
            ("NOERROR nodata", message(true, Rcode::NOERROR, vec![], denial.clone())),
            ("NXDOMAIN nxdomain", message(true, Rcode::NXDOMAIN, vec![], denial)),
            ("NXDOMAIN other", message(false, Rcode::NXDOMAIN, vec![], vec![soa])),
            ("NOERROR other", message(true, Rcode::NOERROR, vec![], vec![ns])),
            ("REFUSED other", message(false, Rcode::REFUSED, vec![], vec![])),
        ] {
            assert_eq!(kind(&message), text);
            assert_eq!(Expectation::from_text(text).map(|expectation| expectation.to_string()), Some(text.into()));
        }
        assert_eq!(Expectation::from_text("NOERROR maybe"), None);
    }
}
