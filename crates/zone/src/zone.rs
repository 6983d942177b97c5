//! One version of a zone: immutable, sharing all that did not change with the versions before it.

use std::sync::Arc;

use wire::{Name, NameRef, Rtype};

use crate::canonical_key::{CanonicalKey, write_labels};
use crate::case::{self, Case};
use crate::rrset::{Rrset, ZoneNode};
use crate::tables::Tables;
use crate::tree::{Tree, TreeCursor, TreeEntry};

/// A zone as it is served.
#[derive(Clone)]
pub struct Zone {
    /// In lower case.
    pub(crate) apex: Name,
    /// All owners but those of NSEC3 records.
    pub(crate) names: Tree,
    pub(crate) tables: Arc<Tables>,
    /// `None`: the zone is not signed. Most zones are small and are not: they are not to pay for it.
    pub(crate) proofs: Option<Arc<Proofs>>,
    pub(crate) has_wildcards: bool,
    pub(crate) apex_has_upper_case: bool,
    pub(crate) apex_labels: u8,
    /// How many entries were edited since the tables were made.
    pub(crate) edits: u32,
}

/// What proves that something is not there.
pub(crate) struct Proofs {
    pub(crate) denial: Denial,
    /// The owners of NSEC3 records: one hash label each.
    pub(crate) nsec3: Tree,
}

/// How a zone proves that something is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Denial {
    /// Not at all: the zone is not signed.
    #[default]
    None,
    /// By NSEC records (RFC 4034 4).
    Nsec,
    /// By NSEC3 records (RFC 5155), hashed so.
    Nsec3 {
        /// Additional iterations.
        iterations: u16,
        /// The salt.
        salt: Box<[u8]>,
    },
}

/// How much a zone holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Owner names, with those of NSEC3 records.
    pub names: u64,
    /// Records, as the zone text has them, each once.
    pub records: u64,
}

