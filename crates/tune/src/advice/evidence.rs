//! Our own measurements, looked up by name in figures copied from the committed records of the lab.
//!
//! `evidence.tsv` is generated (`make tune-evidence`): `tests/evidence.rs` finds each [`Lookup`] in the report of its record, and
//! fails if the file says anything else. So a new record changes the evidence, and nothing is quoted that was not measured.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Where a measurement is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lookup {
    /// The experiment, such as `E16`.
    pub experiment: &'static str,
    /// The heading of the metric in the report, without its unit.
    pub metric: &'static str,
    /// The value of the factor that is compared; empty for medians.
    pub level: &'static str,
    /// The figures that are quoted: server and further conditions, as in the report. Empty for all.
    pub subjects: &'static [&'static str],
    /// The settings that the experiment changes at once, by the name that it has for them; empty if it changes this one alone.
    pub group: &'static str,
    /// What the lab lacks for it, such as `a kernel with ...`; empty if nothing.
    pub needs: &'static str,
}

/// One measured effect or median.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// The experiment.
    pub experiment: String,
    /// The metric, with its unit.
    pub metric: String,
    /// The value of the factor that is compared.
    pub level: String,
    /// Server and further conditions.
    pub subject: String,
    /// What the value is: `ratio to default`, `difference from ...` or `median`.
    pub kind: String,
    /// The value with its 95 % interval.
    pub value: String,
    /// The verdict of the lab; empty for a median.
    pub outcome: String,
    /// Whether the record is of quick windows or an earlier format, so that its verdict is not final.
    pub preliminary: bool,
}

/// The outcome of a figure that its record could not test: it decides nothing and is not quoted. `evidence.tsv` has no value of it.
pub const UNTESTABLE: &str = "not testable here";

/// The generated file.
const TEXT: &str = include_str!("evidence.tsv");

/// The figures of the generated file.
pub static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| TEXT.lines().filter_map(Figure::parse).collect());

impl Figure {
    /// Reads a line; `None` for comments.
    fn parse(line: &str) -> Option<Figure> {
        let mut fields = line.split('\t').map(str::to_owned);
        let figure = Figure {
            experiment: fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?,
            metric: fields.next()?,
            level: fields.next()?,
            subject: fields.next()?,
            kind: fields.next()?,
            value: fields.next()?,
            outcome: fields.next()?,
            preliminary: fields.next()? == "preliminary",
        };
        Some(figure)
    }

    /// The line of the generated file.
    pub fn line(&self) -> String {
        let standing = if self.preliminary { "preliminary" } else { "final" };
        let Figure { experiment, metric, level, subject, kind, value, outcome, .. } = self;
        format!("{experiment}\t{metric}\t{level}\t{subject}\t{kind}\t{value}\t{outcome}\t{standing}\n")
    }
}

impl Lookup {
    /// The committed figures that may be quoted, in the order of the report.
    pub fn figures(&self) -> impl Iterator<Item = &'static Figure> {
        self.recorded().filter(|figure| figure.outcome != UNTESTABLE)
    }

    /// Whether there is a record, but of a measurement that could not test it.
    pub(crate) fn is_untestable(&self) -> bool {
        self.recorded().next().is_some() && !self.is_measured()
    }

    fn recorded(&self) -> impl Iterator<Item = &'static Figure> {
        let lookup = *self;
        let is_metric = move |metric: &str| {
            metric == lookup.metric || metric.strip_prefix(lookup.metric).is_some_and(|unit| unit.starts_with(", "))
        };
        FIGURES.iter().filter(move |figure| {
            figure.experiment == lookup.experiment
                && figure.level == lookup.level
                && is_metric(&figure.metric)
                && lookup.wants(&figure.subject)
        })
    }

    /// Whether figures of this subject are quoted. The name of a server alone wants it under all conditions.
    pub fn wants(&self, subject: &str) -> bool {
        let server = subject.split(',').next();
        self.subjects.is_empty() || self.subjects.iter().any(|wanted| *wanted == subject || Some(*wanted) == server)
    }

    /// Whether the committed records have figures of it.
    pub(crate) fn is_measured(&self) -> bool {
        self.figures().next().is_some()
    }

    /// Whether it compares a whole group of settings, which says little about one of them.
    pub fn is_of_group(&self) -> bool {
        !self.group.is_empty()
    }

    /// The same measurement for these subjects only.
    pub(super) const fn only(self, subjects: &'static [&'static str]) -> Lookup {
        Lookup { subjects, ..self }
    }

    /// The same measurement, of a whole group of settings.
    pub(super) const fn of_group(self, group: &'static str) -> Lookup {
        Lookup { group, ..self }
    }

    /// The same measurement, for which the lab lacks something.
    pub(super) const fn needing(self, needs: &'static str) -> Lookup {
        Lookup { needs, ..self }
    }
}

