//! The access list of dynamic updates: who may change which records of a zone (RFC 2136 3.3, RFC 3007 3).

use std::net::IpAddr;

use wire::{Name, NameRef, Rtype};

use crate::acl::{AclEntry, Client};

/// Who may change which records of a zone, and where updates go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateAcl {
    /// Alternatives; each record of an update must be covered by one of them.
    pub entries: Vec<UpdateEntry>,
    /// What the server does with updates.
    pub role: UpdateRole,
}

/// What the server does with updates of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpdateRole {
    /// It is a primary: it applies those that its entries allow.
    #[default]
    Apply,
    /// It is a secondary that passes them on to its primaries (RFC 2136 6): all if there are no entries, else those of clients that
    /// match one. The primaries check what they change.
    Forward,
    /// It is a secondary that does not pass them on: NOTIMP, so that the client tries another server (RFC 2136 4.5).
    Ignore,
}

/// What clients that match may change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpdateEntry {
    /// Who.
    pub client: AclEntry,
    /// The owner names; a first label `*` means all names below the rest. Any name if empty.
    pub names: Vec<Name>,
    /// The record types. If empty, any but those that must be named: see [`UpdateRights::permit`].
    pub types: Vec<Rtype>,
    /// Whether it applies to zones with DNSKEY records, too. Then no type needs to be named.
    pub signed: bool,
}

/// Who sent an update that is applied later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateClient {
    /// The address.
    pub address: IpAddr,
    /// The key that signed the update, verified.
    pub key: Option<Name>,
    /// The names of the verified client certificate; `None` without TLS.
    pub tls: Option<Box<[Name]>>,
}

/// What one client may change.
pub struct UpdateRights<'a> {
    entries: Vec<&'a UpdateEntry>,
    apex: NameRef<'a>,
}

/// The types that sign a zone or prove what is in it. Whoever may add them can turn an unsigned zone into a signed one, which
/// resolvers then find bogus, and which the server no longer lets others update.
const SIGNING_TYPES: [Rtype; 6] =
    [Rtype::DNSKEY, Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::ZONEMD];

impl UpdateAcl {
    /// Whether the client may send updates: that it may change what they name is checked with its [`UpdateAcl::rights`].
    pub fn allows(&self, client: &Client<'_>) -> bool {
        let is_open = self.role == UpdateRole::Forward && self.entries.is_empty();
        is_open || self.entries.iter().any(|entry| entry.client.matches(client))
    }

    /// What the client may change in the zone with this apex, which has DNSKEY records or not.
    pub fn rights<'a>(&'a self, client: &Client<'_>, apex: NameRef<'a>, is_signed: bool) -> UpdateRights<'a> {
        let applies = |entry: &&UpdateEntry| entry.client.matches(client) && (entry.signed || !is_signed);
        UpdateRights { entries: self.entries.iter().filter(applies).collect(), apex }
    }
}

impl UpdateRights<'_> {
    /// Whether records of this type at this owner may be added and deleted. RFC 3007 3: policies may limit the types.
    /// An entry for unsigned zones must name those that sign the zone, and those that define it: SOA and NS at the apex.
    pub fn permit(&self, owner: NameRef<'_>, rtype: Rtype) -> bool {
        let defines_zone = matches!(rtype, Rtype::SOA | Rtype::NS) && owner == self.apex;
        let must_be_named = defines_zone || SIGNING_TYPES.contains(&rtype);
        self.entries.iter().any(|entry| entry.covers(owner, rtype, must_be_named))
    }

    /// Whether nothing may be changed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl UpdateEntry {
    fn covers(&self, owner: NameRef<'_>, rtype: Rtype, must_be_named: bool) -> bool {
        let has_name = self.names.is_empty() || self.names.iter().any(|name| matches_name(name.as_ref(), owner));
        let has_type = match self.types.is_empty() {
            true => self.signed || !must_be_named,
            false => self.types.contains(&rtype),
        };
        has_name && has_type
    }
}

/// Whether `owner` is the name, or below the rest of one that begins with `*`.
fn matches_name(name: NameRef<'_>, owner: NameRef<'_>) -> bool {
    match name.parent().filter(|_| name.is_wildcard()) {
        Some(rest) => owner.is_at_or_below(rest) && owner != rest,
        None => owner == name,
    }
}

impl UpdateClient {
    /// Owns what a request borrows.
    pub(crate) fn of(client: &Client<'_>) -> UpdateClient {
        UpdateClient {
            address: client.address,
            key: client.key.map(NameRef::to_owned),
            tls: client.tls.map(|names| names.to_vec().into()),
        }
    }

