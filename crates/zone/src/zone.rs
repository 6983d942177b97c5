//! A version of a zone: immutable; unchanged parts are shared with previous versions.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use wire::{Name, NameRef, Rtype};

use crate::canonical_key::{CanonicalKey, write_labels};
use crate::denial::Denial;
use crate::intern::InternTables;
use crate::owner_case::{self, OWNER_BUFFER_LEN};
use crate::rrset::{PointerBases, Rrset, StoredRdata, ZoneNode};
use crate::tree::{Leaf, Tree, TreeCursor, TreeEntry, TreeRef};

/// A version of a zone.
#[derive(Clone)]
pub struct Zone {
    /// In lower case.
    pub(crate) apex: Name,
    pub(crate) content: ZoneContent,
    pub(crate) version: ZoneVersion,
    /// The serial, which the records lack of a zone that is small, or was until the last change of its apex. Until
    /// [`Self::with_serial_apart`], the last step of making a version, it is that of the version before.
    pub(crate) serial: u32,
    /// Entries edited since the intern tables were built. A tree of one leaf gains nothing by new ones: there it is 0.
    pub(crate) edits: u32,
}

// A server may have a million zones.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Zone>() <= 56);

/// What a zone consists of.
#[derive(Clone)]
pub(crate) enum ZoneContent {
    /// The only leaf of a zone without tables. A million small unsigned zones take no pointer to tables, which would be the same for all.
    Leaf(Leaf),
    Trees(Arc<ZoneTrees>),
}

/// The trees of a zone, and its tables.
pub(crate) struct ZoneTrees {
    /// All owners except those of NSEC3 records.
    names: Tree,
    /// The owners of NSEC3 records, by their hash label.
    nsec3: Tree,
    interned: Arc<InternTables>,
    denial: Denial,
}

/// What a zone of one leaf has besides.
static ONLY_LEAF: LazyLock<ZoneTrees> = LazyLock::new(|| ZoneTrees {
    names: Tree::empty(),
    nsec3: Tree::empty(),
    interned: InternTables::default().shared(),
    denial: Denial::None,
});

impl ZoneContent {
    pub(crate) fn new(names: Tree, nsec3: Tree, interned: Arc<InternTables>, denial: Denial) -> ZoneContent {
        let has_no_tables =
            Arc::ptr_eq(&interned, &ONLY_LEAF.interned) && denial == Denial::None && nsec3.as_ref().is_empty();
        match names.only_leaf() {
            Some(leaf) if has_no_tables => ZoneContent::Leaf(leaf.clone()),
            _ => ZoneContent::Trees(Arc::new(ZoneTrees { names, nsec3, interned, denial })),
        }
    }

    #[inline]
    fn trees(&self) -> &ZoneTrees {
        match self {
            ZoneContent::Leaf(_) => &ONLY_LEAF,
            ZoneContent::Trees(trees) => trees,
        }
    }
}

/// The number of a version: no two versions of any zone in this process have the same. Its lowest octets are properties of the zone,
/// which so take no room of their own: the number of labels of the apex, and flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ZoneVersion(pub u64);

/// A flag of a [`ZoneVersion`]: an owner has a label `*`.
const HAS_WILDCARDS: u64 = 1 << 8;
/// A flag of a [`ZoneVersion`].
const APEX_HAS_UPPER_CASE: u64 = 1 << 9;
/// The octets of a [`ZoneVersion`] for properties, as bits.
const PROPERTY_BITS: u32 = 16;

impl ZoneVersion {
    /// A number that no version has yet; never that of `ZoneVersion::default()`.
    pub(crate) fn next(apex: NameRef<'_>, apex_has_upper_case: bool, has_wildcards: bool) -> ZoneVersion {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // 48 bits do not wrap within the life of a process: a million versions a second last nine years.
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(has_wildcards, HAS_WILDCARDS) | flag(apex_has_upper_case, APEX_HAS_UPPER_CASE);
        ZoneVersion(number << PROPERTY_BITS | flags | apex.label_count() as u64)
    }
}

/// The size of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Owner names, except those of NSEC3 records, which all change with the salt.
    pub names: u64,
    /// Records, without duplicates.
    pub records: u64,
}

impl Counts {
    fn add(&mut self, node: &ZoneNode<'_>, is_name: bool) {
        self.names += u64::from(is_name);
        self.records += node.record_count();
    }

    fn remove(&mut self, node: &ZoneNode<'_>, is_name: bool) {
        self.names -= u64::from(is_name);
        self.records -= node.record_count();
    }
}

