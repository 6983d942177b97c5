//! What the configuration says about listeners, for `zonda serve` and `zonda tune`: addresses, threads, limits.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use crate::config::value::Prefix;
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
    /// For TLS handshakes.
    handshakes: usize,
    quic: usize,
}

impl Threads {
    fn of(server: &Server) -> Threads {
        let processors = netio::cpu_affinity::allowed_cpus().map_or(1, |allowed| allowed.len());
        let or = |count: u32, automatic: usize| if count == 0 { automatic } else { count as usize };
        let tcp = or(server.tcp_workers.0, processors.div_ceil(2));
        let tls = if server.listen_tls.is_empty() { 0 } else { tcp };
        Threads {
            udp: or(server.workers.0, processors),
            tcp,
            tls,
            // As many as their processor time needs.
            handshakes: (server.tls_handshake_percent.0 as usize).div_ceil(100).min(tls),
            quic: if server.listen_quic.is_empty() { 0 } else { tcp },
        }
    }

    fn for_streams(&self) -> usize {
        self.tcp + self.tls + self.handshakes + self.quic
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

/// How many descriptors the daemon may need besides its TCP connections, with this many UDP threads.
pub fn reserved_files(server: &Server, workers: usize) -> usize {
    open_files::reserved(address_count(server), workers, Threads::of(server).for_streams())
}

/// The threads and limits of the listeners.
pub fn listen_config(server: &Server) -> ListenConfig {
    let threads = Threads::of(server);
    let reserved = reserved_files(server, threads.udp);
    let connections = open_files::max_connections(server.tcp_connections.0 as usize, reserved);
    let quic_connections = open_files::max_quic_connections(server.quic_connections.0 as usize);
    // Where the system does not say what it has, the limits are those of a usual host.
    let available = netio::resource_limits::available_memory().unwrap_or(u64::MAX);
    let (memory_limit, quic_memory_limit) = memory_limits(&threads, available);
    ListenConfig {
        workers: threads.udp,
        tcp_workers: threads.tcp,
        tls_workers: threads.tls,
        handshake_workers: threads.handshakes,
        connections,
        connections_per_client: per_client(server.tcp_connections_per_client.0, connections),
        memory_limit,
        idle_timeout: Duration::from_millis(server.tcp_idle_timeout_ms.0.into()),
        quic: QuicConfig {
            workers: threads.quic,
            connections: quic_connections,
            connections_per_client: per_client(server.quic_connections_per_client.0, quic_connections),
            idle_timeout: Duration::from_millis(server.quic_idle_timeout_ms.0.into()),
            memory_limit: quic_memory_limit,
            handshake_percent: server.tls_handshake_percent.0 as usize,
        },
        proxies: proxies(server),
        handshake_percent: server.tls_handshake_percent.0 as usize,
        ..ListenConfig::default()
    }
}

/// The connections of one client by default. RFC 9210 4.5 suggests 25 where there is a limit, which resolvers behind one address exceed.
const PER_CLIENT: usize = 1_000;
/// The part of all connections that one client may have by default: where descriptors or memory allow few, it must not have all.
const CLIENT_PART: usize = 4;
/// What a client may have all the same, and needs.
const PER_CLIENT_MIN: usize = 8;

/// The maximum number of connections of one client, of which there are `connections` in all; `configured` as 0 means the default.
fn per_client(configured: u32, connections: usize) -> usize {
    match configured {
        0 => PER_CLIENT.min(connections / CLIENT_PART).max(PER_CLIENT_MIN),
        _ => configured as usize,
    }
}

/// The part of the available memory that connections may hold besides what each idle one takes.
const HELD_PART: u64 = 4;
/// What a thread's connections may hold in any case, in octets: some unread responses of maximum length.
const HELD_MIN: usize = 4 << 20;

/// The memory that the connections of a TCP or TLS thread may hold, and those of a QUIC thread, in octets: as by default, or less where the
/// part of all threads would be exceeded.
fn memory_limits(threads: &Threads, available: u64) -> (usize, usize) {
    let default = ListenConfig::default();
    let streams = threads.tcp + threads.tls + threads.handshakes;
    let wanted = streams * default.memory_limit + threads.quic * default.quic.memory_limit;
    let allowed = available / HELD_PART;
    let share = |limit: usize| {
        let share = limit as u128 * u128::from(allowed) / wanted.max(1) as u128;
        limit.min(usize::try_from(share).unwrap_or(limit)).max(HELD_MIN)
    };
    (share(default.memory_limit), share(default.quic.memory_limit))
}

fn proxies(server: &Server) -> Proxies {
    server.proxy_from.iter().map(|Prefix(prefix)| *prefix).collect::<Vec<_>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::value::WholeNumber;

    #[test]
    fn connections_hold_a_part_of_the_memory_at_most() {
        let limits = |memory_mib: u64, [udp, tcp, tls, quic]: [usize; 4]| {
            let handshakes = tls.min(1);
            let (streams, quic) = memory_limits(&Threads { udp, tcp, tls, handshakes, quic }, memory_mib << 20);
            (streams >> 20, quic >> 20)
        };
        assert_eq!(limits(8192, [2, 2, 2, 2]), (64, 128));
        assert_eq!(limits(1024, [1, 1, 0, 0]), (64, 128));
        // 64 MiB for all: 64 each for TCP, TLS and handshakes, and 128 for QUIC, would be 320.
        assert_eq!(limits(256, [1, 1, 1, 1]), (12, 25));
        assert_eq!(limits(0, [64, 32, 32, 32]), (4, 4));
        let threads = Threads { udp: 1, tcp: 1, tls: 0, handshakes: 0, quic: 0 };
        assert_eq!(memory_limits(&threads, u64::MAX), (64 << 20, 128 << 20));
    }

    #[test]
    fn handshakes_have_as_many_threads_as_their_processor_time_needs() {
        let server = |percent, tls: &str| Server {
            tls_handshake_percent: WholeNumber(percent),
            tcp_workers: WholeNumber(4),
            listen_tls: tls.split_whitespace().map(|one| one.parse().expect("an address")).collect(),
            ..Server::default()
        };
        let threads = |percent, tls| Threads::of(&server(percent, tls)).handshakes;
        let tls = "192.0.2.1";
        assert_eq!([1, 50, 100, 101, 400, 900].map(|percent| threads(percent, tls)), [1, 1, 1, 2, 4, 4]);
        assert_eq!(threads(400, ""), 0);
        let listen = listen_config(&server(400, tls));
        assert_eq!((listen.handshake_workers, listen.handshake_percent), (4, 400));
    }

    #[test]
    fn a_client_has_no_more_than_a_part_of_the_connections_by_default() {
        assert_eq!(
            [1, 32, 400, 4_000, 100_000].map(|connections| per_client(0, connections)),
            [8, 8, 100, 1_000, 1_000]
        );
        assert_eq!([1, 5_000].map(|configured| per_client(configured, 100)), [1, 5_000]);
        let server = Server { tcp_connections: WholeNumber(40), ..Server::default() };
        assert_eq!(listen_config(&server).connections_per_client, 10);
    }
}
