//! Builds a zone from records that arrive one by one, as in an incoming AXFR. Zone text goes through [`crate::load`].

use std::sync::{Arc, OnceLock};

use wire::rdata::{self, RdataError};
use wire::{Name, NameRef, Rtype};

use crate::build_options::BuildOptions;
use crate::build_runs::build;
use crate::check_list::{self, Check};
use crate::finding::{CheckMode, FilePosition, Finding, Findings, Severity};
use crate::intern::Interner;
use crate::record_sorter::{BatchSizes, RecordSorter, SorterContext};
use crate::text::ZoneRecord;
use crate::ttl_limit::{MAX_TTL, limited_ttl};
use crate::zone::Zone;

/// How a zone is built from given records.
#[derive(Clone, Debug)]
pub struct ZoneBuilderOptions {
    /// Where the records come from, as findings name it.
    pub source: Arc<str>,
    /// Whether records that violate their RFC fail the zone.
    pub check_mode: CheckMode,
    /// A zone with more NSEC3 iterations is an error.
    pub nsec3_max_iterations: u16,
    /// How many threads [`ZoneBuilder::finish`] may use.
    pub threads: usize,
}

impl Default for ZoneBuilderOptions {
    /// Lenient, any number of NSEC3 iterations, one thread.
    fn default() -> ZoneBuilderOptions {
        ZoneBuilderOptions {
            source: Arc::from(""),
            check_mode: CheckMode::Lenient,
            nsec3_max_iterations: u16::MAX,
            threads: 1,
        }
    }
}

impl ZoneBuilderOptions {
    /// Whether a received record can be in the zone with this apex. Warns of odd ones; malformed RDATA is an error.
    pub(crate) fn check_record(
        &self,
        apex: NameRef<'_>,
        owner: NameRef<'_>,
        (rtype, ttl, rdata): (Rtype, u32, &[u8]),
        found: &mut Findings,
    ) -> Result<bool, RdataError> {
        if !owner.is_at_or_below(apex) {
            self.report(&check_list::OUT_OF_ZONE, owner, rtype, found);
            return Ok(false);
        }
        if rtype.is_reserved_for_messages() {
            self.report(&check_list::META_TYPE, owner, rtype, found);
            return Ok(false);
        }
        match rdata::check(rtype, rdata) {
            Ok(()) => {}
            Err(error @ RdataError::Form(..)) => {
                self.report_rdata(self.check_mode.severity(), owner, rtype, error, found);
            }
            Err(error) => return Err(error),
        }
        if ttl > MAX_TTL {
            self.report(&check_list::LARGE_TTL, owner, rtype, found);
        }
        Ok(true)
    }

    #[cold]
    fn report(&self, check: &Check, owner: NameRef<'_>, rtype: Rtype, found: &mut Findings) {
        let detail = format_args!("{owner} {rtype}");
        let finding = || check.finding(self.check_mode, FilePosition::of_file(&self.source), detail);
        found.add_with(check.severity(self.check_mode), finding);
    }

    #[cold]
    fn report_rdata(
        &self,
        severity: Severity,
        owner: NameRef<'_>,
        rtype: Rtype,
        error: RdataError,
        found: &mut Findings,
    ) {
        found.add_with(severity, || Finding {
            severity,
            position: FilePosition::of_file(&self.source),
            message: format!("the RDATA of {owner} {rtype} is wrong: {error}"),
            help: String::new(),
        });
    }
}

/// Builds a zone from records in any order. Records in canonical order are encoded as they arrive; others are sorted first. Both take
/// little more memory than the zone will.
pub struct ZoneBuilder {
    /// In lower case.
    apex: Name,
    apex_in_original_case: OnceLock<Name>,
    options: ZoneBuilderOptions,
    interner: Interner<'static>,
    sorter: Box<RecordSorter>,
    found: Findings,
}

impl ZoneBuilder {
    /// A zone with this apex and no records yet.
    pub fn new(apex: NameRef<'_>, options: ZoneBuilderOptions) -> ZoneBuilder {
        ZoneBuilder {
            apex: apex.to_owned().to_lowercase(),
            apex_in_original_case: OnceLock::new(),
            options,
            interner: Interner::new(),
            sorter: RecordSorter::new(apex, BatchSizes::DEFAULT),
            found: Findings::default(),
        }
    }

