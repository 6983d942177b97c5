//! Binding the sockets of all threads, before privileges are given up.

use super::ListenConfig;
use netio::tcp::Listener;
use netio::udp_server::ServerSocket;
use std::io;
use std::net::SocketAddr;

/// Bound sockets, not served yet.
pub struct Listeners {
    pub(super) addresses: Vec<SocketAddr>,
    /// With the number of the worker each belongs to.
    pub(super) udp: Vec<(usize, ServerSocket)>,
    /// One listener for each address, for each thread.
    pub(super) tcp: Vec<Vec<Listener>>,
    pub(super) options: ListenConfig,
}

impl Listeners {
    /// The addresses in the order given, with the ports that the kernel chose where 0 was asked for.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} over {transport}: {source}{}", help(.source))]
pub struct ListenError {
    /// The address as it was given.
    pub address: SocketAddr,
    /// `UDP` or `TCP`.
    pub transport: &'static str,
    /// What the kernel said.
    pub source: io::Error,
}

fn help(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => " (another program has it: `ss -ltunp` shows which)",
        io::ErrorKind::AddrNotAvailable => " (no interface of this host has the address: `ip address` shows them)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need root or CAP_NET_BIND_SERVICE)",
        _ => "",
    }
}

/// Binds every address over UDP and TCP, once for every thread. Port 0 lets the kernel choose one that is free for both.
pub fn bind(addresses: &[SocketAddr], options: &ListenConfig) -> Result<Listeners, ListenError> {
    // A port that the kernel chose for UDP may be taken for TCP, or by somebody else before it is bound for good.
    let attempts = if addresses.iter().any(|address| address.port() == 0) { 16 } else { 1 };
    let early = (1..attempts).find_map(|_| bind_once(addresses, options).ok());
    early.map_or_else(|| bind_once(addresses, options), Ok)
}

fn bind_once(addresses: &[SocketAddr], options: &ListenConfig) -> Result<Listeners, ListenError> {
    // All before any: a wildcard address of ours must not be taken for another program's.
    let addresses = addresses.iter().map(|address| probe(*address, options)).collect::<Result<Vec<_>, _>>()?;
    let mut udp = Vec::new();
    for worker in 0..options.workers {
        for address in &addresses {
            udp.push((worker, ServerSocket::bind(*address, &options.udp).map_err(over("UDP", *address))?));
        }
    }
    // The kernel must not give a client up before the server does.
    let tcp =
        netio::tcp::ListenerOptions { user_timeout: options.tcp.user_timeout.max(options.idle_timeout), ..options.tcp };
    let listeners = |_| {
        let bind = |address: &SocketAddr| Listener::bind(*address, &tcp).map_err(over("TCP", *address));
        addresses.iter().map(bind).collect()
    };
    let tcp = (0..options.tcp_workers).map(listeners).collect::<Result<_, _>>()?;
    Ok(Listeners { addresses, udp, tcp, options: options.clone() })
}

/// Makes sure that nobody else has the address, and chooses a port if it has none.
///
/// Sockets that share an address (SO_REUSEPORT) share it with those of any process of the same user, so that a second server
/// would silently take half of the queries. One that does not share finds out.
fn probe(address: SocketAddr, options: &ListenConfig) -> Result<SocketAddr, ListenError> {
    let udp = netio::udp_server::ServerSocketOptions { reuse_port: false, ..options.udp };
    let tcp = netio::tcp::ListenerOptions { reuse_port: false, ..options.tcp };
    let socket = ServerSocket::bind(address, &udp).map_err(over("UDP", address))?;
    Listener::bind(socket.local_addr(), &tcp).map_err(over("TCP", address))?;
    Ok(socket.local_addr())
}

fn over(transport: &'static str, address: SocketAddr) -> impl Fn(io::Error) -> ListenError {
    move |source| ListenError { address, transport, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(addresses: &[SocketAddr]) -> Result<Listeners, ListenError> {
        bind(addresses, &ListenConfig { workers: 2, tcp_workers: 2, ..ListenConfig::default() })
    }

    #[test]
    fn every_thread_has_its_own_sockets_at_the_same_port() {
        let listeners = bound(&["127.0.0.1:0".parse().expect("a literal")]).expect("loopback");
        let address = listeners.addresses()[0];
        assert_ne!(address.port(), 0);
        assert!(listeners.udp.len() == 2 && listeners.udp.iter().all(|(_, socket)| socket.local_addr() == address));
        let tcp: Vec<_> =
            listeners.tcp.iter().flatten().map(|listener| listener.local_addr().expect("bound")).collect();
        assert_eq!(tcp, [address; 2]);
    }

    #[test]
    fn a_second_server_is_told_that_the_address_is_taken() {
        let first = bound(&["127.0.0.1:0".parse().expect("a literal")]).expect("loopback");
        let error = bound(first.addresses()).err().expect("the first server still has it").to_string();
        assert!(error.contains("over UDP") && error.contains("another program has it"), "{error}");
    }

    #[test]
    fn addresses_of_one_server_may_overlap() {
        // A port that was free a moment ago may be that of another test by now: one of some attempts has it still.
        let overlap = || {
            let first = bound(&["127.0.0.1:0".parse().expect("a literal")]).expect("loopback").addresses()[0];
            let addresses = [SocketAddr::new([0, 0, 0, 0].into(), first.port()), first];
            bound(&addresses).map(|listeners| assert_eq!(listeners.addresses(), addresses))
        };
        assert!((0..16).any(|_| overlap().is_ok()), "{:?}", overlap().err());
    }

    #[test]
    fn an_address_of_nobody_is_refused_with_the_mend() {
        let error = bound(&["192.0.2.1:53".parse().expect("a literal")]).err().expect("a documentation address");
        assert!(error.to_string().contains("no interface of this host has the address"), "{error}");
    }
}
