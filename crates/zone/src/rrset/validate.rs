//! Checks nodes from outside: after that no access to them can fail, nor building the zone anew. It accepts all that `encode` writes of
//! valid zones.

use std::sync::Arc;

use wire::name::{Labels, labels_end};
use wire::{MAX_NAME_LEN, Rtype, rdata, soa};

use super::{
    BASE_APEX, BASE_OWNER, BASE_RRSET, BELOW_DNAME, COUNT, CUT, DNAME, ENDS_IN_POINTER, FULL_HEAD, INTERNED, LEN,
    MAX_RRSET_OFFSET, OCCLUDED, RECORD_HEAD_LEN, RdataLayout, SHARED_HEAD, SIGNED, missing_len, nsec3, rdata_layout,
    signature, split_pointer,
};
use crate::canonical_key::KeyInfo;
use crate::intern::InternTables;
use crate::owner_case::{MIXED, UPPER};

/// Checks nodes, and remembers which interned RRsets are good.
pub(crate) struct NodeValidator {
    tables: Arc<InternTables>,
    apex_len: usize,
    /// What is known of each interned RRset.
    interned: Vec<CheckedSet>,
    /// What is known of each interned RRset that is only a part of one.
    parts: Vec<Option<CheckedPart>>,
    labels: Vec<StoredLabel>,
}

/// A checked interned RRset: for which type, how many records it has, and its longest name that ends in the owner.
#[derive(Clone, Copy, Default)]
struct CheckedSet {
    rtype: u16,
    owner_literal: u8,
    /// 0: not checked.
    count: u32,
}

/// A checked interned part of RRsets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckedPart {
    /// The head of signatures of this type.
    SignatureHead(Rtype),
    /// NSEC3 RDATA without its hash.
    Nsec3Rest,
}

/// A label that later names of the set may point to.
struct StoredLabel {
    /// Its offset in the message, from the start of the set.
    offset: usize,
    name: StoredName,
}

/// What a stored name expands to: this many octets, and then the owner if so.
#[derive(Clone, Copy)]
struct StoredName {
    literal: usize,
    ends_in_owner: bool,
}

/// Whether the checks of zones accept records of this type at the owner of a CNAME (`NodeCheck::check_alias`).
fn may_be_beside_cname(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC | Rtype::KEY | Rtype::SIG | Rtype::NXT)
}

impl NodeValidator {
    pub(crate) fn new(tables: Arc<InternTables>, apex_len: usize) -> NodeValidator {
        let interned = vec![CheckedSet::default(); tables.rrset_count()];
        let parts = vec![None; tables.rrset_count()];
        NodeValidator { tables, apex_len, interned, parts, labels: Vec::new() }
    }

    /// Another one for the same zone.
    pub(crate) fn another(&self) -> NodeValidator {
        NodeValidator::new(self.tables.clone(), self.apex_len)
    }

    /// Whether `value` is the node of this owner. That of the apex must have a SOA record.
    pub(crate) fn accepts(&mut self, owner: KeyInfo, value: &[u8]) -> bool {
        self.check_node(owner, value).is_some()
    }

    fn check_node(&mut self, owner: KeyInfo, value: &[u8]) -> Option<()> {
        let (&flags, mut rest) = value.split_first()?;
        if flags & !(CUT | DNAME | OCCLUDED | BELOW_DNAME | UPPER | MIXED) != 0 {
            return None;
        }
        if flags & MIXED != 0 {
            let (&len, more) = rest.split_first()?;
            rest = more.get(len.into()..)?;
        }
        let (mut own_flags, mut has_soa, mut previous) = (0, false, None);
        let (mut has_cname, mut has_other) = (false, false);
        while !rest.is_empty() {
            let (rtype, count);
            (rtype, count, rest) = self.check_rrset(owner, rest)?;
            if previous >= Some(rtype.0) {
                return None;
            }
            previous = Some(rtype.0);
            if count == 0 {
                continue; // Signatures alone.
            }
            has_other |= !may_be_beside_cname(rtype);
            match rtype {
                Rtype::NS if !owner.is_empty() => own_flags |= CUT,
                // RFC 2181 10.1, RFC 6672 2.4: there is one.
                Rtype::CNAME if count == 1 => has_cname = true,
                Rtype::DNAME if count == 1 => own_flags |= DNAME,
                Rtype::CNAME | Rtype::DNAME => return None,
                Rtype::SOA => has_soa = true,
                _ => {}
            }
        }
        // RFC 1034 3.6.2: no other data beside a CNAME. RFC 1035 5.2: a SOA record at the apex, and nowhere else.
        let is_allowed = !(has_cname && has_other) && has_soa == owner.is_empty();
        (flags & (CUT | DNAME) == own_flags && is_allowed).then_some(())
    }

