//! Binding the sockets of all threads, before privileges are given up.

use super::ListenConfig;
use crate::tls::ServerTls;
use netio::tcp::Listener;
use netio::udp_endpoint::UdpEndpoint;
use netio::udp_server::ServerSocket;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Bound sockets.
pub struct Listeners {
    pub(super) addresses: Vec<SocketAddr>,
    /// Each with the number of its worker.
    pub(super) udp: Vec<(usize, ServerSocket)>,
    /// For each thread a listener for each address.
    pub(super) tcp: Vec<Vec<Listener>>,
    pub(super) tls_addresses: Vec<SocketAddr>,
    /// For each thread that does TLS handshakes a listener for each address.
    pub(super) tls: Option<(Vec<Vec<Listener>>, Arc<ServerTls>)>,
    pub(super) quic_addresses: Vec<SocketAddr>,
    /// For each QUIC thread a socket for each of its addresses.
    pub(super) quic: Vec<(Vec<UdpEndpoint>, Arc<ServerTls>)>,
    pub(super) options: ListenConfig,
}

impl Listeners {
    /// The addresses in configured order, port 0 replaced by the port that the kernel chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The addresses for TLS, as [`Listeners::addresses`].
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// The addresses for QUIC, as [`Listeners::addresses`].
    pub fn quic_addresses(&self) -> &[SocketAddr] {
        &self.quic_addresses
    }

    /// Binds addresses for QUIC (RFC 9250 4.1), once per QUIC thread. Connections are accepted with `tls`.
    pub fn bind_quic(&mut self, addresses: &[SocketAddr], tls: &Arc<ServerTls>) -> Result<(), ListenError> {
        let alone = netio::udp_server::ServerSocketOptions { reuse_port: false, ..self.options.udp };
        // One after the other: those of this server may overlap.
        let probe = |address: &SocketAddr| UdpEndpoint::bind(*address, &alone).map(|socket| socket.local_addr());
        let probed = addresses.iter().map(|address| probe(address).map_err(over("QUIC", *address)));
        let bound = probed.collect::<Result<Vec<SocketAddr>, _>>()?;
        for _ in 0..if bound.is_empty() { 0 } else { self.options.quic.workers } {
            let bind =
                |address: &SocketAddr| UdpEndpoint::bind(*address, &self.options.udp).map_err(over("QUIC", *address));
            self.quic.push((bound.iter().map(bind).collect::<Result<_, _>>()?, tls.clone()));
        }
        self.quic_addresses = bound;
        Ok(())
    }

    /// Binds addresses for TLS (RFC 7858 3.1, RFC 9103 7.3). Connections are accepted with `tls`.
    pub fn bind_tls(&mut self, addresses: &[SocketAddr], tls: &Arc<ServerTls>) -> Result<(), ListenError> {
        let alone = netio::tcp::ListenerOptions { reuse_port: false, ..self.options.tcp };
        let mut bound = Vec::with_capacity(addresses.len());
        for address in addresses {
            let probe = Listener::bind(*address, &alone).map_err(over("TLS", *address))?;
            bound.push(probe.local_addr().map_err(over("TLS", *address))?);
        }
        let options = listener_options(&self.options);
        if !bound.is_empty() {
            let bind = |address: &SocketAddr| Listener::bind(*address, &options).map_err(over("TLS", *address));
            let listeners = (0..self.options.handshake_workers).map(|_| bound.iter().map(bind).collect());
            self.tls = Some((listeners.collect::<Result<_, _>>()?, tls.clone()));
        }
        self.tls_addresses = bound;
        Ok(())
    }
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} over {transport}: {source}{}", help(.source, .address))]
pub struct ListenError {
    /// The configured address.
    pub address: SocketAddr,
    /// `UDP`, `TCP`, `TLS` or `QUIC`.
    pub transport: &'static str,
    /// The system error.
    pub source: io::Error,
}

fn help(error: &io::Error, address: &SocketAddr) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse if address.ip().is_unspecified() => {
            " (another program has one of the addresses, as systemd-resolved has 127.0.0.53: `ss -ltunp` shows which; name your own in `listen`)"
        }
        io::ErrorKind::AddrInUse => " (another program has it: `ss -ltunp` shows which)",
        io::ErrorKind::AddrNotAvailable => " (no interface of this host has the address: `ip address` shows them)",
        io::ErrorKind::PermissionDenied => " (ports below 1024 need root or CAP_NET_BIND_SERVICE)",
        _ => "",
    }
}

