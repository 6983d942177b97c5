//! The load generator: what it sends is fixed before it starts, and what it tells is true.
//!
//! * [`plan`] fixes when each query is to leave; [`queries`] renders them all before the first one does.
//! * [`worker`] is a thread that sends what is due over [`udp`] and [`stream`] (plain or in [`tls`]), finds the query of
//!   each answer in [`flight`], has it judged by [`verify`], and counts in [`measure`], always from the intended time of sending.
//! * [`run`] puts threads together; [`search`] repeats runs to find the highest rate; [`report`] writes JSON lines.
//! * [`hold`] keeps connections, idle or hostile; [`xfr`] is a secondary that keeps nothing and a primary that knows nothing.
//!
//! It never uses the `answer` crate, or a bug would check itself.
#![forbid(unsafe_code)]

mod book;
pub mod command;
pub mod flight;
pub mod hold;
mod line;
pub mod measure;
pub mod pacer;
pub mod plan;
pub mod queries;
mod random;
mod records;
pub mod report;
pub mod run;
pub mod search;
mod signing;
pub mod stream;
pub mod tls;
pub mod udp;
pub mod verify;
pub mod worker;
pub mod xfr;
