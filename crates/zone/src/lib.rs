//! One zone's data: text in and out, the tree, building, checking, change sets.
//!
//! No sockets, no files of its own, no threads it did not get.
#![deny(unsafe_code)] // but in `tree::prefetch`, where a benchmark earned it

mod build;
mod case;
mod check;
pub mod diagnostic;
mod encode;
pub mod key;
pub mod load;
mod plan;
pub mod rrset;
pub mod rules;
mod stage;
mod tables;
pub mod text;
pub mod transfer;
pub mod tree;
mod zone;

pub use build::Difference;
pub use diagnostic::{Checks, Diagnostic, Place, Severity};
pub use zone::{Counts, Denial, OWNER_ROOM, Zone};
