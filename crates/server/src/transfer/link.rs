//! What the engine keeps of one primary: its probes, its connections, the exchanges that wait for one, and what it can do.

use std::collections::{HashMap, HashSet, VecDeque};

use super::Now;
use super::notify_sender::NotifyId;
use super::session::{ExchangeKind, Session, TransferSink};
use super::soa_probe::SoaProber;
use crate::zone_id::ZoneId;

/// The number of a connection; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A primary with what is in flight to it.
pub(super) struct Link<T> {
    pub(super) prober: SoaProber,
    pub(super) connections: HashMap<ConnectionId, Connection<T>>,
    /// Exchanges without a connection.
    pub(super) queue: VecDeque<Request>,
    /// Exchanges on connections.
    pub(super) active: HashMap<(ZoneId, ExchangeKind), Request>,
    /// When SOA queries were queued for a stream, in milliseconds, and their zones, until they would be slow.
    asked: VecDeque<(u64, ZoneId)>,
    /// Nothing has come from the primary since a connection ended that brought nothing.
    pub(super) is_unreachable: bool,
    /// When the primary last answered, in milliseconds.
    pub(super) heard_ms: Option<u64>,
    /// Why it could not be reached the last time.
    pub(super) failure: Option<Box<str>>,
    reuse: Reuse,
    /// When full reuse is tried again, in milliseconds.
    degraded_until_ms: u64,
    /// Until when SOA queries go over streams, in milliseconds: datagrams do not arrive.
    pub(super) no_udp_until_ms: u64,
    /// Until when queries have no OPT, in milliseconds: the primary does not know EDNS.
    no_edns_until_ms: u64,
}

/// A connection to a primary.
pub(super) struct Connection<T> {
    pub(super) session: Session<T>,
    pub(super) is_established: bool,
    /// When it was opened, and since then when it last became idle, in milliseconds.
    pub(super) since_ms: u64,
    /// How long it is kept while idle, in milliseconds.
    pub(super) idle_ms: u64,
    pub(super) is_encrypted: bool,
    /// No more exchanges begin on it: it was opened with former TLS settings.
    pub(super) is_retired: bool,
    /// Exchanges started on it.
    started: u64,
}

/// An exchange on a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) zone: ZoneId,
    pub(super) purpose: RequestPurpose,
    /// How often a connection ended before its response.
    pub(super) attempts: u8,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RequestPurpose {
    /// A SOA query; `is_fallback` if datagrams were not answered.
    Probe {
        is_fallback: bool,
        asked_ms: u64,
    },
    Transfer {
        from_serial: Option<u32>,
        not_before: Option<u32>,
    },
    Notify(NotifyId),
}

/// How the primary lets connections be used (RFC 7766 6.2.1): not all read a second query before they have answered the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reuse {
    Pipelined,
    OneAtATime,
    OnePerConnection,
}

/// The most exchanges in flight on one connection: enough to hide the round trip, and few to repeat if it breaks.
const PIPELINE: usize = 128;
/// From this load on another connection is opened, if there may be more.
const SPREAD: usize = 16;
/// A transfer of this many octets delays the next ones on the same connection: they take another one.
const BIG_TRANSFER: u64 = 1 << 20;
/// Connections per primary.
const MAX_CONNECTIONS: usize = 4;
/// Connections per primary that answers one query per connection.
const MAX_SINGLE_CONNECTIONS: usize = 16;
/// How long a primary that breaks connections is spared pipelining: an hour.
const DEGRADED_MS: u64 = 3_600_000;

/// From when on a SOA query over a stream is slow, in milliseconds: when one over UDP has been sent twice without an answer.
const SLOW_PROBE_MS: u64 = 3_000;

/// How long a primary counts as there after an answer: longer than a transfer stalls after the check that precedes it.
const HEARD_MS: u64 = 60_000;

/// How long a primary that does not know EDNS is asked without: an hour.
const NO_EDNS_MS: u64 = 3_600_000;

impl Request {
    pub(super) fn key(&self) -> (ZoneId, ExchangeKind) {
        let kind = match self.purpose {
            RequestPurpose::Probe { .. } => ExchangeKind::Probe,
            RequestPurpose::Transfer { .. } => ExchangeKind::Transfer,
            RequestPurpose::Notify(_) => ExchangeKind::Notify,
        };
        (self.zone, kind)
    }
}

impl<T: TransferSink> Connection<T> {
    pub(super) fn new(session: Session<T>, idle_ms: u64, is_encrypted: bool, now: Now) -> Connection<T> {
        let (is_established, is_retired) = (false, false);
        Connection { session, is_established, since_ms: now.ms, idle_ms, is_encrypted, is_retired, started: 0 }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.session.in_flight() == 0
    }
}

