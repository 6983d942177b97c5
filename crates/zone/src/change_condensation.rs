//! Condensation of changes (RFC 1995 4): one change in place of several.

use std::collections::BTreeSet;

use crate::encoded_change::EncodedChange;

impl EncodedChange {
    /// One change for several consecutive ones, from old to new; `None` if there is none, or if they are
    /// not consecutive. Records must have the same octets in all changes, as those from [`EncodedChange::between`] have.
    pub fn condense(changes: &[EncodedChange]) -> Option<EncodedChange> {
        let (first, last) = (changes.first()?, changes.last()?);
        if changes.windows(2).any(|pair| pair[0].to_serial() != pair[1].from_serial()) {
            return None;
        }
        let (mut removed, mut added) = (BTreeSet::new(), BTreeSet::new());
        for change in changes {
            change.removed().for_each_bytes(|record| {
                if !added.remove(record) {
                    removed.insert(record);
                }
            });
            change.added().for_each_bytes(|record| {
                if !removed.remove(record) {
                    added.insert(record);
                }
            });
        }
        let mut bytes = Vec::new();
        first.old_soa().append(&mut bytes);
        removed.into_iter().for_each(|record| bytes.extend_from_slice(record));
        let new_soa = bytes.len();
        last.new_soa().append(&mut bytes);
        added.into_iter().for_each(|record| bytes.extend_from_slice(record));
        Some(EncodedChange::from_parts(bytes, new_soa, [first.from_serial(), last.to_serial()]))
    }
}