/// An effect of one level of a factor.
pub(super) const fn effect(experiment: &'static str, metric: &'static str, level: &'static str) -> Lookup {
    Lookup { experiment, metric, level, subjects: &[], group: "", needs: "" }
}

/// Medians of several servers.
pub(super) const fn medians(experiment: &'static str, metric: &'static str) -> Lookup {
    effect(experiment, metric, "")
}

/// The metric of E12 to E15, and of E30, whose baseline is cubic.
pub(super) const TRANSFER: &str = "Time to transfer all zones";

/// The rows of E16 and E17 that a setting can matter to most. There the generator limits the rate of Zonda, and its latencies do not count.
const AT_FULL_LOAD: &[&str] = &["bind, full load", "zonda, full load"];
pub(super) const BIND_AT_FULL_LOAD: &[&str] = &["bind, full load"];

/// What one setting changes (E16).
pub(super) const fn sweep(level: &'static str) -> Lookup {
    effect("E16", "Server CPU time per answer", level).only(AT_FULL_LOAD)
}

/// What a published group of settings changes (E17).
pub(super) const fn group(level: &'static str) -> Lookup {
    effect("E17", "Server CPU time per answer", level).only(AT_FULL_LOAD).of_group(level)
}

/// The same for the latency of connections.
pub(super) const fn group_latency(level: &'static str) -> Lookup {
    effect("E17", "Mean connection latency", level).only(BIND_AT_FULL_LOAD).of_group(level)
}

/// The qdiscs that the kernel of the lab does not have.
pub(super) const fn qdisc(level: &'static str) -> Lookup {
    sweep(level).needing("a kernel with the qdiscs fq, fq_codel, sfq and codel (CONFIG_NET_SCH_...)")
}

/// What one setting changes under the condition that it is for (E33).
pub(super) const fn alone(metric: &'static str, level: &'static str) -> Lookup {
    effect("E33", metric, level)
}

/// What settings change that E33 has changed at once, because one does nothing without the other.
pub(super) const fn together(metric: &'static str, level: &'static str) -> Lookup {
    alone(metric, level).of_group(level)
}

/// Metrics of E33.
pub(super) const ANSWERED: &str = "Time until all connections are answered";
pub(super) const WAITED: &str = "Share of connections whose handshake took over a second";
pub(super) const DROPPED: &str = "Time until the kernel has dropped connections without a client";
pub(super) const LATENCY: &str = "Mean latency";
pub(super) const PROCESSOR: &str = "Time of the server's CPUs per answer";
pub(super) const SHARE: &str = "Share of queries answered";

/// Why E3 cannot decide how many workers are best.
pub(super) const SHARED_PROCESSOR: &str = "in E3 the second worker shares its processor with the load generator";

/// The metric of E18 and E32.
pub(super) const IDLE_MEMORY: &str = "Server memory per idle connection";

/// 15,000 idle connections of E18, for each server.
pub(super) const IDLE: &[&str] = &["zonda, 15,000 idle", "nsd, 15,000 idle", "knot, 15,000 idle", "bind, 15,000 idle"];

/// Lookups by what the records have of them.
pub(crate) struct Found<'a> {
    /// Measured for the setting alone.
    pub(crate) of_settings: Vec<&'a Lookup>,
    /// Measured for a whole group of settings.
    pub(crate) of_groups: Vec<&'a Lookup>,
    /// In a record that could not test it.
    pub(crate) untestable: Vec<&'a Lookup>,
    /// In the experiment, but the lab lacks something for it.
    pub(crate) lacking: Vec<&'a Lookup>,
    /// In the experiment, but not in its record.
    pub(crate) planned: Vec<&'a Lookup>,
}

