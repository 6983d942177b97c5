//! What a zone must be to be served, and what its operator would want to know.

mod records;

use std::collections::HashMap;

use wire::{NameRef, Rtype};

use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::encode::Raw;
use crate::key::Key;
use crate::plan::Plan;
use crate::rrset::{CUT, OCCLUDED};
use crate::tree::Tree;
use crate::zone::{Denial, Zone, name_of_key};
pub(crate) use records::{check_child_keys, check_records};

/// Findings in the order in which they were made.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Diagnostic>,
    errors: usize,
    /// How many were left out because there are too many.
    left_out: usize,
}

/// More findings than this are counted, not kept.
const MAX_FINDINGS: usize = 200;

impl Findings {
    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    pub(crate) fn append(&mut self, more: Findings) {
        self.errors += more.errors;
        self.left_out += more.left_out;
        for finding in more.list {
            self.keep(finding);
        }
    }

    /// The findings, errors first, and a last one that counts what was left out.
    pub(crate) fn into_list(mut self) -> Vec<Diagnostic> {
        self.list
            .sort_by(|a, b| (b.severity, &a.place.file, a.place.line).cmp(&(a.severity, &b.place.file, b.place.line)));
        if self.left_out > 0 {
            let place = Place { file: self.list[0].place.file.clone(), line: 0, column: 0 };
            let message = format!("{} more findings are not listed", self.left_out);
            self.list.push(Diagnostic { severity: Severity::Warning, place, message, help: String::new() });
        }
        self.list
    }

    fn keep(&mut self, finding: Diagnostic) {
        if self.list.len() < MAX_FINDINGS { self.list.push(finding) } else { self.left_out += 1 }
    }

    fn add(&mut self, severity: Severity, place: Place, message: String, help: &str) {
        self.errors += usize::from(severity == Severity::Error);
        self.keep(Diagnostic { severity, place, message, help: help.to_owned() });
    }
}

//----------- one node ---------------------------------------------------------

/// Checks the records of one owner against each other.
pub(crate) fn check_node(
    plan: &Plan<'_>,
    owner: NameRef<'_>,
    key: &[u8],
    flags: u8,
    below_dname: bool,
    records: &[Raw<'_>],
    found: &mut Findings,
) {
    let is_simple = |raw: &Raw<'_>| {
        raw.rdata.len() <= MAX_RDATA
            && !matches!(raw.rtype, Rtype::CNAME | Rtype::DNAME | Rtype::SOA | Rtype::RRSIG)
            && raw.ttl == records[0].ttl
    };
    if flags & OCCLUDED == 0 && records.iter().all(is_simple) {
        return;
    }
    let mut node = NodeCheck { plan, owner, records, found };
    if flags & OCCLUDED != 0 {
        node.check_occluded(below_dname);
    }
    node.check_alias(flags & CUT != 0);
    node.check_ttls();
    if let Some(raw) = records.iter().find(|raw| raw.rdata.len() > MAX_RDATA) {
        node.error(raw, "a record that fits in no message", "split what it says over several records");
    }
    if !key.is_empty()
        && let Some(soa) = node.first(Rtype::SOA)
    {
        node.error(
            &soa,
            "a SOA record stands below the apex",
            "a zone has one, at its apex; check the owner name or $ORIGIN",
        );
    }
}

/// What a message of 65,535 octets holds besides header, question, owner and the fixed part of a record.
const MAX_RDATA: usize = 65_535 - wire::HEADER_LEN - (wire::MAX_NAME_LEN + 4) - wire::MAX_NAME_LEN - 10;

struct NodeCheck<'n> {
    plan: &'n Plan<'n>,
    owner: NameRef<'n>,
    records: &'n [Raw<'n>],
    found: &'n mut Findings,
}

