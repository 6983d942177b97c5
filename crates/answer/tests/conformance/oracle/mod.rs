//! The oracle: a naive answerer written from the RFCs. It computes the response that `respond` must send.
//!
//! It shares no code with the crates under test but names, types and messages. Where the RFCs leave a choice,
//! `docs/disputed-answers.md` makes it, or [`Section::allowed`] has both variants.

pub mod denial;
pub mod zone;

use wire::message::{Rcode, Record};
use wire::{Class, Name, NameRef, Rtype};

use denial::{Claim, prove};
use zone::{Node, Place, Zone, join};

/// How many links of a CNAME chain are followed. RFC 1034 3.6.2 only requires that loops end.
pub const MAX_LINKS: usize = 16;

/// The parts of a query that determine the answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// The name asked for.
    pub name: Name,
    /// The type asked for.
    pub qtype: Rtype,
    /// The class asked for.
    pub class: Class,
    /// Whether DNSSEC records are wanted (RFC 3225).
    pub dnssec_ok: bool,
}

/// The expected response without a length limit.
#[derive(Debug, Default)]
pub struct Expected {
    /// The response code.
    pub rcode: Rcode,
    /// AA: the server has authority over the first owner in the answer (RFC 1035 4.1.1).
    pub authoritative: bool,
    /// The answer section.
    pub answer: Section,
    /// The authority section.
    pub authority: Section,
    /// The additional section without OPT.
    pub additional: Section,
    /// The part of the additional section without which a referral is truncated (RFC 9471 3).
    pub glue: Vec<Record>,
}

/// The records that a section must have, and those it may have.
#[derive(Debug, Default)]
pub struct Section {
    /// The section must have these.
    pub required: Vec<Record>,
    /// The section may have these.
    pub allowed: Vec<Record>,
    /// Names with the number of leading octets whose case must match; the rest may be in any case.
    pub spellings: Vec<(Name, usize)>,
}

impl Section {
    fn require(&mut self, records: Vec<Record>) {
        push_new(&mut self.required, records);
    }

    fn allow(&mut self, records: Vec<Record>) {
        push_new(&mut self.allowed, records);
    }

    /// RFC 4343 4.1: output preserves case, but pointers may lead to names in another one: to an apex in lower case.
    fn spell(&mut self, zone: &Zone, owner: &Name, is_hashed: bool) {
        let [apex, owner] =
            [(&zone.apex, false), (owner, is_hashed)].map(|(name, is_hashed)| zone.spelling(name, is_hashed));
        let (Some(apex), Some(owner)) = (apex, owner) else { return };
        let has_upper_case = |wire: &[u8]| wire.iter().any(u8::is_ascii_uppercase);
        // A name in lower case may be in any; so may one that another zone has in lower case, beside this one.
        let pointer_at = match (has_upper_case(owner.wire()), has_upper_case(apex.wire())) {
            (false, _) => 0,
            (true, false) => owner.wire().len() - apex.wire().len(),
            (true, true) => owner.wire().len(),
        };
        self.spellings.push((owner, pointer_at));
    }

    /// RFC 1034 4.3.2 3c: an owner synthesized from the question has its case.
    fn spell_freely(&mut self, owner: &Name) {
        self.spellings.push((owner.clone(), 0));
    }
}

fn push_new(section: &mut Vec<Record>, records: Vec<Record>) {
    for record in records {
        if !section.contains(&record) {
            section.push(record);
        }
    }
}

/// The answer to the question over these zones.
pub fn answer(zones: &[Zone], question: &Question) -> Expected {
    let mut answerer = Answerer { zones, question, expected: Expected::default() };
    match question.class {
        Class::IN => answerer.follow(),
        Class::ANY => {
            answerer.follow();
            // RFC 1034 3.7.1: an answer for QCLASS ANY is never authoritative.
            answerer.expected.authoritative = false;
        }
        _ => answerer.expected.rcode = Rcode::REFUSED,
    }
    answerer.expected
}

struct Answerer<'z> {
    zones: &'z [Zone],
    question: &'z Question,
    expected: Expected,
}

