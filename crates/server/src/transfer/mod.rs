//! The secondary's side of zone transfers, and outgoing NOTIFY: when to ask which primary, how, and with what result.
//!
//! Everything but `network` is a state machine of octets and time. The daemon and the simulation drive the same
//! [`engine::TransferEngine`].
//!
//! | part | duty |
//! | --- | --- |
//! | `primary` | the primaries, each stored once for all its zones, and the groups of zones that share them |
//! | `soa_timers` | intervals of the SOA record, their limits, and the times that are stored |
//! | `refresh` | the scheduler: which zone is checked or transferred next, from which primary; back-off and expiry |
//! | `query`, `soa_probe` | the messages sent; SOA queries over UDP, many in flight to one primary |
//! | `session` | one stream connection: pipelined queries, responses told apart, signatures, progress |
//! | `link` | one primary: its connections and whether it can pipeline |
//! | `notify_sender` | outgoing NOTIFY, in queues of its own |
//! | `engine` | ties these together; knows no sockets |
//! | `network` | the `transfers` thread: epoll, sockets, commands in, events out |
//!
//! The writer sends [`engine::TransferCommand`]s through a [`network::TransferHandle`]; a callback passes it
//! [`engine::TransferEvent`]s. It answers each `Received` with `Published` or `Rejected`, and stores the times that `Refreshed` and
//! `Published` yield.

mod apex_table;
pub mod engine;
pub mod link;
pub mod network;
pub mod notify_sender;
pub mod primary;
mod query;
pub mod refresh;
pub mod session;
mod soa_probe;
pub mod soa_timers;
mod zone_sink;

/// The time of an event, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Seconds since 1970.
    pub s: u32,
    /// Milliseconds of a clock that is never set, and that goes on while the machine is suspended.
    pub ms: u64,
}
