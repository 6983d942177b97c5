//! The advice as text for a terminal.

use std::fmt::Write;

use crate::advice::sizes::octets;
use crate::advice::{Action, Case, Group, Row, Symptom};

/// The width of a line.
const WIDTH: usize = 110;

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
    let count = |action| rows.iter().filter(|row| row.action == action).count();
    _ = write!(
        text,
        "\n{} to set, {} good as they are, {} to leave alone, {} not on this host. Nothing was changed; --write FOLDER and --apply change something.\n",
        count(Action::Set),
        count(Action::Keep),
        count(Action::Leave),
        count(Action::Absent)
    );
    text
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
    let rate = match workload.transfers_per_min() {
        0 => format!("{} queries per second", workload.queries_per_s()),
        transfers => format!("{transfers} transfers per minute"),
    };
    format!(
        "Host: Linux {}, {} processors, {} of memory\nAdvice for {}, role {}: {} connections, {} zones, {rate}\n",
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
    let now = row.now.as_deref().unwrap_or("not set");
    let (word, values) = match row.action {
        Action::Set => ("set", format!("{now}  ->  {}", row.advised.as_deref().unwrap_or_default())),
        Action::Keep => ("keep", now.to_owned()),
        Action::Leave => ("leave", now.to_owned()),
        Action::Absent => ("absent", String::new()),
    };
    _ = writeln!(text, "  {word:<8} {:<32} {values}", row.name);
    let mut sentence = |key: &str, words: &str| {
        if !words.is_empty() {
            paragraph(text, &format!("  {key:>9}: "), words, INDENT);
        }
    };
    sentence("why", &row.why);
    if row.action == Action::Absent {
        return;
    }
    sentence("sources", &row.sources.join("; "));
    sentence("evidence", &row.evidence);
    sentence("risk", row.risk);
    sentence("condition", row.condition);
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
        text.push_str(word);
        column += length;
    }
    text.push('\n');
}
