//! From a question to the records that answer it: RFC 1034 4.3.2 as RFC 4592, 6672 and 4035 have it.

use wire::Rtype;
use zone::canonical_key::{CanonicalKey, ancestor_len, label_count};
use zone::rrset::{MAX_POINTER, MessageOffsets, RECORD_HEAD_LEN, Rrset, ZoneNode};
use zone::tree::{TreeCursor, TreeEntry};
use zone::{Denial, Zone};

use crate::additional::add_addresses;
use crate::denial::Proofs;
use crate::find::{find_cover, find_zone};
use crate::glue::{Added, Glue};
use crate::message::{Full, Message, Owner, Section};
use crate::qname::Qname;
use crate::referral_cache::{Cut, ReferralCache};
use crate::served::{ZoneMap, ZoneState};

/// The outcome of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) rcode: u8,
    pub(crate) authoritative: bool,
    /// The length of the suffix of the question that [`crate::rrl`] counts the answer for; 0 for errors.
    pub(crate) alike_len: u8,
}

impl Outcome {
    /// An answer without records.
    pub(crate) fn empty(rcode: u8) -> Outcome {
        Outcome { rcode, ..Outcome::default() }
    }
}

/// Response codes (RFC 1035 4.1.1, RFC 2136 2.2, RFC 6895 2.3).
pub(crate) const NOERROR: u8 = 0;
pub(crate) const FORMERR: u8 = 1;
pub(crate) const SERVFAIL: u8 = 2;
pub(crate) const NXDOMAIN: u8 = 3;
pub(crate) const NOTIMP: u8 = 4;
pub(crate) const REFUSED: u8 = 5;
pub(crate) const YXDOMAIN: u8 = 6;
pub(crate) const NOTAUTH: u8 = 9;

/// How many aliases one answer follows. RFC 1034 3.6.2 asks for a bound, not for a number; BIND stops at 11 to 16.
const MAX_ALIASES: usize = 16;

/// A lookup in progress.
pub(crate) struct Lookup<'l, 'z, 'o> {
    zones: &'z ZoneMap,
    qtype: Rtype,
    dnssec: bool,
    qname: &'l mut Qname,
    key: &'l mut CanonicalKey,
    referrals: &'l mut ReferralCache,
    message: &'l mut Message<'o>,
    pub(crate) proofs: Proofs<'z>,
    authoritative: bool,
    alike_len: u8,
    /// How many aliases were followed so far.
    followed: usize,
    /// Where the owners of the aliases stand that were followed.
    trail: [u16; MAX_ALIASES],
    /// The DNAME sets that the answer has, by address, and where their targets stand; the rest is 0.
    redirections: [(usize, u16); MAX_ALIASES],
    /// The set that answers, or the NS set of a wildcard: the addresses of the names in it come last.
    answered: Option<Answered<'z>>,
}

/// An RRset with names whose addresses a client will want.
struct Answered<'z> {
    zone: &'z Zone,
    rrset: Rrset<'z>,
    /// Where it stands in the message.
    at: usize,
}

/// What one zone says of one name.
enum Step {
    /// The name is an alias; the name it stands for was written at this offset.
    Alias(usize),
    /// Nothing is left to follow.
    Done(u8),
}

