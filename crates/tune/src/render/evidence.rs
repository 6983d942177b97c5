//! Measurements in short lines, for the terminal and the manual. `advice::evidence` has the complete text.

use std::collections::BTreeSet;

use crate::advice::evidence::{Figure, Found, Lookup};

/// Keeps a value and its interval on one line.
pub const NO_BREAK: char = '\u{a0}';

/// What a setting is based on: one line for each measurement. Whole groups of settings are only named: see [`groups`].
pub fn lines(lookups: &[Lookup]) -> Vec<String> {
    let found = Found::of(lookups);
    let others = others(&found);
    let mut lines = Vec::new();
    for (head, measured) in by_head(found.of_settings) {
        let first = lines.len();
        lines.extend(measured);
        lines[first].insert_str(0, &format!("{head}: "));
    }
    lines.extend(others);
    lines
}

/// The same with experiment and level in every line.
pub fn full_lines(lookups: &[Lookup]) -> Vec<String> {
    let found = Found::of(lookups);
    let others = others(&found);
    let measured = found.of_settings.into_iter().map(measured).map(|(head, line)| format!("{head}: {line}"));
    measured.chain(others).collect()
}

/// What there is besides measurements of the setting itself, in one line.
fn others(found: &Found<'_>) -> Option<String> {
    let groups: BTreeSet<String> = found.of_groups.iter().map(|lookup| name(lookup)).collect();
    let groups = groups.into_iter().collect::<Vec<_>>().join(", ");
    let groups = (!groups.is_empty()).then(|| format!("in a whole group: {groups}"));
    let others: Vec<String> = found.not_measured().into_iter().chain(groups).chain(found.missing(name)).collect();
    (!others.is_empty()).then(|| others.join("; "))
}

/// The measured groups of settings among these lookups: the name of each, and its measurements.
pub fn groups<'a>(lookups: impl Iterator<Item = &'a Lookup>) -> Vec<(String, Vec<String>)> {
    let lookups: BTreeSet<&Lookup> = lookups.filter(|lookup| lookup.is_of_group() && lookup.is_measured()).collect();
    let mut sorted: Vec<&Lookup> = lookups.into_iter().collect();
    sorted.sort_by_key(|lookup| (lookup.experiment, lookup.group));
    by_head(sorted)
}

/// Measurements below what they have in common: experiment, level and standing.
fn by_head(lookups: Vec<&Lookup>) -> Vec<(String, Vec<String>)> {
    let mut heads: Vec<(String, Vec<String>)> = Vec::new();
    for lookup in lookups {
        let (head, line) = measured(lookup);
        match heads.last_mut().filter(|(last, _)| *last == head) {
            Some((_, lines)) => lines.push(line),
            None => heads.push((head, vec![line])),
        }
    }
    heads
}

/// `E16 “sack 0”`, or `E17 “ESnet”` for a whole group.
fn name(lookup: &Lookup) -> String {
    let level = if lookup.is_of_group() { lookup.group } else { lookup.level };
    format!("{} “{level}”", lookup.experiment)
}

/// `E16 “sack 1”, preliminary` and `mean latency, ratio to “default”, load 100 %: zonda 1.002 (0.990 – 1.014), inconclusive`.
fn measured(lookup: &Lookup) -> (String, String) {
    let figures: Vec<&Figure> = lookup.figures().collect();
    let first = figures[0];
    let standing = if figures.iter().any(|figure| figure.preliminary) { ", preliminary" } else { "" };
    let (name, what) = match first.kind.as_str() {
        "claim" => (lookup.experiment.to_owned(), format!("claim that {}", lookup.level)),
        "median" if lookup.is_of_group() => (name(lookup), format!("{}, median", lower(&first.metric))),
        "median" => (lookup.experiment.to_owned(), format!("{}, median", lower(&first.metric))),
        kind => (name(lookup), format!("{}, {}", lower(lookup.metric), with_quotes(kind))),
    };
    let condition = |figure: &Figure| figure.subject.split_once(", ").map(|(_, condition)| condition.to_owned());
    let shared =
        condition(first).filter(|shared| figures.iter().all(|figure| condition(figure).as_ref() == Some(shared)));
    let subject = |figure: &Figure| match &shared {
        Some(shared) => figure.subject.trim_end_matches(shared.as_str()).trim_end_matches(", ").to_owned(),
        None => figure.subject.clone(),
    };
    let shared_words = shared.as_ref().map(|shared| format!(", {shared}")).unwrap_or_default();
    (
        format!("{name}{standing}"),
        format!("{what}{}: {}", shared_words.replace(" %", "\u{a0}%"), values(&figures, subject)),
    )
}

