//! Authenticated denial of existence: which NSEC or NSEC3 records a response needs.

mod nsec;
mod nsec3;

use wire::Rtype;
use wire::message::Section;
use zone::tree::{TreeCursor, TreeEntry};
use zone::{Denial, Zone};

use crate::alias_limit::MAX_CNAMES;
use crate::message_writer::{Full, MessageWriter};
use crate::name_writer::OwnerName;
use crate::qname::Qname;
use crate::zone_cut::ZonePosition;
use nsec3::{Nsec3Cost, Nsec3Prover};

/// What a response denies, or that its records are a wildcard's. `predecessor` is the cursor at the name's predecessor, and
/// `encloser_len` the length of the closest encloser's key.
pub(crate) enum Denied<'d, 'z> {
    /// The last `labels` labels of the name exist, without the type: NODATA, or a cut without DS.
    Type { labels: usize, name: &'d ZonePosition<'z> },
    /// The name is an empty non-terminal.
    EmptyNonTerminal { predecessor: &'d TreeCursor<'z> },
    /// Neither the name nor a wildcard for it exists: NXDOMAIN.
    Name { encloser_len: usize, predecessor: &'d TreeCursor<'z> },
    /// A wildcard answers; the name itself does not exist.
    WildcardAnswer { encloser_len: usize, predecessor: &'d TreeCursor<'z> },
    /// The name does not exist, and its wildcard lacks the type.
    WildcardType { encloser_len: usize, predecessor: &'d TreeCursor<'z> },
}

/// The NSEC or NSEC3 records that a response needs, each once. Collected during the lookup, written after the answers.
pub(crate) struct DenialProofs<'z> {
    list: [Option<ProofRecord<'z>>; MAX_PROOFS],
    len: usize,
    written: usize,
    /// More than [`MAX_PROOFS`] were needed: the response lacks some.
    overflowed: bool,
    pub(crate) cost: Nsec3Cost,
}

/// Three for the last name (RFC 5155 7.2.2, 7.2.5), and one for each alias before it that is a wildcard's (RFC 4035 3.1.3.3, RFC 5155 7.2.6).
const MAX_PROOFS: usize = MAX_CNAMES - 1 + 3;

/// How many entries a search for a covering record passes that are not part of the chain.
const MAX_SKIPPED: usize = 64;

#[derive(Clone, Copy)]
struct ProofRecord<'z> {
    zone: &'z Zone,
    entry: TreeEntry<'z>,
    /// Where the message has the apex of the zone.
    apex: usize,
}

impl<'z> DenialProofs<'z> {
    pub(crate) fn new() -> DenialProofs<'z> {
        DenialProofs { list: [None; MAX_PROOFS], len: 0, written: 0, overflowed: false, cost: Nsec3Cost::default() }
    }

    /// Collects the records that prove `denied` for `qname`, if the zone is signed. The key of `qname` may change.
    #[inline]
    pub(crate) fn prove(&mut self, zone: &'z Zone, qname: &mut Qname, denied: Denied<'_, 'z>) {
        match zone.denial() {
            Denial::None => {}
            Denial::Nsec => nsec::prove(self, zone, qname, denied),
            Denial::Nsec3(chain) => Nsec3Prover { proofs: self, zone, chain, qname }.prove(denied),
        }
    }

    fn add(&mut self, zone: &'z Zone, qname: &Qname, entry: Option<TreeEntry<'z>>) {
        let Some(entry) = entry else { return };
        let is_same = |proof: &ProofRecord<'_>| std::ptr::eq(proof.entry.value, entry.value);
        if self.list[..self.len].iter().flatten().any(is_same) {
            return;
        }
        match self.list.get_mut(self.len) {
            Some(free) => {
                *free = Some(ProofRecord { zone, entry, apex: qname.offset(zone.apex_labels()) });
                self.len += 1;
            }
            None => self.overflowed = true,
        }
    }

    /// Writes the records collected since the last call.
    #[inline(always)]
    pub(crate) fn write(&mut self, message: &mut MessageWriter<'_>) -> Result<(), Full> {
        if self.written < self.len {
            self.write_new(message)?;
        }
        if self.overflowed || self.cost.too_high { Err(Full) } else { Ok(()) }
    }

    fn write_new(&mut self, message: &mut MessageWriter<'_>) -> Result<(), Full> {
        for proof in self.list[self.written..self.len].iter().flatten() {
            let node = proof.zone.node(&proof.entry);
            let rtype = if *proof.zone.denial() == Denial::Nsec { Rtype::NSEC } else { Rtype::NSEC3 };
            let Some(rrset) = node.rrset(rtype) else { continue };
            let mut owner = OwnerName::of_entry(proof.zone, &proof.entry, proof.apex);
            message.push(Section::Authority, &rrset, &mut owner, true)?;
        }
        self.written = self.len;
        Ok(())
    }
}
