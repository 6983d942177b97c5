//! Denial of existence by NSEC records (RFC 4035 3.1.3).

use wire::Rtype;
use zone::Zone;
use zone::canonical_key::CanonicalKey;
use zone::tree::{TreeCursor, TreeEntry};

use super::{DenialProofs, Denied, MAX_SKIPPED};
use crate::qname::Qname;
use crate::zone_cut::{ZonePosition, find_occluding_cut};

/// Collects the NSEC records that prove `denied`.
pub(super) fn prove<'z>(proofs: &mut DenialProofs<'z>, zone: &'z Zone, qname: &mut Qname, denied: Denied<'_, 'z>) {
    match denied {
        // RFC 4035 3.1.3.1, 3.1.4.1: the name's own record.
        Denied::Type { name, .. } => proofs.add(zone, qname, name.node.rrset(Rtype::NSEC).map(|_| name.entry)),
        // RFC 4035 3.1.3.3: no closer match than the wildcard.
        Denied::EmptyNonTerminal { predecessor } | Denied::WildcardAnswer { predecessor, .. } => {
            proofs.add(zone, qname, covering(zone, predecessor.clone()));
        }
        // RFC 4035 3.1.3.2, 3.1.3.4: the record that covers the name, and the one that covers or matches the wildcard.
        Denied::Name { encloser_len, predecessor } | Denied::WildcardType { encloser_len, predecessor } => {
            proofs.add(zone, qname, covering(zone, predecessor.clone()));
            qname.set_wildcard_key(encloser_len);
            proofs.add(zone, qname, covering(zone, zone.seek(qname.key())));
        }
    }
}

/// The entry whose NSEC record covers or matches the name that `cursor` was sought for.
fn covering<'z>(zone: &'z Zone, cursor: TreeCursor<'z>) -> Option<TreeEntry<'z>> {
    let mut position = ZonePosition::new(zone, cursor)?;
    for _ in 0..MAX_SKIPPED {
        if position.node.rrset(Rtype::NSEC).is_some() {
            return Some(position.entry);
        }
        position = if position.node.is_occluded() {
            // Glue has no NSEC record, its cut has; there may be any number of entries between them.
            let mut key = CanonicalKey::new();
            position.entry.copy_key(&mut key);
            find_occluding_cut(zone, &position, key.as_bytes())?
        } else {
            position.cursor.prev()?;
            ZonePosition::new(zone, position.cursor)?
        };
    }
    None
}
