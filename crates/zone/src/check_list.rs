//! All checks of zones with their messages, levels and RFCs; `zonda check --list` prints them for the manual.
//!
//! The checks themselves are in `check` and in `text::record`; a new one is a new row here.

use std::fmt::{Display, Write};

use crate::{CheckMode, FilePosition, Finding, Severity};

/// A check.
#[derive(Debug)]
pub struct Check {
    /// The start of the message, before the name or value concerned.
    pub message: &'static str,
    /// How to fix it; may be empty.
    pub help: &'static str,
    /// The level.
    pub level: CheckLevel,
    /// The RFC and section.
    pub rfc: &'static str,
}

/// What a finding does to the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckLevel {
    /// The zone is not loaded: the data cannot be served, or makes other answers wrong.
    Error,
    /// An error with `checks = "strict"`, otherwise a warning.
    Strict,
    /// The zone is loaded with a warning.
    Warning,
    /// A warning of `zonda check` only.
    Advice,
}

impl Check {
    /// The severity of a finding.
    pub fn severity(&self, mode: CheckMode) -> Severity {
        match self.level {
            CheckLevel::Error => Severity::Error,
            CheckLevel::Strict => mode.severity(),
            CheckLevel::Warning | CheckLevel::Advice => Severity::Warning,
        }
    }

