//! Entries of zone text turned into records; keeps what one record passes on to the next (RFC 1035 5.1).

use std::sync::Arc;

use wire::{Class, Name, NameRef, Rtype};

use super::budget::Budget;
use super::directive::Include;
use super::fault::{Fault, Findings, Spot};
use super::scan::{Position, Scanner};
use super::suggest::nearest;
use super::{Field, Options, Record, Refusal, Sink, name, rdata, ttl};
use crate::{Checks, Severity};

/// What text further up means for an entry.
#[derive(Clone)]
pub(super) struct State {
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
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// No record has stated an owner yet.
    Unknown,
    /// Reported as wrong or missing: records without an owner of their own are checked, but not delivered.
    Wrong,
    /// As [`Self::Wrong`], and a name all the same.
    OutOfZone,
    Good,
}

impl State {
    /// At the start of a zone file.
    pub fn new(origin: NameRef<'_>) -> State {
        let owner = Owner { wire: Vec::new(), standing: Standing::Unknown };
        State { origin: origin.to_owned(), default_ttl: None, last_ttl: None, owner }
    }
}

/// The file that is read.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    pub name: &'a Arc<str>,
    /// In order of appearance.
    pub number: u16,
}

/// Reads entries into a sink.
pub(super) struct Reader<'a, S> {
    pub apex: NameRef<'a>,
    pub checks: Checks,
    pub file: File<'a>,
    pub sink: &'a mut S,
    pub findings: &'a mut Findings,
    pub state: &'a mut State,
    pub budget: &'a mut Budget,
    /// Whether the state is true, not a guess.
    pub is_in_order: bool,
    /// Whether the last TTL at the start, or that there was none, had a say in a record.
    pub relied_on_last_ttl: bool,
    /// Whether a record stated a TTL.
    pub stated_ttl: bool,
    rdata: Vec<u8>,
}

/// Why a reader stopped.
pub(super) enum Stop {
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
pub(super) struct Head {
    pub ttl: Option<u32>,
    pub rtype: Rtype,
    /// The fields before the RDATA, the owner not counted.
    pub len: usize,
}

impl<'a, S: Sink> Reader<'a, S> {
    pub fn new(
        options: &Options<'a>,
        file: File<'a>,
        sink: &'a mut S,
        findings: &'a mut Findings,
        state: &'a mut State,
        budget: &'a mut Budget,
    ) -> Self {
        let Options { apex, checks, .. } = *options;
        let (is_in_order, relied_on_last_ttl, stated_ttl) = (true, false, false);
        let rdata = Vec::new();
        Reader { apex, checks, file, sink, findings, state, budget, is_in_order, relied_on_last_ttl, stated_ttl, rdata }
    }

    /// Reads the entries that start before `stop`, or up to an `$INCLUDE`.
    pub fn run(&mut self, scanner: &mut Scanner<'_>, stop: usize) -> Stop {
        let mut fields = Vec::new();
        // The owner stated last, as written, as long as the same text means the same name.
        let mut stated: &[u8] = b"";
        while scanner.position().at < stop {
            let start = scanner.position();
            let states_owner = !scanner.starts_blank();
            let read = scanner.entry(&mut fields);
            if scanner.is_cut_off(start) || !self.is_in_order && scanner.is_too_long() {
                scanner.rewind(start);
                return Stop::Before;
            }
            if scanner.is_too_long() {
                return self.too_long(start);
            }
            if let Err(fault) = read {
                if states_owner {
                    self.state.owner.standing = Standing::Wrong;
                    stated = b"";
                }
                self.error(*fault);
                continue;
            }
            if let Some(oddity) = scanner.oddity.take() {
                self.odd(*oddity);
            }
            let Some((first, rest)) = fields.split_first() else { continue };
            let done = if states_owner && is_directive(first) {
                stated = b"";
                if !self.is_in_order && is_generate(first) {
                    scanner.rewind(start);
                    return Stop::Before;
                }
                match self.directive(first, rest) {
                    Ok(None) => Ok(()),
                    Ok(Some(include)) => return Stop::Include(include),
                    Err(fault) => Err(fault),
                }
            } else if states_owner {
                if first.text != stated || first.quoted {
                    stated = self.owner_or_error(first);
                }
                self.entry(start.line, first, rest, scanner.joined_quote)
            } else {
                self.entry(start.line, first, &fields, scanner.joined_quote)
            };
            if let Err(fault) = done {
                self.error(*fault);
            }
        }
        Stop::Done
    }

