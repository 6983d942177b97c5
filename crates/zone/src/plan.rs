//! How a version of a zone is to be made. Used by [`crate::build`] and [`crate::check`].

use std::sync::Arc;

use wire::NameRef;

use crate::diagnostic::{Checks, Place};
use crate::zone::Zone;

/// What assembling needs to know.
pub(crate) struct Plan<'p> {
    pub(crate) apex: NameRef<'p>,
    pub(crate) files: &'p [Arc<str>],
    pub(crate) threads: usize,
    pub(crate) previous: Option<&'p Zone>,
    pub(crate) thorough: bool,
    pub(crate) checks: Checks,
    pub(crate) nsec3_max_iterations: u16,
    /// All records could be read, so what is not there is missing.
    pub(crate) is_whole: bool,
}

impl Plan<'_> {
    /// Where a record stands in the zone text.
    pub(crate) fn place(&self, file: u16, line: u32) -> Place {
        let file = self.files.get(file as usize).cloned().unwrap_or_else(|| Arc::from(""));
        Place { file, line, column: if line == 0 { 0 } else { 1 } }
    }
}
