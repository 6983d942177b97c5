//! The addresses that this server listens on, so that it does not notify itself (`notify-ns`).

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::config::value::DNS_PORT;

/// The addresses of the listeners that NOTIFY messages for name servers would reach.
pub struct OwnAddresses(Vec<IpAddr>);

impl OwnAddresses {
    /// Those of these listeners.
    pub fn of(listeners: impl Iterator<Item = SocketAddr>) -> OwnAddresses {
        OwnAddresses(listeners.filter(|address| address.port() == DNS_PORT).map(|address| address.ip()).collect())
    }

    /// Whether this server answers at port 53 of the address.
    pub fn contain(&self, address: IpAddr) -> bool {
        let is_any = |own: &IpAddr| own.is_unspecified() && own.is_ipv4() == address.is_ipv4();
        self.0.contains(&address) || (self.0.iter().any(is_any) && is_local(address))
    }
}

/// Whether this machine has the address: the system uses it as source of what is sent to it. Nothing is sent.
fn is_local(address: IpAddr) -> bool {
    let source = || {
        let socket = UdpSocket::bind((netio::unspecified(address), 0))?;
        socket.connect((address, DNS_PORT))?;
        socket.local_addr()
    };
    address.is_loopback() || source().is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_those_of_listeners_at_port_53() {
        let own = |text: &str| OwnAddresses::of(text.split(' ').map(|address| address.parse().expect("an address")));
        let cases = [
            ("192.0.2.1:53", "192.0.2.1", true),
            ("192.0.2.1:53", "192.0.2.2", false),
            ("192.0.2.1:5300", "192.0.2.1", false),
            ("0.0.0.0:53", "127.0.0.1", true),
            ("0.0.0.0:53", "192.0.2.1", false),
            ("0.0.0.0:5300", "127.0.0.1", false),
            ("0.0.0.0:53", "::1", false),
            ("0.0.0.0:53 [::]:53", "::1", true),
            ("[2001:db8::1]:53", "2001:db8::1", true),
        ];
        for (listeners, address, expected) in cases {
            let address = address.parse().expect("an address");
            assert_eq!(own(listeners).contain(address), expected, "{listeners} {address}");
        }
    }
}