impl<'z> Answerer<'z> {
    /// RFC 1034 4.3.2: answers the name and follows its CNAME chain.
    fn follow(&mut self) {
        let mut seen = vec![self.question.name.clone()];
        loop {
            let name = seen[seen.len() - 1].clone();
            let Some(zone) = self.zone_of(&name) else {
                // Step 2: no zone. A chain that leaves the server's zones ends there.
                if seen.len() == 1 {
                    self.expected.rcode = Rcode::REFUSED;
                }
                return;
            };
            self.expected.authoritative |= seen.len() == 1;
            let Some(target) = self.answer_in(zone, &name) else {
                return;
            };
            // A loop ends where it closes, a long chain at the limit; both with NOERROR.
            if seen.contains(&target) || seen.len() >= MAX_LINKS {
                return;
            }
            seen.push(target);
        }
    }

    /// Step 2: the zone whose apex is the nearest ancestor of the name.
    fn zone_of(&self, name: &Name) -> Option<&'z Zone> {
        let nearest = self.nearest_zone(name.as_ref())?;
        if self.question.qtype != Rtype::DS || nearest.apex != *name {
            return Some(nearest);
        }
        // RFC 4035 3.1.4.1: the parent answers for DS. A server that has only the child denies it.
        // If the zone above delegates the parent too, the server does not have the parent.
        let above = name.as_ref().parent().and_then(|parent| self.nearest_zone(parent));
        let is_parent = |above: &&Zone| !above.is_cut_off(&zone::parent(name));
        Some(above.filter(is_parent).unwrap_or(nearest))
    }

    fn nearest_zone(&self, name: NameRef<'_>) -> Option<&'z Zone> {
        let enclosing = self.zones.iter().filter(|zone| name.is_at_or_below(zone.apex.as_ref()));
        enclosing.max_by_key(|zone| zone.apex.as_ref().label_count())
    }

    /// Step 3: answers the name in its zone; returns the target if it is an alias.
    fn answer_in(&mut self, zone: &'z Zone, name: &Name) -> Option<Name> {
        match zone.find(name, self.question.qtype) {
            Place::Cut(cut) => self.refer(zone, &cut),
            Place::BelowDname(owner) => return self.substitute(zone, name, &owner),
            Place::Exact => match zone.node(name) {
                Some(node) => return self.answer_from(zone, node, name, None),
                None => self.deny(zone, &Claim::NoType { name }),
            },
            Place::Wildcard { encloser, source } => {
                let empty = Node::new();
                // RFC 4592 2.2.2: a wildcard may be an empty non-terminal.
                let node = zone.node(&source).unwrap_or(&empty);
                return self.answer_from(zone, node, name, Some(&encloser));
            }
            Place::Nowhere { encloser } => {
                // RFC 6604 3: the RCODE of a chain is that of its last name.
                self.expected.rcode = Rcode::NXDOMAIN;
                self.deny(zone, &Claim::NoName { name, encloser: &encloser });
            }
        }
        None
    }

    /// Step 3a and 3c: answers from a node, under the name asked for; `encloser` is there if the node is a wildcard.
    fn answer_from(&mut self, zone: &'z Zone, node: &Node, name: &Name, encloser: Option<&Name>) -> Option<Name> {
        let types = self.answering_types(node);
        if types.is_empty() {
            match encloser {
                None => self.deny(zone, &Claim::NoType { name }),
                Some(encloser) => self.deny(zone, &Claim::NoTypeAtWildcard { name, encloser }),
            }
            return None;
        }
        match encloser {
            None => self.expected.answer.spell(zone, name, false),
            Some(_) => self.expected.answer.spell_freely(name),
        }
        for rtype in &types {
            self.expected.answer.require(Zone::records(node, *rtype, name, self.question.dnssec_ok));
        }
        if let Some(encloser) = encloser {
            // RFC 4035 3.1.3.3: for every link of a chain.
            self.prove(zone, &Claim::NoCloser { name, encloser });
        }
        self.add_addresses(zone, node, &types, name);
        // RFC 2181 10.1: there is only one CNAME.
        let is_alias = types == [Rtype::CNAME] && ![Rtype::CNAME, Rtype::ANY].contains(&self.question.qtype);
        is_alias.then(|| Name::from_wire(&node[&Rtype::CNAME].rdatas[0]).expect("a CNAME has a name"))
    }

    /// Which types of the node answer the question.
    fn answering_types(&self, node: &Node) -> Vec<Rtype> {
        let qtype = self.question.qtype;
        if qtype == Rtype::ANY {
            // RFC 8482 4.1: one RRset; signatures go with the set they cover.
            return node.keys().copied().filter(|rtype| *rtype != Rtype::RRSIG).take(1).collect();
        }
        // RFC 4035 2.5: NSEC and RRSIG exist beside a CNAME.
        match node.contains_key(&qtype) {
            true => vec![qtype],
            // So where it is missing there is no such data, as Knot and BIND answer too (docs/disputed-answers.md).
            false if qtype == Rtype::NSEC => Vec::new(),
            false => node.keys().copied().filter(|rtype| *rtype == Rtype::CNAME).collect(),
        }
    }

    /// RFC 2308 2: the SOA goes into the authority section, with the TTL of the denial (RFC 2308 3, 5), and the proof.
    fn deny(&mut self, zone: &Zone, claim: &Claim<'_>) {
        let apex = zone.node(&zone.apex).expect("a zone has an apex");
        let soa = &apex[&Rtype::SOA];
        let minimum = u32::from_be_bytes(*soa.rdatas[0].last_chunk().expect("the last field of an SOA"));
        self.expected.authority.spell(zone, &zone.apex, false);
        let mut records = Zone::records(apex, Rtype::SOA, &zone.apex, self.question.dnssec_ok);
        for record in &mut records {
            record.ttl = record.ttl.min(minimum);
        }
        self.expected.authority.require(records);
        self.prove(zone, claim);
    }

    fn prove(&mut self, zone: &Zone, claim: &Claim<'_>) {
        if self.question.dnssec_ok {
            let proof = prove(zone, claim);
            let is_hashed = zone.set(&zone.apex, Rtype::NSEC3PARAM).is_some();
            let proofs = proof.required.iter().chain(&proof.allowed);
            proofs.for_each(|record| self.expected.authority.spell(zone, &record.owner, is_hashed));
            self.expected.authority.require(proof.required);
            self.expected.authority.allow(proof.allowed);
        }
    }

    /// Step 3b: a referral. The NS records below the apex are not authoritative and have no signatures.
    fn refer(&mut self, zone: &Zone, cut: &Name) {
        // The answer section being empty, the first name is the cut's (RFC 1035 4.1.1).
        self.expected.authoritative &= !self.expected.answer.required.is_empty();
        let node = zone.node(cut).expect("a cut has NS records");
        self.expected.authority.spell(zone, cut, false);
        self.expected.authority.require(Zone::records(node, Rtype::NS, cut, false));
        if self.question.dnssec_ok {
            // RFC 4035 3.1.4: the DS records, or the proof that there are none.
            match node.contains_key(&Rtype::DS) {
                true => self.expected.authority.require(Zone::records(node, Rtype::DS, cut, true)),
                false => self.prove(zone, &Claim::NoDs { cut }),
            }
        }
        self.add_glue(zone, node, cut);
    }

    /// RFC 6672 3.2: the DNAME, the CNAME made from it (3.1: with its TTL), and on with the new name.
    fn substitute(&mut self, zone: &Zone, name: &Name, owner: &Name) -> Option<Name> {
        let node = zone.node(owner).expect("it has a DNAME");
        let set = &node[&Rtype::DNAME];
        self.expected.answer.spell(zone, owner, false);
        self.expected.answer.require(Zone::records(node, Rtype::DNAME, owner, self.question.dnssec_ok));
        let front = &name.wire()[..name.wire().len() - owner.wire().len()];
        let target = Name::from_wire(&set.rdatas[0]).expect("a DNAME has a name");
        let Some(target) = join(front, &target) else {
            // RFC 6672 2.2: the new name is too long.
            self.expected.rcode = Rcode::YXDOMAIN;
            return None;
        };
        let (owner, rdata) = (name.clone(), target.wire().to_vec());
        self.expected.answer.spell_freely(name);
        let cname = Record { owner, rtype: Rtype::CNAME, class: Class::IN, ttl: set.ttl, rdata };
        self.expected.answer.require(vec![cname]);
        // RFC 6672 3.2: the question for CNAME is answered by the CNAME itself.
        (self.question.qtype != Rtype::CNAME).then_some(target)
    }

    //----------- additional section ---------------------------------------------

    /// RFC 9471 2, 3: addresses of name servers below the cut must be all there. RFC 1034 4.3.2 step 3b: others that
    /// the zone knows, of siblings and its own, are sent if there is room.
    fn add_glue(&mut self, zone: &Zone, node: &Node, cut: &Name) {
        for target in node[&Rtype::NS].rdatas.iter().filter_map(|rdata| target(Rtype::NS, rdata, cut)) {
            let signed = self.question.dnssec_ok && !(in_zone(zone, &target) && zone.is_cut_off(&target));
            let addresses = addresses(zone, &target, signed);
            if target.as_ref().is_at_or_below(cut.as_ref()) {
                push_new(&mut self.expected.glue, addresses.clone());
            }
            self.expected.additional.require(addresses);
            self.allow_addresses(&target);
        }
    }

    /// RFC 1035 3.3.9, 3.3.11, RFC 2782, RFC 9460 4.1: addresses of the names in the answer. They are asked for only as
    /// far as the zone has them under authority and at the very name; others may come along.
    fn add_addresses(&mut self, zone: &Zone, node: &Node, types: &[Rtype], owner: &Name) {
        for rtype in types {
            for rdata in &node[rtype].rdatas {
                let Some(target) = target(*rtype, rdata, owner) else {
                    continue;
                };
                if in_zone(zone, &target) && !zone.is_cut_off(&target) {
                    self.expected.additional.require(addresses(zone, &target, self.question.dnssec_ok));
                }
                self.allow_addresses(&target);
            }
        }
    }

    /// All addresses of the name in any zone, with and without signatures, wildcards included.
    fn allow_addresses(&mut self, name: &Name) {
        for zone in self.zones.iter().filter(|zone| in_zone(zone, name)) {
            self.expected.additional.allow(addresses(zone, name, self.question.dnssec_ok));
            if let Place::Wildcard { source, .. } = zone.find(name, Rtype::A) {
                let Some(node) = zone.node(&source) else { continue };
                for rtype in [Rtype::A, Rtype::AAAA] {
                    self.expected.additional.allow(Zone::records(node, rtype, name, self.question.dnssec_ok));
                }
            }
        }
    }
}