    /// The same client, as access lists know it.
    pub fn as_client(&self) -> Client<'_> {
        Client { address: self.address, key: self.key.as_ref().map(Name::as_ref), tls: self.tls.as_deref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn entry(key: &str, names: &[&str], types: &[Rtype]) -> UpdateEntry {
        let client = AclEntry { key: Some(name(key)), ..AclEntry::default() };
        let names = names.iter().map(|text| name(text)).collect();
        UpdateEntry { client, names, types: types.to_vec(), signed: false }
    }

    fn client(key: &str) -> UpdateClient {
        UpdateClient { address: [192, 0, 2, 1].into(), key: Some(name(key)), tls: None }
    }

    #[test]
    fn names_and_types_limit_what_a_key_may_change() {
        let apex = name("example.");
        let dhcp = entry("dhcp.", &["*.dyn.example.", "gate.example."], &[Rtype::A, Rtype::AAAA]);
        let acl = UpdateAcl { entries: vec![dhcp, entry("admin.", &[], &[])], role: UpdateRole::Apply };
        let owned = client("DHCP.");
        let dhcp = acl.rights(&owned.as_client(), apex.as_ref(), false);
        for (owner, rtype, permitted) in [
            ("a.dyn.example.", Rtype::A, true),
            ("A.b.DYN.example.", Rtype::AAAA, true),
            ("*.dyn.example.", Rtype::A, true),
            ("dyn.example.", Rtype::A, false),
            ("adyn.example.", Rtype::A, false),
            ("a.dyn.example.", Rtype::TXT, false),
            ("gate.example.", Rtype::A, true),
            ("a.gate.example.", Rtype::A, false),
        ] {
            assert_eq!(dhcp.permit(name(owner).as_ref(), rtype), permitted, "{owner} {rtype}");
        }
        let owned = client("admin.");
        assert!(acl.rights(&owned.as_client(), apex.as_ref(), false).permit(name("example.").as_ref(), Rtype::MX));
        let stranger = client("other.");
        assert!(!acl.allows(&stranger.as_client()));
        assert!(
            !acl.rights(&stranger.as_client(), apex.as_ref(), false).permit(name("a.dyn.example.").as_ref(), Rtype::A)
        );
    }

    #[test]
    fn one_entry_must_cover_both_name_and_type() {
        let apex = name("example.");
        let acl = UpdateAcl {
            entries: vec![entry("k.", &["a.example."], &[Rtype::A]), entry("k.", &["b.example."], &[Rtype::TXT])],
            role: UpdateRole::Apply,
        };
        let owned = client("k.");
        let rights = acl.rights(&owned.as_client(), apex.as_ref(), false);
        assert!(rights.permit(name("a.example.").as_ref(), Rtype::A));
        assert!(!rights.permit(name("a.example.").as_ref(), Rtype::TXT));
        assert!(acl.rights(&owned.as_client(), apex.as_ref(), true).is_empty());
    }

    /// Otherwise an entry for signed zones would extend those beside it to them.
    #[test]
    fn only_entries_for_signed_zones_apply_to_them() {
        let apex = name("example.");
        let signed = UpdateEntry { signed: true, ..entry("k.", &["a.example."], &[Rtype::TXT]) };
        let acl = UpdateAcl { entries: vec![signed, entry("k.", &["b.example."], &[])], role: UpdateRole::Apply };
        let owned = client("k.");
        for (is_signed, in_b) in [(true, false), (false, true)] {
            let rights = acl.rights(&owned.as_client(), apex.as_ref(), is_signed);
            assert!(rights.permit(name("a.example.").as_ref(), Rtype::TXT));
            assert_eq!(rights.permit(name("b.example.").as_ref(), Rtype::TXT), in_b);
        }
    }

    /// Otherwise any client of an unsigned zone could sign it.
    #[test]
    fn types_that_sign_or_define_a_zone_must_be_named() {
        let named = entry("named.", &[], &[Rtype::DNSKEY, Rtype::NS]);
        let signer = UpdateEntry { signed: true, ..entry("signer.", &[], &[]) };
        let acl = UpdateAcl { entries: vec![entry("any.", &[], &[]), named, signer], role: UpdateRole::Apply };
        let apex = name("example.");
        for (key, is_signed, owner, rtype, permitted) in [
            ("any.", false, "example.", Rtype::DNSKEY, false),
            ("any.", false, "a.example.", Rtype::RRSIG, false),
            ("any.", false, "a.example.", Rtype::NSEC, false),
            ("any.", false, "EXAMPLE.", Rtype::NS, false),
            ("any.", false, "example.", Rtype::SOA, false),
            ("any.", false, "example.", Rtype::MX, true),
            ("any.", false, "sub.example.", Rtype::NS, true),
            ("any.", false, "sub.example.", Rtype::DS, true),
            ("named.", false, "example.", Rtype::DNSKEY, true),
            ("named.", false, "example.", Rtype::NS, true),
            ("named.", false, "example.", Rtype::SOA, false),
            ("signer.", true, "example.", Rtype::DNSKEY, true),
            ("signer.", false, "example.", Rtype::SOA, true),
        ] {
            let owned = client(key);
            let rights = acl.rights(&owned.as_client(), apex.as_ref(), is_signed);
            assert_eq!(rights.permit(name(owner).as_ref(), rtype), permitted, "{key} {owner} {rtype}");
        }
    }

    #[test]
    fn a_forwarding_secondary_without_entries_passes_on_everything() {
        let open = UpdateAcl { role: UpdateRole::Forward, ..UpdateAcl::default() };
        assert!(open.allows(&client("k.").as_client()));
        let limited = UpdateAcl { entries: vec![entry("k.", &[], &[])], ..open };
        assert!(limited.allows(&client("k.").as_client()) && !limited.allows(&client("l.").as_client()));
        assert!(!UpdateAcl::default().allows(&client("k.").as_client()));
    }
}
