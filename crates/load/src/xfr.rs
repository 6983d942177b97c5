//! Zone transfers without zones: a secondary that keeps nothing, and a primary that only knows rendered octets.
//!
//! What a server adds to these is what the server costs.

pub mod pull;
mod reception;
pub mod render;
pub mod serve;
