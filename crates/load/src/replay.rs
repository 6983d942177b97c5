//! What a replay keeps of its capture besides queries and times: the worker that sends for a client, the clients' ports,
//! and when their TCP connections are open.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use crate::job::{Job, Timing, share_of};
use crate::queries::{CaptureOrigin, CapturedConnection, Queries};

/// The client's end of a connection in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientEnd {
    /// Its slot in the pool of connections.
    pub slot: u32,
    /// The number of the client among those of the worker, which decides its address.
    pub client: u32,
    /// Its port; 0 if the kernel chooses one.
    pub port: u16,
}

/// One worker's part of a replay; without a capture, nothing.
pub struct Replay {
    queries: Arc<Queries>,
    /// All workers, if each sends for clients of its own; else 1.
    workers: u32,
    slots: Slots,
    keeps_ports: bool,
    /// The connections to open, ascending, and where the next one is.
    opens: TimedConnections,
    closes: TimedConnections,
}

/// How the connections of captured queries are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slots {
    /// A connection for each client.
    Clients(u32),
    /// A connection for each captured one, followed by some that clients with queries over UDP share.
    Captured { connections: u32, shared: u32 },
}

impl Replay {
    /// The part of worker number `index` of `count`.
    pub fn new(job: &Job, index: usize, count: usize) -> Replay {
        let queries = job.queries.clone();
        let (speed, workers) = match job.timing {
            Timing::Trace { speed } => (Some(speed), count as u32),
            _ => (None, 1),
        };
        let shared = share_of(job.connections, index, count).max(1) as u32;
        let captured = if job.follows_connections() { queries.connections() } else { &[] };
        let is_mine = |client: u32| client % workers == index as u32 % workers;
        let scaled = |time_ns: u64| speed.map_or(time_ns, |speed| (time_ns as f64 / speed) as u64);
        let timed = |time_of: fn(&CapturedConnection) -> Option<u64>| {
            let mine = captured.iter().zip(0..).filter(|(connection, _)| is_mine(connection.client));
            TimedConnections::new(
                mine.filter_map(|(connection, number)| Some((scaled(time_of(connection)?), number))).collect(),
            )
        };
        let last_client = queries.origins().iter().map(|origin| origin.client / workers).max();
        let slots = match (job.idle_timeout, last_client) {
            (Some(_), Some(last)) => Slots::Clients(last + 1),
            _ => Slots::Captured { connections: captured.len() as u32, shared },
        };
        let (opens, closes) =
            (timed(|connection| Some(connection.opened_ns)), timed(|connection| connection.closed_ns));
        Replay { slots, workers, keeps_ports: job.keep_ports, opens, closes, queries }
    }

    /// The ports of the clients that the worker has UDP sockets for; empty if the kernel chooses.
    pub fn udp_ports(&self, share: &[u32]) -> Vec<u16> {
        let origins = share.iter().filter_map(|&number| self.queries.origin(number)).filter(|_| self.keeps_ports);
        let ports: BTreeSet<u16> =
            origins.filter(|origin| origin.connection.is_none()).map(|origin| origin.port).collect();
        ports.into_iter().collect()
    }

    /// How many connections may be open at a time.
    pub fn slot_count(&self) -> usize {
        match self.slots {
            Slots::Clients(clients) => clients as usize,
            Slots::Captured { connections, shared } => (connections + shared) as usize,
        }
    }

    /// The number, among those of the worker, of the client that sent a captured query, and its port over UDP.
    pub fn udp_client(&self, number: u32) -> Option<(u32, u16)> {
        self.queries.origin(number).map(|origin| (origin.client / self.workers, origin.port))
    }

    /// The end of the connection for a captured query.
    pub fn end_of(&self, number: u32) -> Option<ClientEnd> {
        let CaptureOrigin { client, connection, .. } = self.queries.origin(number)?;
        let client = client / self.workers;
        match (self.slots, connection) {
            (Slots::Clients(_), _) => Some(ClientEnd { slot: client, client, port: 0 }),
            (Slots::Captured { connections: 1.., .. }, Some(connection)) => Some(self.captured_end(connection)),
            (Slots::Captured { connections, shared }, _) => {
                Some(ClientEnd { slot: connections + client % shared, client, port: 0 })
            }
        }
    }

    /// The end of the next connection to open, if that is due.
    pub fn next_open(&mut self, now_ns: u64) -> Option<ClientEnd> {
        self.opens.next_due(now_ns).map(|connection| self.captured_end(connection))
    }

    /// The end of the next connection to close, if that is due.
    pub fn next_close(&mut self, now_ns: u64) -> Option<ClientEnd> {
        self.closes.next_due(now_ns).map(|connection| self.captured_end(connection))
    }

