//! Encoding: from the records of an owner to the stored form of [`rrset`](super).

use wire::{NameRef, Rtype};

use super::compression::{NameCompressor, SplitName};
use super::nsec3::Nsec3Rests;
use super::recurring::{InternedRrset, RecurringRrsets};
use super::signature::SignatureHeads;
use super::{COUNT, FULL_HEAD, INTERNED, RECORD_HEAD_LEN, RdataLayout, SHARED_HEAD, SIGNED, rdata_layout};
use crate::canonical_form::canonical_cmp;
use crate::intern::Interner;
use crate::owner_case::OwnerCase;
use crate::rrset_head::RrsetHead;
use crate::stage::StagedRecord;

/// As many octets as most nodes have: a zone of few records makes each buffer for one or two.
const TYPICAL_LEN: usize = 128;
/// How many heads an encoder remembers.
const HEAD_SLOTS: usize = 16;

/// The types whose RRsets recur on many owners.
const RECURRING: [Rtype; 6] = [Rtype::NS, Rtype::MX, Rtype::TXT, Rtype::HTTPS, Rtype::SVCB, Rtype::CNAME];

/// Encodes nodes with one interner, reusing its buffers.
pub(crate) struct NodeEncoder {
    apex_len: usize,
    out: Vec<u8>,
    rrset: RrsetEncoder,
    /// Some heads and their numbers: most sets have one of a few.
    heads: [Option<(RrsetHead, Option<u8>)>; HEAD_SLOTS],
    recurring: RecurringRrsets,
    signature_heads: SignatureHeads,
    nsec3_rests: Nsec3Rests,
}

impl NodeEncoder {
    pub(crate) fn new(apex: NameRef<'_>) -> NodeEncoder {
        NodeEncoder {
            apex_len: apex.wire().len(),
            out: Vec::new(),
            rrset: RrsetEncoder::default(),
            heads: [None; _],
            recurring: RecurringRrsets::default(),
            signature_heads: SignatureHeads::default(),
            nsec3_rests: Nsec3Rests::default(),
        }
    }