impl<'a> Found<'a> {
    pub(crate) fn of(lookups: &'a [Lookup]) -> Found<'a> {
        let (measured, others): (Vec<&Lookup>, Vec<&Lookup>) = lookups.iter().partition(|lookup| lookup.is_measured());
        let (of_groups, of_settings) = measured.into_iter().partition(|lookup| lookup.is_of_group());
        let (untestable, others): (Vec<&Lookup>, _) = others.into_iter().partition(|lookup| lookup.is_untestable());
        let (lacking, planned) = others.into_iter().partition(|lookup| !lookup.needs.is_empty());
        Found { of_settings, of_groups, untestable, lacking, planned }
    }

    /// What has no figures, and why: a phrase for each reason. `name` is that of a measurement.
    pub(crate) fn missing(&self, name: impl Fn(&Lookup) -> String) -> Vec<String> {
        let names = |lookups: &[&Lookup]| {
            lookups
                .iter()
                .map(|lookup| name(lookup))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut missing = Vec::new();
        for (what, lookups) in [
            ("to be recorded again, because its record could not test it", &self.untestable),
            ("planned, but not in the committed record", &self.planned),
        ] {
            if !lookups.is_empty() {
                missing.push(format!("{what}: {}", names(lookups)));
            }
        }
        for needs in self.lacking.iter().map(|lookup| lookup.needs).collect::<BTreeSet<_>>() {
            let lookups: Vec<&Lookup> = self.lacking.iter().copied().filter(|lookup| lookup.needs == needs).collect();
            missing.push(format!("needs {needs}: {}", names(&lookups)));
        }
        missing
    }

    /// What every renderer says of a setting that was not measured alone.
    pub(crate) fn not_measured(&self) -> Option<String> {
        self.of_settings.is_empty().then(|| "not measured here".to_owned())
    }
}

/// The measurements in words, complete and in one line.
///
/// `render::evidence` has the short form for people.
pub fn describe(lookups: &[Lookup]) -> String {
    let found = Found::of(lookups);
    let measured = found.of_settings.iter().chain(&found.of_groups).map(|lookup| measured(lookup));
    let missing = found.missing(|lookup| lookup.treatment());
    found.not_measured().into_iter().chain(measured).chain(missing).collect::<Vec<_>>().join("; ")
}

impl Lookup {
    /// The experiment and what it compares: `E16 “sack 0”`.
    pub(crate) fn treatment(&self) -> String {
        match (self.experiment, self.level, self.group) {
            (experiment, "", "") => experiment.to_owned(),
            (experiment, level, "") => format!("{experiment} “{level}”"),
            (experiment, _, group) => format!("{experiment} “{group}” (the whole group)"),
        }
    }
}

/// The figures of a lookup that has some.
fn measured(lookup: &Lookup) -> String {
    let figures: Vec<&Figure> = lookup.figures().collect();
    let standing = if figures.iter().any(|figure| figure.preliminary) { " (preliminary)" } else { "" };
    let value = |figure: &&Figure| match figure.outcome.as_str() {
        "" => format!("{} {}", figure.subject, figure.value),
        outcome => format!("{} {}: {outcome}", figure.subject, figure.value),
    };
    let values = figures.iter().map(value).collect::<Vec<_>>().join("; ");
    format!("{}{standing}, {}, {}: {values}", lookup.treatment(), figures[0].metric, figures[0].kind)
}

/// The first number of a figure: `at most 0.13 (0 – 0.13)` is 0.13, `28,140 (27,810 – 28,580)` is 28140.
pub fn number(value: &str) -> Option<f64> {
    let digits = value.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let end =
        digits.find(|letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | ','))).unwrap_or(digits.len());
    digits[..end].replace(',', "").parse().ok()
}

/// The memory that a server needs for one of 15,000 idle connections, in octets: a median of E18.
pub fn idle_connection_memory(server: &str) -> Option<f64> {
    let subject = format!("{server}, 15,000 idle");
    let of_server = medians("E18", IDLE_MEMORY).figures().find(|figure| figure.subject == subject);
    of_server.and_then(|figure| number(&figure.value))
}

/// The memory that a server needs for an idle TLS connection, in octets: a median of E32.
pub fn idle_tls_connection_memory(server: &str) -> Option<f64> {
    let medians = medians("E32", IDLE_MEMORY);
    let of_server = medians.figures().find(|figure| figure.subject == server);
    of_server.and_then(|figure| number(&figure.value))
}

#[cfg(test)]
mod tests {
    use super::{describe, effect, number};

    #[test]
    fn numbers_are_read_with_separators_and_bounds() {
        assert_eq!(number("at most 0.13 (0 – 0.13)"), Some(0.13));
        assert_eq!(number("28,140 (27,810 – 28,580)"), Some(28_140.0));
        assert_eq!(number("unknown"), None);
    }

    #[test]
    fn what_was_not_measured_is_not_claimed() {
        assert_eq!(describe(&[]), "not measured here");
        let text = describe(&[effect("E16", "Mean latency", "no such level")]);
        assert_eq!(text, "not measured here; planned, but not in the committed record: E16 “no such level”");
    }
}
