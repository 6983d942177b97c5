//! Additional section: the addresses of the names in NS, MX, SRV, SVCB and HTTPS records, as far as the zone has them.

use wire::message::Section;
use wire::{NameRef, Rtype};
use zone::Zone;
use zone::canonical_key::CanonicalKey;
use zone::rrset::{MessageOffsets, RECORD_HEAD_LEN, Rrset, ZoneNode};

use crate::message_writer::MessageWriter;
use crate::name_writer::OwnerName;
use crate::qname::Qname;
use crate::targets::{next_head, written_targets};

/// How many records of an RRset get addresses: few messages have room for those of more.
const MAX_TARGETS: usize = 32;

/// Adds the addresses of the targets of `rrset`, written at `at`, as far as they fit (RFC 1035 3.3, RFC 2782,
/// RFC 9460 4.2).
#[inline]
pub(crate) fn add_addresses(
    zone: &Zone,
    qname: &Qname,
    rrset: &Rrset<'_>,
    at: usize,
    dnssec: bool,
    message: &mut MessageWriter<'_>,
) {
    if !matches!(rrset.rtype, Rtype::NS | Rtype::MX | Rtype::SRV | Rtype::SVCB | Rtype::HTTPS) {
        return;
    }
    let key = CanonicalKey::new();
    let mut addresses = TargetAddresses { zone, qname, dnssec, key, message, added: [0; MAX_TARGETS], count: 0 };
    match rrset.rtype {
        Rtype::NS | Rtype::MX => addresses.add_compressed(rrset, at),
        // RFC 2782: priority, weight and port, then the target.
        Rtype::SRV => addresses.add_uncompressed(rrset, at, 6),
        // RFC 9460 2.2: the priority, then the target.
        _ => addresses.add_uncompressed(rrset, at, 2),
    }
}

/// Adds the addresses of the targets of one RRset, each once (RFC 2181 5).
struct TargetAddresses<'a, 'o> {
    zone: &'a Zone,
    qname: &'a Qname,
    dnssec: bool,
    key: CanonicalKey,
    message: &'a mut MessageWriter<'o>,
    /// The targets whose addresses were added, by the memory address of their first RRset.
    added: [usize; MAX_TARGETS],
    count: usize,
}

impl TargetAddresses<'_, '_> {
    fn add_compressed(&mut self, rrset: &Rrset<'_>, at: usize) {
        let mut target = None;
        let mut targets = written_targets(rrset, at);
        for _ in 0..MAX_TARGETS {
            let Some(at) = targets.next_in_zone(self.message.out) else { return };
            let target = target.get_or_insert_with(Qname::new);
            if target.read_compressed(self.message.out, at).is_some() {
                self.add(target.wire(), at);
            }
        }
    }

    /// For targets that follow `skip` octets of the RDATA.
    fn add_uncompressed(&mut self, rrset: &Rrset<'_>, at: usize, skip: usize) {
        let mut at = Some(at);
        for rdata in rrset.opaque().take(MAX_TARGETS) {
            let Some(head) = at else { return };
            let target_at = head + RECORD_HEAD_LEN + skip;
            at = next_head(self.message.out, head, rdata.len());
            match (rrset.rtype, rdata) {
                (Rtype::SRV, _) => self.add(&rdata[skip..], target_at),
                // RFC 9460 2.5.1, 2.5.2: the target "." is the owner in ServiceMode, and nothing in AliasMode.
                (_, [0, 0, 0, ..]) => {}
                (_, [_, _, 0, ..]) => self.add(self.qname.wire(), self.qname.offset(self.qname.labels())),
                _ => self.add(&rdata[skip..], target_at),
            }
        }
    }

    /// Adds the addresses of the name that `target` starts with; the message has it at `target_at`.
    fn add(&mut self, target: &[u8], target_at: usize) {
        let Ok(name) = NameRef::from_wire(target) else { return };
        if !name.is_at_or_below(self.zone.apex()) {
            return;
        }
        self.key.set(name.wire(), self.zone.apex().wire().len());
        let Some(node) = self.zone.get(self.key.as_bytes()) else { return };
        let Some(first) = address_rrsets(&node).next() else { return };
        if self.added[..self.count].contains(&first.address()) {
            return;
        }
        self.added[self.count] = first.address();
        self.count += 1;
        // RFC 2181 9: addresses that do not fit are left out, without TC.
        let apex = self.qname.offset(self.zone.apex_labels());
        push_addresses(&node, MessageOffsets { owner: target_at, apex }, self.dnssec, self.message);
    }
}

/// Adds the addresses of a node to the additional section; returns whether they all fit, signatures included.
///
/// RFC 4035 3.1.1: with signatures if the zone is authoritative for them; without where those do not fit.
pub(crate) fn push_addresses(
    node: &ZoneNode<'_>,
    offsets: MessageOffsets,
    dnssec: bool,
    message: &mut MessageWriter<'_>,
) -> bool {
    let signatures = dnssec && !node.is_occluded() && !node.is_cut();
    let mut all_fit = true;
    let mut owner = OwnerName::at(offsets);
    for rrset in address_rrsets(node) {
        let mut push = |signatures| message.push(Section::Additional, &rrset, &mut owner, signatures).is_ok();
        if !push(signatures) {
            all_fit = false;
            if signatures {
                push(false);
            }
        }
    }
    all_fit
}

/// The A and AAAA RRsets of a node; none below a DNAME (RFC 6672 2.4).
fn address_rrsets<'z>(node: &ZoneNode<'z>) -> impl Iterator<Item = Rrset<'z>> + use<'z> {
    let is_hidden = node.is_below_dname();
    node.rrsets().filter(move |rrset| matches!(rrset.rtype, Rtype::A | Rtype::AAAA) && rrset.count > 0 && !is_hidden)
}
