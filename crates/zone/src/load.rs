//! From zone text to a zone: the one way for files, checks and tests.

use std::sync::Arc;

use wire::serial::is_later;

use crate::build::{Difference, assemble};
use crate::plan::Plan;
use crate::stage::Stage;
use crate::text::{self, ReadAt, Source};
use crate::{Checks, Diagnostic, Place, Severity, Zone, rules};

/// How to load.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How to read the text.
    pub text: text::Options<'a>,
    /// The version that is served now: what did not change is shared with it.
    pub previous: Option<&'a Zone>,
    /// Look for what is right by the letter and still not meant: names without addresses, missing glue.
    pub thorough: bool,
    /// A zone with more NSEC3 iterations is refused: each makes every denial dearer.
    pub nsec3_max_iterations: u16,
}

impl<'a> Options<'a> {
    /// A first load, as fast as can be, with any number of NSEC3 iterations.
    pub fn new(text: text::Options<'a>) -> Options<'a> {
        Options { text, previous: None, thorough: false, nsec3_max_iterations: u16::MAX }
    }
}

/// What came of loading.
pub struct Outcome {
    /// The zone, unless there are errors.
    pub zone: Option<Zone>,
    /// How it differs from the version before; `None` where there was none or too little of it was left.
    pub difference: Option<Difference>,
    /// What was found, errors first.
    pub diagnostics: Vec<Diagnostic>,
    /// The files that were read: the zone file, then included ones.
    pub files: Vec<Arc<str>>,
}

/// Reads, checks and builds a zone. Needs memory for the text's records besides the zone itself while it runs.
pub fn load<T: ReadAt + ?Sized>(source: Source<'_, T>, options: &Options<'_>) -> Outcome {
    let apex = options.text.apex;
    let parsed = text::parse(source, &options.text, || Stage::new(apex));
    let mut outcome = Outcome { zone: None, difference: None, diagnostics: parsed.diagnostics, files: parsed.files };
    let is_readable = outcome.diagnostics.iter().all(|diagnostic| diagnostic.severity < Severity::Error);
    // What could not be read would be missed again, at the apex above all.
    if !is_readable && !options.thorough {
        return outcome;
    }
    let plan = Plan {
        apex,
        files: &outcome.files,
        threads: options.text.threads,
        previous: options.previous,
        thorough: options.thorough,
        checks: options.text.checks,
        nsec3_max_iterations: options.nsec3_max_iterations,
        is_whole: is_readable,
    };
    let (assembled, findings) = assemble(parsed.sinks, &plan);
    outcome.diagnostics.extend(findings.into_list());
    if let Some((zone, difference)) = assembled.filter(|_| is_readable) {
        let is_changed = difference != Some(Difference::default());
        let previous = options.previous.filter(|_| is_changed);
        outcome
            .diagnostics
            .extend(previous.and_then(|previous| check_serial(previous, &zone, &outcome.files, options.text.checks)));
        (outcome.zone, outcome.difference) = (Some(zone), difference);
    }
    outcome.diagnostics.sort_by_key(|diagnostic| std::cmp::Reverse(diagnostic.severity));
    outcome
}

/// RFC 1035 3.3.13, RFC 1982 3: who changes a zone raises its serial, or secondaries take it for old.
fn check_serial(previous: &Zone, zone: &Zone, files: &[Arc<str>], checks: Checks) -> Option<Diagnostic> {
    let (old, new) = (previous.serial(), zone.serial());
    let place = Place { file: files[0].clone(), line: 0, column: 0 };
    match (new == old, is_later(new, old)) {
        (_, true) => None,
        (true, _) => Some(rules::SAME_SERIAL.found(checks, place, old)),
        _ => Some(rules::EARLIER_SERIAL.found(checks, place, format_args!("from {old} to {new}"))),
    }
}