impl Zone {
    /// The apex, in lower case.
    #[inline]
    pub fn apex(&self) -> NameRef<'_> {
        self.apex.as_ref()
    }

    /// How many labels the apex has.
    #[inline]
    pub fn apex_labels(&self) -> usize {
        self.apex_labels.into()
    }

    /// The serial of the SOA record (RFC 1035 3.3.13).
    pub fn serial(&self) -> u32 {
        soa_numbers(&self.soa())[0]
    }

    /// How many seconds a secondary may serve the zone without hearing of it (RFC 1035 3.3.13).
    pub fn expire_s(&self) -> u32 {
        soa_numbers(&self.soa())[3]
    }

    /// The SOA RRset.
    #[inline]
    pub fn soa(&self) -> Rrset<'_> {
        self.apex_node().rrset(Rtype::SOA).expect("a zone is only made with a SOA record at its apex")
    }

    /// The SOA RRset and the TTL that it has in negative answers: the lesser of its own and its last field (RFC 2308 5).
    #[inline]
    pub fn negative_soa(&self) -> (Rrset<'_>, u32) {
        let soa = self.soa();
        (soa, soa.ttl.min(soa_numbers(&soa)[4]))
    }

    /// The node of the apex.
    #[inline]
    pub fn apex_node(&self) -> ZoneNode<'_> {
        self.node(&self.apex_entry())
    }

    /// A cursor at the owner with this key (see [`crate::canonical_key`]) or at its predecessor.
    #[inline]
    pub fn seek(&self, key: &[u8]) -> TreeCursor<'_> {
        self.names.seek(key)
    }

    /// Whether it is so big that [`Self::prefetch`] is worth its while.
    #[inline]
    pub fn is_big(&self) -> bool {
        self.names.is_deep()
    }

    /// Has the processor fetch what a search for this key begins with; does not wait for it.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        self.names.prefetch(key);
    }

    /// The node of the owner with this key.
    pub fn get(&self, key: &[u8]) -> Option<ZoneNode<'_>> {
        self.names.get(key).map(|value| ZoneNode::new(value, &self.tables))
    }

    /// A cursor at the NSEC3 owner with this key, the hash label, or at its predecessor.
    #[inline]
    pub fn seek_nsec3(&self, key: &[u8]) -> TreeCursor<'_> {
        self.nsec3().seek(key)
    }

    /// A cursor at the last NSEC3 owner.
    pub fn last_nsec3(&self) -> TreeCursor<'_> {
        // No base32hex digit is as great.
        self.nsec3().seek(&[0xff])
    }

    /// The RRsets behind a cursor's entry.
    #[inline]
    pub fn node<'z>(&'z self, entry: &TreeEntry<'z>) -> ZoneNode<'z> {
        ZoneNode::new(entry.value, &self.tables)
    }

    /// All owners with their RRsets: the apex first, then in canonical order, then those of NSEC3 records.
    pub fn nodes(&self) -> impl Iterator<Item = (TreeEntry<'_>, ZoneNode<'_>)> {
        self.names.iter().chain(self.nsec3().iter()).map(|entry| (entry, self.node(&entry)))
    }

    /// How the zone proves what is not there.
    #[inline]
    pub fn denial(&self) -> &Denial {
        self.proofs.as_ref().map_or(&Denial::None, |proofs| &proofs.denial)
    }

    /// The owners of NSEC3 records: one hash label each.
    pub(crate) fn nsec3(&self) -> &Tree {
        static EMPTY: Tree = Tree::empty();
        self.proofs.as_ref().map_or(&EMPTY, |proofs| &proofs.nsec3)
    }

    /// Whether any owner has a label `*`: it makes a wildcard, be it an empty non-terminal (RFC 4592 2.2.3).
    #[inline]
    pub fn has_wildcards(&self) -> bool {
        self.has_wildcards
    }

    /// How much it holds; walks through all of it.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (_, node) in self.nodes() {
            counts.names += 1;
            counts.records += node.rrsets().map(|set| (set.count + set.signatures().count) as u64).sum::<u64>();
        }
        counts
    }

    /// How many octets it has on the heap, shared parts included, without the allocator's overhead.
    pub fn heap_size(&self) -> usize {
        self.names.heap_size() + self.nsec3().heap_size() + self.tables.heap_size() + self.apex.wire().len()
    }

    /// The entry of the apex.
    #[inline]
    pub fn apex_entry(&self) -> TreeEntry<'_> {
        self.names.first().expect("a zone is only made with an apex")
    }

    /// Whether the apex has upper-case letters in the zone text.
    #[inline]
    pub fn apex_has_upper_case(&self) -> bool {
        self.apex_has_upper_case
    }

    /// Whether the owner of this node has, be it in the labels of the apex.
    #[inline]
    pub fn has_upper_case(&self, node: &ZoneNode<'_>) -> bool {
        self.apex_has_upper_case || node.has_upper_case()
    }

    /// The owner name of an entry as the zone text has it.
    pub fn owner(&self, entry: &TreeEntry<'_>) -> Name {
        let mut out = [0; OWNER_BUFFER_LEN];
        let (_, len) = self.write_owner(entry, None, &mut out);
        NameRef::from_wire(&out[..len]).expect("keys are made from names").to_owned()
    }

    /// Writes the owner name of an entry as the zone text has it, the apex as a pointer to this offset of a message or else
    /// in full. Returns how many octets the labels below the apex take, and how many all.
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
        case::apply(entry.value, &mut out[..labels]);
        let end = match apex {
            // The root label is shorter than a pointer, which a record without other labels begins with nevertheless.
            Some(apex) if labels == 0 || !self.apex.as_ref().is_root() => {
                out[labels..labels + 2].copy_from_slice(&(0xc000 | apex as u16).to_be_bytes());
                labels + 2
            }
            _ => labels + self.write_apex(&mut out[labels..]),
        };
        (labels, end)
    }

    #[cold]
    fn write_apex(&self, out: &mut [u8]) -> usize {
        let len = self.apex.wire().len();
        out[..len].copy_from_slice(self.apex.wire());
        if self.apex_has_upper_case {
            case::apply(self.apex_entry().value, &mut out[..len]);
        }
        len
    }
}

/// Room for a name that is made of a key: what keys escape takes two octets in them.
pub const OWNER_BUFFER_LEN: usize = 2 * wire::MAX_NAME_LEN;

/// Serial, refresh, retry, expire, minimum: the last twenty octets of the SOA RDATA (RFC 1035 3.3.13).
#[inline]
fn soa_numbers(soa: &Rrset<'_>) -> [u32; 5] {
    let stored = soa.stored().next().expect("a SOA RRset has a record").bytes;
    let numbers = stored.last_chunk::<20>().expect("SOA RDATA ends in five numbers").as_chunks::<4>().0;
    std::array::from_fn(|index| u32::from_be_bytes(numbers[index]))
}

/// The name that a key stands for below `apex`.
pub(crate) fn name_of_key(key: &[u8], apex: NameRef<'_>) -> Name {
    write_name(key, Case::LOWER, apex, &mut [0; _]).to_owned()
}

/// Writes the name that a key stands for below `apex`, with its labels in this case.
#[inline]
pub(crate) fn write_name<'o>(
    key: &[u8],
    case: Case<'_>,
    apex: NameRef<'_>,
    out: &'o mut [u8; OWNER_BUFFER_LEN],
) -> NameRef<'o> {
    let len = write_labels(key, out);
    case.apply(&mut out[..len]);
    let end = len + apex.wire().len();
    out[len..end].copy_from_slice(apex.wire());
    NameRef::from_wire(&out[..end]).expect("keys are made from names")
}
