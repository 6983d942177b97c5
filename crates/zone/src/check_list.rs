//! The table of checks: what can be odd or wrong with a zone whose text can be read, how bad that is, and which RFC says so.
//!
//! Parser and checks report by these rules alone, so the table is complete; `zonda check --list` prints it for the manual.
//! A new check is a new row.

use std::fmt::{Display, Write};

use crate::{CheckMode, FilePosition, Finding, Severity};

/// One check.
#[derive(Debug)]
pub struct Check {
    /// What is found: the start of the message, before what it is found at.
    pub message: &'static str,
    /// What to do about it; empty where the message says it.
    pub help: &'static str,
    /// How bad it is.
    pub level: CheckLevel,
    /// The RFC and section that it follows from.
    pub rfc: &'static str,
}

/// What a finding means for the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckLevel {
    /// The zone is refused: what is wrong cannot be served, or makes other answers wrong.
    Error,
    /// The zone is refused with `checks = "strict"` and loaded with a warning otherwise.
    Strict,
    /// The zone is loaded with a warning.
    Warning,
    /// As [`Self::Warning`], but only `zonda check` looks.
    Advice,
}

impl Check {
    /// How bad a finding by this rule is.
    pub fn severity(&self, mode: CheckMode) -> Severity {
        match self.level {
            CheckLevel::Error => Severity::Error,
            CheckLevel::Strict => mode.severity(),
            CheckLevel::Warning | CheckLevel::Advice => Severity::Warning,
        }
    }

    /// The text of a finding at `detail`, which may be empty.
    pub(crate) fn message(&self, detail: impl Display) -> String {
        let mut message = self.message.to_owned();
        let rule_len = message.len() + ": ".len();
        _ = write!(message, ": {detail}");
        if message.len() == rule_len {
            message.truncate(self.message.len());
        }
        message
    }

    pub(crate) fn finding(&self, mode: CheckMode, position: FilePosition, detail: impl Display) -> Finding {
        Finding { severity: self.severity(mode), position, message: self.message(detail), help: self.help.to_owned() }
    }
}

const INTRODUCTION: &str = "\
# What zonda checks in zones

Text that cannot be read as records (RFC 1035 5.1) is always an error, and so are RDATA that cannot be stored as their type. RDATA that
can be stored and break a rule of their type's RFC are a warning, or an error if strict; the message names the rule. The rest is in this table.
A zone with an error is not loaded. What can be stored and served all the same is loaded with a warning; with `checks = \"strict\"` for
the zone, or `zonda check --strict`, findings marked so are errors.

| finding | level | RFC |
| --- | --- | --- |
";

/// The table in Markdown, as a page of the manual.
pub fn markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    for rule in CHECKS {
        let level = match rule.level {
            CheckLevel::Error => "error",
            CheckLevel::Strict => "error if strict, else warning",
            CheckLevel::Warning => "warning",
            CheckLevel::Advice => "warning, by `zonda check` only",
        };
        _ = writeln!(out, "| {} | {level} | {} |", rule.message, rule.rfc);
    }
    out
}

/// Makes a constant of each row, and [`CHECKS`] of all of them.
macro_rules! checks {
    ($($name:ident: $level:ident, $rfc:literal, $message:literal, $help:literal;)*) => {
        $(
            #[doc = concat!("RFC ", $rfc, ": ", $message, ".")]
            pub static $name: Check = Check { message: $message, help: $help, level: CheckLevel::$level, rfc: $rfc };
        )*

        /// All checks, in the order of the manual.
        pub static CHECKS: &[&Check] = &[$(&$name,)*];
    };
}