impl<'l, 'z, 'o> Lookup<'l, 'z, 'o> {
    pub(crate) fn new(
        zones: &'z ZoneMap,
        qtype: Rtype,
        dnssec: bool,
        qname: &'l mut Qname,
        key: &'l mut CanonicalKey,
        referrals: &'l mut ReferralCache,
        message: &'l mut Message<'o>,
    ) -> Lookup<'l, 'z, 'o> {
        Lookup {
            zones,
            qtype,
            dnssec,
            qname,
            key,
            referrals,
            message,
            proofs: Proofs::new(),
            authoritative: false,
            alike_len: 0,
            followed: 0,
            trail: [0; MAX_ALIASES],
            redirections: [(0, 0); MAX_ALIASES],
            answered: None,
        }
    }

    /// Answers from `zone`, the zone of the name asked for, and follows aliases through all zones.
    pub(crate) fn run(&mut self, zone: &'z Zone) -> Outcome {
        let mut zone = zone;
        for followed in 0..MAX_ALIASES {
            self.followed = followed;
            self.trail[followed] = self.qname.offset(self.qname.labels()) as u16;
            let step = match self.look(zone) {
                Ok(step) => step,
                Err(Full) => {
                    self.message.truncated = true;
                    return self.outcome(NOERROR);
                }
            };
            let target = match step {
                Step::Alias(target) => target,
                Step::Done(rcode) => return self.finish(rcode),
            };
            if self.qname.read_written(self.message.out, target).is_none() || self.was_here() {
                break;
            }
            match find_zone(self.zones, self.qname, self.qtype).map(|served| &served.state) {
                Some(ZoneState::Loaded(next)) => zone = next,
                _ => break,
            }
        }
        self.finish(NOERROR)
    }

    /// Whether the name at hand is the owner of an alias that was followed: they go in a circle.
    fn was_here(&self) -> bool {
        let mut owner = Qname::new();
        self.trail[..=self.followed]
            .iter()
            .any(|&at| owner.read_written(self.message.out, at.into()).is_some() && owner.wire() == self.qname.wire())
    }

    fn outcome(&self, rcode: u8) -> Outcome {
        Outcome { rcode, authoritative: self.authoritative, alike_len: self.alike_len }
    }

    /// Counts the answer as one about the last `labels` labels of the question.
    #[inline]
    fn count_as(&mut self, labels: usize) {
        if self.followed == 0 {
            self.alike_len = self.qname.suffix(labels).len() as u8;
        }
    }

    /// Adds what proves wildcards and denials on the way, behind all answers, and then the addresses.
    fn finish(&mut self, rcode: u8) -> Outcome {
        if self.proofs.write(self.message).is_err() {
            self.message.truncated = true;
        } else if let Some(Answered { zone, rrset, at }) = &self.answered {
            add_addresses(zone, rrset, *at, self.dnssec, self.qname, self.key, self.message);
        }
        self.outcome(rcode)
    }

    fn look(&mut self, zone: &'z Zone) -> Result<Step, Full> {
        self.key.set(self.qname.wire(), zone.apex().wire().len());
        let cursor = zone.seek(self.key.as_bytes());
        let entry = cursor.entry().expect("the apex sorts before all names of a zone");
        let node = zone.node(&entry);
        if cursor.is_exact() && node.is_plain() {
            return self.answer(zone, &node, &entry);
        }
        if !node.is_plain()
            && let Some(step) = self.look_covered(zone, &cursor, &entry, &node)?
        {
            return Ok(step);
        }
        if cursor.is_exact() { self.answer(zone, &node, &entry) } else { self.miss(zone, cursor, &entry) }
    }

    //----------- cuts and redirections ----------------------------------------

    /// The name is a cut or DNAME owner, or may be below one.
    fn look_covered(
        &mut self,
        zone: &'z Zone,
        cursor: &TreeCursor<'z>,
        entry: &TreeEntry<'z>,
        node: &ZoneNode<'z>,
    ) -> Result<Option<Step>, Full> {
        if cursor.is_exact() && !node.is_occluded() {
            // RFC 4035 3.1.4.1: the zone above the cut answers for DS. RFC 6672 2.3: a DNAME leaves its owner alone.
            let refer = node.is_cut() && self.qtype != Rtype::DS;
            return if refer { self.refer(zone, node, entry, cursor.clone()).map(Some) } else { Ok(None) };
        }
        let Some((cursor, entry, node)) = find_cover(zone, cursor, self.key.as_bytes()) else { return Ok(None) };
        if node.is_cut() {
            return self.refer(zone, &node, &entry, cursor).map(Some);
        }
        self.redirect(zone, &node, &entry).map(Some)
    }

    /// RFC 1034 4.3.2 step 3b: the NS set of the cut, with what proves its DS set or that there is none (RFC 4035 3.1.4).
    fn refer(
        &mut self,
        zone: &'z Zone,
        node: &ZoneNode<'z>,
        entry: &TreeEntry<'z>,
        cursor: TreeCursor<'z>,
    ) -> Result<Step, Full> {
        let cut_labels = zone.apex_labels() + entry.label_count();
        self.count_as(cut_labels);
        let mut owner = self.owner(zone, node, entry, cut_labels);
        let asked = owner.place.owner;
        let (cut, start) = (Cut::new(entry, self.dnssec), self.message.at);
        let comes_first = self.message.counts == [0; 3];
        if comes_first && self.referrals.add(cut, asked, self.message) {
            return Ok(Step::Done(NOERROR));
        }
        let Some(ns) = node.rrset(Rtype::NS) else { return Ok(Step::Done(NOERROR)) };
        let ns_at = self.message.push_of(Section::Authority, &ns, ns.ttl, &mut owner, false)?;
        let is_signed = self.wants_proof(zone);
        if is_signed {
            match node.rrset(Rtype::DS) {
                Some(ds) => self.message.push(Section::Authority, &ds, ds.ttl, owner.place, true)?,
                None => self.proofs.deny_ds(zone, self.qname, cut_labels, entry, node),
            }
        }
        self.proofs.write(self.message)?;
        let glue = Glue { zone, ns: &ns, ns_at, place: owner.place, dnssec: self.dnssec };
        let glue = glue.push(entry, cursor, self.message)?;
        // Without glue and proofs there is little that could be saved.
        if comes_first && (glue == Added::All || glue == Added::None && is_signed) {
            self.referrals.note(cut, asked, self.message, start);
        }
        Ok(Step::Done(NOERROR))
    }

    /// RFC 6672 3.2: the DNAME record and a CNAME record made of it.
    fn redirect(&mut self, zone: &'z Zone, node: &ZoneNode<'z>, entry: &TreeEntry<'z>) -> Result<Step, Full> {
        self.authoritative = true;
        let owner_labels = zone.apex_labels() + entry.label_count();
        self.count_as(owner_labels);
        let owner = self.owner(zone, node, entry, owner_labels);
        let Some(dname) = node.rrset(Rtype::DNAME) else { return Ok(Step::Done(NOERROR)) };
        let written = self.push_dname(&dname, owner)?;
        let Some(target) = dname.opaque().next() else { return Ok(Step::Done(NOERROR)) };
        let wire = self.qname.wire();
        let prefix_len = wire.len() - self.qname.suffix(owner_labels).len();
        if prefix_len + target.len() > wire::MAX_NAME_LEN {
            // RFC 6672 2.2: the name would be too long.
            return Ok(Step::Done(YXDOMAIN));
        }
        let asked = self.qname.offset(self.qname.labels());
        let mut alias = [0; wire::MAX_NAME_LEN + 1];
        alias[..prefix_len].copy_from_slice(&wire[..prefix_len]);
        let len = if target.len() > 2 && written <= MAX_POINTER {
            alias[prefix_len..prefix_len + 2].copy_from_slice(&(0xc000 | written as u16).to_be_bytes());
            prefix_len + 2
        } else {
            alias[prefix_len..prefix_len + target.len()].copy_from_slice(target);
            prefix_len + target.len()
        };
        let at = self.message.at + 12;
        self.message.push_raw(Section::Answer, asked, Rtype::CNAME, dname.ttl, &alias[..len])?;
        Ok(if self.qtype == Rtype::CNAME { Step::Done(NOERROR) } else { Step::Alias(at) })
    }

    /// Adds a DNAME set unless the answer has it; returns where its target stands.
    fn push_dname(&mut self, dname: &Rrset<'z>, mut owner: Owner<'_, 'z>) -> Result<usize, Full> {
        if let Some((_, target)) = self.redirections.iter().find(|(address, _)| *address == dname.address()) {
            return Ok(usize::from(*target));
        }
        let target =
            RECORD_HEAD_LEN + self.message.push_of(Section::Answer, dname, dname.ttl, &mut owner, self.dnssec)?;
        if let Some(free) = self.redirections.iter_mut().find(|(address, _)| *address == 0) {
            *free = (dname.address(), target as u16);
        }
        Ok(target)
    }

    //----------- names that are there -----------------------------------------

    /// RFC 1034 4.3.2 step 3a: the name is there.
    fn answer(&mut self, zone: &'z Zone, node: &ZoneNode<'z>, entry: &TreeEntry<'z>) -> Result<Step, Full> {
        self.authoritative = true;
        self.count_as(self.qname.labels());
        let owner = self.owner(zone, node, entry, self.qname.labels());
        if let Some(step) = self.answer_from(zone, node, owner)? {
            return Ok(step);
        }
        if self.wants_proof(zone) {
            self.proofs.deny_type(zone, self.qname, entry, node);
        }
        self.negative(zone, NOERROR)
    }

    /// Adds the records of the node that answer; `None` where it has none.
    #[inline]
    fn answer_from(
        &mut self,
        zone: &'z Zone,
        node: &ZoneNode<'z>,
        mut owner: Owner<'_, 'z>,
    ) -> Result<Option<Step>, Full> {
        if self.qtype == Rtype::RRSIG && self.push_signatures(node, &mut owner)? {
            return Ok(Some(Step::Done(NOERROR)));
        }
        let rrset = match self.qtype {
            // RFC 8482 4.1: one RRset is an answer.
            Rtype::ANY => node.rrsets().find(|rrset| rrset.count > 0),
            qtype => node.rrset(qtype),
        };
        if let Some(dname) = rrset.filter(|rrset| rrset.rtype == Rtype::DNAME) {
            self.push_dname(&dname, owner)?;
            return Ok(Some(Step::Done(NOERROR)));
        }
        if let Some(rrset) = rrset {
            let at = self.message.push_of(Section::Answer, &rrset, rrset.ttl, &mut owner, self.dnssec)?;
            self.answered = Some(Answered { zone, rrset, at });
            return Ok(Some(Step::Done(NOERROR)));
        }
        // RFC 1034 3.6.2: an alias stands for all types but its own and that which DNSSEC puts beside it (RFC 4035 2.5).
        let Some(cname) = node.rrset(Rtype::CNAME).filter(|_| self.qtype != Rtype::NSEC) else { return Ok(None) };
        let at = self.message.push_of(Section::Answer, &cname, cname.ttl, &mut owner, self.dnssec)?;
        Ok(Some(Step::Alias(at + RECORD_HEAD_LEN)))
    }

    /// Adds all signatures of the node, for a question of the type RRSIG, but those that the answer has with the DNAME
    /// that led here, or none if they do not fit; returns whether there are any.
    fn push_signatures(&mut self, node: &ZoneNode<'z>, owner: &mut Owner<'_, 'z>) -> Result<bool, Full> {
        let start = (self.message.at, self.message.counts);
        let mut found = false;
        for rrset in node.rrsets() {
            let address = rrset.address();
            if self.dnssec && self.redirections.iter().any(|(sent, _)| *sent == address) {
                found |= !rrset.signatures().is_empty();
                continue;
            }
            for rdata in rrset.signatures().rdatas() {
                let pushed = self.message.push_raw_of(Section::Answer, owner, Rtype::RRSIG, rrset.ttl, rdata);
                if pushed.is_err() {
                    (self.message.at, self.message.counts) = start;
                }
                pushed?;
                found = true;
            }
        }
        Ok(found)
    }

    //----------- names that are not there -------------------------------------

    /// RFC 1034 4.3.2 step 3c: the name is not there; `cursor` is at its predecessor.
    fn miss(&mut self, zone: &'z Zone, mut cursor: TreeCursor<'z>, before: &TreeEntry<'z>) -> Result<Step, Full> {
        self.authoritative = true;
        let before_cursor = cursor.clone();
        let after = cursor.next();
        let key = self.key.as_bytes();
        if after.is_some_and(|after| after.is_at_or_below(key)) {
            // RFC 4592 2.2.2: an empty non-terminal is there, without any data.
            if self.wants_proof(zone) {
                self.proofs.deny_empty(zone, self.qname, before_cursor);
            }
            return self.negative(zone, NOERROR);
        }
        let common = after.map_or(0, |after| after.common_len(key)).max(before.common_len(key));
        let encloser_len = ancestor_len(key, common);
        if zone.has_wildcards() {
            // RFC 4592 3.3.1: the wildcard right below the closest encloser, no other.
            self.key.truncate(encloser_len);
            self.key.push_label(b"*");
            let mut wildcard = zone.seek(self.key.as_bytes());
            if wildcard.is_exact() {
                let node = wildcard.entry().map(|entry| zone.node(&entry));
                return self.expand(zone, node, encloser_len, before_cursor);
            }
            // RFC 4592 4.9: so does a wildcard that is an empty non-terminal.
            if wildcard.next().is_some_and(|after| after.is_at_or_below(self.key.as_bytes())) {
                return self.expand(zone, None, encloser_len, before_cursor);
            }
        }
        if self.wants_proof(zone) {
            self.proofs.deny_name(zone, self.qname, self.key, encloser_len, before_cursor);
        }
        self.negative(zone, NXDOMAIN)
    }

    /// RFC 4592 3.3: the wildcard's records with the name asked for as their owner. The wildcard is there, though it may
    /// have no node.
    fn expand(
        &mut self,
        zone: &'z Zone,
        node: Option<ZoneNode<'z>>,
        encloser_len: usize,
        before: TreeCursor<'z>,
    ) -> Result<Step, Full> {
        let wants_proof = self.wants_proof(zone);
        self.count_as(zone.apex_labels() + label_count(&self.key.as_bytes()[..encloser_len]));
        if let Some(node) = node.filter(|node| node.is_cut() && self.qtype != Rtype::DS) {
            return self.refer_wildcard(zone, &node, encloser_len, before);
        }
        // RFC 1034 4.3.2 step 3c: the owner is the name asked for.
        let asked = Owner { place: self.place(zone, self.qname.labels()), unwritten: None };
        if let Some(node) = node
            && let Some(step) = self.answer_from(zone, &node, asked)?
        {
            if wants_proof {
                self.proofs.deny_next_closer(zone, self.qname, encloser_len, self.key, before);
            }
            return Ok(step);
        }
        if wants_proof {
            self.proofs.deny_wildcard_type(zone, self.qname, encloser_len, self.key, before);
        }
        self.negative(zone, NOERROR)
    }

    /// RFC 4592 4.2 leaves open what NS records of a wildcard mean; here it delegates each name that it stands for.
    fn refer_wildcard(
        &mut self,
        zone: &'z Zone,
        node: &ZoneNode<'z>,
        encloser_len: usize,
        before: TreeCursor<'z>,
    ) -> Result<Step, Full> {
        let Some(ns) = node.rrset(Rtype::NS) else { return Ok(Step::Done(NOERROR)) };
        self.authoritative = self.message.counts[Section::Answer as usize] > 0;
        let place = self.place(zone, self.qname.labels());
        self.answered = Some(Answered { zone, rrset: ns, at: self.message.at });
        self.message.push(Section::Authority, &ns, ns.ttl, place, false)?;
        // RFC 4035 3.1.4: its DS set, with what proves that it is a wildcard's, or what proves that there is none.
        if self.wants_proof(zone) {
            if let Some(ds) = node.rrset(Rtype::DS) {
                self.message.push(Section::Authority, &ds, ds.ttl, place, true)?;
                self.proofs.deny_next_closer(zone, self.qname, encloser_len, self.key, before);
            } else {
                self.proofs.deny_wildcard_type(zone, self.qname, encloser_len, self.key, before);
            }
        }
        Ok(Step::Done(NOERROR))
    }

    /// RFC 2308 2, 3: the SOA record, with the TTL for which the answer may be kept.
    fn negative(&mut self, zone: &'z Zone, rcode: u8) -> Result<Step, Full> {
        self.count_as(zone.apex_labels());
        let (soa, ttl) = zone.negative_soa();
        let place = self.place(zone, zone.apex_labels());
        let pushed = match zone.apex_has_upper_case() {
            true => self.push_soa(zone, &soa, ttl, place),
            false => self.message.push(Section::Authority, &soa, ttl, place, self.dnssec),
        };
        if pushed.is_err() {
            self.message.truncated = true;
        }
        Ok(Step::Done(rcode))
    }

    /// Adds the SOA record of an apex that has upper-case letters.
    #[cold]
    fn push_soa(&mut self, zone: &'z Zone, soa: &Rrset<'z>, ttl: u32, place: MessageOffsets) -> Result<(), Full> {
        let mut owner = Owner { place, unwritten: Some((zone, &zone.apex_entry())) };
        self.message.push_of(Section::Authority, soa, ttl, &mut owner, self.dnssec).map(|_| ())
    }

    //----------- owners -------------------------------------------------------

    /// The owner of a node: so many last labels of the name at hand. RFC 4343 4.1: names without upper-case letters need not
    /// be written out, as what stands for them may be in any case.
    #[inline]
    fn owner<'e>(&self, zone: &'z Zone, node: &ZoneNode<'z>, entry: &'e TreeEntry<'z>, labels: usize) -> Owner<'e, 'z> {
        let unwritten = zone.has_upper_case(node).then_some((zone, entry));
        Owner { place: self.place(zone, labels), unwritten }
    }

    /// Where so many last labels of the name at hand stand, and the apex of its zone.
    #[inline]
    fn place(&self, zone: &Zone, labels: usize) -> MessageOffsets {
        MessageOffsets { owner: self.qname.offset(labels), apex: self.qname.offset(zone.apex_labels()) }
    }

    /// Whether the answer must prove what it denies.
    fn wants_proof(&self, zone: &Zone) -> bool {
        self.dnssec && *zone.denial() != Denial::None
    }
}
