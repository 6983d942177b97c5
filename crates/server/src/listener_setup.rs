//! What the configuration says about listeners, for `zonda serve` and `zonda tune`: addresses, threads, limits.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use answer::AddressPrefix;

use crate::config::{Endpoint, Server};
use crate::listen::{ListenConfig, Proxies, QuicConfig};
use crate::open_files;

/// The addresses to listen on, without the default IPv6 one if the kernel has no IPv6.
pub fn addresses(server: &Server) -> Vec<SocketAddr> {
    let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
    let is_default = server.listen == Server::default().listen;
    let addresses = server.listen.iter().map(|Endpoint(address)| *address);
    addresses.filter(|address| address.is_ipv4() || has_ipv6 || !is_default).collect()
}

/// How many threads each transport has.
struct Threads {
    udp: usize,
    tcp: usize,
    tls: usize,
    quic: usize,
}

impl Threads {
    fn of(server: &Server) -> Threads {
        let processors = netio::cpu_affinity::allowed_cpus().map_or(1, |allowed| allowed.len());
        let or = |count: u32, automatic: usize| if count == 0 { automatic } else { count as usize };
        let tcp = or(server.tcp_workers.0, processors.div_ceil(2));
        Threads {
            udp: or(server.workers.0, processors),
            tcp,
            tls: if server.listen_tls.is_empty() { 0 } else { tcp },
            quic: if server.listen_quic.is_empty() { 0 } else { tcp },
        }
    }

    fn for_streams(&self) -> usize {
        self.tcp + self.tls + self.quic
    }
}

/// The most addresses that a transport has.
fn address_count(server: &Server) -> usize {
    addresses(server).len().max(server.listen_tls.len()).max(server.listen_quic.len())
}

/// How many descriptors the daemon needs at least.
pub fn needed_files(server: &Server) -> usize {
    let threads = Threads::of(server);
    open_files::needed(address_count(server), threads.udp, threads.for_streams())
}

/// The threads and limits of the listeners.
pub fn listen_config(server: &Server) -> ListenConfig {
    let threads = Threads::of(server);
    let reserved = open_files::reserved(address_count(server), threads.udp, threads.for_streams());
    ListenConfig {
        workers: threads.udp,
        tcp_workers: threads.tcp,
        tls_workers: threads.tls,
        connections: open_files::max_connections(server.tcp_connections.0 as usize, reserved),
        connections_per_client: server.tcp_connections_per_client.0 as usize,
        idle_timeout: Duration::from_millis(server.tcp_idle_timeout_ms.0.into()),
        quic: QuicConfig {
            workers: threads.quic,
            connections: open_files::max_quic_connections(server.quic_connections.0 as usize),
            connections_per_client: server.quic_connections_per_client.0 as usize,
            idle_timeout: Duration::from_millis(server.quic_idle_timeout_ms.0.into()),
            handshake_percent: server.tls_handshake_percent.0 as usize,
            ..ListenConfig::default().quic
        },
        proxies: proxies(server),
        handshake_percent: server.tls_handshake_percent.0 as usize,
        ..ListenConfig::default()
    }
}

fn proxies(server: &Server) -> Proxies {
    server.proxy_from.iter().copied().map(AddressPrefix::from).collect::<Vec<_>>().into()
}
