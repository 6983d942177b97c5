//! Loads a zone from text: parses, checks and builds it. Servers, checks and tests all load this way.

use std::sync::{Arc, OnceLock};

use wire::NameRef;
use wire::serial::is_later;

use crate::build::Difference;
use crate::build_options::BuildOptions;
use crate::build_runs::build;
use crate::encoded_change::EncodedChange;
use crate::intern::Interner;
use crate::record_sorter::{BatchSizes, RecordSorter, SorterContext, SorterSink};
use crate::serial_policy::SerialPolicy;
use crate::text::{self, ReadAt, Source};
use crate::{CheckMode, FilePosition, Finding, Severity, Zone, check_list};

/// How to load.
#[derive(Clone, Copy)]
pub struct LoadOptions<'a> {
    /// How to parse the text.
    pub text: text::ParseOptions<'a>,
    /// The version that is served now: unchanged parts are shared with it.
    pub previous: Option<&'a Zone>,
    /// Run the checks of `zonda check` as well, such as missing glue and targets without addresses.
    pub thorough: bool,
    /// A zone with more NSEC3 iterations is an error: each adds to the cost of every negative response.
    pub nsec3_max_iterations: u16,
}

impl<'a> LoadOptions<'a> {
    /// A first load without the checks of `zonda check`, with any number of NSEC3 iterations.
    pub fn new(text: text::ParseOptions<'a>) -> LoadOptions<'a> {
        LoadOptions { text, previous: None, thorough: false, nsec3_max_iterations: u16::MAX }
    }
}

/// A loaded zone, or why there is none.
pub struct LoadOutcome {
    /// The zone, unless there are errors.
    pub zone: Option<Zone>,
    /// How it differs from the previous version; `None` if there was none, or if the zone was rebuilt.
    pub difference: Option<Difference>,
    /// Errors, then warnings.
    pub findings: Vec<Finding>,
    /// The zone file, then included files.
    pub files: Vec<Arc<str>>,
}

/// Parses, checks and builds a zone. A first load takes little more memory than the zone will; others stage the records of the text.
pub fn load<T: ReadAt + ?Sized>(source: Source<'_, T>, options: &LoadOptions<'_>) -> LoadOutcome {
    let apex = options.text.apex.to_owned().to_lowercase();
    let build_options = BuildOptions {
        apex: apex.as_ref(),
        files: &[],
        threads: options.text.threads,
        previous: options.previous,
        thorough: options.thorough,
        check_mode: options.text.check_mode,
        nsec3_max_iterations: options.nsec3_max_iterations,
        is_whole: true,
    };
    let (interner, apex_in_original_case) = (Interner::new(), OnceLock::new());
    let context = SorterContext { options: &build_options, interner: &interner, apex: &apex_in_original_case };
    // Thorough checks, and the comparison with the previous version, need all records at once.
    let stage_all = options.previous.is_some() || options.thorough;
    let batches = if stage_all { BatchSizes::UNLIMITED } else { BatchSizes::DEFAULT };
    let sink = || SorterSink { context: &context, sorter: RecordSorter::new(apex.as_ref(), batches) };
    let parsed = text::parse(source, &options.text, sink);
    let sorters = parsed.sinks.into_iter().map(|sink| sink.sorter).collect();
    let mut outcome = LoadOutcome { zone: None, difference: None, findings: parsed.findings, files: parsed.files };
    let is_readable = outcome.findings.iter().all(|finding| finding.severity < Severity::Error);
    // Checks would report the records that could not be parsed as missing.
    if !is_readable && !options.thorough {
        return outcome;
    }
    let build_options = BuildOptions { files: &outcome.files, is_whole: is_readable, ..build_options };
    let (built, mut findings) = build(&build_options, interner, &apex_in_original_case, sorters);
    findings.sort_by_position();
    outcome.findings.extend(findings.finish(&outcome.files[0]));
    if let Some((zone, difference)) = built.filter(|_| is_readable) {
        (outcome.zone, outcome.difference) = (Some(zone), difference);
    }
    outcome.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    outcome
}

/// Loads a zone from text in memory, with the options of [`LoadOptions::new`] and [`text::ParseOptions::new`].
///
/// ```
/// let apex: wire::Name = "example.".parse().expect("a name");
/// let text = "@ 300 SOA ns hostmaster 1 3600 900 604800 300\n@ 300 NS ns\nns 300 A 192.0.2.1\n";
/// let zone = zone::load::load_text(apex.as_ref(), text.as_bytes()).zone.expect("a valid zone");
/// assert_eq!((zone.serial(), zone.counts().records), (1, 3));
/// ```
pub fn load_text(apex: NameRef<'_>, text: &[u8]) -> LoadOutcome {
    load(Source { name: "zone".into(), bytes: text }, &LoadOptions::new(text::ParseOptions::new(apex)))
}

/// The serial of a zone that differs from the version served.
pub struct SerialRules<'a> {
    /// The version that is served now.
    pub previous: &'a Zone,
    /// The serial, if that of the text is not later.
    pub policy: SerialPolicy,
    /// The time in seconds since 1970, for the policy.
    pub now_s: u64,
    /// Whether a serial that is not later is an error.
    pub check_mode: CheckMode,
}

