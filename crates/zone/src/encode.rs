//! From records to the stored form of [`rrset`](crate::rrset).

use wire::{NameRef, Rtype};

use crate::case::Case;
use crate::rrset::{
    COUNT, FROM_APEX, FROM_OWNER, FROM_SET, IN_ZONE, POINTS, RECORD_HEAD_LEN, SHARED, SIGNED, Shape, make_pointer,
    shape,
};
use crate::tables::Numbering;

/// A record of one owner, in uncompressed wire form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'r> {
    pub(crate) rtype: Rtype,
    pub(crate) ttl: u32,
    pub(crate) rdata: &'r [u8],
    /// Where it was read, for findings; not stored.
    pub(crate) file: u16,
    pub(crate) line: u32,
}

impl Raw<'_> {
    /// How many octets it has in a message, with a pointer for its owner.
    pub(crate) fn message_len(&self) -> usize {
        RECORD_HEAD_LEN + self.rdata.len()
    }

    /// The type whose RRset this record belongs to: for a signature that which it covers (RFC 4034 3.1.1).
    pub(crate) fn set_rtype(&self) -> Rtype {
        match (self.rtype, self.rdata) {
            (Rtype::RRSIG, [high, low, ..]) => Rtype(u16::from_be_bytes([*high, *low])),
            (rtype, _) => rtype,
        }
    }
}

/// Stored pointers have twelve bits: sets that are longer in a message have none behind this offset.
const MAX_SET_OFFSET: usize = 0x0fff;
/// How many names of a set later names are compared with.
const MAX_EARLIER: usize = 24;

/// Encodes nodes; its buffers are reused from one to the next.
pub(crate) struct NodeEncoder<'e> {
    numbering: &'e Numbering<'e>,
    apex_len: usize,
    out: Vec<u8>,
    set: SetEncoder,
}

impl<'e> NodeEncoder<'e> {
    pub(crate) fn new(numbering: &'e Numbering<'e>, apex: NameRef<'_>) -> NodeEncoder<'e> {
        NodeEncoder { numbering, apex_len: apex.wire().len(), out: Vec::new(), set: SetEncoder::default() }
    }

    /// The stored form of all `records` of `owner`, which is in its case. Sorts the records.
    pub(crate) fn encode(&mut self, owner: NameRef<'_>, case: Case<'_>, flags: u8, records: &mut [Raw<'_>]) -> &[u8] {
        self.out.clear();
        self.out.push(flags | case.flags());
        case.append(&mut self.out);
        // RFC 4592 3.3.1: the records of a wildcard get another owner, so nothing in them may point to this one.
        let shared_len = if owner.is_wildcard() { self.apex_len } else { owner.wire().len() };
        let owner = Labels::of(&owner.wire()[owner.wire().len() - shared_len..]);
        records.sort_unstable_by_key(|raw| (raw.set_rtype(), raw.rtype == Rtype::RRSIG));
        for set in records.chunk_by_mut(|a, b| a.set_rtype() == b.set_rtype()) {
            let signatures = set.iter().position(|raw| raw.rtype == Rtype::RRSIG).unwrap_or(set.len());
            let (data, signatures) = set.split_at_mut(signatures);
            self.write_rrset(&owner, data, signatures);
        }
        &self.out
    }

    fn write_rrset(&mut self, owner: &Labels<'_>, records: &mut [Raw<'_>], signatures: &mut [Raw<'_>]) {
        // RFC 2181 5.2: the TTLs of a set are equal; where they are not, none may be taken for longer than the least.
        let Some(ttl) = records.iter().map(|raw| raw.ttl).min().or(signatures.iter().map(|raw| raw.ttl).min()) else {
            return;
        };
        let rtype = records.first().map_or_else(|| signatures[0].set_rtype(), |raw| raw.rtype);
        let records = sort_and_dedup(rtype, records);
        self.set.encode(rtype, owner, self.apex_len, records);
        let shared = self.set.is_worth_sharing(rtype).then(|| self.numbering.set(&self.set.data)).flatten();
        self.write_head(rtype, ttl, records.len(), shared.is_some(), !signatures.is_empty());
        match shared {
            Some(number) => self.out.extend_from_slice(&number.to_le_bytes()[..3]),
            None => {
                if !matches!(shape(rtype), Shape::Fixed(_)) {
                    write_length(self.set.data.len(), &mut self.out);
                }
                self.out.extend_from_slice(&self.set.data);
            }
        }
        self.write_signatures(signatures);
    }

    fn write_head(&mut self, rtype: Rtype, ttl: u32, count: usize, shared: bool, signed: bool) {
        match u8::try_from(rtype.0) {
            Ok(code) if code < 255 => self.out.push(code),
            _ => {
                self.out.push(255);
                self.out.extend_from_slice(&rtype.0.to_le_bytes());
            }
        }
        match self.numbering.ttl(ttl) {
            Some(number) => self.out.push(number),
            None => {
                self.out.push(255);
                self.out.extend_from_slice(&ttl.to_le_bytes());
            }
        }
        let flags = if shared { SHARED } else { 0 } | if signed { SIGNED } else { 0 };
        if count < usize::from(COUNT) {
            self.out.push(flags | count as u8);
        } else {
            self.out.push(flags | COUNT);
            self.out.extend_from_slice(&(count as u32).to_le_bytes());
        }
    }

    fn write_signatures(&mut self, signatures: &mut [Raw<'_>]) {
        if signatures.is_empty() {
            return;
        }
        let signatures = sort_and_dedup(Rtype::RRSIG, signatures);
        write_length(signatures.len(), &mut self.out);
        write_length(signatures.iter().map(|raw| 2 + raw.rdata.len()).sum(), &mut self.out);
        for raw in signatures {
            self.out.extend_from_slice(&(raw.rdata.len() as u16).to_be_bytes());
            self.out.extend_from_slice(raw.rdata);
        }
    }
}

/// RFC 2181 5: a set has no two equal records. Sorted, so that the order of a file makes no difference; by the order of
/// their names where they end in one, so that looking up the addresses of name servers goes one way through the tree.
fn sort_and_dedup<'s, 'r>(rtype: Rtype, records: &'s mut [Raw<'r>]) -> &'s [Raw<'r>] {
    if records.len() < 2 {
        return records;
    }
    let compare = |a: &Raw<'_>, b: &Raw<'_>| match shape(rtype) {
        Shape::NameLast(skip) => {
            let [x, y] = [a, b].map(|raw| NameRef::from_wire(&raw.rdata[skip..]).expect("RDATA is checked"));
            x.canonical_cmp(y).then_with(|| a.rdata[..skip].cmp(&b.rdata[..skip]))
        }
        // Its names may differ in case, and a zone has one SOA record: what is behind them decides first.
        Shape::TwoNames => {
            let [(x, x_numbers), (y, y_numbers)] = [a, b].map(|raw| two_names(raw.rdata));
            x_numbers.cmp(y_numbers).then_with(|| x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase()))
        }
        _ => a.rdata.cmp(b.rdata),
    };
    records.sort_unstable_by(compare);
    let mut kept = 1;
    for index in 1..records.len() {
        if compare(&records[index], &records[kept - 1]).is_ne() {
            records[kept] = records[index];
            kept += 1;
        }
    }
    &records[..kept]
}

