//! The configuration of a run, and when each of its workers sends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netio::udp_client::Sources;
use wire::tsig::TsigKey;

use crate::answer_window::grace;
use crate::pacer::Pacing;
use crate::queries::Queries;
use crate::schedule::{ArrivalProcess, RateProfile, from_profile, from_trace};
use crate::tls::TlsConfig;
use crate::verify::ResponseChecker;

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Job {
    /// The server under test.
    pub server: SocketAddr,
    /// UDP, TCP or both.
    pub transport: Transport,
    /// With [`Transport::Mixed`], the share of queries over TCP.
    pub tcp_share: f64,
    /// With [`Transport::Mixed`], the share of queries over TLS; the others go over UDP.
    pub tls_share: f64,
    /// With [`Transport::Mixed`], the server's port for TLS.
    pub tls_port: u16,
    /// UDP sockets, or TCP connections, of all threads together.
    pub connections: usize,
    /// A TCP connection is closed after this many queries; 0: never.
    pub queries_per_connection: u32,
    /// Whether the first query of a TCP connection goes with the SYN where the server allows it (RFC 7413).
    pub fast_open: bool,
    /// A connection is closed when it has had no outstanding query for so long. Every captured client then has a
    /// connection of its own, instead of those of the capture.
    pub idle_timeout: Option<Duration>,
    /// Whether captured UDP queries and TCP connections have the ports of their clients. A port belongs to one thread, so
    /// there must be only one.
    pub keep_ports: bool,
    /// The source addresses; `None` for the one that the kernel chooses.
    pub sources: Option<Sources>,
    /// The maximum number of queries in a segment burst (UDP_SEGMENT), in which the kernel gets them as one send and the
    /// server may get them as one receive; 1 to [`MAX_BURST_LEN`]. With 1, every query is a datagram of its own.
    pub burst_len: usize,
    /// Whether every 1024 consecutive queries are sorted by length, for longer segment bursts.
    pub sort_by_length: bool,
    /// Set for TLS: instead of plain TCP, or with [`Transport::Mixed`] for its share.
    pub tls: Option<TlsConfig>,
    /// The TSIG key, if queries are signed.
    pub key: Option<Arc<TsigKey>>,
    /// The queries; at least one.
    pub queries: Arc<Queries>,
    /// Checks responses.
    pub checker: ResponseChecker,
    /// When queries are sent.
    pub timing: Timing,
    /// The run ends after this many queries, if it does not end earlier.
    pub max_queries: u64,
    /// How long queries are sent but not counted.
    pub warm_up: Duration,
    /// The time-out of a query.
    pub timeout: Duration,
    /// The reporting interval.
    pub interval: Duration,
    /// Whether latencies end when the kernel received a response over UDP, instead of when the program read it.
    pub kernel_timestamps: bool,
    /// Whether latencies are recorded by query type and RCODE too.
    pub breakdown: bool,
    /// The processors to pin a thread to each; if empty, there is one thread, which is not pinned.
    pub cpus: Vec<usize>,
}

/// The transport of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP, or TLS if [`Job::tls`] is set.
    Tcp,
    /// Several: as captured, or by [`Job::tcp_share`] and [`Job::tls_share`].
    Mixed,
}

/// When queries are sent.
#[derive(Clone, Debug)]
pub enum Timing {
    /// Open loop: at the rates of a profile, to which the warm-up is added.
    Rate(RateProfile, ArrivalProcess),
    /// Open loop: at the times of a capture, faster by a factor.
    Trace {
        /// The factor.
        speed: f64,
    },
    /// Closed loop: a query is sent when another is answered. Latencies are subject to coordinated omission.
    Closed {
        /// The number of outstanding queries.
        outstanding: usize,
        /// The duration, without the warm-up.
        seconds: f64,
    },
}

/// The largest [`Job::burst_len`]: the kernel's limit of segments in one send.
pub const MAX_BURST_LEN: usize = 64;

/// The most due UDP queries that one system call sends.
const MAX_BATCH_LEN: usize = 64;
/// How many consecutive queries [`Job::sort_by_length`] sorts: enough for full segment bursts, few enough that the order
/// hardly changes what the server has in its caches.
const SORT_WINDOW: usize = 1024;

