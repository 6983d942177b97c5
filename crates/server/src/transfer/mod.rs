//! Zone transfers into this server.
pub mod primary;
mod random;
pub mod refresh;
pub mod soa_timers;