impl<'n> NodeCheck<'n> {
    fn of_type(&self, rtype: Rtype) -> impl Iterator<Item = &'n Raw<'n>> + use<'n> {
        self.records.iter().filter(move |raw| raw.rtype == rtype)
    }

    fn first(&self, rtype: Rtype) -> Option<Raw<'n>> {
        self.of_type(rtype).next().copied()
    }

    fn add(&mut self, severity: Severity, raw: &Raw<'_>, message: &str, help: &str) {
        let place = self.plan.place(raw.file, raw.line);
        self.found.add(severity, place, format!("{message}: {}", self.owner), help);
    }

    fn error(&mut self, raw: &Raw<'_>, message: &str, help: &str) {
        self.add(Severity::Error, raw, message, help);
    }

    fn warn(&mut self, raw: &Raw<'_>, message: &str, help: &str) {
        self.add(Severity::Warning, raw, message, help);
    }

    /// RFC 1034 3.6.2: nothing stands beside a CNAME but what DNSSEC adds (RFC 4034 2.5, 3, 4). RFC 6672 2.4: one DNAME.
    fn check_alias(&mut self, is_cut: bool) {
        for (rtype, message) in
            [(Rtype::CNAME, "two CNAME records for one name"), (Rtype::DNAME, "two DNAME records for one name")]
        {
            let mut same = self.of_type(rtype);
            if let (Some(first), Some(second)) = (same.next(), same.find(|_| true))
                && first.rdata != second.rdata
            {
                self.error(second, message, "keep one of them");
            }
        }
        let beside =
            |raw: &&Raw<'_>| !matches!(raw.rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC | Rtype::KEY | Rtype::NXT);
        if self.first(Rtype::CNAME).is_some()
            && let Some(other) = self.records.iter().find(beside).copied()
        {
            self.error(&other, "CNAME and other data for one name", "remove the CNAME record or the others");
        }
        // RFC 6672 2.3: a DNAME stands beside NS at an apex only.
        if is_cut && let Some(dname) = self.first(Rtype::DNAME) {
            self.error(
                &dname,
                "DNAME and NS for one name below the apex",
                "delegate the name or redirect it, not both",
            );
        }
    }

    fn check_occluded(&mut self, below_dname: bool) {
        let Some(first) = self.records.first().copied() else { return };
        if below_dname {
            // RFC 6672 2.4: no records stand below a DNAME.
            return self.error(&first, "a record below a DNAME", "remove it: the DNAME hides it");
        }
        let hidden = |raw: &&Raw<'_>| !matches!(raw.rtype, Rtype::A | Rtype::AAAA);
        if let Some(hidden) = self.records.iter().find(hidden).copied() {
            self.warn(&hidden, "a record below a delegation that is no address", "it is never answered; remove it");
        }
    }

    /// RFC 2181 5.2: the records of a set have one TTL.
    fn check_ttls(&mut self) {
        let mut ttls = HashMap::new();
        for raw in self.records.iter().filter(|raw| raw.rtype != Rtype::RRSIG) {
            if *ttls.entry(raw.rtype).or_insert(raw.ttl) != raw.ttl {
                return self.warn(raw, "records of one set differ in their TTLs", "the least is served; give them one");
            }
        }
    }
}

//----------- the whole --------------------------------------------------------

/// RFC 1035 5.2, RFC 1034 4.2.1: one SOA record and at least one NS record at the apex.
pub(crate) fn check_apex(zone: &Zone, plan: &Plan<'_>, found: &mut Findings) {
    if !plan.is_whole {
        return;
    }
    let apex = plan.apex;
    let node = zone.names.first().filter(|entry| entry.key_len() == 0).map(|entry| zone.node(&entry));
    let count = |rtype| node.and_then(|node| node.rrset(rtype)).map_or(0, |rrset| rrset.count);
    let place = plan.place(0, 0);
    match count(Rtype::SOA) {
        1 => {}
        0 => found.add(
            Severity::Error,
            place.clone(),
            format!("the zone {apex} has no SOA record"),
            "add one at the apex; is the zone's name the one that the file is about?",
        ),
        _ => found.add(Severity::Error, place.clone(), format!("the zone {apex} has several SOA records"), "keep one"),
    }
    if count(Rtype::NS) == 0 {
        let message = format!("the zone {apex} has no NS record at its apex");
        found.add(Severity::Error, place, message, "add the name servers of the zone");
    }
}

