//! Catalog zones (RFC 9432): reading the members of one, and the records that list a member.
//!
//! A member is `LABEL.zones.CATALOG PTR MEMBER`; the unique label identifies it. Its properties are below that name. Records
//! that no property here knows are ignored (RFC 9432 4.2).

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasher;

use wire::{Name, NameRef, Rtype};

use crate::canonical_key::{CanonicalKey, write_labels};
use crate::encoded_change::EncodedChange;
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

/// A member that one version of a catalog has, or has with other properties, and the other has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberChange {
    /// The member in the old version.
    pub old: Option<CatalogMember>,
    /// The member in the new version.
    pub new: Option<CatalogMember>,
}

/// Why a catalog is broken: RFC 9432 5.1 forbids to process any of it.
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
    /// RFC 9432 4.3.1: the PTR RRset of a `coo` property has one record.
    #[error("{0} must have one PTR record, with the name of the new catalog")]
    NotOneOwner(Name),
    /// RFC 9432 4.1: every zone is listed once.
    #[error("the zone {0} is listed more than once")]
    Duplicate(Name),
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

/// Whether the catalog may be processed (RFC 9432 5.1). Costs as much as it has members.
pub fn check(catalog: &Zone) -> Result<(), CatalogError> {
    check_version(catalog)?;
    // The octets of all names would take more memory than the catalog; 128 random bits of each are as good.
    let hashers = [RandomState::new(), RandomState::new()];
    let mut seen = HashSet::new();
    for member in members_after(catalog, None) {
        let zone = member?.zone;
        if !seen.insert(hashers.each_ref().map(|hasher| hasher.hash_one(zone.wire()))) {
            return Err(CatalogError::Duplicate(zone));
        }
    }
    Ok(())
}

/// The members that differ between two versions of a catalog, of which the old one is valid. Costs as much as the versions differ. A zone
/// that is new in the list may be that of an unchanged member: the caller checks that.
pub fn changes(old: &Zone, new: &Zone) -> Result<Vec<MemberChange>, CatalogError> {
    check_version(new)?;
    let difference = EncodedChange::between(old, new);
    let mut changes = Vec::new();
    for label in changed_labels(new, difference.records().map(|record| record.owner)) {
        let change = MemberChange { old: member(old, &label)?, new: member(new, &label)? };
        if change.old != change.new {
            changes.push(change);
        }
    }
    let mut seen = HashSet::new();
    let mut zones = changes.iter().filter_map(|change| change.new.as_ref()).map(|member| &member.zone);
    match zones.find(|zone| !seen.insert(zone.wire())) {
        Some(zone) => Err(CatalogError::Duplicate(zone.clone())),
        None => Ok(changes),
    }
}

/// The members after the one with this label (in lower case), in the order of their labels; all without a label.
pub fn members_after(
    catalog: &Zone,
    label: Option<&[u8]>,
) -> impl Iterator<Item = Result<CatalogMember, CatalogError>> {
    let start = label.map_or_else(|| key_of(&[ZONES]), |label| key_of(&[ZONES, label]));
    members_from(catalog, start.as_bytes(), label)
}

/// The members whose keys follow `start`, which is below `zones`, but the one with the label `last`.
fn members_from<'z>(
    catalog: &'z Zone,
    start: &[u8],
    last: Option<&[u8]>,
) -> impl Iterator<Item = Result<CatalogMember, CatalogError>> + use<'z> {
    let prefix = key_of(&[ZONES]);
    let mut cursor = catalog.seek(start);
    let mut next = cursor.next();
    let mut last: Option<Box<[u8]>> = last.map(Into::into);
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
    let owners = reader.rdatas(&key_of(&[ZONES, label, b"coo"]), Rtype::PTR);
    if owners.len() > 1 {
        return Err(CatalogError::NotOneOwner(reader.name(&key_of(&[ZONES, label, b"coo"]))));
    }
    let change_of_ownership = owners.first().map(|owner| name(owner));
    let mut groups = reader.rdatas(&key_of(&[ZONES, label, b"group"]), Rtype::TXT);
    groups.iter_mut().for_each(|text| *text = join_strings(text));
    groups.sort();
    Ok(Some(CatalogMember { label: label.into(), zone, groups, change_of_ownership }))
}

/// The labels of all members that a change of these owners may concern.
fn changed_labels<'n>(catalog: &Zone, owners: impl IntoIterator<Item = NameRef<'n>>) -> BTreeSet<Box<[u8]>> {
    let prefix = key_of(&[ZONES]);
    let apex_len = catalog.apex().wire().len();
    let keys = owners.into_iter().map(|owner| CanonicalKey::from_name(owner, apex_len));
    keys.filter_map(|key| first_label(key.as_bytes().strip_prefix(prefix.as_bytes())?)).collect()
}

//----------- producing --------------------------------------------------------

/// The unique label of a zone in the first version of a produced catalog: the SHA-1 of its name in hexadecimal. Producers with the same
/// zones agree on it, and one that has lost its state-dir makes it again.
pub fn unique_label(zone: NameRef<'_>) -> [u8; 40] {
    use sha1::Digest;
    let digest = sha1::Sha1::digest(zone.to_owned().to_lowercase().wire());
    let mut label = [0; 40];
    data_encoding::HEXLOWER.encode_mut(&digest, &mut label);
    label
}

/// The unique label of a zone that a later version lists first: the digest of its name, and the serial of that version. A zone that was
/// removed and is added again has another label, so that consumers reset its state (RFC 9432 5.6), and the names of earlier members need
/// not be stored.
pub fn unique_label_since(zone: NameRef<'_>, serial: u32) -> [u8; 48] {
    let mut label = [0; 48];
    let (digest, suffix) = label.split_at_mut(40);
    digest.copy_from_slice(&unique_label(zone));
    data_encoding::HEXLOWER.encode_mut(&serial.to_be_bytes(), suffix);
    label
}

/// The member of a produced catalog that has this zone. All labels of a zone begin with the digest of its name.
pub fn produced_member(catalog: &Zone, zone: NameRef<'_>) -> Option<CatalogMember> {
    let digest = unique_label(zone);
    let start = [key_of(&[ZONES]).as_bytes(), &digest].concat();
    let members = members_from(catalog, &start, None).map_while(Result::ok);
    let mut members = members.take_while(|member| member.label.starts_with(&digest));
    members.find(|member| member.zone.as_ref() == zone)
}

/// The longest name of a catalog that this module can produce: it leaves room for `group.LABEL.zones`.
pub const MAX_PRODUCED_NAME_LEN: usize = wire::MAX_NAME_LEN - 6 - 49 - 6;

/// The records of a catalog without members but the SOA record: the NS record and the version.
pub fn apex_records(catalog: NameRef<'_>) -> [(Name, Rtype, Vec<u8>); 2] {
    let version = name_below(catalog, &[b"version"]);
    [(catalog.to_owned(), Rtype::NS, b"\x07invalid\0".to_vec()), (version, Rtype::TXT, b"\x012".to_vec())]
}

/// The RDATA of the SOA record of a catalog, as RFC 9432 4 has it in its example: it never expires.
pub fn soa_rdata(serial: u32) -> Vec<u8> {
    let numbers = [serial, 3600, 600, i32::MAX as u32 - 1, 0].map(u32::to_be_bytes).concat();
    [b"\x07invalid\0\x07invalid\0", &numbers[..]].concat()
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
    Name::from_wire(&wire).expect("a catalog's name is short enough for its members, see `MAX_PRODUCED_NAME_LEN`")
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
        crate::owner_case::name_of_key(key.as_bytes(), self.zone.apex())
    }
}
