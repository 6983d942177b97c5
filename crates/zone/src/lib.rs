//! One zone's data: text in and out, the tree, building, checking, change sets.
//!
//! No sockets, no files of its own, no threads it did not get.
#![deny(unsafe_code)] // but in `tree::prefetch`, where a benchmark earned it

pub mod axfr;
mod build;
mod build_options;
pub mod canonical_key;
mod case;
mod check;
pub mod check_list;
mod encode;
pub mod finding;
pub mod load;
pub mod rrset;
mod stage;
pub mod suggest;
mod tables;
pub mod text;
pub mod tree;
mod zone;

pub use build::Difference;
pub use finding::{CheckMode, FilePosition, Finding, Severity};
pub use zone::{Counts, Denial, OWNER_BUFFER_LEN, Zone};
