//! How a version of a zone is built and checked.

use std::fmt::Display;
use std::sync::Arc;

use wire::NameRef;

use crate::check_list::Check;
use crate::finding::{CheckMode, FilePosition, Findings};
use crate::zone::Zone;

/// What building and checking a zone needs to know besides its records.
pub(crate) struct BuildOptions<'a> {
    pub(crate) apex: NameRef<'a>,
    pub(crate) files: &'a [Arc<str>],
    pub(crate) threads: usize,
    /// The version served now.
    pub(crate) previous: Option<&'a Zone>,
    pub(crate) thorough: bool,
    pub(crate) check_mode: CheckMode,
    pub(crate) nsec3_max_iterations: u16,
    /// The text had no errors: what is not among the records is missing.
    pub(crate) is_whole: bool,
}

impl<'a> BuildOptions<'a> {
    /// All records are given and none is from a file: one thread, lenient, any number of NSEC3 iterations.
    pub(crate) fn of_records(apex: NameRef<'a>) -> BuildOptions<'a> {
        BuildOptions {
            apex,
            files: &[],
            threads: 1,
            previous: None,
            thorough: false,
            check_mode: CheckMode::Lenient,
            nsec3_max_iterations: u16::MAX,
            is_whole: true,
        }
    }

    /// Reports what `check` found at a line of a file, by its number; line 0 is the whole file.
    pub(crate) fn report(
        &self,
        findings: &mut Findings,
        check: &Check,
        (file, line): (u16, u32),
        detail: impl Display,
    ) {
        findings.add_with(check.severity(self.check_mode), || {
            let file = self.files.get(usize::from(file)).cloned().unwrap_or_else(|| Arc::from(""));
            check.finding(self.check_mode, FilePosition { file, line, column: line.min(1) }, detail)
        });
    }
}