checks! {
    // The text.
    OUT_OF_ZONE: Strict, "1035 5.2", "a record out of the zone is left out", "take it out, or fix the name or the $ORIGIN before it";
    OTHER_ZONE: Strict, "1035 5.2", "the file is about another zone", "";
    NO_DATA_TYPE: Strict, "6895 3.1", "a record of a type that is reserved", "use a type of the IANA registry, or one for private use";
    ALIAS: Strict, "6895 3.1", "ALIAS is stored and transferred, not followed", "queries for addresses get none from it";
    META_TYPE: Strict, "6895 3.1", "a record of a type for questions and messages is left out", "take it out";
    QUOTED_OWNER: Strict, "1035 5.1", "the owner is in quotes", "write the name without quotes";
    MISSING_BLANK: Strict, "1035 5.1", "a blank is missing beside a quote", "what is in quotes is taken as a field of its own";
    LARGE_TTL: Warning, "2181 8", "a TTL over 2147483647 means 0", "state the TTL that is meant";
    NO_TTL: Strict, "1035 5.1", "there is no TTL: neither here, nor before, nor by $TTL; 3600 becomes the default", "write $TTL and a number of seconds before the first record";
    NO_TTL_BUT_SOA: Warning, "2308 4", "there is no TTL: the minimum of the SOA becomes the default", "write $TTL and a number of seconds before the first record";

    // The apex.
    NO_SOA: Error, "1035 5.2", "the zone has no SOA record", "add one at the apex; is the zone's name the one that the file is about?";
    SEVERAL_SOA: Error, "1035 5.2", "the zone has several SOA records", "keep one";
    SOA_BELOW_APEX: Error, "1035 5.2, 5936 2.2", "a SOA record below the apex", "a zone has one, at its apex; check the owner name or $ORIGIN";
    NO_NS: Strict, "1034 4.2.1", "the zone has no NS record at its apex", "add the name servers of the zone";

    // The records of one name.
    CNAME_AND_OTHER_DATA: Error, "1034 3.6.2", "CNAME and other data for one name", "remove the CNAME record or the others";
    CNAME_AND_KEY: Strict, "2181 10.1", "KEY or NXT beside CNAME", "remove it: RFC 4034 2.5 allows but RRSIG and NSEC there";
    TWO_CNAMES: Error, "2181 10.1", "two CNAME records for one name", "keep one of them";
    TWO_DNAMES: Error, "6672 2.4", "two DNAME records for one name", "keep one of them";
    DNAME_AND_NS: Strict, "6672 2.3", "DNAME and NS for one name below the apex", "the name is delegated; remove the DNAME record";
    BELOW_DNAME: Strict, "6672 2.4", "a record below a DNAME", "it is never answered; remove it";
    BELOW_CUT: Warning, "1034 4.2.1", "a record below a delegation that is no address", "it is never answered; remove it";
    MIXED_TTLS: Warning, "2181 5.2", "records of one set differ in their TTLs", "the least is served; give them one";
    LARGE_RECORD: Error, "1035 4.2.2", "a record that fits in no message", "split what it says over several records";
    LARGE_SET: Warning, "1035 4.2.2", "a set that fits in no message is not answered", "take records out of it";

    // Signed zones.
    NO_NSEC3: Warning, "5155 7.1", "the zone has NSEC3PARAM and no NSEC3 records", "sign it again: what is not there cannot be proved";
    TOO_MANY_ITERATIONS: Error, "9276 3.2", "more NSEC3 iterations than nsec3-max-iterations allows", "sign with 0 iterations";
    MANY_ITERATIONS: Warning, "9276 3.1", "validators treat a zone with so many NSEC3 iterations as unsigned", "sign with 0 iterations";

    // Changes.
    SAME_SERIAL: Warning, "1035 3.3.13", "the zone has changed and its serial is as before", "raise the serial in the SOA record: secondaries take only what is later";
    EARLIER_SERIAL: Warning, "1982 3.2", "the zone has changed and its serial went back", "raise the serial in the SOA record: secondaries take only what is later";

    // Names that others point to.
    NO_GLUE: Advice, "9471 2.1", "no address for a name server below its own delegation", "add glue: A or AAAA";
    ALIAS_MODE_WITH_PARAMETERS: Advice, "9460 2.4.2", "a service record of priority 0 has parameters", "they are ignored: leave them out, or give it a priority";
    DNS_WITHOUT_ALPN: Advice, "9461 4.1", "a DNS service without alpn", "name its protocols, as in alpn=dot: there is no default";
    DNS_WITHOUT_DOHPATH: Advice, "9461 5", "a DNS service over HTTP without dohpath", "add one, as in dohpath=/dns-query{?dns}";
    BAD_DOHPATH: Advice, "9461 5", "a dohpath that is no template of a path with the variable dns", "as in dohpath=/dns-query{?dns}";
    UNHASHED_NSEC3: Advice, "5155 3", "NSEC3 at a name that is no hash", "sign the zone again: nobody looks for it there";
    CHILD_KEY_WITHOUT_DNSKEY: Advice, "7344 4.1", "CDS or CDNSKEY that matches no DNSKEY", "publish the key, or take the record out";
    TO_ALIAS: Advice, "2181 10.3", "a record points to an alias", "point to the name that has the address";
    TO_NOWHERE: Advice, "1912 2.3", "a record points to a name without an address", "add one, or correct the name";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_fit_a_table() {
        for (at, rule) in CHECKS.iter().enumerate() {
            assert!(CHECKS[..at].iter().all(|other| other.message != rule.message), "{}", rule.message);
            assert!(!rule.message.contains('|') && rule.rfc.starts_with(|digit: char| digit.is_ascii_digit()));
        }
    }

    #[test]
    fn the_level_decides() {
        let severities = |level| {
            let check = Check { message: "m", help: "", level, rfc: "1" };
            [CheckMode::Lenient, CheckMode::Strict].map(|mode| check.severity(mode))
        };
        assert_eq!(severities(CheckLevel::Error), [Severity::Error; 2]);
        assert_eq!(severities(CheckLevel::Strict), [Severity::Warning, Severity::Error]);
        assert_eq!(severities(CheckLevel::Advice), [Severity::Warning; 2]);
    }
}
