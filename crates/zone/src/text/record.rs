//! Entries of zone text turned into records; keeps what one record passes on to the next (RFC 1035 5.1).

use std::fmt::Display;
use std::sync::Arc;

use memchr::memmem;
use wire::{Class, Name, NameRef, Rtype};

use super::directive::Include;
use super::error::{LineColumn, ParseError};
use super::limits::RecordCounter;
use super::scan::{LineStart, QuotePlacement, Scanner};
use super::suggest::nearest;
use super::{ErrorText, Field, ParseOptions, RecordSink, ZoneRecord, name, rdata, ttl};
use crate::check_list::{self, Check};
use crate::finding::Findings;
use crate::{CheckMode, Severity};

/// What text further up means for an entry.
#[derive(Clone)]
pub(super) struct ParserState {
    /// What completes relative names.
    pub origin: Name,
    /// The TTL of records that state none, by `$TTL` (RFC 2308 4).
    pub default_ttl: Option<u32>,
    /// The TTL stated last, for records that state none where there is no `$TTL` (RFC 1035 5.1).
    pub last_ttl: Option<u32>,
    /// The owner stated last.
    pub owner: Owner,
}

/// The owner stated last.
#[derive(Clone)]
pub(super) struct Owner {
    wire: Vec<u8>,
    standing: OwnerStatus,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OwnerStatus {
    /// No record has stated an owner yet.
    Unknown,
    /// Reported as wrong or missing: records without an owner of their own are checked, but not delivered.
    Wrong,
    /// Records are checked, but not delivered.
    OutOfZone,
    Good,
}

impl ParserState {
    /// At the start of a zone file.
    pub fn new(origin: NameRef<'_>) -> ParserState {
        let owner = Owner { wire: Vec::new(), standing: OwnerStatus::Unknown };
        ParserState { origin: origin.to_owned(), default_ttl: None, last_ttl: None, owner }
    }
}

/// The file that is read.
#[derive(Clone, Copy)]
pub(super) struct FileId<'a> {
    pub name: &'a Arc<str>,
    /// In order of appearance.
    pub number: u16,
}

/// Reads entries into a sink.
pub(super) struct RecordParser<'a, S> {
    pub apex: NameRef<'a>,
    pub check_mode: CheckMode,
    pub file: FileId<'a>,
    pub sink: &'a mut S,
    pub findings: &'a mut Findings,
    pub state: &'a mut ParserState,
    pub budget: &'a mut RecordCounter,
    /// Whether the state is true, not a guess.
    pub is_in_order: bool,
    /// Whether the last TTL at the start, or that there was none, had a say in a record.
    pub relied_on_last_ttl: bool,
    /// Whether a record stated a TTL.
    pub stated_ttl: bool,
    rdata: Vec<u8>,
}

/// Why a reader stopped.
pub(super) enum StopReason {
    /// It read all entries that start before a given offset.
    Done,
    /// After an `$INCLUDE`.
    Include(Box<Include>),
    /// Before an entry that goes on behind the text at hand, or has to be read in order.
    Before,
    /// Within an entry that is too long.
    TooLong,
}

/// What stands between owner and RDATA.
#[derive(Clone, Copy)]
pub(super) struct RecordHeader {
    pub ttl: Option<u32>,
    pub rtype: Rtype,
    /// The fields before the RDATA, the owner not counted.
    pub len: usize,
}

impl<'a, S: RecordSink> RecordParser<'a, S> {
    pub fn new(
        options: &ParseOptions<'a>,
        file: FileId<'a>,
        sink: &'a mut S,
        findings: &'a mut Findings,
        state: &'a mut ParserState,
        budget: &'a mut RecordCounter,
    ) -> Self {
        let ParseOptions { apex, check_mode, .. } = *options;
        let (is_in_order, relied_on_last_ttl, stated_ttl) = (true, false, false);
        let rdata = Vec::new();
        RecordParser {
            apex,
            check_mode,
            file,
            sink,
            findings,
            state,
            budget,
            is_in_order,
            relied_on_last_ttl,
            stated_ttl,
            rdata,
        }
    }