    /// When the next connection is to be opened or closed.
    pub fn next_ns(&self) -> Option<u64> {
        [self.opens.next_ns(), self.closes.next_ns()].into_iter().flatten().min()
    }

    fn captured_end(&self, connection: u32) -> ClientEnd {
        let CapturedConnection { client, port, .. } = self.queries.connections()[connection as usize];
        ClientEnd { slot: connection, client: client / self.workers, port: if self.keeps_ports { port } else { 0 } }
    }
}

/// Whether a port of a captured client cannot be had: in use, in use for this server, or for privileged processes only.
pub fn is_port_unavailable(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable | ErrorKind::PermissionDenied)
}

/// Connections with times, ascending.
struct TimedConnections {
    times: Vec<(u64, u32)>,
    next: usize,
}

impl TimedConnections {
    fn new(mut times: Vec<(u64, u32)>) -> TimedConnections {
        times.sort_unstable();
        TimedConnections { times, next: 0 }
    }

    fn next_ns(&self) -> Option<u64> {
        self.times.get(self.next).map(|(time_ns, _)| *time_ns)
    }

    fn next_due(&mut self, now_ns: u64) -> Option<u32> {
        let (_, connection) = self.times.get(self.next).copied().filter(|(time_ns, _)| *time_ns <= now_ns)?;
        self.next += 1;
        Some(connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Transport;
    use crate::queries::{QueryTemplate, file};
    use std::time::Duration;

    /// Clients 0 to 3; clients 1 and 2 have the TCP connections 0 and 1.
    fn job() -> Job {
        let query = file::read(b". NS", &QueryTemplate::default()).expect("a query");
        let mut queries = Queries::default();
        for (time_ns, client, connection) in [(0, 0, None), (50, 1, Some(0)), (60, 2, Some(1)), (70, 3, None)] {
            let origin = CaptureOrigin { time_ns, client, port: 1000 + client as u16, connection };
            queries.push_captured(query.at(0).message, origin).expect("a query");
        }
        let connection = |client, opened_ns, closed_ns| CapturedConnection {
            client,
            port: 1000 + client as u16,
            opened_ns,
            closed_ns,
        };
        queries.set_connections(vec![connection(1, 40, Some(100)), connection(2, 20, None)]);
        let server = ([127, 0, 0, 1], 53).into();
        let job = Job::new(server, Arc::new(queries), Timing::Trace { speed: 2.0 });
        Job { transport: Transport::Mixed, keep_ports: true, connections: 3, ..job }
    }

    #[test]
    fn connections_open_and_close_at_their_times_divided_by_the_speed() {
        let mut replay = Replay::new(&job(), 0, 1);
        let [first, second] =
            [(0, 1), (1, 2)].map(|(slot, client)| ClientEnd { slot, client, port: 1000 + client as u16 });
        assert_eq!((replay.next_ns(), replay.next_open(9)), (Some(10), None));
        assert_eq!(
            (replay.next_open(30), replay.next_open(30), replay.next_open(30)),
            (Some(second), Some(first), None)
        );
        assert_eq!((replay.next_ns(), replay.next_close(49)), (Some(50), None));
        assert_eq!((replay.next_close(50), replay.next_ns()), (Some(first), None));
        assert_eq!((replay.slot_count(), replay.end_of(1), replay.end_of(2)), (2 + 3, Some(first), Some(second)));
        assert_eq!(replay.end_of(3), Some(ClientEnd { slot: 2, client: 3, port: 0 }), "shared, over TCP");
    }

    #[test]
    fn workers_divide_clients_with_their_connections() {
        let job = job();
        assert_eq!(*job.queries.share(0, 2), [0, 2]);
        assert_eq!(*job.queries.share(1, 2), [1, 3]);
        let mut odd = Replay::new(&job, 1, 2);
        assert_eq!(odd.next_open(u64::MAX), Some(ClientEnd { slot: 0, client: 0, port: 1001 }));
        assert_eq!((odd.next_open(u64::MAX), odd.udp_client(3)), (None, Some((1, 1003))));
    }

    #[test]
    fn with_an_idle_timeout_or_a_rate_the_captured_lifetimes_do_not_count() {
        let mut idle = Replay::new(&Job { idle_timeout: Some(Duration::from_secs(1)), ..job() }, 0, 1);
        assert_eq!((idle.slot_count(), idle.next_open(u64::MAX)), (4, None));
        assert_eq!(idle.end_of(1), Some(ClientEnd { slot: 1, client: 1, port: 0 }));
        let timing = Timing::Closed { outstanding: 1, seconds: 1.0 };
        let mut closed = Replay::new(&Job { timing, ..job() }, 0, 1);
        assert_eq!((closed.slot_count(), closed.next_open(u64::MAX)), (3, None));
        assert_eq!(closed.end_of(2), Some(ClientEnd { slot: 2, client: 2, port: 0 }));
    }
}