    /// The stored form of all `records` of `owner`, which has its original case. Sorts the records. `interner` is the same in each call.
    pub(crate) fn encode(
        &mut self,
        interner: &Interner<'_>,
        owner: NameRef<'_>,
        case: OwnerCase<'_>,
        flags: u8,
        records: &mut [StagedRecord<'_>],
    ) -> &[u8] {
        self.out.clear();
        self.out.reserve(TYPICAL_LEN);
        self.out.push(flags | case.flags());
        case.append(&mut self.out);
        // RFC 4592 3.3.1: records of a wildcard are synthesized with another owner, so they must not point to this one.
        let base_len = if owner.is_wildcard() { self.apex_len } else { owner.wire().len() };
        let owner = &owner.wire()[owner.wire().len() - base_len..];
        // Most nodes have one set.
        let is_one_set = |rtype| rtype != Rtype::RRSIG && records.iter().all(|record| record.rtype == rtype);
        if records.first().is_some_and(|first| is_one_set(first.rtype)) {
            self.write_rrset(interner, owner, records, &mut []);
            return &self.out;
        }
        records.sort_unstable_by_key(|record| (record.set_rtype(), record.rtype == Rtype::RRSIG));
        for set in records.chunk_by_mut(|a, b| a.set_rtype() == b.set_rtype()) {
            let signatures = set.iter().position(|record| record.rtype == Rtype::RRSIG).unwrap_or(set.len());
            let (data, signatures) = set.split_at_mut(signatures);
            self.write_rrset(interner, owner, data, signatures);
        }
        &self.out
    }

    /// `owner` is the owner as names of the set may point to it.
    fn write_rrset(
        &mut self,
        interner: &Interner<'_>,
        owner: &[u8],
        records: &mut [StagedRecord<'_>],
        signatures: &mut [StagedRecord<'_>],
    ) {
        // RFC 2181 5.2: records of a set with different TTLs all get the lowest one.
        let Some(ttl) =
            records.iter().map(|record| record.ttl).min().or(signatures.iter().map(|record| record.ttl).min())
        else {
            return;
        };
        let rtype = records.first().map_or_else(|| signatures[0].set_rtype(), |record| record.rtype);
        let can_be_known = interner.is_new() && RECURRING.contains(&rtype);
        let known = can_be_known.then(|| self.recurring.find(rtype, owner, records)).flatten();
        let (count, interned) = match known {
            Some(InternedRrset { number, count }) => (count, Some(number)),
            None => {
                let records = sort_and_dedup(rtype, records);
                self.rrset.encode(rtype, owner, self.apex_len, records);
                let number = match records {
                    [_] if rtype == Rtype::NSEC3 => self.nsec3_rests.split_off(interner, &mut self.rrset.data),
                    _ => self.rrset.is_worth_interning(rtype).then(|| interner.rrset(&self.rrset.data)).flatten(),
                };
                self.recurring.remember(number.map(|number| InternedRrset { number, count: records.len() }));
                (records.len(), number)
            }
        };
        let signatures = sort_and_dedup(Rtype::RRSIG, signatures);
        let shared_head = match signatures {
            [signature] => self.signature_heads.find(interner, signature.rdata),
            _ => None,
        };
        let form = if interned.is_some() { INTERNED } else { 0 }
            | match (signatures, shared_head) {
                ([], _) => 0,
                (_, None) => SIGNED,
                (_, Some(_)) => SHARED_HEAD,
            };
        let form = form | count.min(COUNT.into()) as u8;
        self.write_head(interner, RrsetHead { ttl, rtype, form });
        if form & COUNT == COUNT {
            self.out.extend_from_slice(&(count as u32).to_le_bytes());
        }
        match interned {
            Some(number) => {
                self.out.extend_from_slice(&number.to_le_bytes()[..3]);
                if rtype == Rtype::NSEC3 {
                    self.out.extend_from_slice(&self.rrset.data);
                }
            }
            None => {
                if !matches!(rdata_layout(rtype), RdataLayout::Address(_)) {
                    write_length(self.rrset.data.len(), &mut self.out);
                }
                self.out.extend_from_slice(&self.rrset.data);
            }
        }
        match (signatures, shared_head) {
            ([signature], Some(head)) => head.append(signature.rdata, &mut self.out),
            _ => self.write_signatures(signatures),
        }
    }

    fn write_head(&mut self, interner: &Interner<'_>, head: RrsetHead) {
        let slot = &mut self.heads[usize::from(head.rtype.0 as u8 ^ head.form) % HEAD_SLOTS];
        let known = slot.filter(|&(known, _)| known == head);
        let intern = || {
            let number = interner.head(head);
            // For sets that are not interned because a change or a merge adds them.
            if head.form & INTERNED != 0 {
                interner.head(RrsetHead { form: head.form & !INTERNED, ..head });
            }
            (head, number)
        };
        let (_, number) = *slot.insert(known.unwrap_or_else(intern));
        if let Some(number) = number {
            return self.out.push(number);
        }
        self.out.push(FULL_HEAD);
        match u8::try_from(head.rtype.0) {
            Ok(code) if code < 255 => self.out.push(code),
            _ => {
                self.out.push(255);
                self.out.extend_from_slice(&head.rtype.0.to_le_bytes());
            }
        }
        self.out.extend_from_slice(&head.ttl.to_le_bytes());
        self.out.push(head.form);
    }

    fn write_signatures(&mut self, signatures: &[StagedRecord<'_>]) {
        if signatures.is_empty() {
            return;
        }
        write_length(signatures.len(), &mut self.out);
        write_length(signatures.iter().map(|record| 2 + record.rdata.len()).sum(), &mut self.out);
        for record in signatures {
            self.out.extend_from_slice(&(record.rdata.len() as u16).to_be_bytes());
            self.out.extend_from_slice(record.rdata);
        }
    }
}

/// Sorts the records of a set and removes duplicates (RFC 2181 5), which are equal in canonical form (RFC 4034 6.3): the order in the
/// file does not matter. Records that end in a name are in canonical order of the names, so that lookups of name server addresses
/// move forward through the tree.
fn sort_and_dedup<'s, 'r>(rtype: Rtype, records: &'s mut [StagedRecord<'r>]) -> &'s [StagedRecord<'r>] {
    if records.len() < 2 {
        return records;
    }
    let compare = |a: &StagedRecord<'_>, b: &StagedRecord<'_>| match rdata_layout(rtype) {
        RdataLayout::NameLast(skip) => {
            let [x, y] = [a, b].map(|record| NameRef::from_wire(&record.rdata[skip..]).expect("RDATA is checked"));
            x.canonical_cmp(y).then_with(|| a.rdata[..skip].cmp(&b.rdata[..skip]))
        }
        // The numbers after the names decide first: two SOA records that differ only in the case of names are equal.
        RdataLayout::TwoNames => {
            let [(x, x_numbers), (y, y_numbers)] = [a, b].map(|record| two_names(record.rdata));
            x_numbers.cmp(y_numbers).then_with(|| x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase()))
        }
        RdataLayout::Address(_) | RdataLayout::Opaque => canonical_cmp(rtype, a.rdata, b.rdata),
    };
    // Of records that differ only in the case of names, the same one is kept whatever their order was.
    records.sort_unstable_by(|a, b| compare(a, b).then_with(|| a.rdata.cmp(b.rdata)));
    let mut kept = 1;
    for index in 1..records.len() {
        if compare(&records[index], &records[kept - 1]).is_ne() {
            records[kept] = records[index];
            kept += 1;
        }
    }
    &records[..kept]
}

/// Splits RDATA after its two leading names.
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

//----------- RrsetEncoder -----------------------------------------------------

/// Encodes the data of one RRset.
#[derive(Default)]
struct RrsetEncoder {
    data: Vec<u8>,
    compressor: NameCompressor,
    /// The length of the records so far in a message.
    message_len: usize,
}

impl RrsetEncoder {
    fn encode(&mut self, rtype: Rtype, owner: &[u8], apex_len: usize, records: &[StagedRecord<'_>]) {
        self.data.clear();
        self.data.reserve(TYPICAL_LEN);
        let (skip, names) = match rdata_layout(rtype) {
            RdataLayout::Address(_) => {
                return records.iter().for_each(|record| self.data.extend_from_slice(record.rdata));
            }
            RdataLayout::Opaque => {
                return records.iter().for_each(|record| {
                    self.data.extend_from_slice(&(record.rdata.len() as u16).to_be_bytes());
                    self.data.extend_from_slice(record.rdata);
                });
            }
            RdataLayout::NameLast(skip) => (skip, 1),
            RdataLayout::TwoNames => (0, 2),
        };
        self.compressor.clear();
        self.message_len = 0;
        let owner = SplitName::new(owner);
        for record in records {
            self.push_names(&owner, apex_len, record.rdata, skip, names, records.len());
        }
    }

    /// Appends RDATA that has `names` names after the first `skip` octets.
    fn push_names(
        &mut self,
        owner: &SplitName<'_>,
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
            let name = NameRef::from_wire(rest).expect("RDATA is checked").wire();
            let message_offset = self.message_len + RECORD_HEAD_LEN + self.data.len() - start - 2;
            let is_target = count * names > 1;
            flags = self.compressor.push(owner, apex_len, name, message_offset, is_target, &mut self.data);
            rest = &rest[name.len()..];
        }
        self.data.extend_from_slice(rest);
        let len = self.data.len() - start - 2;
        self.data[start..start + 2].copy_from_slice(&(flags | len as u16).to_be_bytes());
        self.message_len += RECORD_HEAD_LEN + len;
    }

    /// Whether to intern the set: only if it may recur, and if the number is shorter than the data.
    fn is_worth_interning(&self, rtype: Rtype) -> bool {
        self.data.len() > 8 && RECURRING.contains(&rtype)
    }
}