    /// Reads the entries that start before `stop`, or up to an `$INCLUDE`.
    pub fn run(&mut self, scanner: &mut Scanner<'_>, stop: usize) -> StopReason {
        let mut fields = Vec::new();
        // The owner stated last, as written, as long as the same text means the same name.
        let mut stated: &[u8] = b"";
        while scanner.position().at < stop {
            let start = scanner.position();
            let states_owner = !scanner.starts_blank();
            let read = scanner.entry(&mut fields);
            if scanner.is_cut_off(start) || !self.is_in_order && scanner.is_too_long() {
                scanner.rewind(start);
                return StopReason::Before;
            }
            if scanner.is_too_long() {
                return self.too_long(start);
            }
            if let Err(fault) = read {
                if states_owner {
                    self.state.owner.standing = OwnerStatus::Wrong;
                    stated = b"";
                }
                self.error(*fault);
                continue;
            }
            let Some((first, rest)) = fields.split_first() else { continue };
            let done = if states_owner && is_directive(first) {
                stated = b"";
                if !self.is_in_order && is_generate(first) {
                    scanner.rewind(start);
                    return StopReason::Before;
                }
                match self.directive(first, rest) {
                    Ok(None) => Ok(()),
                    Ok(Some(include)) => return StopReason::Include(include),
                    Err(fault) => Err(fault),
                }
            } else if states_owner {
                if first.text != stated || first.quoted {
                    stated = self.owner_or_error(first);
                }
                self.entry(start.line, first, rest, &scanner.oddities)
            } else {
                self.entry(start.line, first, &fields, &scanner.oddities)
            };
            if let Err(fault) = done {
                self.error(*fault);
            }
        }
        StopReason::Done
    }

    #[cold]
    fn too_long(&mut self, start: LineStart) -> StopReason {
        let spot = LineColumn { line: start.line, column: 1 };
        let help = "close its quotes and parentheses; what follows is not read";
        self.error(*ParseError::new(spot, "this entry is longer than any record", help));
        StopReason::TooLong
    }

    //----------- records ------------------------------------------------------

    /// Reads a record whose owner is known; `first` is the first field of the entry.
    fn entry(
        &mut self,
        line: u32,
        first: &Field<'_>,
        fields: &[Field<'_>],
        oddities: &QuotePlacement,
    ) -> Result<(), Box<ParseError>> {
        if self.state.owner.standing == OwnerStatus::Unknown {
            self.state.owner.standing = OwnerStatus::Wrong;
            let help = "begin the line with an owner, or with @ for the origin";
            return Err(ParseError::at(first, "the first record has no owner", help));
        }
        let head = self.head(first, fields)?;
        let last = fields.last().unwrap_or(first);
        self.record(line, head, &fields[head.len..], last, oddities)
    }

    /// Delivers a record; `last` is the last field before what may be missing.
    pub fn record(
        &mut self,
        line: u32,
        head: RecordHeader,
        fields: &[Field<'_>],
        last: &Field<'_>,
        oddities: &QuotePlacement,
    ) -> Result<(), Box<ParseError>> {
        if let Some(spot) = oddities.missing_blank {
            self.report(&check_list::MISSING_BLANK, spot, "");
        }
        // RFC 9460 2.1: only service parameters have a value in quotes behind their key.
        if let (Some(spot), false) = (oddities.joined_quote, matches!(head.rtype, Rtype::SVCB | Rtype::HTTPS)) {
            self.report(&check_list::MISSING_BLANK, spot, "");
            return self.record(line, head, &split_joined(fields), last, &QuotePlacement::default());
        }
        self.rdata.clear();
        let fault = |wrong: rdata::FieldError| {
            let spot = fields.get(wrong.field).map_or(LineColumn::after(last), LineColumn::of);
            ParseError::new(spot, wrong.message, wrong.help)
        };
        let parsed = rdata::parse(head.rtype, fields, self.state.origin.as_ref(), &mut self.rdata);
        if let Some(oddity) = parsed.map_err(fault)? {
            self.add(*fault(*oddity), self.check_mode.severity());
        }
        let ttl = self.ttl(head, last);
        // Those that are left out count as well: they take time, too.
        let refused = |ErrorText { message, help }| ParseError::at(last, message, help);
        let is_within = self.budget.record(self.state.owner.wire.len() + self.rdata.len()).map_err(refused)?;
        if head.rtype.is_reserved_for_messages() {
            self.report(&check_list::META_TYPE, LineColumn::of(last), head.rtype);
        } else if is_within && self.state.owner.standing == OwnerStatus::Good {
            let owner = NameRef::from_wire(&self.state.owner.wire).expect("owners are checked when stated");
            let (rtype, file) = (head.rtype, self.file.number);
            self.sink.record(ZoneRecord { owner, rtype, ttl, rdata: &self.rdata, file, line });
        }
        if head.rtype == Rtype::SOA && self.state.owner.standing == OwnerStatus::OutOfZone {
            self.other_zone(fields.first().unwrap_or(last));
        }
        Ok(())
    }

    /// A file that is read as another zone than it is about: most often it has its zone's name from its own.
    fn other_zone(&mut self, field: &Field<'_>) {
        let owner = NameRef::from_wire(&self.state.owner.wire).expect("owners are checked when stated");
        let detail = format!("it is read as {}, and this is the SOA record of {owner}", self.apex);
        let help = format!("name the file {owner}zone, or name the zone: --zone {owner}=FILE, or [[zone]] name");
        let fault = ParseError::at(field, check_list::OTHER_ZONE.message(detail), help);
        self.add(*fault, check_list::OTHER_ZONE.severity(self.check_mode));
    }

    /// Takes the owner that a record states, and returns its text; that is empty if the owner is wrong or out of
    /// the zone, so that each such record is reported.
    fn owner_or_error<'t>(&mut self, field: &Field<'t>) -> &'t [u8] {
        match self.owner(field) {
            Ok(()) if self.state.owner.standing == OwnerStatus::Good => field.text,
            Ok(()) => b"",
            Err(fault) => {
                self.error(*fault);
                b""
            }
        }
    }

