//! Null endpoints of zone transfers: a secondary that discards zones, and a primary that replays encoded ones and may
//! change them.
//!
//! Their own cost is minimal, so a measurement shows the cost of the server at the other end.

mod changes;
pub mod encode;
mod notify;
pub mod pull;
mod receiver;
mod responder;
pub mod serve;