fn in_zone(zone: &Zone, name: &Name) -> bool {
    name.as_ref().is_at_or_below(zone.apex.as_ref())
}

/// The address records of the name.
fn addresses(zone: &Zone, name: &Name, signed: bool) -> Vec<Record> {
    let Some(node) = zone.node(name).filter(|_| !in_zone(zone, name) || !zone.is_redirected(name)) else {
        return Vec::new();
    };
    [Rtype::A, Rtype::AAAA].into_iter().flat_map(|rtype| Zone::records(node, rtype, name, signed)).collect()
}

/// The name whose addresses a client needs next, by the RDATA and owner of a record.
fn target(rtype: Rtype, rdata: &[u8], owner: &Name) -> Option<Name> {
    let before = match rtype {
        Rtype::NS => 0,
        Rtype::MX | Rtype::SVCB | Rtype::HTTPS => 2,
        Rtype::SRV => 6,
        _ => return None,
    };
    let target = Name::from_wire(&rdata[before..]).expect("a zone has well-formed RDATA");
    match rtype {
        // RFC 9460 2.5: target `.` means the owner itself, or in AliasMode (priority 0) no service.
        Rtype::SVCB | Rtype::HTTPS if target.as_ref().is_root() => (rdata[..2] != [0, 0]).then(|| owner.clone()),
        _ => Some(target),
    }
}
