//! Null endpoints of zone transfers: a secondary that discards zones, and a primary that replays encoded ones.
//!
//! Their own cost is minimal, so a measurement shows the cost of the server at the other end.

pub mod encode;
pub mod pull;
mod receiver;
pub mod serve;