    #[cold]
    fn too_long(&mut self, start: Position) -> Stop {
        let spot = Spot { line: start.line, column: 1 };
        let help = "close its quotes and parentheses; what follows is not read";
        self.error(*Fault::new(spot, "this entry is longer than any record", help));
        Stop::TooLong
    }

    //----------- records ------------------------------------------------------

    /// Reads a record whose owner is known; `first` is the first field of the entry.
    fn entry(
        &mut self,
        line: u32,
        first: &Field<'_>,
        fields: &[Field<'_>],
        joined: Option<Spot>,
    ) -> Result<(), Box<Fault>> {
        if self.state.owner.standing == Standing::Unknown {
            self.state.owner.standing = Standing::Wrong;
            let help = "begin the line with an owner, or with @ for the origin";
            return Err(Fault::at(first, "the first record has no owner", help));
        }
        let head = self.head(first, fields)?;
        let last = fields.last().unwrap_or(first);
        self.record(line, head, &fields[head.len..], last, joined)
    }

    /// Delivers a record; `last` is the last field before what may be missing, `joined` where a quote is joined to a word,
    /// which only service parameters have.
    pub fn record(
        &mut self,
        line: u32,
        head: Head,
        fields: &[Field<'_>],
        last: &Field<'_>,
        joined: Option<Spot>,
    ) -> Result<(), Box<Fault>> {
        if let (Some(spot), false) = (joined, matches!(head.rtype, Rtype::SVCB | Rtype::HTTPS)) {
            self.odd(*Fault::new(spot, "a quote in the middle of a word", "put a blank before it, or write \\\""));
            return self.record(line, head, &apart(fields), last, None);
        }
        self.rdata.clear();
        let fault = |wrong: rdata::FieldError| {
            let spot = fields.get(wrong.field).map_or(Spot::behind(last), Spot::of);
            Fault::new(spot, wrong.message, wrong.help)
        };
        let parsed = rdata::parse(head.rtype, fields, self.state.origin.as_ref(), &mut self.rdata);
        if let Some(oddity) = parsed.map_err(fault)? {
            self.odd(*fault(*oddity));
        }
        let ttl = self.ttl(head, last)?;
        if self.state.owner.standing == Standing::Good {
            let owner = NameRef::from_wire(&self.state.owner.wire).expect("owners are checked when stated");
            let (rtype, file) = (head.rtype, self.file.number);
            let refused = |Refusal { message, help }| Fault::at(last, message, help);
            if self.budget.record(owner.wire().len() + self.rdata.len()).map_err(refused)? {
                self.sink.record(Record { owner, rtype, ttl, rdata: &self.rdata, file, line });
            }
        }
        if head.rtype == Rtype::SOA && self.state.owner.standing == Standing::OutOfZone {
            return Err(self.other_zone(fields.first().unwrap_or(last)));
        }
        Ok(())
    }

    /// A file that is read as another zone than it is about: most often it has its zone's name from its own.
    fn other_zone(&self, field: &Field<'_>) -> Box<Fault> {
        let owner = NameRef::from_wire(&self.state.owner.wire).expect("owners are checked when stated");
        let message = format!("this file is about the zone {owner} and is read as {}", self.apex);
        let help = format!("name the file {owner}zone, or name the zone: --zone {owner}=FILE, or [[zone]] name");
        Fault::at(field, message, help)
    }

    /// Takes the owner that a record states, and returns its text; that is empty if the owner is wrong, which is reported.
    fn owner_or_error<'t>(&mut self, field: &Field<'t>) -> &'t [u8] {
        match self.owner(field) {
            Ok(()) => field.text,
            Err(fault) => {
                self.error(*fault);
                b""
            }
        }
    }

