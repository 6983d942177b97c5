//! Catalog zones (RFC 9432): reading the members of one, and the records that list a member.
//!
//! A member is `LABEL.zones.CATALOG PTR MEMBER`; the unique label identifies it. Its properties are below that name. Records
//! that no property here knows are ignored (RFC 9432 4.2).

use std::collections::BTreeSet;

use wire::{Name, NameRef, Rtype};

use crate::canonical_key::{CanonicalKey, write_labels};
use crate::node_decoder::NodeDecoder;
use crate::tree::TreeEntry;
use crate::zone::Zone;

/// A zone that a catalog lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogMember {
    /// The label below `zones.CATALOG`, in lower case. If it changes, the state of the zone is reset (RFC 9432 5.4).
    pub label: Box<[u8]>,
    /// The zone, in lower case.
    pub zone: Name,
    /// The values of the `group` property, sorted (RFC 9432 4.3.2).
    pub groups: Vec<Box<[u8]>>,
    /// The catalog that may take the zone over: the `coo` property (RFC 9432 4.3.1).
    pub change_of_ownership: Option<Name>,
}

/// Why a catalog or one of its members cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// RFC 9432 4.2.1: there must be exactly one version property.
    #[error("version.{0} must have one TXT record, with the version of the catalog")]
    NoVersion(Name),
    /// RFC 9432 3: other versions have other rules.
    #[error("version {0:?} of the catalog is not known; only \"2\" is")]
    UnknownVersion(String),
    /// RFC 9432 4.1: the PTR RRset of a member has one record.
    #[error("{0} must have one PTR record, with the name of the member zone")]
    NotOneZone(Name),
}

const ZONES: &[u8] = b"zones";

/// RFC 9432 4.2.1: whether this zone is a catalog of the version that this module reads.
pub fn check_version(catalog: &Zone) -> Result<(), CatalogError> {
    let mut reader = NodeReader::new(catalog);
    let versions = reader.rdatas(&key_of(&[b"version"]), Rtype::TXT);
    match versions.as_slice() {
        [version] if **version == *b"\x012" => Ok(()),
        [version] => Err(CatalogError::UnknownVersion(
            String::from_utf8_lossy(version.get(1..).unwrap_or_default()).into_owned(),
        )),
        _ => Err(CatalogError::NoVersion(catalog.apex().to_owned())),
    }
}

/// All members in the order of their labels.
pub fn members(catalog: &Zone) -> impl Iterator<Item = Result<CatalogMember, CatalogError>> {
    let prefix = key_of(&[ZONES]);
    let mut cursor = catalog.seek(prefix.as_bytes());
    let mut next = cursor.next();
    let mut last: Option<Box<[u8]>> = None;
    std::iter::from_fn(move || {
        while let Some(entry) = next.take() {
            next = cursor.next();
            let label = label_of(&entry, prefix.as_bytes())?;
            if last.as_ref() == Some(&label) {
                continue;
            }
            last = Some(label.clone());
            if let Some(member) = member(catalog, &label).transpose() {
                return Some(member);
            }
        }
        None
    })
}

/// The member with this label (in lower case), if there is one.
pub fn member(catalog: &Zone, label: &[u8]) -> Result<Option<CatalogMember>, CatalogError> {
    let mut reader = NodeReader::new(catalog);
    let zones = reader.rdatas(&key_of(&[ZONES, label]), Rtype::PTR);
    let zone = match zones.as_slice() {
        [] => return Ok(None),
        [zone] => name(zone),
        _ => return Err(CatalogError::NotOneZone(reader.name(&key_of(&[ZONES, label])))),
    };
    // RFC 9432 4.3.1: with more than one record, the property is ignored.
    let owners = reader.rdatas(&key_of(&[ZONES, label, b"coo"]), Rtype::PTR);
    let change_of_ownership = owners.first().filter(|_| owners.len() == 1).map(|owner| name(owner));
    let mut groups = reader.rdatas(&key_of(&[ZONES, label, b"group"]), Rtype::TXT);
    groups.iter_mut().for_each(|text| *text = join_strings(text));
    groups.sort();
    Ok(Some(CatalogMember { label: label.into(), zone, groups, change_of_ownership }))
}

/// The labels of all members that a change of these owners may concern.
pub fn changed_labels<'n>(catalog: &Zone, owners: impl IntoIterator<Item = NameRef<'n>>) -> BTreeSet<Box<[u8]>> {
    let prefix = key_of(&[ZONES]);
    let apex_len = catalog.apex().wire().len();
    let keys = owners.into_iter().map(|owner| CanonicalKey::from_name(owner, apex_len));
    keys.filter_map(|key| first_label(key.as_bytes().strip_prefix(prefix.as_bytes())?)).collect()
}