/// The two names that the RDATA begins with, and the rest.
fn two_names(rdata: &[u8]) -> (&[u8], &[u8]) {
    let len = |at: usize| NameRef::from_wire(&rdata[at..]).expect("RDATA is checked").wire().len();
    rdata.split_at(len(0) + len(len(0)))
}

fn write_length(len: usize, out: &mut Vec<u8>) {
    match u8::try_from(len) {
        Ok(len) if len < 255 => out.push(len),
        _ => {
            out.push(255);
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
    }
}

//----------- SetEncoder -------------------------------------------------------

/// Encodes the data of one RRset.
#[derive(Default)]
struct SetEncoder {
    data: Vec<u8>,
    /// Names in the set that later ones may point to.
    earlier: Vec<Earlier>,
    /// The whole wire form of those, one after the other.
    names: Vec<u8>,
    /// How many octets the records so far take in a message.
    written: usize,
}

/// A name in the set at hand.
struct Earlier {
    /// Where its wire form begins and ends in `names`.
    start: usize,
    end: usize,
    /// How many octets of it stand in the set; a pointer stands for the others.
    literal: usize,
    /// Where it stands in the message, from the beginning of the set.
    message_offset: usize,
}

impl SetEncoder {
    fn encode(&mut self, rtype: Rtype, owner: &Labels<'_>, apex_len: usize, records: &[Raw<'_>]) {
        self.data.clear();
        self.earlier.clear();
        self.names.clear();
        self.written = 0;
        for raw in records {
            match shape(rtype) {
                Shape::Fixed(_) => self.data.extend_from_slice(raw.rdata),
                Shape::Opaque => {
                    self.data.extend_from_slice(&(raw.rdata.len() as u16).to_be_bytes());
                    self.data.extend_from_slice(raw.rdata);
                }
                Shape::NameLast(skip) => self.push_names(owner, apex_len, raw.rdata, skip, 1, records.len()),
                Shape::TwoNames => self.push_names(owner, apex_len, raw.rdata, 0, 2, records.len()),
            }
        }
    }

    /// Stores RDATA with `names` names behind `skip` octets.
    fn push_names(
        &mut self,
        owner: &Labels<'_>,
        apex_len: usize,
        rdata: &[u8],
        skip: usize,
        names: usize,
        count: usize,
    ) {
        let start = self.data.len();
        self.data.extend_from_slice(&[0, 0]);
        self.data.extend_from_slice(&rdata[..skip]);
        let mut rest = &rdata[skip..];
        let mut flags = 0;
        for _ in 0..names {
            let name = NameRef::from_wire(rest).expect("RDATA is checked before it comes here").wire();
            let message_offset = self.written + RECORD_HEAD_LEN + self.data.len() - start - 2;
            flags = self.push_name(owner, apex_len, name, message_offset, count * names > 1);
            rest = &rest[name.len()..];
        }
        self.data.extend_from_slice(rest);
        let len = self.data.len() - start - 2;
        self.data[start..start + 2].copy_from_slice(&(flags | len as u16).to_be_bytes());
        self.written += RECORD_HEAD_LEN + len;
    }

    /// Stores a name, as short as pointers make it; returns the flags of the RDATA whose last field it is.
    fn push_name(
        &mut self,
        owner: &Labels<'_>,
        apex_len: usize,
        name: &[u8],
        message_offset: usize,
        more: bool,
    ) -> u16 {
        let labels = Labels::of(name);
        let shared = labels.common_suffix_len(owner);
        let mut flags = if shared >= apex_len { IN_ZONE } else { 0 };
        // Whole names alone: in a message the labels of an owner or apex need not stand in one place. RFC 5936 3.4: and
        // names in the same case alone.
        let ends_in = |suffix: &[u8]| shared >= suffix.len() && name.ends_with(suffix);
        let apex = &owner.wire[owner.wire.len() - apex_len..];
        let mut best = match () {
            _ if owner.wire.len() > apex_len && ends_in(owner.wire) => {
                (owner.wire.len(), Some(make_pointer(FROM_OWNER, 0)))
            }
            // The root label alone is shorter than a pointer.
            _ if apex_len > 1 && ends_in(apex) => (apex_len, Some(make_pointer(FROM_APEX, 0))),
            _ => (1, None),
        };
        for earlier in &self.earlier {
            let start = common_suffix_start(&labels, &self.names[earlier.start..earlier.end]);
            let Some(start) = start.filter(|&start| start < earlier.literal) else { continue };
            let len = earlier.end - earlier.start - start;
            if len > best.0 {
                best = (len, Some(make_pointer(FROM_SET, earlier.message_offset + start)));
            }
        }
        let literal = name.len() - if best.1.is_some() { best.0 } else { 0 };
        self.data.extend_from_slice(&name[..literal]);
        if let Some(pointer) = best.1 {
            self.data.extend_from_slice(&pointer);
            flags |= POINTS;
        }
        if more && literal > 1 && self.earlier.len() < MAX_EARLIER && message_offset + literal <= MAX_SET_OFFSET {
            let start = self.names.len();
            self.names.extend_from_slice(name);
            self.earlier.push(Earlier { start, end: self.names.len(), literal, message_offset });
        }
        flags
    }

    /// Name servers, mail exchangers and the like recur; the number must be shorter than what it stands for.
    fn is_worth_sharing(&self, rtype: Rtype) -> bool {
        const RECURRING: [Rtype; 6] = [Rtype::NS, Rtype::MX, Rtype::TXT, Rtype::HTTPS, Rtype::SVCB, Rtype::CNAME];
        self.data.len() > 8 && RECURRING.contains(&rtype)
    }
}