    /// Takes the owner that a record states.
    pub fn owner(&mut self, field: &Field<'_>) -> Result<(), Box<Fault>> {
        if field.quoted {
            self.odd(*Fault::at(field, "the owner is in quotes", "write the name without quotes"));
        }
        let owner = &mut self.state.owner;
        owner.standing = Standing::Wrong;
        owner.wire.clear();
        name::append(field.text, self.state.origin.as_ref(), &mut owner.wire)
            .map_err(|error| Fault::at(field, error.to_string(), "mend the owner name"))?;
        let wire = NameRef::from_wire(&owner.wire).expect("a name that was just made");
        if !wire.is_at_or_below(self.apex) {
            owner.standing = Standing::OutOfZone;
            let message = format!("{wire} is out of zone {}", self.apex);
            return Err(Fault::at(field, message, "take the record out, or mend the name or the $ORIGIN before it"));
        }
        owner.standing = Standing::Good;
        Ok(())
    }

    /// Reads TTL, class and type: the first two may be left out and stand in any order (RFC 1035 5.1).
    pub fn head(&mut self, first: &Field<'_>, fields: &[Field<'_>]) -> Result<Head, Box<Fault>> {
        let (mut ttl, mut has_class) = (None, false);
        for (at, field) in fields.iter().enumerate() {
            if field.quoted {
                return Err(Fault::at(field, "TTL, class and type are not in quotes", "take the quotes away"));
            }
            if field.text.first().is_some_and(u8::is_ascii_digit) {
                if ttl.is_some() {
                    return Err(Fault::at(field, "the TTL is stated twice", "the type must follow"));
                }
                ttl = Some(self.stated(field)?);
                continue;
            }
            // The class IN before all types: it is the one that stands on most lines.
            let is_in = field.text.eq_ignore_ascii_case(b"IN");
            let rtype = if is_in { None } else { Rtype::from_text(field.text) };
            if let Some(rtype) = rtype {
                if rtype.is_meta() || rtype == Rtype::ALIAS {
                    self.check_type(field, rtype)?;
                }
                return Ok(Head { ttl, rtype, len: at + 1 });
            }
            check_class(first, field, has_class)?;
            has_class = true;
        }
        let last = fields.last().unwrap_or(first);
        Err(Fault::new(Spot::behind(last), "the type is missing", "a record is: owner, TTL, class, type, RDATA"))
    }

    /// Refuses a type that messages use otherwise; notes one that is no ordinary data as odd.
    #[cold]
    fn check_type(&mut self, field: &Field<'_>, rtype: Rtype) -> Result<(), Box<Fault>> {
        if rtype.is_reserved_for_messages() {
            let message = format!("{rtype} is a type of questions and messages, not of records");
            return Err(Fault::at(field, message, "take the record out"));
        }
        let (what, help) = match rtype {
            Rtype::ALIAS => ("is stored and transferred, not followed", "queries for addresses get none from it"),
            _ => ("is no type of data (RFC 6895 3.1)", "use a type of the IANA registry, or one for private use"),
        };
        self.odd(*Fault::at(field, format!("{rtype} {what}"), help));
        Ok(())
    }

    //----------- TTL ----------------------------------------------------------

    /// Reads a TTL from text.
    ///
    /// RFC 2181 8: it is at most 2^31 - 1; a larger one is to be treated as 0.
    pub fn stated(&mut self, field: &Field<'_>) -> Result<u32, Box<Fault>> {
        let seconds =
            ttl::parse(field.text).map_err(|wrong| Fault::at(field, format!("the TTL {wrong}"), ttl::HELP))?;
        if seconds <= ttl::MAX {
            return Ok(seconds);
        }
        let message = format!("the TTL {seconds} is over {} and means 0", ttl::MAX);
        self.warn(*Fault::at(field, message, "RFC 2181 8; state the TTL that is meant"));
        Ok(0)
    }