/// How the zone denies: by the NSEC3 chain that its NSEC3PARAM names (RFC 5155 4), else by NSEC.
pub(crate) fn denial(zone: &Zone, nsec3: &Tree, plan: &Plan<'_>, found: &mut Findings) -> Denial {
    let node = zone.apex_node();
    if let Some(params) = node.rrset(Rtype::NSEC3PARAM) {
        // RFC 5155 4.1.2: a record with flags set is not for answering.
        let usable = params.stored().map(|stored| stored.bytes).find(|rdata| matches!(rdata, [1, 0, ..]));
        if let Some([_, _, high, low, salt_len, salt @ ..]) = usable {
            if nsec3.is_empty() {
                let message = format!("the zone {} has NSEC3PARAM and no NSEC3 records", plan.apex);
                found.add(
                    Severity::Warning,
                    plan.place(0, 0),
                    message,
                    "sign it again: what is not there cannot be proved",
                );
            }
            let iterations = u16::from_be_bytes([*high, *low]);
            if iterations > plan.nsec3_max_iterations {
                let message = format!(
                    "NSEC3 with {iterations} iterations, more than `nsec3-max-iterations` = {}",
                    plan.nsec3_max_iterations
                );
                found.add(Severity::Error, plan.place(0, 0), message, "sign with 0 iterations (RFC 9276 3.1)");
            } else if iterations > MAX_ITERATIONS {
                let message = format!("NSEC3 with {iterations} iterations: validators treat the zone as unsigned");
                found.add(Severity::Warning, plan.place(0, 0), message, "sign with 0 iterations (RFC 9276 3.1)");
            }
            return Denial::Nsec3 { iterations, salt: salt[..usize::from(*salt_len).min(salt.len())].into() };
        }
    }
    if node.rrset(Rtype::NSEC).is_some() { Denial::Nsec } else { Denial::None }
}

/// RFC 9276 3.2: validators may give up beyond this many.
const MAX_ITERATIONS: u16 = 100;

//----------- names that others point to ---------------------------------------

/// A name in the zone that a record relies on.
pub(crate) struct Wanted {
    target: Box<[u8]>,
    rtype: Rtype,
    /// The target stands below the cut that names it: without its address nobody gets there (RFC 9471).
    is_glue: bool,
    file: u16,
    line: u32,
}

impl Wanted {
    /// RFC 9460 2.4.2, 2.5: a service may point to an alias of either kind.
    fn may_be_alias(&self) -> bool {
        matches!(self.rtype, Rtype::SVCB | Rtype::HTTPS)
    }
}

/// Notes the names in this zone that NS, MX, SRV, SVCB and HTTPS records point to.
pub(crate) fn collect_wanted(plan: &Plan<'_>, key: &[u8], flags: u8, records: &[Raw<'_>], wanted: &mut Vec<Wanted>) {
    if flags & OCCLUDED != 0 {
        return;
    }
    for raw in records {
        let skip = match raw.rtype {
            Rtype::NS => 0,
            Rtype::MX | Rtype::SVCB | Rtype::HTTPS => 2,
            Rtype::SRV => 6,
            _ => continue,
        };
        let Ok(target) = NameRef::from_wire(&raw.rdata[skip..]) else { continue };
        if target.is_root() || !target.is_at_or_below(plan.apex) {
            continue;
        }
        let target: Box<[u8]> = Key::from_name(target, plan.apex.wire().len()).as_bytes().into();
        let is_glue = flags & CUT != 0 && target.starts_with(key);
        wanted.push(Wanted { target, rtype: raw.rtype, is_glue, file: raw.file, line: raw.line });
    }
}

/// Looks whether the names that were noted have what is expected of them.
pub(crate) fn check_wanted(zone: &Zone, plan: &Plan<'_>, wanted: &[Wanted], found: &mut Findings) {
    for want in wanted {
        let node = zone.get(&want.target);
        let has = |rtype| node.is_some_and(|node| node.rrset(rtype).is_some());
        if has(Rtype::A) || has(Rtype::AAAA) || want.may_be_alias() && (has(Rtype::CNAME) || has(want.rtype)) {
            continue;
        }
        let name = name_of_key(&want.target, plan.apex);
        let rtype = want.rtype;
        let (message, help) = if want.is_glue {
            (
                format!("no address for the name server {name}, which stands below its own delegation"),
                "add glue: A or AAAA",
            )
        } else if has(Rtype::CNAME) {
            // RFC 2181 10.3.
            (format!("{rtype} points to {name}, which is an alias"), "point to the name that has the address")
        } else if node.is_none() && covered(zone, &want.target) {
            continue;
        } else {
            (format!("{rtype} points to {name}, which has no address"), "add one, or correct the name")
        };
        found.add(Severity::Warning, plan.place(want.file, want.line), message, help);
    }
}

/// Whether a delegation, a DNAME or a wildcard may stand for the name.
fn covered(zone: &Zone, key: &[u8]) -> bool {
    let is_special = zone.seek(key).entry().is_some_and(|entry| !zone.node(&entry).is_plain());
    is_special || zone.has_wildcards()
}
