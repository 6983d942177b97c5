//! Records: owner, TTL, class, type and RDATA, and what a record inherits from those before it (RFC 1035 5.1).

use std::fmt::Display;

use memchr::memmem;
use wire::{Class, Name, NameRef, Rtype};

use super::error::{LineColumn, ParseError};
use super::limits::RecordCounter;
use super::scan::{LineStart, QuotePlacement};
use super::source::FileId;
use super::{ErrorText, Field, ParseOptions, RecordSink, ZoneRecord, name, rdata, ttl};
use crate::Severity;
use crate::check_list::{self, Check};
use crate::finding::Findings;
use crate::suggest::nearest;
use crate::ttl_limit::{MAX_TTL, limited_ttl};

/// What the text so far means for the next entry.
#[derive(Clone)]
pub(super) struct ParserState {
    /// Completes relative names.
    pub origin: Name,
    /// The TTL of records that state none, by `$TTL` (RFC 2308 4).
    pub default_ttl: Option<u32>,
    /// The last TTL stated, for records that state none where there is no `$TTL` (RFC 1035 5.1).
    pub last_ttl: Option<u32>,
    /// The last owner stated.
    pub owner: Owner,
}

/// The last owner stated.
#[derive(Clone)]
pub(super) struct Owner {
    pub wire: Vec<u8>,
    pub status: OwnerStatus,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerStatus {
    /// No record has stated an owner yet.
    Missing,
    /// Reported as wrong or missing: the records are checked, but not delivered.
    Invalid,
    /// The records are checked, but not delivered.
    OutOfZone,
    Valid,
}

impl ParserState {
    /// At the start of a zone file.
    pub fn new(origin: NameRef<'_>) -> ParserState {
        let owner = Owner { wire: Vec::new(), status: OwnerStatus::Missing };
        ParserState { origin: origin.to_owned(), default_ttl: None, last_ttl: None, owner }
    }
}

/// A position in a file and the parser's state there.
#[derive(Clone)]
pub(super) struct Checkpoint {
    pub position: LineStart,
    pub state: ParserState,
}

/// As much as most RDATA takes: a small zone allocates it once.
const SMALL_RDATA: usize = 64;

/// Parses records and delivers them to a sink.
pub(super) struct RecordParser<'a, S> {
    pub options: &'a ParseOptions<'a>,
    pub file: FileId<'a>,
    pub sink: &'a mut S,
    pub findings: &'a mut Findings,
    pub state: &'a mut ParserState,
    pub counter: &'a mut RecordCounter,
    /// Whether the initial state is known, not guessed.
    pub is_in_order: bool,
    /// Whether a record depends on `last_ttl` of the initial state.
    pub used_initial_ttl: bool,
    /// Whether a record stated a TTL.
    pub stated_ttl: bool,
    rdata: Vec<u8>,
}

/// TTL and type of a record.
#[derive(Clone, Copy)]
pub(super) struct RecordHeader {
    pub ttl: Option<u32>,
    pub rtype: Rtype,
    /// The number of fields from the owner (excluded) to the type (included).
    pub len: usize,
}

impl<'a, S: RecordSink> RecordParser<'a, S> {
    pub fn new(
        options: &'a ParseOptions<'a>,
        file: FileId<'a>,
        sink: &'a mut S,
        findings: &'a mut Findings,
        state: &'a mut ParserState,
        counter: &'a mut RecordCounter,
    ) -> Self {
        let (is_in_order, used_initial_ttl, stated_ttl, rdata) = (true, false, false, Vec::with_capacity(SMALL_RDATA));
        RecordParser { options, file, sink, findings, state, counter, is_in_order, used_initial_ttl, stated_ttl, rdata }
    }