impl<T: TransferSink> Link<T> {
    pub(super) fn new(prober: SoaProber) -> Link<T> {
        Link {
            prober,
            connections: HashMap::new(),
            queue: VecDeque::new(),
            active: HashMap::new(),
            asked: VecDeque::new(),
            is_unreachable: false,
            heard_ms: None,
            failure: None,
            reuse: Reuse::Pipelined,
            degraded_until_ms: 0,
            no_udp_until_ms: 0,
            no_edns_until_ms: 0,
        }
    }

    /// Whether the primary has answered within [`HEARD_MS`].
    pub(super) fn was_heard_lately(&self, now: Now) -> bool {
        self.heard_ms.is_some_and(|at_ms| now.ms.saturating_sub(at_ms) < HEARD_MS)
    }

    pub(super) fn uses_edns(&self, now: Now) -> bool {
        now.ms >= self.no_edns_until_ms
    }

    /// RFC 6891 7: the primary has answered FORMERR to a query with OPT.
    pub(super) fn avoid_edns(&mut self, now: Now) {
        self.no_edns_until_ms = now.ms + NO_EDNS_MS;
    }

    /// Queues a SOA query for a stream.
    pub(super) fn queue_probe(&mut self, zone: ZoneId, is_fallback: bool, now: Now) {
        let purpose = RequestPurpose::Probe { is_fallback, asked_ms: now.ms };
        self.queue.push_back(Request { zone, purpose, attempts: 0 });
        self.asked.push_back((now.ms, zone));
    }

    /// The zones whose SOA queries have become slow since the last call.
    pub(super) fn take_slow_probes(&mut self, now: Now) -> Vec<ZoneId> {
        let due = self.asked.partition_point(|(asked_ms, _)| asked_ms + SLOW_PROBE_MS <= now.ms);
        let due: HashSet<(u64, ZoneId)> = self.asked.drain(..due).collect();
        if due.is_empty() {
            return Vec::new();
        }
        let is_due = |request: &&Request| match request.purpose {
            RequestPurpose::Probe { asked_ms, .. } => due.contains(&(asked_ms, request.zone)),
            _ => false,
        };
        self.active.values().chain(&self.queue).filter(is_due).map(|request| request.zone).collect()
    }

    /// When [`Link::take_slow_probes`] must be called, in milliseconds.
    pub(super) fn slow_probe_time(&self) -> Option<u64> {
        self.asked.front().map(|(asked_ms, _)| asked_ms + SLOW_PROBE_MS)
    }

    /// The connection for the next exchange, which counts as started; `None` if a new one is better, or all are busy.
    pub(super) fn connection_for_next(&mut self, now: Now) -> Option<ConnectionId> {
        let (reuse, may_open) = (self.reuse(now), self.may_open(now));
        let limit = if reuse == Reuse::Pipelined { PIPELINE } else { 1 };
        let usable = self.connections.iter().filter(|(_, connection)| {
            let is_spent = connection.is_retired || (reuse == Reuse::OnePerConnection && connection.started > 0);
            let is_blocked = connection.session.largest_transfer() > BIG_TRANSFER;
            let has_room = connection.session.in_flight() < limit && connection.session.has_free_ids();
            has_room && !is_spent && !(is_blocked && may_open)
        });
        let load = |connection: &Connection<T>| connection.session.in_flight();
        let (id, best) = usable.min_by_key(|(id, connection)| (load(connection), **id))?;
        if load(best) >= SPREAD && may_open {
            return None;
        }
        let id = *id;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.started += 1;
        }
        Some(id)
    }

    /// Whether another connection to this primary may be opened.
    pub(super) fn may_open(&mut self, now: Now) -> bool {
        let single = self.reuse(now) == Reuse::OnePerConnection;
        self.connections.len() < if single { MAX_SINGLE_CONNECTIONS } else { MAX_CONNECTIONS }
    }

    /// Whether an idle connection is of no more use.
    pub(super) fn is_spent(&mut self, id: ConnectionId, now: Now) -> bool {
        let is_single = self.reuse(now) == Reuse::OnePerConnection;
        let is_spent = |of: &Connection<T>| of.is_idle() && (of.is_retired || (is_single && of.started > 0));
        self.connections.get(&id).is_some_and(is_spent)
    }

    pub(super) fn reuse(&mut self, now: Now) -> Reuse {
        if now.ms >= self.degraded_until_ms {
            self.reuse = Reuse::Pipelined;
        }
        self.reuse
    }

    /// A connection ended although queries were in flight, after this many answers: later connections get fewer queries.
    pub(super) fn degrade(&mut self, answered: u64, in_flight: usize, now: Now) {
        self.reuse = match self.reuse(now) {
            Reuse::Pipelined if answered > 0 || in_flight > 1 => Reuse::OneAtATime,
            Reuse::OneAtATime if answered > 0 => Reuse::OnePerConnection,
            reuse => reuse,
        };
        self.degraded_until_ms = now.ms + DEGRADED_MS;
    }
}