/// A name with the places of its labels.
struct Labels<'n> {
    wire: &'n [u8],
    starts: [u8; 128],
    count: usize,
}

impl<'n> Labels<'n> {
    fn of(wire: &'n [u8]) -> Labels<'n> {
        let (mut starts, mut count, mut at) = ([0; 128], 0, 0);
        while wire[at] != 0 {
            starts[count] = at as u8;
            count += 1;
            at += 1 + wire[at] as usize;
        }
        Labels { wire, starts, count }
    }

    fn has_label_at(&self, start: usize) -> bool {
        self.starts[..self.count].contains(&(start as u8))
    }

    /// The octets, with the root label, of the longest name that both names are at or below.
    fn common_suffix_len(&self, other: &Labels<'_>) -> usize {
        let mut len = 1;
        let mine = self.starts[..self.count].iter().rev();
        for (&mine, &theirs) in mine.zip(other.starts[..other.count].iter().rev()) {
            let (mine, theirs) = (&self.wire[mine as usize..], &other.wire[theirs as usize..]);
            if mine.len() != theirs.len() || !mine.eq_ignore_ascii_case(theirs) {
                break;
            }
            len = mine.len();
        }
        len
    }
}

/// Where in an earlier name the longest suffix begins that `name` shares with it, in the same case; the root label
/// alone does not count.
fn common_suffix_start(name: &Labels<'_>, earlier: &[u8]) -> Option<usize> {
    let mut at = 0;
    while earlier[at] != 0 {
        let suffix = &earlier[at..];
        let start = name.wire.len().checked_sub(suffix.len());
        if start.is_some_and(|start| name.has_label_at(start) && &name.wire[start..] == suffix) {
            return Some(at);
        }
        at += 1 + earlier[at] as usize;
    }
    None
}