impl Zone {
    /// The apex, in lower case.
    #[inline]
    pub fn apex(&self) -> NameRef<'_> {
        self.apex.as_ref()
    }

    /// The number of labels of the apex.
    #[inline]
    pub fn apex_labels(&self) -> usize {
        usize::from(self.version.0 as u8)
    }

    /// Identifies this version among all versions of all zones.
    #[inline]
    pub fn version(&self) -> ZoneVersion {
        self.version
    }

    /// The serial of the SOA record (RFC 1035 3.3.13).
    #[inline]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// The expire field of the SOA record, in seconds (RFC 1035 3.3.13).
    pub fn expire_s(&self) -> u32 {
        self.soa().soa_numbers()[3]
    }

    /// The SOA RRset.
    #[inline]
    pub fn soa(&self) -> Rrset<'_> {
        self.apex_node().rrset(Rtype::SOA).expect("the build checks that the apex has a SOA record")
    }

    /// The RDATA of the SOA record, with uncompressed names.
    pub fn soa_rdata(&self) -> Vec<u8> {
        let (soa, apex, mut rdata) = (self.soa(), self.owner(&self.apex_entry()), Vec::new());
        let bases = PointerBases { owner: apex.as_ref(), apex: apex.as_ref() };
        soa.stored().take(1).for_each(|stored| soa.append_rdata(&stored, bases, &mut rdata));
        rdata
    }

    /// The RDATA of the records of this type at a name, with uncompressed names; none if the zone does not have the name.
    pub fn rdatas(&self, owner: NameRef<'_>, rtype: Rtype) -> Vec<Vec<u8>> {
        if !owner.is_at_or_below(self.apex()) {
            return Vec::new();
        }
        let key = CanonicalKey::from_name(owner, self.apex().wire().len());
        let Some(rrset) = self.get(key.as_bytes()).and_then(|node| node.rrset(rtype)) else { return Vec::new() };
        let bases = PointerBases { owner, apex: self.apex() };
        let rdata = |stored: StoredRdata<'_>| {
            let mut rdata = Vec::new();
            rrset.append_rdata(&stored, bases, &mut rdata);
            rdata
        };
        rrset.stored().map(rdata).collect()
    }

    /// The SOA RRset and its TTL in negative answers: the lower of its TTL and its minimum field (RFC 2308 5).
    #[inline]
    pub fn negative_soa(&self) -> (Rrset<'_>, u32) {
        let soa = self.soa();
        (soa, soa.ttl.min(soa.soa_numbers()[4]))
    }

    /// The node of the apex.
    #[inline]
    pub fn apex_node(&self) -> ZoneNode<'_> {
        self.node(&self.apex_entry())
    }

    /// A cursor at the owner with this [key](crate::canonical_key), or at its predecessor.
    #[inline]
    pub fn seek(&self, key: &[u8]) -> TreeCursor<'_> {
        self.names().seek(key)
    }

    /// Whether the zone is large enough for [`Self::prefetch`] to pay off.
    #[inline]
    pub fn is_big(&self) -> bool {
        self.names().is_deep()
    }

    /// Prefetches the leaf that a search for this key reads first, without waiting for it.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        self.names().prefetch(key);
    }

    /// The node of the owner with this key.
    pub fn get(&self, key: &[u8]) -> Option<ZoneNode<'_>> {
        self.names().get(key).map(|value| ZoneNode::new(value, self.interned(), self.serial))
    }

    /// A cursor at the NSEC3 owner with this key (its hash label), or at its predecessor.
    #[inline]
    pub fn seek_nsec3(&self, key: &[u8]) -> TreeCursor<'_> {
        self.nsec3().seek(key)
    }

    /// A cursor at the last NSEC3 owner.
    pub fn last_nsec3(&self) -> TreeCursor<'_> {
        // Greater than any base32hex digit.
        self.nsec3().seek(&[0xff])
    }

    /// The node of an entry.
    #[inline]
    pub fn node<'z>(&'z self, entry: &TreeEntry<'z>) -> ZoneNode<'z> {
        ZoneNode::new(entry.value, self.interned(), self.serial)
    }

    /// All nodes: in canonical order, the apex first; then those of NSEC3 records.
    pub fn nodes(&self) -> impl Iterator<Item = (TreeEntry<'_>, ZoneNode<'_>)> {
        self.names().iter().chain(self.nsec3().iter()).map(|entry| (entry, self.node(&entry)))
    }

    /// How the zone denies existence.
    #[inline]
    pub fn denial(&self) -> &Denial {
        &self.content.trees().denial
    }

    /// All owners except those of NSEC3 records.
    #[inline]
    pub(crate) fn names(&self) -> TreeRef<'_> {
        match &self.content {
            ZoneContent::Leaf(leaf) => leaf.as_tree(),
            ZoneContent::Trees(trees) => trees.names.as_ref(),
        }
    }

    /// The owners of NSEC3 records, by their hash label.
    #[inline]
    pub(crate) fn nsec3(&self) -> TreeRef<'_> {
        self.content.trees().nsec3.as_ref()
    }

    /// The tables that the nodes refer to.
    #[inline]
    pub(crate) fn interned(&self) -> &Arc<InternTables> {
        &self.content.trees().interned
    }

    /// Whether any owner has a label `*`: such a zone has a wildcard, possibly an empty non-terminal (RFC 4592 2.2.3).
    #[inline]
    pub fn has_wildcards(&self) -> bool {
        self.version.0 & HAS_WILDCARDS != 0
    }

    /// The size of the zone; visits every node.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (tree, is_name) in [(self.names(), true), (self.nsec3(), false)] {
            tree.iter().for_each(|entry| counts.add(&self.node(&entry), is_name));
        }
        counts
    }

    /// The size of the zone, a later version of `base`, whose size is known; visits what they do not share.
    pub fn counts_after(&self, base: &Zone, mut counts: Counts) -> Counts {
        // With other tables, a leaf that both have may mean other records: small leaves are shared by their octets alone.
        if !Arc::ptr_eq(self.interned(), base.interned()) {
            return self.counts();
        }
        for (old, new, is_name) in [(base.names(), self.names(), true), (base.nsec3(), self.nsec3(), false)] {
            old.compare(new, true, |old, new| {
                new.iter().for_each(|entry| counts.add(&self.node(entry), is_name));
                old.iter().for_each(|entry| counts.remove(&base.node(entry), is_name));
            });
        }
        counts
    }

    /// How many of the names that [`Counts`] counts in `base`, an earlier version, this one lacks; visits what they do not share.
    pub fn missing_names(&self, base: &Zone) -> u64 {
        let mut missing = 0;
        // Leaves that both share have the same keys, whatever their tables.
        base.names().compare(self.names(), true, |old, new| missing += u64::from(old.is_some() && new.is_none()));
        missing
    }

    /// The same version with its own serial; apart from its records if it is small, so that zones that differ in nothing else share these.
    pub(crate) fn with_serial_apart(mut self) -> Zone {
        self.serial = self.soa().soa_numbers()[0];
        if let ZoneContent::Leaf(leaf) = &self.content
            && leaf.is_shareable()
            && let Some(apex) = self.apex_node().without_serial()
        {
            self.content = ZoneContent::Leaf(leaf.with_first_value(&apex));
        }
        self
    }

    /// The tree of names with the serial among the records.
    pub(crate) fn names_with_serial(&self) -> Tree {
        match self.apex_node().with_serial() {
            Cow::Borrowed(_) => self.names().to_tree(),
            Cow::Owned(apex) => self.names().with_first_value(apex.into()),
        }
    }

    /// The heap size in octets, including shared parts, without allocator overhead.
    pub fn heap_size(&self) -> usize {
        self.names().heap_size() + self.nsec3().heap_size() + self.interned().heap_size() + self.apex.wire().len()
    }

    /// The entry of the apex.
    #[inline]
    pub fn apex_entry(&self) -> TreeEntry<'_> {
        self.names().first().expect("the build checks that the zone has an apex")
    }

    /// Whether the apex has upper-case letters.
    #[inline]
    pub fn apex_has_upper_case(&self) -> bool {
        self.version.0 & APEX_HAS_UPPER_CASE != 0
    }

    /// Whether the owner of this node has upper-case letters, in the labels of the apex or below.
    #[inline]
    pub fn has_upper_case(&self, node: &ZoneNode<'_>) -> bool {
        self.apex_has_upper_case() || node.has_upper_case()
    }

    /// The owner name of an entry, in its original case.
    pub fn owner(&self, entry: &TreeEntry<'_>) -> Name {
        let mut out = [0; OWNER_BUFFER_LEN];
        let (_, len) = self.write_owner(entry, None, &mut out);
        NameRef::from_wire(&out[..len]).expect("keys represent valid names").to_owned()
    }

    /// Writes the owner name of an entry in its original case; the apex as a compression pointer to the given message offset, or in
    /// full if there is none. Returns the length of the labels below the apex, and the total length.
    #[inline]
    pub fn write_owner(
        &self,
        entry: &TreeEntry<'_>,
        apex: Option<usize>,
        out: &mut [u8; OWNER_BUFFER_LEN],
    ) -> (usize, usize) {
        let mut key = CanonicalKey::new();
        entry.copy_key(&mut key);
        let labels = write_labels(key.as_bytes(), out);
        owner_case::apply(entry.value, &mut out[..labels]);
        (labels, labels + self.write_apex(labels, apex, &mut out[labels..]))
    }

    /// Writes the end of an owner name, after its labels of this length below the apex: a compression pointer to the apex at the given
    /// message offset, or the apex if there is none. Returns the length.
    #[inline]
    pub(crate) fn write_apex(&self, labels: usize, apex: Option<usize>, out: &mut [u8]) -> usize {
        match apex {
            // The root label is shorter than a pointer, but a record owned by the apex starts with a pointer in any case.
            Some(apex) if labels == 0 || !self.apex.as_ref().is_root() => {
                out[..2].copy_from_slice(&(0xc000 | apex as u16).to_be_bytes());
                2
            }
            _ => self.write_whole_apex(out),
        }
    }

    #[cold]
    fn write_whole_apex(&self, out: &mut [u8]) -> usize {
        let len = self.apex.wire().len();
        out[..len].copy_from_slice(self.apex.wire());
        if self.apex_has_upper_case() {
            owner_case::apply(self.apex_entry().value, &mut out[..len]);
        }
        len
    }
}
