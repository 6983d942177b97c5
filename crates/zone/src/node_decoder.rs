//! Decodes the records of a node from their stored form, for changes, comparisons and rebuilds.

use wire::{NameRef, Rtype};

use crate::rrset::{PointerBases, ZoneNode};
use crate::stage::StagedRecord;

/// Decodes nodes, reusing its buffers.
#[derive(Default)]
pub(crate) struct NodeDecoder {
    rdata: Vec<u8>,
    /// Type, TTL and the end of the RDATA of each record.
    records: Vec<(Rtype, u32, usize)>,
}

impl NodeDecoder {
    /// All records of a node, signatures included.
    pub(crate) fn decode(
        &mut self,
        node: ZoneNode<'_>,
        owner: NameRef<'_>,
        apex: NameRef<'_>,
    ) -> Vec<StagedRecord<'_>> {
        self.rdata.clear();
        self.records.clear();
        for rrset in node.rrsets() {
            for stored in rrset.stored() {
                rrset.append_rdata(&stored, PointerBases { owner, apex }, &mut self.rdata);
                self.records.push((rrset.rtype, rrset.ttl, self.rdata.len()));
            }
            for rdata in rrset.signatures().rdatas() {
                rdata.append(&mut self.rdata);
                self.records.push((Rtype::RRSIG, rrset.ttl, self.rdata.len()));
            }
        }
        let mut start = 0;
        let record = |&(rtype, ttl, end): &(Rtype, u32, usize)| {
            let rdata = &self.rdata[start..end];
            start = end;
            StagedRecord { rtype, ttl, rdata, file: 0, line: 0 }
        };
        self.records.iter().map(record).collect()
    }
}
