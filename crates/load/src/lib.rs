//! The load generator: open-loop and closed-loop queries, with every response checked.
//!
//! * [`schedule`] computes the send time of every query, and [`queries`] encodes them all, before the run starts.
//! * `worker` is a sender thread. It sends due queries over `udp` or a `pool` of TCP or [`tls`] connections, matches
//!   responses to `outstanding` queries, checks them with [`verify`], and records latency in [`metrics`], always from the
//!   intended send time (so there is no coordinated omission).
//! * [`job`] configures a run; [`run`] starts the workers and merges their metrics; `search` repeats runs to find the peak
//!   rate; `report` writes the results as JSON lines.
//! * [`probe`] asks many questions until each has the wanted answer, and records when that arrived.
//! * [`quic`] asks over QUIC, or holds idle connections of it, or hostile ones.
//! * [`echo`] has servers without zones, which show the limits of the machine and of the generator.
//! * [`hold`] opens and holds connections, idle or hostile; [`xfr`] has a secondary that discards zones and a primary that
//!   replays encoded ones.
//!
//! This crate must not use the `answer` crate, or a bug there would check itself.
#![forbid(unsafe_code)]

mod answer_window;
pub mod command;
mod connection;
pub mod echo;
pub mod hold;
pub mod job;
mod ledger;
pub mod metrics;
mod opening;
mod outstanding;
mod pacer;
mod pool;
mod pools;
pub mod probe;
pub mod queries;
pub mod quic;
mod replay;
mod report;
pub mod run;
pub mod schedule;
mod search;
mod stream_server;
pub mod tls;
mod tsig;
mod udp;
pub mod verify;
mod worker;
pub mod xfr;

/// How often threads that wait check whether to stop.
const STOP_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);
