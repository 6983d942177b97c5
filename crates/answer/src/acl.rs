//! Access control lists: who may transfer, notify or update a zone.

use std::net::IpAddr;

use wire::{AddressPrefix, Name, NameRef};

/// A list of alternatives; it allows every client that matches any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(pub Vec<AclEntry>);

/// Clients that match all of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AclEntry {
    /// The addresses; `None`: any.
    pub addresses: Option<AddressPrefix>,
    /// The name of the key that signed the request; `None`: any, or unsigned.
    pub key: Option<Name>,
    /// How the request arrived.
    pub tls: TlsRule,
}

/// What an entry requires of the transport.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TlsRule {
    /// Nothing.
    #[default]
    Any,
    /// TLS.
    Encrypted,
    /// TLS with a verified client certificate of this name.
    ClientName(Name),
}

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    /// The address.
    pub address: IpAddr,
    /// The key that signed the request, verified.
    pub key: Option<NameRef<'a>>,
    /// The names of the verified client certificate; `None` without TLS.
    pub tls: Option<&'a [Name]>,
}

impl Acl {
    /// Whether the list allows this client. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn allows(&self, client: &Client<'_>) -> bool {
        self.0.iter().any(|entry| entry.matches(client))
    }
}

impl AclEntry {
    /// An entry for all clients with these addresses.
    pub fn of_addresses(addresses: AddressPrefix) -> AclEntry {
        AclEntry { addresses: Some(addresses), ..AclEntry::default() }
    }

    /// Whether the client matches.
    pub fn matches(&self, client: &Client<'_>) -> bool {
        self.addresses.is_none_or(|prefix| prefix.contains(client.address.to_canonical()))
            && self.key.as_ref().is_none_or(|key| client.key == Some(key.as_ref()))
            && match &self.tls {
                TlsRule::Any => true,
                TlsRule::Encrypted => client.tls.is_some(),
                TlsRule::ClientName(name) => client.tls.is_some_and(|names| names.contains(name)),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str, len: u8) -> AclEntry {
        AclEntry::of_addresses(AddressPrefix { address: address.parse().expect("an address"), len })
    }

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn client(address: &str) -> Client<'static> {
        Client { address: address.parse().expect("an address"), key: None, tls: None }
    }

    #[test]
    fn a_list_allows_the_addresses_of_its_prefixes() {
        let acl = Acl(vec![prefix("192.0.2.0", 24), prefix("2001:db8::", 32), prefix("198.51.100.7", 32)]);
        for (address, allowed) in [
            ("192.0.2.255", true),
            ("192.0.3.0", false),
            ("::ffff:192.0.2.1", true),
            ("2001:db8:ffff::1", true),
            ("2001:db9::", false),
            ("198.51.100.7", true),
            ("198.51.100.6", false),
        ] {
            assert_eq!(acl.allows(&client(address)), allowed, "{address}");
        }
        assert!(Acl(vec![prefix("0.0.0.0", 0)]).allows(&client("203.0.113.1")));
        assert!(!Acl::default().allows(&client("127.0.0.1")));
    }

    #[test]
    fn all_of_an_entry_must_match() {
        let (key, other, tls_name) = (name("key."), name("other."), [name("a."), name("client.")]);
        let full =
            AclEntry { key: Some(key.clone()), tls: TlsRule::ClientName(name("client.")), ..prefix("192.0.2.0", 24) };
        let acl = Acl(vec![full]);
        let good = Client { key: Some(key.as_ref()), tls: Some(&tls_name), ..client("192.0.2.1") };
        assert!(acl.allows(&good));
        assert!(!acl.allows(&Client { address: client("192.0.3.1").address, ..good }));
        assert!(!acl.allows(&Client { key: Some(other.as_ref()), ..good }));
        assert!(!acl.allows(&Client { key: None, ..good }));
        assert!(!acl.allows(&Client { tls: Some(&tls_name[..1]), ..good }));
        assert!(!acl.allows(&Client { tls: None, ..good }));
    }

    #[test]
    fn an_entry_without_address_matches_any_address() {
        let key = name("key.");
        let by_key = AclEntry { key: Some(key.clone()), ..AclEntry::default() };
        let by_tls = AclEntry { tls: TlsRule::Encrypted, ..AclEntry::default() };
        assert!(Acl(vec![by_key.clone()]).allows(&Client { key: Some(key.as_ref()), ..client("2001:db8::1") }));
        assert!(!Acl(vec![by_key.clone()]).allows(&client("2001:db8::1")));
        let either = Acl(vec![by_key, by_tls]);
        assert!(either.allows(&Client { tls: Some(&[]), ..client("192.0.2.1") }));
        assert!(!either.allows(&client("192.0.2.1")));
    }
}
