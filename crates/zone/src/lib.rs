//! One zone's data: text in and out, the tree, building, checking, change sets.
//!
//! No sockets, no files of its own, no threads it did not get.
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod key;
pub mod text;
pub mod tree;

pub use diagnostic::{Diagnostic, Place, Severity};