    /// The message with `detail`, which may be empty.
    pub(crate) fn message(&self, detail: impl Display) -> String {
        let mut message = self.message.to_owned();
        let prefix_len = message.len() + ": ".len();
        _ = write!(message, ": {detail}");
        if message.len() == prefix_len {
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

Text that cannot be parsed as records (RFC 1035 5.1) is always an error, and so is RDATA that cannot be stored. RDATA that violates a
rule of its type's RFC but can be stored is a warning, or an error if strict; the message names the rule. All other checks are in this table.
A zone with an error is not loaded; a zone with warnings is. `checks = \"strict\"` for the zone, or `zonda check --strict`, turns the
warnings marked so into errors.

| finding | level | RFC |
| --- | --- | --- |
";

/// The table as a Markdown page of the manual.
pub fn markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    for check in CHECKS {
        let level = match check.level {
            CheckLevel::Error => "error",
            CheckLevel::Strict => "error if strict, else warning",
            CheckLevel::Warning => "warning",
            CheckLevel::Advice => "warning, by `zonda check` only",
        };
        _ = writeln!(out, "| {} | {level} | {} |", check.message, check.rfc);
    }
    out
}

/// Defines a constant for each row, and [`CHECKS`].
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
    // Zone text.
    OUT_OF_ZONE: Strict, "1035 5.2", "an out-of-zone record is skipped", "remove it, or correct its owner or the $ORIGIN before it";
    OTHER_ZONE: Strict, "1035 5.2", "the file is for another zone", "";
    RESERVED_TYPE: Strict, "6895 3.1", "a record of a reserved type", "use an assigned type, or one for private use";
    ALIAS: Strict, "6895 3.1", "ALIAS is stored and transferred, but not followed", "address queries get no answer from it";
    META_TYPE: Strict, "6895 3.1", "a record of a QTYPE or meta-type is skipped", "remove it";
    QUOTED_OWNER: Strict, "1035 5.1", "the owner is in quotes", "write the name without quotes";
    MISSING_BLANK: Strict, "1035 5.1", "a blank is missing next to a quote", "the quoted text is taken as a separate field";
    LARGE_TTL: Warning, "2181 8", "a TTL over 2147483647 is treated as 0", "write the intended TTL";
    NO_TTL: Strict, "1035 5.1", "there is no TTL: neither here, nor before, nor by $TTL; 3600 becomes the default", "write $TTL and a number of seconds before the first record";
    NO_TTL_BUT_SOA: Warning, "2308 4", "there is no TTL: the minimum of the SOA becomes the default", "write $TTL and a number of seconds before the first record";

    // The apex.
    NO_SOA: Error, "1035 5.2", "the zone has no SOA record", "add one at the apex, or correct the name of the zone";
    SEVERAL_SOA: Error, "1035 5.2", "the zone has several SOA records", "keep one";
    REPEATED_SOA: Strict, "1035 5.2", "the SOA record occurs twice", "keep one";
    SOA_BELOW_APEX: Error, "1035 5.2, 5936 2.2", "a SOA record below the apex", "remove it, or correct its owner or the $ORIGIN before it";
    NO_NS: Strict, "1034 4.2.1", "the zone has no NS record at its apex", "add the name servers of the zone";

    // The records of one name.
    CNAME_AND_OTHER_DATA: Error, "1034 3.6.2", "CNAME and other data for one name", "remove the CNAME record or the others";
    CNAME_AND_KEY: Strict, "2181 10.1", "KEY, SIG or NXT beside CNAME", "remove it: only RRSIG and NSEC are allowed there (RFC 4034 2.5)";
    TWO_CNAMES: Error, "2181 10.1", "two CNAME records for one name", "keep one of them";
    TWO_DNAMES: Error, "6672 2.4", "two DNAME records for one name", "keep one of them";
    DNAME_AND_NS: Strict, "6672 2.3", "DNAME and NS for one name below the apex", "the name is delegated; remove the DNAME record";
    BELOW_DNAME: Strict, "6672 2.4", "a record below a DNAME", "it is never answered; remove it";
    BELOW_CUT: Warning, "1034 4.2.1", "a record below a delegation is not an address", "it is never answered; remove it";
    MIXED_TTLS: Warning, "2181 5.2", "TTLs differ within an RRset", "the lowest is served; use one TTL";
    LARGE_RECORD: Strict, "1035 4.2.2", "a record that fits in no message: zone transfers fail", "split the data over several records";
    LARGE_SET: Warning, "1035 4.2.2", "an RRset that fits in no message: queries for it fail", "remove records from it";

    // DNSSEC.
    NO_NSEC3: Warning, "5155 7.1", "the zone has NSEC3PARAM, but no NSEC3 records", "sign it again: denial of existence cannot be proved";
    TOO_MANY_ITERATIONS: Error, "9276 3.2", "more NSEC3 iterations than nsec3-max-iterations allows", "sign with 0 iterations";
    MANY_ITERATIONS: Warning, "9276 3.1", "validators treat a zone with this many NSEC3 iterations as unsigned", "sign with 0 iterations";

    // Changes.
    SAME_SERIAL: Warning, "1035 3.3.13", "the zone has changed, but not its serial", "increase the serial in the SOA record: secondaries transfer only later versions";
    EARLIER_SERIAL: Warning, "1982 3.2", "the zone has changed, but its serial went back", "increase the serial in the SOA record: secondaries transfer only later versions";

    // Targets of records, service bindings, hashed owners, keys for the parent.
    NO_GLUE: Advice, "9471 2.1", "missing glue for a name server below its own delegation", "add its A or AAAA records";
    ALIAS_MODE_WITH_PARAMETERS: Advice, "9460 2.4.2", "a record in AliasMode has service parameters", "they are ignored: remove them, or set a priority";
    DNS_WITHOUT_ALPN: Advice, "9461 4.1", "a DNS service without alpn", "add one, as in alpn=dot: there is no default";
    DNS_WITHOUT_DOHPATH: Advice, "9461 5", "a DNS service over HTTP without dohpath", "add one, as in dohpath=/dns-query{?dns}";
    BAD_DOHPATH: Advice, "9461 5", "a dohpath is not a path template with the variable dns", "as in dohpath=/dns-query{?dns}";
    BAD_NSEC3_OWNER: Advice, "5155 3", "the owner of an NSEC3 record is not a hash", "sign the zone again: the record is never used";
    CHILD_KEY_WITHOUT_DNSKEY: Advice, "7344 4.1", "CDS or CDNSKEY matches no DNSKEY", "publish the key, or remove the record";
    TARGET_IS_ALIAS: Advice, "2181 10.3", "a record points to an alias", "point to the name that has the address";
    NO_ADDRESS: Advice, "1912 2.3", "a record points to a name without an address", "add one, or correct the name";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_distinct_and_fit_a_table() {
        for (at, check) in CHECKS.iter().enumerate() {
            assert!(CHECKS[..at].iter().all(|other| other.message != check.message), "{}", check.message);
            assert!(!check.message.contains('|') && check.rfc.starts_with(|digit: char| digit.is_ascii_digit()));
        }
    }

    #[test]
    fn severity_depends_on_level_and_mode() {
        let severities = |level| {
            let check = Check { message: "m", help: "", level, rfc: "1" };
            [CheckMode::Lenient, CheckMode::Strict].map(|mode| check.severity(mode))
        };
        assert_eq!(severities(CheckLevel::Error), [Severity::Error; 2]);
        assert_eq!(severities(CheckLevel::Strict), [Severity::Warning, Severity::Error]);
        assert_eq!(severities(CheckLevel::Advice), [Severity::Warning; 2]);
    }
}
