//! Blocks of addresses, as in access lists and client subnets.

use std::fmt;
use std::net::IpAddr;

/// The addresses whose first `len` bits are those of `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AddressPrefix {
    /// Any address with the prefix.
    pub address: IpAddr,
    /// The prefix length in bits: at most 32 for IPv4, 128 for IPv6.
    pub len: u8,
}

impl AddressPrefix {
    /// The block of this address alone.
    pub fn single(address: IpAddr) -> AddressPrefix {
        AddressPrefix { address, len: AddressPrefix::max_len(address) }
    }

    /// The prefix length of a block of one address of the family of `address`.
    pub fn max_len(address: IpAddr) -> u8 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// Whether `address` has this prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (mine, theirs, bits) = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
            _ => return false,
        };
        (mine ^ theirs).checked_shr(bits - u32::from(self.len).min(bits)).unwrap_or(0) == 0
    }

    /// The same block by its first address.
    pub fn without_host_bits(self) -> AddressPrefix {
        let host_bits = u32::from(AddressPrefix::max_len(self.address).saturating_sub(self.len));
        let address = match self.address {
            IpAddr::V4(address) => {
                IpAddr::V4((address.to_bits() & u32::MAX.checked_shl(host_bits).unwrap_or(0)).into())
            }
            IpAddr::V6(address) => {
                IpAddr::V6((address.to_bits() & u128::MAX.checked_shl(host_bits).unwrap_or(0)).into())
            }
        };
        AddressPrefix { address, len: self.len }
    }
}

impl fmt::Display for AddressPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str, len: u8) -> AddressPrefix {
        AddressPrefix { address: address.parse().expect("an address"), len }
    }

    #[test]
    fn a_block_has_the_addresses_with_its_first_bits() {
        for (block, inside, outside) in [
            (prefix("192.0.2.7", 24), "192.0.2.255", "192.0.3.0"),
            (prefix("2001:db8::7", 32), "2001:db8:ffff::1", "2001:db9::"),
            (prefix("0.0.0.0", 0), "255.255.255.255", "::"),
            (prefix("::", 0), "ffff::", "0.0.0.0"),
            (AddressPrefix::single([192, 0, 2, 7].into()), "192.0.2.7", "192.0.2.6"),
        ] {
            let contains = [inside, outside].map(|address| block.contains(address.parse().expect("an address")));
            assert_eq!(contains, [true, false], "{block}");
        }
    }

    #[test]
    fn a_block_is_named_by_its_first_address() {
        for (block, first) in [
            (prefix("192.0.2.7", 24), "192.0.2.0/24"),
            (prefix("192.0.2.7", 29), "192.0.2.0/29"),
            (prefix("192.0.2.7", 32), "192.0.2.7/32"),
            (prefix("192.0.2.7", 0), "0.0.0.0/0"),
            (prefix("2001:db8::ffff", 112), "2001:db8::/112"),
            (prefix("2001:db8::1", 128), "2001:db8::1/128"),
            (prefix("2001:db8::1", 0), "::/0"),
        ] {
            assert_eq!(block.without_host_bits().to_string(), first);
        }
    }
}
