//! Checks across records: of one owner, of the apex, and of targets in the zone. Messages and levels are in `check_list`.

mod records;

use std::collections::HashMap;

use wire::{NameRef, Rtype, soa};

use crate::build_options::BuildOptions;
use crate::canonical_key::CanonicalKey;
use crate::check_list::{self, Check};
use crate::denial::{Denial, Nsec3Chain};
use crate::finding::Findings;
use crate::owner_case::name_of_key;
use crate::rrset::{BELOW_DNAME, CUT, OCCLUDED};
use crate::stage::StagedRecord;
use crate::tree::TreeRef;
use crate::zone::Zone;
pub(crate) use records::{check_child_keys, check_records, key_tag};

//----------- one node ---------------------------------------------------------

/// Checks the records of one owner against each other.
pub(crate) fn check_node(
    options: &BuildOptions<'_>,
    owner: NameRef<'_>,
    key: &[u8],
    flags: u8,
    records: &[StagedRecord<'_>],
    found: &mut Findings,
) {
    let is_simple = |raw: &StagedRecord<'_>| !matches!(raw.rtype, Rtype::CNAME | Rtype::DNAME | Rtype::SOA);
    let fits = records.iter().map(StagedRecord::message_len).sum::<usize>() <= MAX_SET_LEN;
    let has_mixed_ttls = !have_one_ttl_each(records);
    if flags & OCCLUDED == 0 && fits && records.iter().all(is_simple) && !has_mixed_ttls {
        return;
    }
    let mut node = NodeCheck { options, owner, records, found };
    node.check_occluded(flags);
    node.check_alias(flags & CUT != 0);
    if has_mixed_ttls {
        node.check_ttls();
    }
    if !fits {
        node.check_sizes();
    }
    match node.first(Rtype::SOA) {
        Some(soa) if !key.is_empty() => node.report(&check_list::SOA_BELOW_APEX, &soa),
        Some(soa) => node.check_repeated_soa(&soa),
        None => {}
    }
}

/// Records that are compared in pairs: for few, a table takes longer.
const FEW: usize = 16;

/// Whether the records of each type are known to have one TTL; those of RRSIG records do not count.
fn have_one_ttl_each(records: &[StagedRecord<'_>]) -> bool {
    let fits_first = |raw: &StagedRecord<'_>| {
        let first = records.iter().find(|first| first.rtype == raw.rtype);
        raw.rtype == Rtype::RRSIG || first.is_some_and(|first| first.ttl == raw.ttl)
    };
    records.iter().all(|raw| raw.ttl == records[0].ttl) || records.len() <= FEW && records.iter().all(fits_first)
}

/// A lower bound of the records that fit in a message of 65,535 octets, in a response and in a transfer.
const MAX_SET_LEN: usize = 65_535 - wire::HEADER_LEN - (wire::MAX_NAME_LEN + 4) - wire::MAX_NAME_LEN;

struct NodeCheck<'n> {
    options: &'n BuildOptions<'n>,
    owner: NameRef<'n>,
    records: &'n [StagedRecord<'n>],
    found: &'n mut Findings,
}