    /// Takes the owner that a record states.
    pub fn owner(&mut self, field: &Field<'_>) -> Result<(), Box<ParseError>> {
        let owner = &mut self.state.owner;
        owner.standing = OwnerStatus::Wrong;
        owner.wire.clear();
        name::append(field.text, self.state.origin.as_ref(), &mut owner.wire)
            .map_err(|error| ParseError::at(field, error.to_string(), "correct the owner name"))?;
        let wire = NameRef::from_wire(&owner.wire).expect("a name that was just made");
        if wire.is_at_or_below(self.apex) {
            owner.standing = OwnerStatus::Good;
        } else {
            owner.standing = OwnerStatus::OutOfZone;
            let wire = wire.to_owned();
            self.report(&check_list::OUT_OF_ZONE, LineColumn::of(field), wire);
        }
        if field.quoted {
            self.report(&check_list::QUOTED_OWNER, LineColumn::of(field), "");
        }
        Ok(())
    }

    /// Reads TTL, class and type: the first two may be left out and stand in any order (RFC 1035 5.1).
    pub fn head(&mut self, first: &Field<'_>, fields: &[Field<'_>]) -> Result<RecordHeader, Box<ParseError>> {
        let (mut ttl, mut has_class) = (None, false);
        for (at, field) in fields.iter().enumerate() {
            if field.quoted {
                return Err(ParseError::at(field, "TTL, class and type are not in quotes", "take the quotes away"));
            }
            if field.text.first().is_some_and(u8::is_ascii_digit) {
                if ttl.is_some() {
                    return Err(ParseError::at(field, "the TTL is stated twice", "the type must follow"));
                }
                ttl = Some(self.stated(field)?);
                continue;
            }
            // The class IN before all types: it is the one that stands on most lines.
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
            "a record is: owner, TTL, class, type, RDATA",
        ))
    }

    /// Refuses a type that messages use otherwise (RFC 6895 3.1), but for RDATA in the form of unknown types, as `next` says:
    /// such a record can be read and left out. Reports a type that is no ordinary data.
    #[cold]
    fn check_type(&mut self, field: &Field<'_>, rtype: Rtype, next: Option<&Field<'_>>) -> Result<(), Box<ParseError>> {
        if rtype.is_reserved_for_messages() {
            if next.is_some_and(|next| next.text == b"\\#") {
                return Ok(());
            }
            let message = format!("{rtype} is a type of questions and messages, not of records");
            return Err(ParseError::at(field, message, "take the record out"));
        }
        match rtype {
            Rtype::ALIAS => self.report(&check_list::ALIAS, LineColumn::of(field), ""),
            _ => self.report(&check_list::NO_DATA_TYPE, LineColumn::of(field), rtype),
        }
        Ok(())
    }

    //----------- TTL ----------------------------------------------------------

    /// Reads a TTL from text.
    ///
    /// RFC 2181 8: it is at most 2^31 - 1; a larger one is to be treated as 0.
    pub fn stated(&mut self, field: &Field<'_>) -> Result<u32, Box<ParseError>> {
        let seconds =
            ttl::parse(field.text).map_err(|wrong| ParseError::at(field, format!("the TTL {wrong}"), ttl::HELP))?;
        if seconds <= ttl::MAX {
            return Ok(seconds);
        }
        self.report(&check_list::LARGE_TTL, LineColumn::of(field), seconds);
        Ok(0)
    }

    /// The TTL of the record at hand: its own, that of `$TTL` (RFC 2308 4), or the last stated one (RFC 1035 5.1).
    fn ttl(&mut self, head: RecordHeader, last: &Field<'_>) -> u32 {
        if head.ttl.is_some() {
            self.stated_ttl = true;
            self.state.last_ttl = head.ttl;
        }
        if let Some(ttl) = head.ttl.or(self.state.default_ttl) {
            return ttl;
        }
        self.relied_on_last_ttl |= !self.stated_ttl;
        self.state.last_ttl.unwrap_or_else(|| self.first_ttl(head.rtype, last))
    }

    /// The TTL of a first record that states none, which becomes the default: the minimum of the SOA as BIND has it, else
    /// an hour as NSD and Knot have it.
    fn first_ttl(&mut self, rtype: Rtype, last: &Field<'_>) -> u32 {
        let minimum = self.rdata.last_chunk::<4>().filter(|_| rtype == Rtype::SOA);
        let (rule, ttl) = match minimum.map(|minimum| u32::from_be_bytes(*minimum)) {
            Some(minimum) => (&check_list::NO_TTL_BUT_SOA, if minimum > ttl::MAX { 0 } else { minimum }),
            None => (&check_list::NO_TTL, 3600),
        };
        self.report(rule, LineColumn::of(last), ttl);
        self.state.default_ttl = Some(ttl);
        ttl
    }

    //----------- findings -----------------------------------------------------

    /// Reports what a check has found.
    pub fn report(&mut self, rule: &Check, spot: LineColumn, detail: impl Display) {
        let fault = ParseError::new(spot, rule.message(detail), rule.help);
        self.add(*fault, rule.severity(self.check_mode));
    }

    fn error(&mut self, fault: ParseError) {
        self.add(fault, Severity::Error);
    }

    fn add(&mut self, fault: ParseError, severity: Severity) {
        fault.report(severity, self.file.name, self.findings);
    }
}

