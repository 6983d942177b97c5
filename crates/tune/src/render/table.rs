//! The advice as text for a terminal.

use std::fmt::Write;

use super::evidence;
use crate::advice::sizes::octets;
use crate::advice::{Action, Case, Group, Place, Row, Symptom};

/// The width of a line.
const WIDTH: usize = 98;

/// Where the sentences of a row begin.
const INDENT: usize = 13;

/// The host, the workload, every row by group, and what has gone wrong.
pub fn text(case: &Case, rows: &[Row], symptoms: &[Symptom], notes: &[String]) -> String {
    let mut text = head(case);
    for note in notes {
        paragraph(&mut text, "note: ", note, 6);
    }
    let mut group = None;
    for row in rows {
        if group != Some(row.group) {
            group = Some(row.group);
            _ = write!(text, "\n{}\n", title(row.group));
        }
        append_row(&mut text, row);
    }
    append_groups(&mut text, rows);
    text += "\nSymptoms since the start of the host or namespace\n";
    for symptom in symptoms {
        paragraph(
            &mut text,
            &format!("  {:>9}  ", symptom.count),
            &format!("{}: {} (help: {})", symptom.name, symptom.meaning, symptom.help),
            INDENT,
        );
    }
    if symptoms.is_empty() {
        text += "  none: no counter of lost queries or connections has counted\n";
    }
    append_summary(&mut text, rows);
    text
}

/// The measurements of whole groups of settings, to which the rows refer.
fn append_groups(text: &mut String, rows: &[Row]) {
    let groups = evidence::groups(rows.iter().flat_map(|row| row.lookups));
    if groups.is_empty() {
        return;
    }
    *text += "\nMeasured as a whole group: the settings of a source or of the lab at once, as far as a namespace has them; this says little about each\n";
    for (name, lines) in groups {
        _ = writeln!(text, "  {name}");
        for line in lines {
            paragraph(text, "      ", &line, 8);
        }
    }
}

/// What is to set, again and without reasons, and how many settings have which advice.
fn append_summary(text: &mut String, rows: &[Row]) {
    let to_set: Vec<&Row> = rows.iter().filter(|row| row.action == Action::Set).collect();
    if !to_set.is_empty() {
        *text += "\nTo set\n";
    }
    for row in &to_set {
        _ = writeln!(text, "  {:<32}  {}", row.name, values(row));
    }
    let count = |action| rows.iter().filter(|row| row.action == action).count();
    let counts = format!(
        "{} to set, {} good as they are, {} to leave alone, {} not on this host. Nothing was changed; --write FOLDER and --apply change something.",
        to_set.len(),
        count(Action::Keep),
        count(Action::Leave),
        count(Action::Absent)
    );
    text.push('\n');
    paragraph(text, "", &counts, 0);
}

/// The heading of a part of the table.
pub fn title(group: Group) -> &'static str {
    match group {
        Group::Queues => "Queues of connections and packets",
        Group::Descriptors => "Descriptors and connections",
        Group::Buffers => "Socket buffers",
        Group::Ports => "Ports and TIME_WAIT",
        Group::Tcp => "TCP",
        Group::Card => "Network card",
        Group::Processors => "Processors",
        Group::Server => "Options of the DNS server",
    }
}

fn head(case: &Case) -> String {
    let (host, workload) = (case.host, case.workload);
    let (rate, unit) = match workload.transfers_per_min() {
        0 => (workload.queries_per_s(), "queries per second"),
        transfers => (transfers, "transfers per minute"),
    };
    format!(
        "Host: Linux {}, {} processors, {} of memory\nAdvice for {}: --role {} --connections {} --zones {} --rate {rate} ({unit})\n",
        host.kernel,
        host.cpus.usable(),
        octets(host.usable_memory()),
        workload.server,
        workload.role,
        workload.connections,
        workload.zones,
    )
}

fn append_row(text: &mut String, row: &Row) {
    let word = match row.action {
        Action::Set => "set",
        Action::Keep => "keep",
        Action::Leave => "leave",
        Action::Absent => "absent",
    };
    let start = format!("  {word:<8} {:<32}", row.name);
    match values(row).as_str() {
        "" => _ = writeln!(text, "{}", start.trim_end()),
        values => paragraph(text, &format!("{start}  "), values, INDENT),
    }
    let mut sentence = |key: &str, words: &str| {
        if !words.is_empty() {
            paragraph(text, &format!("  {key:>9}: "), words, INDENT);
        }
    };
    sentence("why", &row.why);
    if row.action == Action::Absent {
        return;
    }
    let disagreement = row.disagreement.as_ref().map(|values| format!("; {values}")).unwrap_or_default();
    sentence("sources", &(row.sources.join("; ") + &disagreement));
    for (number, line) in evidence::lines(row.lookups).iter().enumerate() {
        sentence(if number == 0 { "evidence" } else { "and" }, line);
    }
    sentence("risk", row.risk);
    sentence("condition", row.condition);
}

/// The value now, and what to set. A habit has no value.
fn values(row: &Row) -> String {
    let unset = if row.place == Place::Habit { "" } else { "not set" };
    let now = row.now.as_deref().unwrap_or(unset);
    match row.action {
        Action::Set => format!("{now}  ->  {}", row.advised.as_deref().unwrap_or_default()),
        Action::Keep | Action::Leave => now.to_owned(),
        Action::Absent => String::new(),
    }
}

/// Words in lines of [`WIDTH`], the first after `start`, the others after `indent` blanks.
fn paragraph(text: &mut String, start: &str, words: &str, indent: usize) {
    text.push_str(start);
    let mut column = start.chars().count();
    for (number, word) in words.split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > WIDTH {
            _ = write!(text, "\n{:indent$}", "");
            column = indent;
        } else if number > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(&word.replace(evidence::NO_BREAK, " "));
        column += length;
    }
    text.push('\n');
}