    /// The TTL of the record at hand: its own, that of `$TTL` (RFC 2308 4), or the last stated one (RFC 1035 5.1).
    fn ttl(&mut self, head: Head, last: &Field<'_>) -> Result<u32, Box<Fault>> {
        if head.ttl.is_some() {
            self.stated_ttl = true;
            self.state.last_ttl = head.ttl;
        }
        if let Some(ttl) = head.ttl.or(self.state.default_ttl) {
            return Ok(ttl);
        }
        self.relied_on_last_ttl |= !self.stated_ttl;
        match self.state.last_ttl {
            Some(ttl) => Ok(ttl),
            None => self.first_ttl(head.rtype, last),
        }
    }

    /// The TTL of a first record that states none, which becomes the default: the minimum of the SOA, as BIND has it.
    fn first_ttl(&mut self, rtype: Rtype, last: &Field<'_>) -> Result<u32, Box<Fault>> {
        let help = "write $TTL and a number of seconds before the first record";
        let minimum = match self.rdata.last_chunk::<4>() {
            Some(minimum) if rtype == Rtype::SOA => u32::from_be_bytes(*minimum),
            _ => {
                // Said once; the records that follow have the same lack.
                self.state.default_ttl = Some(0);
                return Err(Fault::at(last, "there is no TTL: neither here, nor before, nor by $TTL", help));
            }
        };
        let ttl = if minimum > ttl::MAX { 0 } else { minimum };
        self.warn(*Fault::at(
            last,
            format!("there is no TTL: the minimum of the SOA, {ttl}, becomes the default"),
            help,
        ));
        self.state.default_ttl = Some(ttl);
        Ok(ttl)
    }

    //----------- findings -----------------------------------------------------

    fn warn(&mut self, fault: Fault) {
        self.findings.add(Severity::Warning, self.file.name, fault);
    }

    /// Reports what breaks a rule and can be loaded.
    #[cold]
    pub fn odd(&mut self, fault: Fault) {
        self.findings.add(self.checks.severity(), self.file.name, fault);
    }

    fn error(&mut self, fault: Fault) {
        self.findings.add(Severity::Error, self.file.name, fault);
    }
}

fn is_directive(first: &Field<'_>) -> bool {
    first.text.first() == Some(&b'$') && !first.quoted
}

/// Whether a directive makes records, which are counted in order.
fn is_generate(first: &Field<'_>) -> bool {
    first.text.eq_ignore_ascii_case(b"$GENERATE")
}

/// The fields with those cut in two that are a key and a value in quotes: `a="b"` is `a=` and `"b"`, as in BIND and NSD.
#[cold]
fn apart<'t>(fields: &[Field<'t>]) -> Vec<Field<'t>> {
    let mut all = Vec::with_capacity(fields.len() + 1);
    for field in fields {
        let quote = memchr::memmem::find(field.text, b"=\"").filter(|_| !field.quoted && field.text.ends_with(b"\""));
        let Some(at) = quote else {
            all.push(*field);
            continue;
        };
        let (key, value) = (&field.text[..=at], &field.text[at + 2..field.text.len() - 1]);
        let column = field.column.saturating_add(key.len() as u32);
        all.extend([Field { text: key, ..*field }, Field { text: value, quoted: true, column, ..*field }]);
    }
    all
}

/// Checks that a field which is neither TTL nor type is the class IN; `first` is the first field of the entry.
fn check_class(first: &Field<'_>, field: &Field<'_>, is_second: bool) -> Result<(), Box<Fault>> {
    match Class::from_text(field.text) {
        None => Err(unknown_type(first, field)),
        Some(_) if is_second => Err(Fault::at(field, "the class is stated twice", "the type must follow")),
        Some(Class::IN) => Ok(()),
        Some(class) => Err(Fault::at(field, format!("the class is {class}"), "only records of class IN are served")),
    }
}

fn unknown_type(first: &Field<'_>, field: &Field<'_>) -> Box<Fault> {
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
    Fault::at(field, format!("unknown type {}", shown.escape_ascii()), help)
}
