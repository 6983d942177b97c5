//! The apexes of a million zones by zone index, without an allocation for each.

use wire::NameRef;

/// Names by index.
#[derive(Default)]
pub(super) struct ApexTable {
    /// The names one after the other, with dead ones between them.
    octets: Vec<u8>,
    /// The offset of each name, or [`NONE`].
    offsets: Vec<u32>,
    dead: usize,
}

const NONE: u32 = u32::MAX;
/// Dead octets that are always tolerated.
const MIN_DEAD: usize = 64 << 10;

impl ApexTable {
    /// Sets the name of a zone.
    pub(super) fn insert(&mut self, index: u32, apex: NameRef<'_>) {
        self.remove(index);
        if self.offsets.len() <= index as usize {
            self.offsets.resize(index as usize + 1, NONE);
        }
        self.offsets[index as usize] = self.octets.len() as u32;
        self.octets.extend_from_slice(apex.wire());
    }

    pub(super) fn remove(&mut self, index: u32) {
        let Some(len) = self.get(index).map(|name| name.wire().len()) else { return };
        self.offsets[index as usize] = NONE;
        self.dead += len;
        if self.dead > MIN_DEAD && self.dead > self.octets.len() / 2 {
            self.compact();
        }
    }

    pub(super) fn get(&self, index: u32) -> Option<NameRef<'_>> {
        let offset = self.offsets.get(index as usize).copied().filter(|offset| *offset != NONE)?;
        NameRef::from_wire(&self.octets[offset as usize..]).ok()
    }

    fn compact(&mut self) {
        let mut octets = Vec::with_capacity(self.octets.len() - self.dead);
        for index in 0..self.offsets.len() as u32 {
            let Some(name) = self.get(index).map(NameRef::wire) else { continue };
            let offset = octets.len() as u32;
            octets.extend_from_slice(name);
            // `get` reads the old octets at old offsets: this index is not read again.
            self.offsets[index as usize] = offset;
        }
        (self.octets, self.dead) = (octets, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Name;

    #[test]
    fn names_are_kept_while_others_come_and_go() {
        let mut table = ApexTable::default();
        let name = |index: u32| -> Name { format!("zone{index}.example").parse().expect("a name") };
        (0..20_000).for_each(|index| table.insert(index, name(index).as_ref()));
        (0..20_000).filter(|index| index % 7 != 0).for_each(|index| table.remove(index));
        assert!(table.octets.len() < 20_000 * 20 / 2, "compacted: {}", table.octets.len());
        table.insert(3, name(33).as_ref());
        for index in 0..20_000 {
            let expected = if index == 3 { Some(name(33)) } else { (index % 7 == 0).then(|| name(index)) };
            assert_eq!(table.get(index), expected.as_ref().map(Name::as_ref), "{index}");
        }
        assert_eq!(table.get(30_000), None);
    }
}
