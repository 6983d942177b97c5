//! The addresses that this server listens on, so that it does not notify itself (`notify-ns`).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::clock;
use crate::config::value::DNS_PORT;

/// How long it is remembered whether this machine has an address: thousands of zones with the same name servers may change at once, and an
/// address may move to another machine.
const MEMORY: Duration = Duration::from_secs(10);
/// Addresses remembered at most.
const MAX_REMEMBERED: usize = 4096;

/// The addresses of the listeners that NOTIFY messages for name servers would reach.
pub struct OwnAddresses {
    listeners: Vec<IpAddr>,
    /// Whether this machine has an address, by what was found since `remembered_since`.
    remembered: HashMap<IpAddr, bool>,
    remembered_since: Instant,
}

impl OwnAddresses {
    /// Those of these listeners.
    pub fn of(listeners: impl Iterator<Item = SocketAddr>) -> OwnAddresses {
        let listeners = listeners.filter(|address| address.port() == DNS_PORT).map(|address| address.ip()).collect();
        OwnAddresses { listeners, remembered: HashMap::new(), remembered_since: clock::now() }
    }

    /// Whether this server answers at port 53 of the address.
    pub fn contain(&mut self, address: IpAddr) -> bool {
        let is_any = |own: &IpAddr| own.is_unspecified() && own.is_ipv4() == address.is_ipv4();
        self.listeners.contains(&address) || (self.listeners.iter().any(is_any) && self.remember(address, is_local))
    }

    /// Whether this machine has the address, as `find` says or has said lately.
    fn remember(&mut self, address: IpAddr, find: impl FnOnce(IpAddr) -> bool) -> bool {
        let now = clock::now();
        if now >= self.remembered_since + MEMORY || self.remembered.len() >= MAX_REMEMBERED {
            self.remembered.clear();
            self.remembered_since = now;
        }
        *self.remembered.entry(address).or_insert_with(|| find(address))
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
    use crate::clock::simulated;

    /// A socket for each name server of each published version would be costly.
    #[test]
    fn an_address_is_looked_for_once_in_a_while() {
        let begin = Instant::now();
        let at = |after: Duration| simulated::set(Some((begin + after, Duration::ZERO)));
        let [address, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        at(Duration::ZERO);
        let mut own = OwnAddresses::of(std::iter::empty());
        assert!(own.remember(address, |_| true));
        assert!(!own.remember(other, |_| false));
        at(MEMORY - Duration::from_millis(1));
        assert!(own.remember(address, |_| panic!("it is known")));
        at(MEMORY);
        assert!(!own.remember(address, |_| false), "it has moved away");
        simulated::set(None);
    }

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
