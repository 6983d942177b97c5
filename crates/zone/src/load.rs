//! From zone text to a zone: the one way for files, checks and tests.

use std::sync::Arc;

use crate::build::{Difference, Plan, Stage, assemble};
use crate::text::{self, Source};
use crate::{Diagnostic, Severity, Zone};

/// How to load.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How to read the text.
    pub text: text::Options<'a>,
    /// The version that is served now: what did not change is shared with it.
    pub previous: Option<&'a Zone>,
    /// Look for what is right by the letter and still not meant: names without addresses, missing glue.
    pub thorough: bool,
}

impl<'a> Options<'a> {
    /// A first load, as fast as can be.
    pub fn new(text: text::Options<'a>) -> Options<'a> {
        Options { text, previous: None, thorough: false }
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
pub fn load(source: Source<'_>, options: &Options<'_>) -> Outcome {
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
        is_whole: is_readable,
    };
    let (assembled, findings) = assemble(parsed.sinks, &plan);
    outcome.diagnostics.extend(findings.into_list());
    outcome.diagnostics.sort_by_key(|diagnostic| std::cmp::Reverse(diagnostic.severity));
    if let Some((zone, difference)) = assembled.filter(|_| is_readable) {
        (outcome.zone, outcome.difference) = (Some(zone), difference);
    }
    outcome
}
