//! Dynamic update (RFC 2136): what the daemon keeps of UPDATE messages between their arrival and their response.
//!
//! The listeners queue messages of clients that may send them, within a [`UpdateBudget`]. The writer applies them
//! (`writer/updates.rs`), or has them forwarded to the primaries of a secondary zone ([`exchange`]), a few at once ([`ForwardingLanes`]). [`RecentUpdates`] recognizes
//! messages that are repeated.

mod budget;
pub mod exchange;
mod forwarding_lanes;
mod recent;
mod repetitions;

pub use budget::{QueuedUpdate, UpdateBudget, UpdatePermit};
pub use forwarding_lanes::{ForwardingLanes, ForwardingPermit, MAX_RUNNING};
pub use recent::{RecentUpdates, Repeated, UnansweredUpdate};
pub use repetitions::UpdateAnswer;
