//! The text fields of a record's RDATA, and errors in them.

use std::borrow::Cow;
use std::fmt;

use wire::rdata::{Form, RdataError, RdataField, fields_of};
use wire::{NameRef, Rtype};

use super::super::Field;
use super::{FieldError, FieldResult, RuleViolation};

/// The fields of one record's RDATA, taken one by one.
pub(super) struct RdataFields<'i> {
    rtype: Rtype,
    fields: &'i [Field<'i>],
    /// The number of the next field.
    at: usize,
    /// The part of the RDATA being parsed.
    part: &'static RdataField,
    /// Its name in messages.
    name: &'static str,
    origin: NameRef<'i>,
    start: usize,
    violation: RuleViolation,
}

impl<'i> RdataFields<'i> {
    pub fn new(rtype: Rtype, fields: &'i [Field<'i>], origin: NameRef<'i>, start: usize) -> RdataFields<'i> {
        const NONE: &RdataField = &RdataField { name: "data", form: Form::Opaque };
        RdataFields { rtype, fields, at: 0, part: NONE, name: NONE.name, origin, start, violation: None }
    }

    pub fn rtype(&self) -> Rtype {
        self.rtype
    }

    pub fn origin(&self) -> NameRef<'i> {
        self.origin
    }

    /// Where the RDATA starts in the output.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Starts a part of the RDATA.
    pub fn begin(&mut self, part: &'static RdataField) {
        self.part = part;
        self.name = part.name;
    }

    /// Sets the name in messages of the next field, for parts of several fields.
    pub fn call(&mut self, name: &'static str) {
        self.name = name;
    }

    /// Whether all fields are taken.
    pub fn is_at_end(&self) -> bool {
        self.at == self.fields.len()
    }

    /// The number of the next field.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Goes back to a field by its number.
    pub fn rewind(&mut self, position: usize) {
        self.at = position;
    }

    /// The next field, which is not taken.
    pub fn peek(&self) -> Option<&'i Field<'i>> {
        self.fields.get(self.at)
    }

    /// The field after the next one, which is not taken.
    pub fn peek_second(&self) -> Option<&'i Field<'i>> {
        self.fields.get(self.at + 1)
    }

    /// Takes the next field, quoted or not.
    pub fn string(&mut self) -> FieldResult<&'i [u8]> {
        let field = self.peek().ok_or_else(|| self.missing())?;
        self.at += 1;
        Ok(field.text)
    }

    /// Takes the next field, which must not be in quotes.
    pub fn word(&mut self) -> FieldResult<&'i [u8]> {
        let field = self.peek().ok_or_else(|| self.missing())?;
        self.at += 1;
        if field.quoted {
            return Err(self.wrong("is in quotes", "write it without quotes"));
        }
        Ok(field.text)
    }

    /// Fails if fields remain.
    pub fn end(&self) -> FieldResult {
        if self.is_at_end() { Ok(()) } else { Err(self.extra()) }
    }

    /// Notes a violation if the part written to `out` from `start` on violates its RFC.
    pub fn check(&mut self, out: &[u8], start: usize) {
        let (rdata, start) = (&out[self.start..], start - self.start);
        if let Err(RdataError::Form(_, rule)) = self.part.check(rdata, start..rdata.len()) {
            self.violates(rule, self.usage());
        }
    }

    /// Notes a violation in the last field taken; `what` is the predicate of the current part.
    #[cold]
    pub fn violates(&mut self, what: impl fmt::Display, help: impl Into<Cow<'static, str>>) {
        self.violates_at(self.last(), what, help);
    }

    /// Notes a violation in a field by its number.
    #[cold]
    pub fn violates_at(&mut self, field: usize, what: impl fmt::Display, help: impl Into<Cow<'static, str>>) {
        if self.violation.is_none() {
            self.violation = Some(self.wrong_at(field, what, help));
        }
    }

    /// The first violation noted.
    pub fn into_violation(self) -> RuleViolation {
        self.violation
    }

    /// An error in the last field taken; `what` is the predicate of the current part.
    #[cold]
    pub fn wrong(&self, what: impl fmt::Display, help: impl Into<Cow<'static, str>>) -> Box<FieldError> {
        self.wrong_at(self.last(), what, help)
    }

    /// An error in a field by its number.
    #[cold]
    pub fn wrong_at(
        &self,
        field: usize,
        what: impl fmt::Display,
        help: impl Into<Cow<'static, str>>,
    ) -> Box<FieldError> {
        Box::new(FieldError { field, message: format!("the {} {what}", self.name).into(), help: help.into() })
    }

    /// The number of the last field taken.
    pub fn last(&self) -> usize {
        self.at.saturating_sub(1)
    }

    /// The error for a missing field of the current part.
    #[cold]
    pub fn missing(&self) -> Box<FieldError> {
        self.wrong_at(self.fields.len(), "is missing", self.usage())
    }

    #[cold]
    fn extra(&self) -> Box<FieldError> {
        Box::new(FieldError { field: self.at, message: "there is a field too many".into(), help: self.usage() })
    }

    fn usage(&self) -> Cow<'static, str> {
        let names: Vec<&str> = fields_of(self.rtype).iter().map(usage).collect();
        format!("{} takes: {}", self.rtype, names.join(", ")).into()
    }
}

/// The text fields of a part.
fn usage(part: &RdataField) -> &str {
    match part.form {
        Form::Location => "d1 [m1 [s1]] N|S, d2 [m2 [s2]] E|W, altitude [size [horizontal [vertical precision]]]",
        Form::Discovery => "discovery bit, relay type",
        Form::HostIdentity => "algorithm, host identity, public key",
        Form::Opaque => "\\# and the number of octets, the octets in hexadecimal",
        _ => part.name,
    }
}