    /// Checks the RRset at the start of `bytes`; returns its type, its count and the rest.
    #[inline]
    fn check_rrset<'b>(&mut self, owner: KeyInfo, bytes: &'b [u8]) -> Option<(Rtype, usize, &'b [u8])> {
        let (&number, rest) = bytes.split_first()?;
        let (rtype, form, rest) = match number {
            FULL_HEAD => split_head(rest)?,
            _ => self.tables.heads().get(usize::from(number)).map(|head| (head.rtype, head.form, rest))?,
        };
        let (count, rest) = if form & COUNT < COUNT { ((form & COUNT).into(), rest) } else { split_u32(rest)? };
        let signed = form & (SIGNED | SHARED_HEAD);
        if count == 0 && signed == 0 {
            return None;
        }
        let rest = self.check_data(owner, rtype, form, count, rest)?;
        let rest = match signed {
            0 => rest,
            SIGNED => check_signatures(rtype, rest)?,
            SHARED_HEAD => self.check_shared_signature(rtype, rest)?,
            _ => return None,
        };
        Some((rtype, count, rest))
    }

    /// Checks the records of a set, which `bytes` starts with; returns the rest.
    #[inline]
    fn check_data<'b>(
        &mut self,
        owner: KeyInfo,
        rtype: Rtype,
        form: u8,
        count: usize,
        bytes: &'b [u8],
    ) -> Option<&'b [u8]> {
        if let RdataLayout::Address(size) = rdata_layout(rtype) {
            return bytes.get(size.checked_mul(count)?..).filter(|_| form & INTERNED == 0);
        }
        if rtype == Rtype::NSEC3 && form & INTERNED != 0 {
            let (nsec3_rest, rest) = self.check_part(bytes, CheckedPart::Nsec3Rest, nsec3::is_rest)?;
            return rest.get(missing_len(nsec3_rest)..).filter(|_| count == 1);
        }
        let owner_literal;
        let rest = if form & INTERNED != 0 {
            let (number, rest) = bytes.split_first_chunk::<3>()?;
            owner_literal =
                self.check_interned(rtype, count, u32::from_le_bytes([number[0], number[1], number[2], 0]))?;
            rest
        } else {
            let (len, rest) = split_length(bytes)?;
            let (data, rest) = rest.split_at_checked(len)?;
            owner_literal = self.check_records(rtype, count, data)?;
            rest
        };
        // RFC 4592 3.3.1: a wildcard's records are synthesized with other owners, so their names must not end in it.
        let fits = owner_literal + owner.name_len() <= MAX_NAME_LEN && !owner.is_wildcard();
        (owner_literal == 0 || fits).then_some(rest)
    }

    #[inline]
    fn check_interned(&mut self, rtype: Rtype, count: usize, number: u32) -> Option<usize> {
        let known = *self.interned.get(number as usize)?;
        if known.count as usize == count && known.rtype == rtype.0 && count > 0 {
            return Some(known.owner_literal.into());
        }
        let tables = self.tables.clone();
        let owner_literal = self.check_records(rtype, count, tables.rrset(number as usize))?;
        let checked = CheckedSet { rtype: rtype.0, owner_literal: owner_literal as u8, count: count as u32 };
        self.interned[number as usize] = checked;
        Some(owner_literal)
    }

    /// The octets after a signature with an interned head.
    #[inline]
    fn check_shared_signature<'b>(&mut self, covered: Rtype, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let (head, rest) =
            self.check_part(bytes, CheckedPart::SignatureHead(covered), |head| signature::is_head(covered, head))?;
        rest.get(signature::rest_len(head)..)
    }

    /// Checks the interned part whose number `bytes` starts with; returns it and the rest of `bytes`.
    #[inline]
    fn check_part<'b>(
        &mut self,
        bytes: &'b [u8],
        part: CheckedPart,
        is_good: impl FnOnce(&[u8]) -> bool,
    ) -> Option<(&[u8], &'b [u8])> {
        let (number, rest) = bytes.split_first_chunk::<3>()?;
        let number = u32::from_le_bytes([number[0], number[1], number[2], 0]) as usize;
        let known = self.parts.get_mut(number)?;
        let octets = self.tables.rrset(number);
        if *known != Some(part) {
            *known = Some(is_good(octets).then_some(part)?);
        }
        Some((octets, rest))
    }

    /// Checks that `data` has `count` records of this type. Returns the length of the longest name that ends in the owner, without the
    /// owner.
    fn check_records(&mut self, rtype: Rtype, count: usize, data: &[u8]) -> Option<usize> {
        self.labels.clear();
        let layout = rdata_layout(rtype);
        let (mut rest, mut found, mut message_len, mut owner_literal) = (data, 0, 0, 0);
        while let Some((word, more)) = rest.split_first_chunk::<2>() {
            let word = u16::from_be_bytes(*word);
            let len = usize::from(if layout == RdataLayout::Opaque { word } else { word & LEN });
            let (rdata, more) = more.split_at_checked(len)?;
            let start = message_len + RECORD_HEAD_LEN;
            let longest = match layout {
                RdataLayout::Opaque => rdata::can_be_served(rtype, rdata).then_some(0)?,
                RdataLayout::TwoNames => self.check_two_names(rtype, rdata, start)?,
                RdataLayout::NameLast(skip) => {
                    let (end, has_pointer, longest) = self.check_name(rdata, skip, start)?;
                    (end == rdata.len() && has_pointer == (word & ENDS_IN_POINTER != 0)).then_some(longest)?
                }
                RdataLayout::Address(_) => return None,
            };
            owner_literal = owner_literal.max(longest);
            found += 1;
            message_len = start + len;
            rest = more;
        }
        (rest.is_empty() && found == count && owner_literal < MAX_NAME_LEN).then_some(owner_literal)
    }

    fn check_two_names(&mut self, rtype: Rtype, rdata: &[u8], start: usize) -> Option<usize> {
        let (end, _, first) = self.check_name(rdata, 0, start)?;
        let (end, _, second) = self.check_name(rdata, end, start)?;
        let numbers = if rtype == Rtype::SOA { soa::NUMBERS_LEN } else { 0 };
        (rdata.len() - end == numbers).then_some(first.max(second))
    }

    /// Checks the name at `at` in RDATA that starts at `start` from the start of the set in a message. Returns its end, whether it
    /// ends in a pointer, and its length without the owner if it ends in that, or 0.
    fn check_name(&mut self, rdata: &[u8], at: usize, start: usize) -> Option<(usize, bool, usize)> {
        let end = labels_end(rdata, at);
        let (suffix, stored_end, has_pointer) = match rdata.get(end..)? {
            [0, ..] => (StoredName { literal: 1, ends_in_owner: false }, end + 1, false),
            [high, low, ..] => (self.target([*high, *low], start + at)?, end + 2, true),
            _ => return None,
        };
        // Later names point to labels of this one.
        let mut label_at = at;
        for label in Labels::new(&rdata[at..end]) {
            if start + label_at > MAX_RRSET_OFFSET {
                break;
            }
            let name = StoredName { literal: end - label_at + suffix.literal, ..suffix };
            self.labels.push(StoredLabel { offset: start + label_at, name });
            label_at += 1 + label.len();
        }
        let literal = end - at + suffix.literal;
        let is_short = literal <= MAX_NAME_LEN;
        is_short.then_some((stored_end, has_pointer, if suffix.ends_in_owner { literal } else { 0 }))
    }

    /// What a pointer of a name at `name_offset` stands for.
    fn target(&self, pointer: [u8; 2], name_offset: usize) -> Option<StoredName> {
        match split_pointer(pointer) {
            _ if pointer[0] & 0xc0 != 0xc0 => None,
            (BASE_APEX, 0) => Some(StoredName { literal: self.apex_len, ends_in_owner: false }),
            (BASE_OWNER, 0) => Some(StoredName { literal: 0, ends_in_owner: true }),
            (BASE_RRSET, offset) if offset < name_offset => {
                let index = self.labels.binary_search_by_key(&offset, |label| label.offset).ok()?;
                Some(self.labels[index].name)
            }
            _ => None,
        }
    }
}

