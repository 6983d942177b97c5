//! The listeners: sockets, and the threads that receive queries, have them answered and send the responses.
//!
//! [`bind()`] first (ports below 1024 need root), then [`Listeners::serve`] once there is something to serve. UDP, TCP, TLS and QUIC
//! have threads of their own, so that neither a flood of connections nor a transfer delays a datagram.

mod bind;
mod buffer;
mod client_counts;
mod connection_eviction;
mod connection_limit;
mod connection_pool;
mod counters;
mod denied_request_log;
mod handover;
mod handshake_queue;
mod handshake_share;
mod idle_timeout;
mod late_reply;
mod limits;
mod memory_sampler;
mod network_lanes;
mod outgoing_transfer;
mod panic_guard;
pub mod proxy;
mod quic;
mod responder;
mod stream_responder;
mod tcp_connection;
mod tcp_worker;
mod threads;
mod tls_connection;
mod udp_worker;
mod worker_setup;

pub use bind::{ListenError, Listeners, bind};
pub use counters::{CounterReader, CounterTotals, ListenerCounters, METRICS, Metric};
pub use late_reply::{IncomingUpdate, LateReply};
pub use proxy::Proxies;
pub use responder::{EventSinks, NotifySink, Responder, UpdateSink, ZoneResponder};
pub use threads::ListenerThreads;

use std::time::Duration;

/// Threads, limits and socket options.
#[derive(Clone, Debug)]
pub struct ListenConfig {
    /// UDP threads for each address, pinned to different processors as far as there are enough.
    pub workers: usize,
    /// TCP threads.
    pub tcp_workers: usize,
    /// TLS threads, if there are addresses for TLS, besides those that do handshakes.
    pub tls_workers: usize,
    /// Threads that do TLS handshakes, if there are addresses for TLS.
    pub handshake_workers: usize,
    /// Maximum number of connections, over all threads. To make room for another, one without progress for a second in the
    /// middle of a message or response is closed, or else the one that is idle for the longest.
    pub connections: usize,
    /// Maximum number of connections of a client (an IPv4 address or IPv6 /56), over all threads. Others are closed at once.
    pub connections_per_client: usize,
    /// Maximum memory of the connections of one thread, in octets, including the kernel's: incomplete queries and unread
    /// responses. When they need more, those without progress for the longest are closed.
    pub memory_limit: usize,
    /// How long a connection may be idle or make no progress in sending a query or reading responses; less when there are many.
    pub idle_timeout: Duration,
    /// The processor time for TLS handshakes of all threads, in percent of one processor.
    pub handshake_percent: usize,
    /// The proxies that name their clients in PROXY headers, over UDP, TCP and TLS.
    pub proxies: Proxies,
    /// How long a stop waits for clients to read their responses.
    pub grace: Duration,
    /// The settings of QUIC.
    pub quic: QuicConfig,
    /// UDP socket options; the wake interval is the time within which a stop is noticed.
    pub udp: netio::udp_server::ServerSocketOptions,
    /// TCP listener options.
    pub tcp: netio::tcp::ListenerOptions,
}

/// Threads and limits of QUIC; those that are not here are as for TCP.
#[derive(Clone, Debug)]
pub struct QuicConfig {
    /// QUIC threads, if there are addresses for QUIC.
    pub workers: usize,
    /// Maximum number of connections, over all threads. To make room for another, the one that made no progress for the longest is
    /// closed.
    pub connections: usize,
    /// Maximum number of connections of a client (an IPv4 address or IPv6 /56), over all threads. Others are refused.
    pub connections_per_client: usize,
    /// How long a connection may make no progress; less when there are many.
    pub idle_timeout: Duration,
    /// Maximum memory that the connections of one thread hold besides what each of them has, in octets: incomplete queries, unread
    /// responses. When they need more, those without progress for the longest are closed.
    pub memory_limit: usize,
    /// The processor time for handshakes of all threads, in percent of one processor.
    pub handshake_percent: usize,
}

/// The memory of an idle QUIC connection, in octets; at most, and in the server alone.
pub const QUIC_CONNECTION_MEMORY: u64 = quic::CONNECTION_MEMORY as u64;

/// TCP_NOTSENT_LOWAT in octets: enough to keep a transfer going while its thread serves others, little if a client does not
/// read.
const UNSENT: u32 = 64 << 10;
/// SO_RCVBUF of a connection, in octets: enough for what one turn reads. Otherwise it grows to megabytes for clients that send and never read.
const RECEIVE_BUFFER: u32 = 64 << 10;
/// TCP_USER_TIMEOUT: the kernel retransmits for this long after a connection is closed.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

impl Default for ListenConfig {
    fn default() -> ListenConfig {
        ListenConfig {
            workers: 1,
            tcp_workers: 1,
            tls_workers: 1,
            handshake_workers: 1,
            connections: 10_000,
            connections_per_client: 1_000,
            // About 200 clients that read nothing.
            memory_limit: 64 << 20,
            idle_timeout: Duration::from_secs(10),
            handshake_percent: 50,
            proxies: Proxies::default(),
            grace: Duration::from_secs(5),
            quic: QuicConfig {
                workers: 1,
                connections: 10_000,
                connections_per_client: 1_000,
                idle_timeout: Duration::from_secs(10),
                memory_limit: 128 << 20,
                handshake_percent: 50,
            },
            udp: netio::udp_server::ServerSocketOptions::default(),
            tcp: netio::tcp::ListenerOptions {
                unsent: UNSENT,
                receive_buffer: RECEIVE_BUFFER,
                user_timeout: USER_TIMEOUT,
                ..Default::default()
            },
        }
    }
}
