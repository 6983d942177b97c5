//! Checks responses against the question, an expectation for each query, or a second server's response.

mod question;
mod reference;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::Rtype;
use wire::message::Rcode;
use wire::tsig::TsigKey;

pub(crate) use self::question::matches_question;
pub use self::reference::ReferenceResponse;

use crate::queries::Queries;
use crate::records::records;

/// What responses must be.
#[derive(Clone, Debug, Default)]
pub enum ResponseChecker {
    /// A response to the question.
    #[default]
    Question,
    /// Of an expected kind, by query number.
    Expectations(Vec<Expectation>),
    /// Equal to a second server's response, by query number.
    References(Vec<ReferenceResponse>),
}

/// The expected RCODE and kind of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    rcode: Rcode,
    kind: ResponseKind,
}

/// The kind of a response (RFC 2308 2, RFC 1034 4.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseKind {
    /// AA and records in the answer section.
    Answer,
    /// No AA, an empty answer section, NS records in the authority section.
    Referral,
    /// NOERROR, AA, an empty answer section, SOA in the authority section.
    Nodata,
    /// NXDOMAIN, AA, SOA in the authority section.
    Nxdomain,
    /// Anything else.
    Other,
}

/// Why an expectation file is unusable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpectationError {
    /// A line has another form.
    #[error("line {0}: not of the form `RCODE answer|referral|nodata|nxdomain`")]
    Line(usize),
    /// There are more or fewer lines than queries.
    #[error("there are {expectations} expectations for {queries} queries")]
    Count {
        /// Lines of expectations.
        expectations: usize,
        /// Queries.
        queries: usize,
    },
}

const KIND_NAMES: [(&str, ResponseKind); 5] = [
    ("answer", ResponseKind::Answer),
    ("referral", ResponseKind::Referral),
    ("nodata", ResponseKind::Nodata),
    ("nxdomain", ResponseKind::Nxdomain),
    ("other", ResponseKind::Other),
];

impl ResponseChecker {
    /// Parses an expectation file: a line for each query, `RCODE answer|referral|nodata|nxdomain`.
    pub fn from_text(text: &str, queries: &Queries) -> Result<ResponseChecker, ExpectationError> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let expectations = lines
            .map(|(index, line)| Expectation::from_text(line).ok_or(ExpectationError::Line(index + 1)))
            .collect::<Result<Vec<_>, _>>()?;
        if expectations.len() != queries.len() {
            return Err(ExpectationError::Count { expectations: expectations.len(), queries: queries.len() });
        }
        Ok(ResponseChecker::Expectations(expectations))
    }

    /// Sends every query to a second server over UDP, signed if there is a key. An error if a query remains unanswered,
    /// or without a valid signature (RFC 8945 5.3).
    pub fn from_server(
        server: SocketAddr,
        key: Option<Arc<TsigKey>>,
        queries: &Queries,
        timeout: Duration,
    ) -> io::Result<ResponseChecker> {
        reference::fetch(server, key, queries, timeout).map(ResponseChecker::References)
    }

    /// Whether responses are compared with more than the question.
    pub fn checks_content(&self) -> bool {
        !matches!(self, ResponseChecker::Question)
    }

    /// How the response to query number `number` differs from what it must be. The response has at least a header.
    pub fn mismatch(&mut self, number: u32, response: &[u8]) -> Option<String> {
        match self {
            ResponseChecker::Question => None,
            ResponseChecker::Expectations(expectations) => {
                let (expected, found) = (expectations[number as usize], Expectation::of(response));
                // A truncated response may lack the sections (RFC 2181 9).
                let is_truncated = response[2] & 0x02 != 0;
                let is_expected = expected == found || is_truncated && expected.rcode == found.rcode;
                (!is_expected).then(|| format!("expected {expected}, got {found}"))
            }
            ResponseChecker::References(references) => references[number as usize].mismatch(response),
        }
    }
}

//----------- Expectation ------------------------------------------------------

impl Expectation {
    fn from_text(line: &str) -> Option<Expectation> {
        let (rcode, kind) = line.trim().split_once(char::is_whitespace)?;
        let (_, kind) = KIND_NAMES.iter().find(|(name, _)| *name == kind.trim())?;
        Some(Expectation { rcode: rcode.parse().ok()?, kind: *kind })
    }

    /// The expectation that a response of at least a header meets.
    fn of(response: &[u8]) -> Expectation {
        let rcode = header_rcode(response);
        let authoritative = response[2] & 0x04 != 0;
        let answers = u16::from_be_bytes([response[6], response[7]]);
        let kind = match rcode {
            Rcode::NOERROR if authoritative && answers > 0 => ResponseKind::Answer,
            Rcode::NOERROR if authoritative && has_authority(response, Rtype::SOA) => ResponseKind::Nodata,
            Rcode::NOERROR if !authoritative && answers == 0 && has_authority(response, Rtype::NS) => {
                ResponseKind::Referral
            }
            Rcode::NXDOMAIN if authoritative && has_authority(response, Rtype::SOA) => ResponseKind::Nxdomain,
            _ => ResponseKind::Other,
        };
        Expectation { rcode, kind }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = KIND_NAMES.iter().find(|(_, kind)| *kind == self.kind).map_or("other", |(name, _)| name);
        write!(f, "{} {kind}", self.rcode)
    }
}

/// The RCODE in the header of a message, without the upper bits that EDNS adds.
pub(crate) fn header_rcode(message: &[u8]) -> Rcode {
    Rcode(u16::from(message[3] & 0x0f))
}

/// Whether the authority section has a record of the type.
fn has_authority(message: &[u8], rtype: Rtype) -> bool {
    records(message).any(|record| record.section == 1 && record.rtype == rtype)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::Message;
    use wire::message::{Edns, Flags, Record};
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

    #[test]
    fn kinds_of_responses_are_distinguished() {
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
            let expectation = Expectation::of(&message.to_wire());
            assert_eq!(expectation.to_string(), text);
            assert_eq!(Expectation::from_text(text), Some(expectation));
        }
        assert_eq!(Expectation::from_text("NOERROR maybe"), None);
    }
}