/// RFC 4034 3: the octets of RRSIG records of a set.
fn check_signatures(covered: Rtype, bytes: &[u8]) -> Option<&[u8]> {
    let (count, rest) = split_length(bytes)?;
    let (len, rest) = split_length(rest)?;
    let (mut data, rest) = rest.split_at_checked(len)?;
    for _ in 0..count {
        let (len, more) = data.split_first_chunk::<2>()?;
        let (rdata, more) = more.split_at_checked(u16::from_be_bytes(*len).into())?;
        if !rdata.starts_with(&covered.0.to_be_bytes()) || !rdata::can_be_served(Rtype::RRSIG, rdata) {
            return None;
        }
        data = more;
    }
    (data.is_empty() && count > 0).then_some(rest)
}

/// The type and the form in a head, and the rest.
fn split_head(bytes: &[u8]) -> Option<(Rtype, u8, &[u8])> {
    let (rtype, rest) = match bytes.split_first()? {
        (255, rest) => rest.split_first_chunk().map(|(code, rest)| (u16::from_le_bytes(*code), rest))?,
        (&code, rest) => (u16::from(code), rest),
    };
    let (_ttl, rest) = rest.split_first_chunk::<4>()?;
    let (&form, rest) = rest.split_first()?;
    Some((Rtype(rtype), form, rest))
}

fn split_u32(bytes: &[u8]) -> Option<(usize, &[u8])> {
    bytes.split_first_chunk().map(|(number, rest)| (u32::from_le_bytes(*number) as usize, rest))
}

#[inline]
fn split_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (255, rest) => split_u32(rest),
        (&len, rest) => Some((len.into(), rest)),
    }
}
