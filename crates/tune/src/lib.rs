//! Advice on the settings of a host for a DNS server, computed from the host and its work.
//!
//! [`host`] reads what is, [`advice`] says what should be and how well that is known, [`render`] prints it and writes files,
//! [`apply`] sets it. Only `apply` and `render::files` change anything. The crate knows nothing of `zonda`: the server passes
//! what its configuration says as [`ServerFacts`].
#![forbid(unsafe_code)]

pub mod advice;
pub mod apply;
pub mod host;
pub mod render;

pub use advice::workload::{Role, Server, ServerFacts, Workload};
pub use advice::{Action, Case, Row, advise};
pub use host::Host;