impl Job {
    /// A run over UDP by one socket, in which only the question of a response is checked.
    pub fn new(server: SocketAddr, queries: Arc<Queries>, timing: Timing) -> Job {
        Job {
            server,
            transport: Transport::Udp,
            tcp_share: 0.0,
            tls_share: 0.0,
            tls_port: 853,
            idle_timeout: None,
            keep_ports: false,
            connections: 1,
            queries_per_connection: 0,
            fast_open: false,
            sources: None,
            burst_len: 1,
            sort_by_length: false,
            tls: None,
            key: None,
            queries,
            checker: ResponseChecker::Question,
            timing,
            max_queries: u64::MAX,
            warm_up: Duration::ZERO,
            timeout: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            kernel_timestamps: false,
            breakdown: false,
            cpus: Vec::new(),
        }
    }

    /// How many due UDP queries are sent by one system call: enough to amortize it, too few to fill the queue of one thread of a
    /// server that distributes clients by address and port.
    pub fn batch_len(&self) -> usize {
        let batch_len = match self.timing {
            Timing::Closed { outstanding, .. } => (outstanding / 8).clamp(1, MAX_BATCH_LEN),
            Timing::Rate(..) | Timing::Trace { .. } => 8,
        };
        batch_len.max(self.burst_len)
    }

    /// How much longer than the fastest answer one may take after the end of sending and still count.
    pub fn grace(&self) -> Duration {
        grace(self.sending_time().saturating_sub(self.warm_up))
    }

    /// How long queries are scheduled for, including the warm-up.
    pub fn sending_time(&self) -> Duration {
        match &self.timing {
            Timing::Rate(profile, _) => self.warm_up + Duration::from_secs_f64(profile.seconds()),
            Timing::Closed { seconds, .. } => self.warm_up + Duration::from_secs_f64(*seconds),
            // The warm-up of a trace is its beginning.
            Timing::Trace { speed } => {
                let last_ns = self.queries.origins().last().map_or(0, |last| last.time_ns);
                Duration::from_nanos((last_ns as f64 / speed) as u64)
            }
        }
    }

    /// The order of sending; empty for ascending numbers. Captures keep theirs.
    pub fn order(&self) -> Arc<[u32]> {
        match self.sort_by_length && self.queries.origins().is_empty() {
            true => self.queries.sorted_by_length(SORT_WINDOW),
            false => Arc::default(),
        }
    }

    /// Whether captured TCP connections are opened and closed at their times.
    pub fn follows_connections(&self) -> bool {
        let keeps_transports = self.tcp_share + self.tls_share == 0.0 && self.transport != Transport::Udp;
        matches!(self.timing, Timing::Trace { .. }) && self.idle_timeout.is_none() && keeps_transports
    }

    /// The numbers of the queries that worker number `index` of `count` sends in a replay; `None` if workers take turns.
    pub fn replay_share(&self, index: usize, count: usize) -> Option<Arc<[u32]>> {
        matches!(self.timing, Timing::Trace { .. }).then(|| self.queries.share(index, count))
    }

    /// When worker number `index` of `count` sends.
    pub fn pacing(&self, index: usize, count: usize) -> Pacing {
        match &self.timing {
            Timing::Rate(profile, arrivals) => {
                let profile = profile.clone().after_warm_up(self.warm_up.as_secs_f64());
                Pacing::open(from_profile(profile, *arrivals), index, count)
            }
            Timing::Trace { speed } => {
                let numbers = self.queries.share(index, count);
                let times = numbers.iter().map(|&number| self.queries.origins()[number as usize].time_ns).collect();
                Pacing::open(from_trace(times, *speed), 0, 1)
            }
            Timing::Closed { outstanding, seconds } => {
                let outstanding = share_of(*outstanding, index, count);
                let end = self.warm_up + Duration::from_secs_f64(*seconds);
                Pacing::Closed { outstanding, end_ns: end.as_nanos() as u64 }
            }
        }
    }
}

/// How many of `total` things worker number `index` of `count` gets.
pub fn share_of(total: usize, index: usize, count: usize) -> usize {
    total / count + usize::from(index < total % count)
}
