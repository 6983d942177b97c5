//! Live symptoms: counters of the kernel that say that something has been lost, and what helps.

use serde::Serialize;

use super::workload::Role;
use super::{Case, sizes};
use crate::host::Pressure;

/// Something that has gone wrong since the start of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Symptom {
    /// The counter.
    pub name: &'static str,
    /// Its value.
    pub count: u64,
    /// What it means.
    pub meaning: &'static str,
    /// What helps.
    pub help: &'static str,
}

/// Name, meaning, help.
type Words = (&'static str, &'static str, &'static str);

/// Counters that should be zero or small.
const COUNTERS: &[Words] = &[
    (
        "TcpExt.ListenOverflows",
        "connections came while an accept queue was full",
        "net.core.somaxconn and the server's own backlog; more TCP threads",
    ),
    (
        "TcpExt.ListenDrops",
        "SYNs were dropped at a listener, because its queue was full or memory was short",
        "as ListenOverflows",
    ),
    (
        "TcpExt.TCPReqQFullDrop",
        "SYNs were dropped because the queue of half-open connections was full",
        "net.ipv4.tcp_syncookies = 1; net.core.somaxconn and the server's own backlog",
    ),
    (
        "TcpExt.TCPReqQFullDoCookies",
        "SYN cookies were used: the queue of half-open connections was full",
        "net.core.somaxconn and the server's own backlog, if it was not a flood",
    ),
    (
        "TcpExt.TCPTimeWaitOverflow",
        "connections in TIME_WAIT were dropped: there were too many",
        "net.ipv4.tcp_max_tw_buckets",
    ),
    (
        "TcpExt.TCPAbortOnMemory",
        "connections were reset because TCP had no memory or too many orphans",
        "net.ipv4.tcp_mem, net.ipv4.tcp_max_orphans, fewer connections",
    ),
    (
        "TcpExt.PruneCalled",
        "data was thrown away to make room in a receive buffer",
        "net.ipv4.tcp_rmem; a program that reads faster",
    ),
    (
        "TcpExt.TCPBacklogDrop",
        "segments were dropped because the socket was busy and its backlog full",
        "net.ipv4.tcp_rmem; spread clients over more threads",
    ),
    (
        "Udp.RcvbufErrors",
        "UDP queries were dropped because a socket's buffer was full",
        "net.core.rmem_max, more workers; or the server is too slow for the rate",
    ),
    (
        "Udp6.RcvbufErrors",
        "UDP queries over IPv6 were dropped because a socket's buffer was full",
        "as Udp.RcvbufErrors",
    ),
    (
        "Udp.SndbufErrors",
        "UDP answers were dropped because a socket's send buffer was full",
        "net.core.wmem_max, if the card's queue is full; net.ipv4.neigh.default.unres_qlen_bytes, if answers wait for hosts that do not exist",
    ),
    ("Udp.MemErrors", "UDP datagrams were dropped because UDP as a whole had no memory", "net.ipv4.udp_mem"),
    (
        "softnet.dropped",
        "received packets were dropped before any socket",
        "net.core.netdev_max_backlog, more RSS queues",
    ),
    ("softnet.time_squeeze", "a softirq ended with packets left to do", "net.core.netdev_budget, more RSS queues"),
];

/// Counted against the range of ports.
const TIME_WAIT: Words = (
    "TCP.tw",
    "on a secondary, sockets are in TIME_WAIT now, more than half as many as there are ports for connections",
    "net.ipv4.ip_local_port_range, reused connections",
);

/// Not a counter, but a share of time.
const MEMORY_PRESSURE: Words = (
    "memory pressure (PSI), percent of the last minute",
    "work waited for memory",
    "fewer connections or zones, more memory, a higher memory.max",
);

/// As [`MEMORY_PRESSURE`].
const DISK_PRESSURE: Words = (
    "disk pressure (PSI), percent of the last minute",
    "work waited for disks",
    "more free memory, so that zone files stay in the page cache; see cold page cache at the start",
);

/// The words of all symptoms, for the manual.
pub(crate) fn words() -> impl Iterator<Item = &'static Words> {
    COUNTERS.iter().chain([&TIME_WAIT, &MEMORY_PRESSURE, &DISK_PRESSURE])
}

fn symptom(&(name, meaning, help): &Words, count: u64) -> Symptom {
    Symptom { name, count, meaning, help }
}

/// What the counters show, most important first.
pub fn symptoms(case: &Case) -> Vec<Symptom> {
    let counters = &case.host.counters;
    let mut found: Vec<Symptom> = COUNTERS
        .iter()
        .filter_map(|words| Some(symptom(words, counters.value(words.0).filter(|count| *count > 0)?)))
        .collect();
    found.extend(time_wait(case));
    found.extend(pressures(case));
    found
}

/// More than half of the ports are in TIME_WAIT. Where connections arrive, those that the server has closed itself are there at its own port.
fn time_wait(case: &Case) -> Option<Symptom> {
    if !case.is_role(&[Role::Secondary]) {
        return None;
    }
    let count = case.host.counters.value("TCP.tw")?;
    let [first, last] = case.host.sysctl_numbers("net.ipv4.ip_local_port_range")[..] else { return None };
    (count > sizes::port_count(first, last) / 2).then(|| symptom(&TIME_WAIT, count))
}

/// Work waits for memory or disks.
fn pressures(case: &Case) -> impl Iterator<Item = Symptom> {
    let of = |pressure: Pressure| [(&MEMORY_PRESSURE, pressure.memory), (&DISK_PRESSURE, pressure.io)];
    let waiting = case.host.memory.pressure.into_iter().flat_map(of);
    waiting.filter(|(_, percent)| *percent >= 1.0).map(|(words, percent)| symptom(words, percent as u64))
}
