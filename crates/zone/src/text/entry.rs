//! Entries of zone text: each is a record or a directive (RFC 1035 5.1).

use super::directive::{self, Include};
use super::error::{LineColumn, ParseError};
use super::record::{OwnerStatus, RecordParser};
use super::scan::{LineStart, QuotePlacement, Scanner};
use super::{Field, RecordSink};

/// Why parsing stopped.
pub(super) enum StopReason {
    /// All entries that start before the given offset were parsed.
    Done,
    /// After an `$INCLUDE`.
    Include(Box<Include>),
    /// Before an entry that may continue after the text in memory, or that must be parsed in order.
    BeforeEntry,
    /// In an entry that is too long.
    TooLong,
}

impl<S: RecordSink> RecordParser<'_, S> {
    /// Parses the entries that start before `stop`, or up to an `$INCLUDE`.
    pub fn parse_entries(&mut self, scanner: &mut Scanner<'_>, stop: usize) -> StopReason {
        // A SOA record has eleven.
        let mut fields = Vec::with_capacity(16);
        // The text of the last owner stated, as long as the same text means the same name.
        let mut last_owner: &[u8] = b"";
        while scanner.position().at < stop {
            let start = scanner.position();
            let states_owner = !scanner.starts_blank();
            let scanned = scanner.entry(&mut fields);
            if scanner.is_cut_off(start) || !self.is_in_order && scanner.is_too_long() {
                scanner.rewind(start);
                return StopReason::BeforeEntry;
            }
            if scanner.is_too_long() {
                return self.too_long(start);
            }
            if let Err(error) = scanned {
                if states_owner {
                    self.state.owner.status = OwnerStatus::Invalid;
                    last_owner = b"";
                }
                self.error(*error);
                continue;
            }
            let Some((first, rest)) = fields.split_first() else { continue };
            let parsed = if states_owner && is_directive(first) {
                last_owner = b"";
                if !self.is_in_order && is_generate(first) {
                    scanner.rewind(start);
                    return StopReason::BeforeEntry;
                }
                match self.apply_directive(first, rest) {
                    Ok(None) => Ok(()),
                    Ok(Some(include)) => return StopReason::Include(include),
                    Err(error) => Err(error),
                }
            } else if states_owner {
                if first.text != last_owner || first.quoted {
                    last_owner = self.owner_or_error(first);
                }
                self.parse_record(start.line, first, rest, &scanner.quotes)
            } else {
                self.parse_record(start.line, first, &fields, &scanner.quotes)
            };
            if let Err(error) = parsed {
                self.error(*error);
            }
        }
        StopReason::Done
    }

    #[cold]
    fn too_long(&mut self, start: LineStart) -> StopReason {
        let at = LineColumn { line: start.line, column: 1 };
        let help = "close its quotes and parentheses; the rest of the file is not read";
        self.error(*ParseError::new(at, "this entry is longer than any record", help));
        StopReason::TooLong
    }

    /// Parses a record whose owner is known. `first` is the first field of the entry.
    fn parse_record(
        &mut self,
        line: u32,
        first: &Field<'_>,
        fields: &[Field<'_>],
        quotes: &QuotePlacement,
    ) -> Result<(), Box<ParseError>> {
        if self.state.owner.status == OwnerStatus::Missing {
            self.state.owner.status = OwnerStatus::Invalid;
            let help = "start the line with an owner, or with @ for the origin";
            return Err(ParseError::at(first, "the first record has no owner", help));
        }
        let header = self.header(first, fields)?;
        let last = fields.last().unwrap_or(first);
        self.record(line, header, &fields[header.len..], last, quotes)
    }

    /// Applies a directive; returns an `$INCLUDE` to the caller.
    fn apply_directive(
        &mut self,
        name: &Field<'_>,
        arguments: &[Field<'_>],
    ) -> Result<Option<Box<Include>>, Box<ParseError>> {
        let origin = self.state.origin.as_ref();
        match name.text.to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => self.state.origin = directive::origin(name, arguments, origin)?,
            b"$TTL" => self.state.default_ttl = Some(self.parse_ttl(directive::ttl(name, arguments)?)?),
            b"$INCLUDE" => return directive::include(name, arguments, origin).map(Some),
            b"$GENERATE" => self.generate(name, arguments)?,
            _ => return Err(directive::unknown(name)),
        }
        Ok(None)
    }
}

fn is_directive(first: &Field<'_>) -> bool {
    first.text.first() == Some(&b'$') && !first.quoted
}

/// `$GENERATE` is parsed in order: its records count against a limit of the whole zone.
fn is_generate(first: &Field<'_>) -> bool {
    first.text.eq_ignore_ascii_case(b"$GENERATE")
}