    /// Parses the RDATA and delivers the record. `last` is where an error about missing fields is reported.
    pub fn record(
        &mut self,
        line: u32,
        header: RecordHeader,
        fields: &[Field<'_>],
        last: &Field<'_>,
        quotes: &QuotePlacement,
    ) -> Result<(), Box<ParseError>> {
        if let Some(at) = quotes.missing_blank {
            self.report(&check_list::MISSING_BLANK, at, "");
        }
        // RFC 9460 2.1: only service parameters have a quoted value directly after their key.
        if let (Some(at), false) = (quotes.joined_quote, matches!(header.rtype, Rtype::SVCB | Rtype::HTTPS)) {
            self.report(&check_list::MISSING_BLANK, at, "");
            return self.record(line, header, &split_joined(fields), last, &QuotePlacement::default());
        }
        self.rdata.clear();
        let parsed = rdata::parse(header.rtype, fields, self.state.origin.as_ref(), &mut self.rdata);
        if let Some(violation) = parsed.map_err(|error| rdata_error(*error, fields, last))? {
            self.add(*rdata_error(*violation, fields, last), self.options.check_mode.severity());
        }
        let ttl = self.ttl(header, last);
        // Skipped records count as well: they take time, too.
        let over_limit = |ErrorText { message, help }| ParseError::at(last, message, help);
        let is_within =
            self.counter.count_record(self.state.owner.wire.len() + self.rdata.len()).map_err(over_limit)?;
        if header.rtype.is_reserved_for_messages() {
            self.report(&check_list::META_TYPE, LineColumn::of(last), header.rtype);
        } else if is_within && self.state.owner.status == OwnerStatus::Valid {
            let owner = NameRef::from_valid_wire(&self.state.owner.wire);
            let (rtype, file) = (header.rtype, self.file.number);
            self.sink.record(ZoneRecord { owner, rtype, ttl, rdata: &self.rdata, file, line });
        }
        if header.rtype == Rtype::SOA && self.state.owner.status == OwnerStatus::OutOfZone {
            self.other_zone(fields.first().unwrap_or(last));
        }
        Ok(())
    }

    /// Reports a file loaded under another zone's name: mostly the name was derived from the file name.
    fn other_zone(&mut self, field: &Field<'_>) {
        let owner = NameRef::from_valid_wire(&self.state.owner.wire);
        let detail = format!("it is loaded as {}, and this is the SOA record of {owner}", self.options.apex);
        let help = format!("name the file {owner}zone, or name the zone: --zone {owner}=FILE, or [[zone]] name");
        let error = ParseError::at(field, check_list::OTHER_ZONE.message(detail), help);
        self.add(*error, check_list::OTHER_ZONE.severity(self.options.check_mode));
    }

    /// Parses an owner, reports errors, and returns its text; it is empty if the owner is invalid or out of zone, so
    /// that each such record is reported.
    pub fn owner_or_error<'t>(&mut self, field: &Field<'t>) -> &'t [u8] {
        match self.owner(field) {
            Ok(()) if self.state.owner.status == OwnerStatus::Valid => field.text,
            Ok(()) => b"",
            Err(error) => {
                self.error(*error);
                b""
            }
        }
    }

    pub fn owner(&mut self, field: &Field<'_>) -> Result<(), Box<ParseError>> {
        let owner = &mut self.state.owner;
        owner.status = OwnerStatus::Invalid;
        owner.wire.clear();
        name::append(field.text, self.state.origin.as_ref(), &mut owner.wire)
            .map_err(|error| ParseError::at(field, error.to_string(), "correct the owner name"))?;
        let wire = NameRef::from_valid_wire(&owner.wire);
        if wire.is_at_or_below(self.options.apex) {
            owner.status = OwnerStatus::Valid;
        } else {
            owner.status = OwnerStatus::OutOfZone;
            let wire = wire.to_owned();
            self.report(&check_list::OUT_OF_ZONE, LineColumn::of(field), wire);
        }
        if field.quoted {
            self.report(&check_list::QUOTED_OWNER, LineColumn::of(field), "");
        }
        Ok(())
    }

    /// Parses TTL, class and type: the first two are optional and come in any order (RFC 1035 5.1).
    pub fn header(&mut self, first: &Field<'_>, fields: &[Field<'_>]) -> Result<RecordHeader, Box<ParseError>> {
        let (mut ttl, mut has_class) = (None, false);
        for (at, field) in fields.iter().enumerate() {
            if field.quoted {
                return Err(ParseError::at(field, "TTL, class and type must not be quoted", "remove the quotes"));
            }
            if field.text.first().is_some_and(u8::is_ascii_digit) {
                if ttl.is_some() {
                    return Err(ParseError::at(field, "the TTL is stated twice", "the type comes next"));
                }
                ttl = Some(self.parse_ttl(field)?);
                continue;
            }
            // Most lines state the class IN.
            let is_in = field.text.eq_ignore_ascii_case(b"IN");
            let rtype = if is_in { None } else { Rtype::from_text(field.text) };
            if let Some(rtype) = rtype {
                if rtype.is_meta() || rtype == Rtype::ALIAS {
                    self.check_type(field, rtype, fields.get(at + 1))?;
                }
                return Ok(RecordHeader { ttl, rtype, len: at + 1 });
            }
            check_class(first, field, has_class)?;
            has_class = true;
        }
        let last = fields.last().unwrap_or(first);
        Err(ParseError::new(
            LineColumn::after(last),
            "the type is missing",
            "write a record as owner, TTL, class, type, RDATA",
        ))
    }

    /// Checks a type that is not a data type (RFC 6895 3.1). QTYPEs and meta-types used in messages are errors, unless the
    /// RDATA, which starts with the field `next`, is written as `\\#`: then the record can be parsed and skipped.
    #[cold]
    fn check_type(&mut self, field: &Field<'_>, rtype: Rtype, next: Option<&Field<'_>>) -> Result<(), Box<ParseError>> {
        if rtype.is_reserved_for_messages() {
            if next.is_some_and(|next| next.text == b"\\#") {
                return Ok(());
            }
            let message = format!("{rtype} is a QTYPE or meta-type, not the type of a record in a zone");
            return Err(ParseError::at(field, message, "remove the record"));
        }
        match rtype {
            Rtype::ALIAS => self.report(&check_list::ALIAS, LineColumn::of(field), ""),
            _ => self.report(&check_list::RESERVED_TYPE, LineColumn::of(field), rtype),
        }
        Ok(())
    }

    //----------- TTL ----------------------------------------------------------

    /// Parses a TTL. RFC 2181 8: it is at most 2^31 - 1; a larger one is treated as 0.
    pub fn parse_ttl(&mut self, field: &Field<'_>) -> Result<u32, Box<ParseError>> {
        let seconds =
            ttl::parse(field.text).map_err(|error| ParseError::at(field, format!("the TTL {error}"), ttl::HELP))?;
        if seconds <= MAX_TTL {
            return Ok(seconds);
        }
        self.report(&check_list::LARGE_TTL, LineColumn::of(field), seconds);
        Ok(0)
    }

    /// The TTL of a record: its own, that of `$TTL` (RFC 2308 4), or the last one stated (RFC 1035 5.1).
    fn ttl(&mut self, header: RecordHeader, last: &Field<'_>) -> u32 {
        if header.ttl.is_some() {
            self.stated_ttl = true;
            self.state.last_ttl = header.ttl;
        }
        if let Some(ttl) = header.ttl.or(self.state.default_ttl) {
            return ttl;
        }
        self.used_initial_ttl |= !self.stated_ttl;
        self.state.last_ttl.unwrap_or_else(|| self.first_ttl(header.rtype, last))
    }

    /// The TTL of a first record that states none; it becomes the default: the SOA minimum as in BIND, else an hour as in
    /// NSD and Knot.
    fn first_ttl(&mut self, rtype: Rtype, last: &Field<'_>) -> u32 {
        let minimum = self.rdata.last_chunk::<4>().filter(|_| rtype == Rtype::SOA);
        let (rule, ttl) = match minimum.map(|minimum| u32::from_be_bytes(*minimum)) {
            Some(minimum) => (&check_list::NO_TTL_BUT_SOA, limited_ttl(minimum)),
            None => (&check_list::NO_TTL, 3600),
        };
        self.report(rule, LineColumn::of(last), ttl);
        self.state.default_ttl = Some(ttl);
        ttl
    }

    //----------- findings -----------------------------------------------------

    pub fn report(&mut self, check: &Check, at: LineColumn, detail: impl Display) {
        let error = ParseError::new(at, check.message(detail), check.help);
        self.add(*error, check.severity(self.options.check_mode));
    }

    pub fn error(&mut self, error: ParseError) {
        self.add(error, Severity::Error);
    }

    fn add(&mut self, error: ParseError, severity: Severity) {
        error.report(severity, self.file.name, self.findings);
    }
}