impl<'n> NodeCheck<'n> {
    fn of_type(&self, rtype: Rtype) -> impl Iterator<Item = &'n StagedRecord<'n>> + use<'n> {
        self.records.iter().filter(move |raw| raw.rtype == rtype)
    }

    fn first(&self, rtype: Rtype) -> Option<StagedRecord<'n>> {
        self.of_type(rtype).next().copied()
    }

    fn report(&mut self, rule: &Check, raw: &StagedRecord<'_>) {
        self.options.report(self.found, rule, (raw.file, raw.line), self.owner);
    }

    /// RFC 1034 3.6.2: no other data beside a CNAME, except DNSSEC records (RFC 4034 2.5, 3, 4). RFC 6672 2.4: one DNAME.
    fn check_alias(&mut self, is_cut: bool) {
        for (rtype, rule) in [(Rtype::CNAME, &check_list::TWO_CNAMES), (Rtype::DNAME, &check_list::TWO_DNAMES)] {
            let mut same = self.of_type(rtype);
            if let Some(first) = same.next()
                // The RDATA is a name: case does not matter (RFC 4343 3).
                && let Some(second) = same.find(|raw| !raw.rdata.eq_ignore_ascii_case(first.rdata))
            {
                self.report(rule, second);
            }
        }
        if self.first(Rtype::CNAME).is_some() {
            let is_other = |raw: &&StagedRecord<'_>| !matches!(raw.rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC);
            // RFC 2535 allowed these beside a CNAME: BIND 9.18 loads KEY and SIG, NSD SIG and NXT.
            let is_rfc_2535 = |raw: &&StagedRecord<'_>| matches!(raw.rtype, Rtype::KEY | Rtype::SIG | Rtype::NXT);
            let mut others = self.records.iter().filter(is_other);
            if let Some(other) = others.clone().find(|raw| !is_rfc_2535(raw)) {
                self.report(&check_list::CNAME_AND_OTHER_DATA, other);
            } else if let Some(other) = others.next() {
                self.report(&check_list::CNAME_AND_KEY, other);
            }
        }
        if is_cut && let Some(dname) = self.first(Rtype::DNAME) {
            self.report(&check_list::DNAME_AND_NS, &dname);
        }
    }

    /// RFC 1035 5.2: one SOA record. NSD refuses a zone that repeats it; several different ones are an error, see [`check_apex`].
    fn check_repeated_soa(&mut self, first: &StagedRecord<'_>) {
        // Names without case (RFC 4343 3); the numbers may have octets that are letters.
        let is_same = |raw: &&StagedRecord<'_>| {
            raw.rdata.eq_ignore_ascii_case(first.rdata) && soa::numbers(raw.rdata) == soa::numbers(first.rdata)
        };
        if let Some(again) = self.of_type(Rtype::SOA).skip(1).find(is_same) {
            self.report(&check_list::REPEATED_SOA, again);
        }
    }

    fn check_occluded(&mut self, flags: u8) {
        let Some(first) = self.records.first().filter(|_| flags & OCCLUDED != 0) else { return };
        if flags & BELOW_DNAME != 0 {
            return self.report(&check_list::BELOW_DNAME, first);
        }
        let hidden = |raw: &&StagedRecord<'_>| !matches!(raw.rtype, Rtype::A | Rtype::AAAA);
        if let Some(hidden) = self.records.iter().find(hidden) {
            self.report(&check_list::BELOW_CUT, hidden);
        }
    }

    /// RFC 2181 5.2: the records of an RRset have one TTL.
    fn check_ttls(&mut self) {
        let mut ttls = HashMap::new();
        for raw in self.records.iter().filter(|raw| raw.rtype != Rtype::RRSIG) {
            if *ttls.entry(raw.rtype).or_insert(raw.ttl) != raw.ttl {
                return self.report(&check_list::MIXED_TTLS, raw);
            }
        }
    }

    /// RFC 1035 4.2.2: a message has at most 65,535 octets, in a response with the question.
    fn check_sizes(&mut self) {
        let most = 65_535 - wire::HEADER_LEN - 4 - self.owner.wire().len();
        // Without the question, and with the owner in place of the pointer to it.
        if let Some(raw) = self.records.iter().find(|raw| raw.message_len() > most + 6) {
            self.report(&check_list::LARGE_RECORD, raw);
        }
        let mut sizes = HashMap::new();
        for raw in self.records.iter().filter(|raw| raw.rtype != Rtype::RRSIG) {
            let size = sizes.entry(raw.rtype).or_insert(0);
            *size += raw.message_len();
            if *size > most {
                return self.report(&check_list::LARGE_SET, raw);
            }
        }
    }
}

//----------- the apex ---------------------------------------------------------

/// RFC 1035 5.2, RFC 1034 4.2.1: one SOA record and at least one NS record at the apex.
pub(crate) fn check_apex(zone: &Zone, options: &BuildOptions<'_>, found: &mut Findings) {
    if !options.is_whole {
        return;
    }
    let apex = options.apex;
    let node = zone.names().first().filter(|entry| entry.key_len() == 0).map(|entry| zone.node(&entry));
    let count = |rtype| node.and_then(|node| node.rrset(rtype)).map_or(0, |rrset| rrset.count);
    let mut report = |rule| options.report(found, rule, (0, 0), apex);
    match count(Rtype::SOA) {
        1 => {}
        0 => report(&check_list::NO_SOA),
        _ => report(&check_list::SEVERAL_SOA),
    }
    if count(Rtype::NS) == 0 {
        report(&check_list::NO_NS);
    }
}