//----------- producing --------------------------------------------------------

/// The unique label that a producer gives a zone: the SHA-1 of its name in hexadecimal, so that it needs no storage.
pub fn unique_label(zone: NameRef<'_>) -> [u8; 40] {
    use sha1::Digest;
    let digest = sha1::Sha1::digest(zone.to_owned().to_lowercase().wire());
    let mut label = [0; 40];
    data_encoding::HEXLOWER.encode_mut(&digest, &mut label);
    label
}

/// The records that list a member: owner, type and RDATA. All have TTL 0, as nobody resolves them (RFC 9432 3).
pub fn member_records(catalog: NameRef<'_>, member: &CatalogMember) -> Vec<(Name, Rtype, Vec<u8>)> {
    let label: &[u8] = &member.label;
    let mut records = vec![(name_below(catalog, &[ZONES, label]), Rtype::PTR, member.zone.wire().to_vec())];
    let groups = member.groups.iter().map(|group| {
        let strings = group.chunks(255).flat_map(|part| [&[part.len() as u8], part].concat()).collect();
        (name_below(catalog, &[ZONES, label, b"group"]), Rtype::TXT, strings)
    });
    records.extend(groups);
    if let Some(owner) = &member.change_of_ownership {
        records.push((name_below(catalog, &[ZONES, label, b"coo"]), Rtype::PTR, owner.wire().to_vec()));
    }
    records
}

//----------- keys and records -------------------------------------------------

/// The key of the owner with these labels, from the one next to the apex on.
fn key_of(labels: &[&[u8]]) -> CanonicalKey {
    let mut key = CanonicalKey::new();
    labels.iter().for_each(|label| key.push_label(label));
    key
}

fn name_below(apex: NameRef<'_>, labels: &[&[u8]]) -> Name {
    let labels = labels.iter().rev().flat_map(|label| [&[label.len() as u8], *label].concat());
    let wire: Vec<u8> = labels.chain(apex.wire().iter().copied()).collect();
    Name::from_wire(&wire).expect("a catalog's name is short enough for its members, see `CatalogConfig`")
}

/// The label below `prefix` in the key of an entry; `None` if it is not below.
fn label_of(entry: &TreeEntry<'_>, prefix: &[u8]) -> Option<Box<[u8]>> {
    let mut key = Vec::new();
    entry.append_key(&mut key);
    first_label(key.strip_prefix(prefix)?)
}

/// The first label of a key, unescaped.
fn first_label(key: &[u8]) -> Option<Box<[u8]>> {
    let end = key.iter().position(|&octet| octet == 0)?;
    let mut label = [0; 2 * wire::MAX_NAME_LEN];
    let len = write_labels(&key[..=end], &mut label);
    Some(label[1..len].into())
}

/// The character-strings of TXT RDATA as one text.
fn join_strings(mut rdata: &[u8]) -> Box<[u8]> {
    let mut text = Vec::new();
    while let Some((&len, rest)) = rdata.split_first() {
        let (string, rest) = rest.split_at(rest.len().min(len.into()));
        text.extend_from_slice(string);
        rdata = rest;
    }
    text.into()
}

fn name(rdata: &[u8]) -> Name {
    Name::from_wire(rdata).expect("PTR RDATA is a name").to_lowercase()
}

struct NodeReader<'z> {
    zone: &'z Zone,
    apex: Name,
    decoder: NodeDecoder,
}

impl<'z> NodeReader<'z> {
    fn new(zone: &'z Zone) -> NodeReader<'z> {
        NodeReader { zone, apex: zone.owner(&zone.apex_entry()), decoder: NodeDecoder::default() }
    }

    /// The RDATA of the records of this type at an owner.
    fn rdatas(&mut self, key: &CanonicalKey, rtype: Rtype) -> Vec<Box<[u8]>> {
        let cursor = Some(self.zone.seek(key.as_bytes())).filter(|cursor| cursor.is_exact());
        let Some(entry) = cursor.and_then(|cursor| cursor.entry()) else { return Vec::new() };
        let owner = self.zone.owner(&entry);
        let records = self.decoder.decode(self.zone.node(&entry), owner.as_ref(), self.apex.as_ref());
        records.iter().filter(|record| record.rtype == rtype).map(|record| record.rdata.into()).collect()
    }

    fn name(&self, key: &CanonicalKey) -> Name {
        crate::zone::name_of_key(key.as_bytes(), self.zone.apex())
    }
}