/// An error in RDATA at its field, or after `last` if a field is missing.
#[cold]
fn rdata_error(error: rdata::FieldError, fields: &[Field<'_>], last: &Field<'_>) -> Box<ParseError> {
    let at = fields.get(error.field).map_or(LineColumn::after(last), LineColumn::of);
    ParseError::new(at, error.message, error.help)
}

/// Splits fields like `x="y"` into `x=` and the quoted `y`.
fn split_joined<'t>(fields: &[Field<'t>]) -> Vec<Field<'t>> {
    let split = |field: &Field<'t>| {
        let quote = if field.quoted { None } else { memmem::find(field.text, b"=\"") };
        let Some(at) = quote.map(|at| at + 1) else { return [Some(*field), None] };
        let value = &field.text[at + 1..field.text.len() - 1];
        let value = Field { text: value, quoted: true, column: field.column.saturating_add(at as u32), ..*field };
        [Some(Field { text: &field.text[..at], ..*field }), Some(value)]
    };
    fields.iter().flat_map(split).flatten().collect()
}

/// Checks that a field which is neither TTL nor type is the class IN. `first` is the first field of the entry.
fn check_class(first: &Field<'_>, field: &Field<'_>, is_second: bool) -> Result<(), Box<ParseError>> {
    match Class::from_text(field.text) {
        None => Err(unknown_type(first, field)),
        Some(_) if is_second => Err(ParseError::at(field, "the class is stated twice", "the type comes next")),
        Some(Class::IN) => Ok(()),
        Some(class) => Err(ParseError::at(field, format!("the class is {class}"), "only class IN is supported")),
    }
}

fn unknown_type(first: &Field<'_>, field: &Field<'_>) -> Box<ParseError> {
    let mnemonics = Rtype::ALL.iter().filter(|rtype| !rtype.is_meta()).map(|rtype| rtype.to_string());
    let similar = std::str::from_utf8(field.text).ok().and_then(|text| nearest(text, mnemonics));
    let help = match similar {
        _ if field.text.starts_with(b"$") => "write a directive at the start of its line".into(),
        Some(mnemonic) => format!("did you mean {mnemonic}?"),
        None if Rtype::from_text(first.text).is_some() => {
            format!("{} is taken as the owner; write a space before it if it is the type", first.text.escape_ascii())
        }
        None => "write a type without a mnemonic as TYPE and its number (RFC 3597)".into(),
    };
    let shown = &field.text[..field.text.len().min(40)];
    ParseError::at(field, format!("unknown type {}", shown.escape_ascii()), help)
}
