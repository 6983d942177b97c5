//! The load generator. Never uses the `answer` crate, or a bug would check itself.
#![forbid(unsafe_code)]