/// The denial of existence of the zone: the NSEC3 chain of its NSEC3PARAM (RFC 5155 4), else NSEC, else none.
pub(crate) fn denial(zone: &Zone, nsec3: TreeRef<'_>, options: &BuildOptions<'_>, found: &mut Findings) -> Denial {
    let node = zone.apex_node();
    if let Some(params) = node.rrset(Rtype::NSEC3PARAM) {
        // RFC 5155 4.1.2: ignore records with flags set.
        let usable = params.stored().map(|stored| stored.bytes).find(|rdata| matches!(rdata, [1, 0, ..]));
        if let Some([_, _, high, low, salt_len, salt @ ..]) = usable {
            if nsec3.is_empty() {
                options.report(found, &check_list::NO_NSEC3, (0, 0), options.apex);
            }
            let iterations = u16::from_be_bytes([*high, *low]);
            if iterations > options.nsec3_max_iterations {
                let detail = format!("{iterations}, and the limit is {}", options.nsec3_max_iterations);
                options.report(found, &check_list::TOO_MANY_ITERATIONS, (0, 0), detail);
            } else if iterations > MAX_VALIDATED_ITERATIONS {
                options.report(found, &check_list::MANY_ITERATIONS, (0, 0), iterations);
            }
            let salt = &salt[..usize::from(*salt_len).min(salt.len())];
            return Denial::Nsec3(Nsec3Chain::new(iterations, salt, options.apex));
        }
    }
    if node.rrset(Rtype::NSEC).is_some() { Denial::Nsec } else { Denial::None }
}

/// RFC 9276 3.2: validators may treat zones with more iterations as insecure.
const MAX_VALIDATED_ITERATIONS: u16 = 100;

//----------- targets ----------------------------------------------------------

/// A name in the zone that a record points to.
pub(crate) struct TargetName {
    key: Box<[u8]>,
    rtype: Rtype,
    /// The name is below the delegation that has it as a name server: its address must be in the referral (RFC 9471).
    is_glue: bool,
    file: u16,
    line: u32,
}

impl TargetName {
    /// RFC 9460 2.4.2, 2.5: a service may point to an alias of either kind.
    fn may_be_alias(&self) -> bool {
        matches!(self.rtype, Rtype::SVCB | Rtype::HTTPS)
    }
}

/// Collects the names in the zone that NS, MX, SRV, SVCB and HTTPS records point to.
pub(crate) fn collect_targets(
    options: &BuildOptions<'_>,
    key: &[u8],
    flags: u8,
    records: &[StagedRecord<'_>],
    targets: &mut Vec<TargetName>,
) {
    if flags & OCCLUDED != 0 {
        return;
    }
    for raw in records {
        let skip = match raw.rtype {
            Rtype::NS => 0,
            Rtype::MX => 2,
            Rtype::SRV => 6,
            // RFC 9460 2.4.2: in AliasMode the target has SVCB records, not addresses.
            Rtype::SVCB | Rtype::HTTPS if !raw.rdata.starts_with(&[0, 0]) => 2,
            _ => continue,
        };
        let Ok(target) = NameRef::from_wire(&raw.rdata[skip..]) else { continue };
        if target.is_root() || !target.is_at_or_below(options.apex) {
            continue;
        }
        let target: Box<[u8]> = CanonicalKey::from_name(target, options.apex.wire().len()).as_bytes().into();
        let is_glue = flags & CUT != 0 && target.starts_with(key);
        targets.push(TargetName { key: target, rtype: raw.rtype, is_glue, file: raw.file, line: raw.line });
    }
}

/// Checks that targets have addresses.
pub(crate) fn check_targets(zone: &Zone, options: &BuildOptions<'_>, targets: &[TargetName], found: &mut Findings) {
    for target in targets {
        let node = zone.get(&target.key);
        let has = |rtype| node.is_some_and(|node| node.rrset(rtype).is_some());
        if has(Rtype::A) || has(Rtype::AAAA) || target.may_be_alias() && (has(Rtype::CNAME) || has(target.rtype)) {
            continue;
        }
        let rule = if target.is_glue {
            &check_list::NO_GLUE
        } else if has(Rtype::CNAME) {
            // RFC 9460 2.3: clients look up the addresses of a target and follow aliases.
            if matches!(target.rtype, Rtype::SVCB | Rtype::HTTPS) {
                continue;
            }
            &check_list::TARGET_IS_ALIAS
        } else if node.is_none() && may_be_covered(zone, &target.key) {
            continue;
        } else {
            &check_list::NO_ADDRESS
        };
        let detail = format_args!("{} {}", target.rtype, name_of_key(&target.key, options.apex));
        options.report(found, rule, (target.file, target.line), detail);
    }
}

/// Whether a delegation, DNAME or wildcard may cover the name.
fn may_be_covered(zone: &Zone, key: &[u8]) -> bool {
    let is_special = zone.seek(key).entry().is_some_and(|entry| !zone.node(&entry).is_plain());
    is_special || zone.has_wildcards()
}
