//! Checks responses against the question, an expectation for each query, or a second server's response.

mod reference;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use wire::message::{RawRecords, Rcode, Section, header_rcode};
use wire::tsig::TsigKey;
use wire::{HEADER_LEN, Rtype};

pub use self::reference::ReferenceResponse;

use crate::queries::Queries;

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

//----------- question ---------------------------------------------------------

/// Whether a response repeats the question (RFC 5452 9.1). An error response may leave it out.
#[inline]
pub(crate) fn matches_question(question: &[u8], response: &[u8]) -> bool {
    match [response[4], response[5]] {
        [0, 1] => response[HEADER_LEN..]
            .get(..question.len())
            .is_some_and(|repeated| repeated == question || is_same_question(repeated, question)),
        [0, 0] => response[3] & 0x0f != 0 || response[2] & 0x78 != 0,
        _ => false,
    }
}

/// Compares names in any case (RFC 4343); length octets are below 64, so they are no letters.
fn is_same_question(repeated: &[u8], question: &[u8]) -> bool {
    let (repeated_name, repeated_rest) = repeated.split_at(repeated.len() - 4);
    let (name, rest) = question.split_at(question.len() - 4);
    repeated_rest == rest && repeated_name.eq_ignore_ascii_case(name)
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

/// Whether the authority section has a record of the type.
fn has_authority(message: &[u8], rtype: Rtype) -> bool {
    let mut records = RawRecords::of(message).into_iter().flatten();
    records.any(|(section, record)| section == Section::Authority && record.rtype == rtype)
}

#[cfg(test)]
mod tests;