impl LoadOutcome {
    /// Whether the zone differs from the previous version.
    pub fn is_changed(&self) -> bool {
        self.difference != Some(Difference::default())
    }

    /// Gives a changed zone whose serial is not later the next one by the policy, and reports a serial that is still not later. Only the signer
    /// of a signed zone can change it. RFC 8976 4: another serial makes a digest stale. It is removed, so that it must be checked before; returns
    /// whether there was one.
    pub fn settle_serial(&mut self, rules: &SerialRules<'_>) -> bool {
        let previous = rules.previous;
        let is_changed = self.is_changed();
        let Some(zone) = self.zone.take_if(|_| is_changed) else { return false };
        let has_policy = rules.policy != SerialPolicy::Keep && !zone.is_signed();
        let (settled, is_digest_removed) = if !has_policy || is_later(zone.serial(), previous.serial()) {
            (zone, false)
        } else if is_same(previous, &zone.with_serial(previous.serial()), self.difference) {
            // The file has the serial that was advanced before.
            self.difference = Some(Difference::default());
            (previous.clone(), false)
        } else {
            (zone.with_serial(rules.policy.next(previous.serial(), rules.now_s)), zone.has_digest())
        };
        if self.is_changed() {
            self.findings.extend(check_serial(previous, &settled, &self.files, rules.check_mode));
            self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        }
        self.zone = Some(settled);
        is_digest_removed
    }
}

/// Whether two versions have the same records, if `difference` of the second one, before its serial was changed, is no larger than that.
fn is_same(old: &Zone, new: &Zone, difference: Option<Difference>) -> bool {
    const APEX_ONLY: Difference = Difference { added: 0, removed: 0, changed: 1 };
    /// Zones that were built anew because they are small are compared.
    const SMALL: usize = 1 << 20;
    if difference.map_or(old.heap_size() + new.heap_size() > SMALL, |difference| difference != APEX_ONLY) {
        return false;
    }
    let change = EncodedChange::between(old, new);
    let [old_soa, new_soa] = [change.old_soa(), change.new_soa()].map(|soa| (soa.ttl, soa.rdata));
    old_soa == new_soa && change.removed().next().is_none() && change.added().next().is_none()
}

/// RFC 1035 3.3.13, RFC 1982 3: a change increases the serial, or secondaries do not transfer it.
fn check_serial(previous: &Zone, zone: &Zone, files: &[Arc<str>], mode: CheckMode) -> Option<Finding> {
    let (old, new) = (previous.serial(), zone.serial());
    let position = FilePosition::of_file(&files[0]);
    match (new == old, is_later(new, old)) {
        (_, true) => None,
        (true, _) => Some(check_list::SAME_SERIAL.finding(mode, position, old)),
        _ => Some(check_list::EARLIER_SERIAL.finding(mode, position, format_args!("from {old} to {new}"))),
    }
}
