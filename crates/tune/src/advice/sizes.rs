//! What a workload needs, as numbers. Each constant has its reason.

/// What the kernel charges to a socket for one small datagram: the packet's header (`sk_buff`) and half a page of data.
pub const DATAGRAM_OCTETS: u64 = 2_304;

/// The pause of a worker, such as a page fault or another thread on its processor, that loses no query.
pub const PAUSE_MS: u64 = 50;

/// How long the queue of a processor or card may wait for its softirq: a tick of the scheduler and some reserve.
pub const SOFTIRQ_PAUSE_MS: u64 = 5;

/// How long the thread that accepts connections may be away.
pub const ACCEPT_PAUSE_MS: u64 = 500;

/// The accept queue that is never too long: the default of Linux since 5.4.
pub const FEWEST_ACCEPT_QUEUE: u64 = 4_096;

/// The longest accept queue that all kernels allow: older ones count in 16 bits.
pub const MOST_ACCEPT_QUEUE: u64 = 65_535;

/// The most that SO_RCVBUF and SO_SNDBUF may ask for, in whole MiB: the kernel doubles them, and counts in 31 bits (socket(7)).
pub const MOST_BUFFER: u64 = 1_023 << 20;

/// What waits for a neighbour that is not found yet: the kernel keeps so many for three seconds, for up to 1,024 neighbours (gc_thresh3).
pub const NEIGHBOUR_OCTETS: u64 = 4_096;

/// The send buffer of which the answers to [`NEIGHBOUR_OCTETS`] for all of them take half. The kernel doubles it.
pub const FEWEST_SEND_BUFFER: u64 = 1_024 * NEIGHBOUR_OCTETS;

/// Within how many seconds all clients connect again after a restart of the server.
pub const RECONNECT_S: u64 = 10;

/// The longest usual round-trip time; a half-open connection waits for one.
pub const ROUND_TRIP_MS: u64 = 300;

/// How long a closed connection keeps its ports. Fixed in the kernel: no sysctl changes it.
pub const TIME_WAIT_S: u64 = 60;

/// What the kernel keeps of a connection in TIME_WAIT.
pub const TIME_WAIT_OCTETS: u64 = 320;

/// What the kernel needs for an established connection without data: socket, inode, file, epoll entry.
pub const SOCKET_OCTETS: u64 = 4_096;

/// What is buffered for a connection with an answer under way.
pub const BUSY_OCTETS: u64 = 16_384;

/// Every `BUSY_FRACTION`-th connection has an answer under way.
pub const BUSY_FRACTION: u64 = 10;

/// The round-trip time for which a transfer shall fill the line: across a continent or an ocean.
pub const TRANSFER_ROUND_TRIP_MS: u64 = 100;

/// Datagrams that arrive at each of `sockets` sockets during `pause_ms`.
pub fn datagrams(rate: u64, sockets: u64, pause_ms: u64) -> u64 {
    (rate.saturating_mul(pause_ms) / 1_000).div_ceil(sockets.max(1))
}

/// The SO_RCVBUF that holds the queries of a pause, in whole MiB.
///
/// The kernel doubles the number for its own use, so half of what it charges is asked for (socket(7)).
pub fn receive_buffer(rate: u64, sockets: u64) -> u64 {
    let charged = datagrams(rate, sockets, PAUSE_MS).saturating_mul(DATAGRAM_OCTETS);
    (charged / 2).div_ceil(1 << 20).max(1) << 20
}

/// The accept queue for all clients that connect again while the server pauses.
pub fn accept_queue(connections: u64) -> u64 {
    (connections.saturating_mul(ACCEPT_PAUSE_MS) / (RECONNECT_S * 1_000)).max(1).next_power_of_two()
}

/// The queue of half-open connections: those that arrive within a round trip.
pub fn half_open(connections: u64) -> u64 {
    (connections.saturating_mul(ROUND_TRIP_MS) / (RECONNECT_S * 1_000)).max(1).next_power_of_two()
}

/// Ports of one address that are busy or in TIME_WAIT at `per_min` connections a minute to one server.
pub fn ports(per_min: u64) -> u64 {
    per_min.saturating_mul(TIME_WAIT_S) / 60
}

/// How many ports a range has, whatever the host says.
pub fn port_count(first: u64, last: u64) -> u64 {
    last.saturating_add(1).saturating_sub(first)
}

/// Octets in flight on a line of `mbit` megabits per second.
pub fn in_flight(mbit: u64) -> u64 {
    mbit.saturating_mul(1_000_000 / 8).saturating_mul(TRANSFER_ROUND_TRIP_MS) / 1_000
}

/// The memory of `connections` connections: (idle in kernel, user memory, buffers of the busy ones), in octets.
pub fn connection_memory(connections: u64, user_octets: u64) -> (u64, u64, u64) {
    let busy = connections.div_ceil(BUSY_FRACTION).saturating_mul(BUSY_OCTETS);
    (connections.saturating_mul(SOCKET_OCTETS), connections.saturating_mul(user_octets), busy)
}

/// A number of octets as a person reads it.
pub fn octets(number: u64) -> String {
    let (unit, shift) = match number {
        0..0x10_0000 => ("KiB", 10),
        0x10_0000..0x4000_0000 => ("MiB", 20),
        _ => ("GiB", 30),
    };
    let value = number as f64 / f64::from(1_u32 << shift);
    if value >= 10.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_the_queries_of_a_pause() {
        // 100,000 queries per second on two sockets: 2,500 datagrams in 50 ms.
        assert_eq!(datagrams(100_000, 2, PAUSE_MS), 2_500);
        assert_eq!(receive_buffer(100_000, 2), 3 << 20);
        assert_eq!(receive_buffer(0, 0), 1 << 20);
        assert!(receive_buffer(u64::MAX, 1) > 0);
    }

    #[test]
    fn transfers_hold_their_port_for_a_minute() {
        assert_eq!(ports(30_000), 30_000);
    }

    #[test]
    fn queues_grow_with_the_connections() {
        assert_eq!(accept_queue(100_000), 8_192);
        assert_eq!(half_open(100_000), 4_096);
    }

    #[test]
    fn octets_are_readable() {
        assert_eq!([octets(2_048), octets(3 << 20), octets(50 << 30)], ["2.0 KiB", "3.0 MiB", "50 GiB"]);
    }
}