/// Binds every address over UDP and TCP, once per thread. RFC 9210 3: truncated responses can be asked for again over TCP. For port 0 the
/// kernel chooses one that is free for both.
pub fn bind(addresses: &[SocketAddr], options: &ListenConfig) -> Result<Listeners, ListenError> {
    // A port chosen for UDP may be in use for TCP, or be taken by another process before all sockets are bound.
    let attempts = if addresses.iter().any(|address| address.port() == 0) { 16 } else { 1 };
    let early = (1..attempts).find_map(|_| bind_once(addresses, options).ok());
    early.map_or_else(|| bind_once(addresses, options), Ok)
}

fn bind_once(addresses: &[SocketAddr], options: &ListenConfig) -> Result<Listeners, ListenError> {
    // Probe all addresses first: a wildcard address bound here would look like another program's.
    let addresses = addresses.iter().map(|address| probe(*address, options)).collect::<Result<Vec<_>, _>>()?;
    let mut udp = Vec::new();
    for worker in 0..options.workers {
        for address in &addresses {
            udp.push((worker, ServerSocket::bind(*address, &options.udp).map_err(over("UDP", *address))?));
        }
    }
    let tcp = listener_options(options);
    let listeners = |_| {
        let bind = |address: &SocketAddr| Listener::bind(*address, &tcp).map_err(over("TCP", *address));
        addresses.iter().map(bind).collect()
    };
    let tcp = (0..options.tcp_workers).map(listeners).collect::<Result<_, _>>()?;
    let (tls_addresses, tls, quic_addresses, quic) = (Vec::new(), None, Vec::new(), Vec::new());
    Ok(Listeners { addresses, udp, tcp, tls_addresses, tls, quic_addresses, quic, options: options.clone() })
}

fn listener_options(options: &ListenConfig) -> netio::tcp::ListenerOptions {
    // The kernel must not give up a client before the server does.
    netio::tcp::ListenerOptions { user_timeout: options.tcp.user_timeout.max(options.idle_timeout), ..options.tcp }
}

/// Checks that no other process has the address, and chooses a port for port 0.
///
/// With SO_REUSEPORT, a second server of the same user would silently take half of the queries. A socket without it fails.
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
    use crate::tls::{OwnCertificate, ServerTlsFiles};

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
    fn a_second_server_is_refused_the_address() {
        let first = bound(&["127.0.0.1:0".parse().expect("a literal")]).expect("loopback");
        let error = bound(first.addresses()).err().expect("the first server still has it").to_string();
        assert!(error.contains("over UDP") && error.contains("another program has it"), "{error}");
    }

    #[test]
    fn a_wildcard_is_refused_where_another_program_has_one_of_its_addresses() {
        let first = bound(&["127.0.0.9:0".parse().expect("a literal")]).expect("loopback");
        let all = SocketAddr::from(([0, 0, 0, 0], first.addresses()[0].port()));
        let error = bound(&[all]).err().expect("the first server has one of them").to_string();
        assert!(error.contains("one of the addresses") && error.contains("`listen`"), "{error}");
    }

    #[test]
    fn addresses_of_one_server_may_overlap() {
        // Another test may have taken the port meanwhile: one of several attempts succeeds.
        let overlap = || {
            let first = bound(&["127.0.0.1:0".parse().expect("a literal")]).expect("loopback").addresses()[0];
            let addresses = [SocketAddr::new([0, 0, 0, 0].into(), first.port()), first];
            bound(&addresses).map(|listeners| assert_eq!(listeners.addresses(), addresses))
        };
        assert!((0..16).any(|_| overlap().is_ok()), "{:?}", overlap().err());
    }

    #[test]
    fn addresses_for_quic_may_overlap_too() {
        let files = ServerTlsFiles { own: OwnCertificate::SelfSigned, authorities: None, ticket_keys: None };
        let tls = Arc::new(ServerTls::read(&files).expect("no files"));
        let any: SocketAddr = "127.0.0.1:0".parse().expect("a literal");
        // Another test may have taken the port meanwhile: one of several attempts succeeds.
        let overlap = || {
            let mut listeners = bound(&[any]).expect("loopback");
            listeners.bind_quic(&[any], &tls)?;
            let first = listeners.quic_addresses()[0];
            drop(listeners);
            let addresses = [SocketAddr::new([0, 0, 0, 0].into(), first.port()), first];
            let mut listeners = bound(&[any]).expect("loopback");
            listeners.bind_quic(&addresses, &tls).map(|()| assert_eq!(listeners.quic_addresses(), addresses))
        };
        assert!((0..16).any(|_| overlap().is_ok()), "{:?}", overlap().err());
    }

    #[test]
    fn an_address_of_no_interface_is_refused_with_help() {
        let error = bound(&["192.0.2.1:53".parse().expect("a literal")]).err().expect("a documentation address");
        assert!(error.to_string().contains("no interface of this host has the address"), "{error}");
    }
}
