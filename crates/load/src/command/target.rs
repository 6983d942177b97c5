//! The server under test and the source addresses, shared by several commands.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use netio::udp_client::Sources;
use wire::AddressPrefix;

use super::CommandError;

/// The server under test and the source addresses.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Address of the server
    #[arg(long, value_name = "ADDRESS")]
    pub server: IpAddr,
    /// Its port
    #[arg(long, default_value_t = 53)]
    pub port: u16,
    /// Number of source addresses to use in turn
    #[arg(long, default_value_t = 1, requires = "source_prefix")]
    pub sources: u32,
    /// Prefix of the source addresses, which must be local: 127.0.0.0/8, or one with a local route
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = prefix)]
    pub source_prefix: Option<AddressPrefix>,
}

impl Target {
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.server, self.port)
    }

    /// The sources; `None` for the address that the kernel chooses.
    pub fn sources(&self) -> Result<Option<Sources>, CommandError> {
        let Some(prefix) = self.source_prefix else { return Ok(None) };
        let AddressPrefix { address, len } = prefix.without_host_bits();
        let bits = u32::from(AddressPrefix::max_len(address) - len);
        // Without the network and broadcast addresses.
        let host_count = 1u64.checked_shl(bits.min(40)).unwrap_or(u64::MAX).saturating_sub(2);
        let base = Sources { first: address, count: u32::MAX };
        let (first, host_count) = if bits < 2 { (address, 1 << bits) } else { (base.at(1), host_count) };
        if address.is_ipv4() != self.server.is_ipv4() {
            return Err(CommandError::Input("--source-prefix is of another address family than --server".into()));
        }
        if u64::from(self.sources) > host_count || self.sources == 0 {
            return Err(CommandError::Input(format!(
                "--sources {}: the prefix has {host_count} addresses",
                self.sources
            )));
        }
        Ok(Some(Sources { first, count: self.sources }))
    }
}

/// The option of a client subnet: family, prefix length, scope 0, the octets of the prefix with further bits 0 (RFC 7871 6).
pub fn client_subnet(prefix: AddressPrefix) -> Vec<u8> {
    let (family, mut octets) = match prefix.without_host_bits().address {
        IpAddr::V4(address) => (1, address.octets().to_vec()),
        IpAddr::V6(address) => (2, address.octets().to_vec()),
    };
    octets.truncate(usize::from(prefix.len).div_ceil(8));
    [&[0, family, prefix.len, 0], &octets[..]].concat()
}

/// Parses `ADDRESS/LENGTH`.
pub fn prefix(text: &str) -> Result<AddressPrefix, String> {
    let invalid = || "not of the form ADDRESS/LENGTH".to_string();
    let (address, len) = text.split_once('/').ok_or_else(invalid)?;
    let address: IpAddr = address.parse().map_err(|_| invalid())?;
    let len: u8 = len.parse().map_err(|_| invalid())?;
    if len > AddressPrefix::max_len(address) { Err(invalid()) } else { Ok(AddressPrefix { address, len }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(server: &str, prefix_text: &str, sources: u32) -> Option<Sources> {
        let source_prefix = Some(prefix(prefix_text).expect("a literal"));
        let server = server.parse().expect("a literal");
        Target { server, port: 53, sources, source_prefix }.sources().ok().flatten()
    }

    #[test]
    fn rfc_7871_6_a_client_subnet_has_the_octets_of_its_prefix() {
        let option = |text| client_subnet(prefix(text).expect("a literal"));
        assert_eq!(option("192.0.2.255/24"), [0, 1, 24, 0, 192, 0, 2]);
        assert_eq!(option("192.0.255.0/20"), [0, 1, 20, 0, 192, 0, 240]);
        assert_eq!(option("2001:db8::/32"), [0, 2, 32, 0, 0x20, 1, 0x0d, 0xb8]);
        assert_eq!(option("0.0.0.0/0"), [0, 1, 0, 0]);
    }

    #[test]
    fn sources_are_host_addresses_of_the_prefix() {
        let found = sources("127.0.0.1", "127.1.0.0/30", 2).expect("it has two hosts");
        assert_eq!((found.at(0), found.at(1)), ([127, 1, 0, 1].into(), [127, 1, 0, 2].into()));
        assert_eq!(sources("127.0.0.1", "127.1.0.0/30", 3), None);
        assert_eq!(sources("::1", "127.1.0.0/30", 1), None);
        assert!(sources("::1", "2001:db8::/32", 100_000).is_some());
        assert!(sources("127.0.0.1", "127.1.0.9/32", 1).is_some());
        let masked = sources("127.0.0.1", "127.1.0.7/29", 6).expect("it has six hosts");
        assert_eq!((masked.at(0), masked.at(5)), ([127, 1, 0, 1].into(), [127, 1, 0, 6].into()));
        let masked = sources("::1", "2001:db8::ffff/112", 1).expect("it has hosts");
        assert_eq!(masked.at(0), "2001:db8::1".parse::<IpAddr>().expect("a literal"));
        assert!(sources("127.0.0.1", "127.1.0.9/0", 1).is_some());
        for bad in ["127.0.0.1", "127.0.0.0/33", "x/8", "127.0.0.0/-1"] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }
}