/// `zonda 97 (89 – 103), worse; nsd ...`; what is the same for all servers is said once.
fn values(figures: &[&Figure], subject: impl Fn(&Figure) -> String) -> String {
    let outcome = shortened(&figures[0].outcome);
    let same_outcome = figures.len() > 1 && figures.iter().all(|figure| shortened(&figure.outcome) == outcome);
    let with_outcome =
        |text: String, outcome: String| if outcome.is_empty() { text } else { format!("{text}, {outcome}") };
    if figures.len() > 1 && same_outcome && figures.iter().all(|figure| figure.value == figures[0].value) {
        let servers = figures.iter().map(|figure| subject(figure)).collect::<Vec<_>>().join(", ");
        return with_outcome(format!("{} for {servers}", value(figures[0])), outcome);
    }
    let one = |figure: &&Figure| {
        let text = format!("{}{NO_BREAK}{}", subject(figure), value(figure));
        if same_outcome { text } else { with_outcome(text, shortened(&figure.outcome)) }
    };
    let text = figures.iter().map(one).collect::<Vec<_>>().join("; ");
    if same_outcome && !outcome.is_empty() { format!("{text}; all {outcome}") } else { text }
}

/// The value; its interval only if that is wider than the value: `1 (1 – 1)` is 1.
fn value(figure: &Figure) -> String {
    match figure.value.split_once(" (") {
        Some((value, interval)) if interval == format!("{value} – {value})") => value.to_owned(),
        _ => figure.value.replace(' ', "\u{a0}"),
    }
}

/// `ratio to default` with quotation marks, because a baseline can be a phrase; some reports print them themselves.
fn with_quotes(kind: &str) -> String {
    match kind.split_once(" to ").filter(|(kind, _)| *kind == "ratio") {
        Some((kind, baseline)) => format!("{kind} to “{}”", baseline.trim_matches(['“', '”'])),
        None => kind.to_owned(),
    }
}

/// An outcome without p values, and with the usual abbreviation of the minimum detectable effect.
fn shortened(outcome: &str) -> String {
    let outcome = outcome.split(" (p ").next().unwrap_or_default();
    match outcome.split_once(", minimum detectable effect ") {
        Some((verdict, effect)) => format!("{verdict} (MDE{NO_BREAK}{effect})"),
        None => outcome.split(": A/A").next().unwrap_or_default().to_owned(),
    }
}

/// A heading inside a sentence: `Mean latency` becomes `mean latency`, `UDP ...` stays.
fn lower(heading: &str) -> String {
    let mut letters = heading.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(letters).collect(),
        _ => heading.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Figure, lower, shortened, values, with_quotes};

    fn figure(subject: &str, value: &str, outcome: &str) -> Figure {
        let [experiment, metric, level, kind] = ["E1", "Rate", "", "median"].map(str::to_owned);
        let [subject, value, outcome] = [subject, value, outcome].map(str::to_owned);
        Figure { experiment, metric, level, subject, kind, value, outcome, preliminary: false }
    }

    #[test]
    fn what_all_servers_share_is_said_once() {
        let text = |figures: &[Figure]| values(&figures.iter().collect::<Vec<_>>(), |figure| figure.subject.clone());
        assert_eq!(text(&[figure("zonda", "1 (1 – 1)", ""), figure("nsd", "1 (1 – 1)", "")]), "1 for zonda, nsd");
        let refuted = [figure("zonda", "0.9 (0.8 – 1)", "refuted"), figure("nsd", "0.8 (0.7 – 1)", "refuted")];
        assert_eq!(
            text(&refuted),
            "zonda\u{a0}0.9\u{a0}(0.8\u{a0}–\u{a0}1); nsd\u{a0}0.8\u{a0}(0.7\u{a0}–\u{a0}1); all refuted"
        );
        assert_eq!(text(&refuted[..1]), "zonda\u{a0}0.9\u{a0}(0.8\u{a0}–\u{a0}1), refuted");
    }

    #[test]
    fn a_baseline_has_one_pair_of_quotation_marks() {
        assert_eq!(with_quotes("ratio to default"), "ratio to “default”");
        assert_eq!(with_quotes("ratio to “1 worker”"), "ratio to “1 worker”");
        assert_eq!(with_quotes("claim"), "claim");
    }

    #[test]
    fn outcomes_are_short() {
        assert_eq!(shortened("inconclusive, minimum detectable effect 8.0%"), "inconclusive (MDE\u{a0}8.0%)");
        assert_eq!(shortened("equivalent within 2.0% (p 0.003)"), "equivalent within 2.0%");
        assert_eq!(shortened("withheld: A/A alarm"), "withheld");
        assert_eq!((lower("Mean latency").as_str(), lower("UDP drops").as_str()), ("mean latency", "UDP drops"));
    }
}
