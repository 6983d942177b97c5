//! Access control lists: which client addresses may transfer a zone.

use std::net::IpAddr;

/// A list of address prefixes; it allows every address in any of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl(pub Vec<AddressPrefix>);

/// The addresses whose first `len` bits are those of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPrefix {
    /// Any address with the prefix.
    pub address: IpAddr,
    /// The prefix length in bits: at most 32 for IPv4, 128 for IPv6.
    pub len: u8,
}

impl Acl {
    /// Whether the list allows `peer`. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn allows(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|prefix| prefix.contains(peer))
    }
}

impl AddressPrefix {
    /// Whether `address` has this prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (mine, theirs, bits) = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        (mine ^ theirs).checked_shr(bits - u32::from(self.len).min(bits)).unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_allows_the_addresses_of_its_prefixes() {
        let prefix = |address: &str, len| AddressPrefix { address: address.parse().expect("an address"), len };
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
            assert_eq!(acl.allows(address.parse().expect("an address")), allowed, "{address}");
        }
        assert!(Acl(vec![prefix("0.0.0.0", 0)]).allows("203.0.113.1".parse().expect("an address")));
        assert!(!Acl::default().allows("127.0.0.1".parse().expect("an address")));
    }
}