/// The fields with what is in quotes behind `=` as a field of its own, as in `x="y"`.
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

fn is_directive(first: &Field<'_>) -> bool {
    first.text.first() == Some(&b'$') && !first.quoted
}

/// Whether a directive makes records, which are counted in order.
fn is_generate(first: &Field<'_>) -> bool {
    first.text.eq_ignore_ascii_case(b"$GENERATE")
}

/// Checks that a field which is neither TTL nor type is the class IN; `first` is the first field of the entry.
fn check_class(first: &Field<'_>, field: &Field<'_>, is_second: bool) -> Result<(), Box<ParseError>> {
    match Class::from_text(field.text) {
        None => Err(unknown_type(first, field)),
        Some(_) if is_second => Err(ParseError::at(field, "the class is stated twice", "the type must follow")),
        Some(Class::IN) => Ok(()),
        Some(class) => {
            Err(ParseError::at(field, format!("the class is {class}"), "only records of class IN are served"))
        }
    }
}

fn unknown_type(first: &Field<'_>, field: &Field<'_>) -> Box<ParseError> {
    let mnemonics = Rtype::ALL.iter().filter(|rtype| !rtype.is_meta()).map(|rtype| rtype.to_string());
    let help = match nearest(field.text, mnemonics) {
        _ if field.text.starts_with(b"$") => "a directive stands at the start of its line".into(),
        Some(mnemonic) => format!("did you mean {mnemonic}?"),
        None if Rtype::from_text(first.text).is_some() => {
            format!("{} is taken as owner; put a blank before it if it is the type", first.text.escape_ascii())
        }
        None => "a type without a mnemonic is written TYPE and its number (RFC 3597)".into(),
    };
    let shown = &field.text[..field.text.len().min(40)];
    ParseError::at(field, format!("unknown type {}", shown.escape_ascii()), help)
}