    /// Adds a record with uncompressed RDATA. Duplicates count once (RFC 2181 5).
    ///
    /// Records that cannot be in the zone are skipped with a warning; malformed RDATA is an error, which [`Self::finish`] returns.
    pub fn push(&mut self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        match self.options.check_record(self.apex.as_ref(), owner, (rtype, ttl, rdata), &mut self.found) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return self.options.report_rdata(Severity::Error, owner, rtype, error, &mut self.found),
        }
        let ttl = limited_ttl(ttl);
        let apex = &self.apex_in_original_case;
        if self.sorter.stage(apex, ZoneRecord { owner, rtype, ttl, rdata, file: 0, line: 0 }) {
            let options = &build_options(self.apex.as_ref(), &self.options);
            self.sorter.encode_full(&SorterContext { options, interner: &self.interner, apex });
        }
    }

    /// About the octets of memory that the records take so far.
    pub fn octets(&self) -> usize {
        self.sorter.octets() + self.interner.octets()
    }

    /// The zone and its warnings; or errors, then warnings, if it cannot be served.
    pub fn finish(self) -> Result<(Zone, Vec<Finding>), Vec<Finding>> {
        let ZoneBuilder { apex, apex_in_original_case, options, interner, sorter, mut found } = self;
        let build_options = build_options(apex.as_ref(), &options);
        let (built, more) = build(&build_options, interner, &apex_in_original_case, vec![sorter]);
        found.append(more);
        let is_good = !found.has_errors();
        let mut findings = found.finish(&options.source);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        match built.filter(|_| is_good) {
            Some((zone, _)) => Ok((zone, findings)),
            None => Err(findings),
        }
    }
}

fn build_options<'a>(apex: NameRef<'a>, options: &'a ZoneBuilderOptions) -> BuildOptions<'a> {
    BuildOptions {
        files: std::slice::from_ref(&options.source),
        threads: options.threads,
        check_mode: options.check_mode,
        nsec3_max_iterations: options.nsec3_max_iterations,
        ..BuildOptions::of_records(apex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOA: &[u8] = b"\x02ns\x01z\x00\x04host\x01z\x00\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05";

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn builder() -> ZoneBuilder {
        let mut builder = ZoneBuilder::new(name("z.").as_ref(), ZoneBuilderOptions::default());
        builder.push(name("z.").as_ref(), Rtype::SOA, 300, SOA);
        builder.push(name("z.").as_ref(), Rtype::NS, 300, b"\x02ns\x01z\x00");
        builder
    }

    fn messages(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.message.as_str()).collect()
    }

    /// RFC 1035 5.2, RFC 6895 3.1, RFC 2181 8: such records do not fail the zone.
    #[test]
    fn odd_records_are_reported() {
        let mut builder = builder();
        builder.push(name("a.y.").as_ref(), Rtype::A, 300, &[1, 2, 3, 4]);
        builder.push(name("a.z.").as_ref(), Rtype::ANY, 300, &[]);
        builder.push(name("a.z.").as_ref(), Rtype::A, 1 << 31, &[1, 2, 3, 4]);
        let (zone, findings) = builder.finish().expect("a good zone");
        assert_eq!(zone.counts().records, 3);
        let expected = [
            "an out-of-zone record is skipped: a.y. A",
            "a record of a QTYPE or meta-type is skipped: a.z. ANY",
            "a TTL over 2147483647 is treated as 0: a.z. A",
        ];
        assert_eq!(messages(&findings), expected);
    }

    #[test]
    fn malformed_rdata_fails_the_zone() {
        let mut builder = builder();
        builder.push(name("a.z.").as_ref(), Rtype::MX, 300, &[0, 1, 64]);
        let findings = builder.finish().err().expect("an error");
        assert!(findings[0].message.starts_with("the RDATA of a.z. MX is wrong: "), "{findings:?}");
    }

    #[test]
    fn a_zone_needs_one_soa() {
        let mut none = ZoneBuilder::new(name("z.").as_ref(), ZoneBuilderOptions::default());
        none.push(name("z.").as_ref(), Rtype::NS, 300, b"\x02ns\x01z\x00");
        let mut several = builder();
        let mut other = SOA.to_vec();
        other[SOA.len() - 1] = 6;
        several.push(name("z.").as_ref(), Rtype::SOA, 300, &other);
        for builder in [none, several] {
            assert!(builder.finish().is_err());
        }
    }
}
