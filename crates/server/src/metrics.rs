//! Metrics in the text format of Prometheus (version 0.0.4), for `zonda metrics`.

use std::fmt::Write;
use std::sync::mpsc::RecvTimeoutError;

use wire::message::Rcode;

use crate::listen::{CounterReader, METRICS};
use crate::storage::StoreUsage;
use crate::transfer::notify_sender::NotifyCounters;
use crate::zone_totals::ZoneTotals;

/// The metrics of the journal: name, type, help, and value.
type JournalMetric = (&'static str, &'static str, &'static str, fn(&StoreUsage) -> u64);

const JOURNAL_METRICS: [JournalMetric; 6] = [
    ("journal_log_octets", "gauge", "Octets of the log of the journal, with what is no longer needed.", |usage| {
        usage.log_octets
    }),
    ("journal_live_octets", "gauge", "Octets of the log of the journal that are needed.", |usage| usage.live_octets),
    ("journal_image_octets", "gauge", "Octets of the images of zones that have files of their own.", |usage| {
        usage.image_octets
    }),
    ("journal_history_octets", "gauge", "Octets of changes that are kept for IXFR only.", |usage| usage.history_octets),
    (
        "journal_dropped_changes_total",
        "counter",
        "Changes dropped because of max-journal-bytes or max-journal-total-bytes.",
        |usage| usage.dropped_changes,
    ),
    ("journal_dropped_octets_total", "counter", "Octets of these changes.", |usage| usage.dropped_octets),
];

/// What the journal reports.
#[derive(Clone, Copy)]
pub enum JournalReport {
    /// There is no journal.
    Absent,
    /// Its disk does not answer in time.
    Silent,
    /// How much it holds, and whether it can be written.
    Usage(StoreUsage),
}

impl From<Result<StoreUsage, RecvTimeoutError>> for JournalReport {
    fn from(reply: Result<StoreUsage, RecvTimeoutError>) -> JournalReport {
        match reply {
            Ok(usage) => JournalReport::Usage(usage),
            Err(RecvTimeoutError::Timeout) => JournalReport::Silent,
            Err(RecvTimeoutError::Disconnected) => JournalReport::Absent,
        }
    }
}

/// The counters of the listeners, those of zones and of sent NOTIFY messages, and those of the journal if there is one.
pub fn render(
    counters: &CounterReader,
    zones: Option<ZoneTotals>,
    notify: Option<NotifyCounters>,
    journal: JournalReport,
) -> String {
    let mut text = String::new();
    let totals = counters.totals().map(|(transport, totals)| (transport, totals.values(), totals.rcodes));
    for (row, metric) in METRICS.iter().enumerate() {
        let name = format!("{}_total", metric.name);
        describe(&mut text, &name, "counter", metric.help);
        for (transport, values, _) in &totals {
            line(&mut text, &format!("{name}{{transport=\"{transport}\"}}"), values[row]);
        }
    }
    describe(
        &mut text,
        "rcodes_total",
        "counter",
        "Responses by RCODE, counted before RRL; bad_versions and bad_cookies have BADVERS and BADCOOKIE.",
    );
    for (transport, _, rcodes) in &totals {
        for (rcode, count) in (0..).zip(rcodes).filter(|(_, count)| **count > 0) {
            let rcode = Rcode(rcode);
            line(&mut text, &format!("rcodes_total{{transport=\"{transport}\",rcode=\"{rcode}\"}}"), *count);
        }
    }
    if let Some(totals) = zones {
        write_zones(&mut text, &totals);
    }
    if let Some(counters) = notify {
        write_notify(&mut text, counters);
    }
    if let JournalReport::Usage(usage) = &journal {
        for (name, kind, help, value) in JOURNAL_METRICS {
            describe(&mut text, name, kind, help);
            line(&mut text, name, value(usage));
        }
    }
    match journal {
        JournalReport::Absent => (),
        // A disk that hangs reports no error.
        JournalReport::Silent => write_journal_failing(&mut text, true),
        JournalReport::Usage(usage) => write_journal_failing(&mut text, usage.is_failing),
    }
    text
}

fn write_journal_failing(text: &mut String, is_failing: bool) {
    let help = "1 while the journal, or an image in it, cannot be written, or its disk does not answer; otherwise 0.";
    describe(text, "journal_failing", "gauge", help);
    line(text, "journal_failing", is_failing.into());
}

fn write_zones(text: &mut String, totals: &ZoneTotals) {
    let ZoneTotals { serving, expired, unavailable, received } = totals;
    let help = "Zones that are served; that have expired; that were not read or transferred yet, or could not be.";
    describe(text, "zones", "gauge", help);
    for (state, count) in [("serving", serving), ("expired", expired), ("unavailable", unavailable)] {
        line(text, &format!("zones{{state=\"{state}\"}}"), *count);
    }
    describe(text, "transfers_received_total", "counter", "Transfers from primaries whose version was served.");
    for (kind, count) in [("axfr", received.axfr), ("ixfr", received.ixfr)] {
        line(text, &format!("transfers_received_total{{kind=\"{kind}\"}}"), count);
    }
    describe(text, "transfers_received_octets_total", "counter", "Octets of these transfers.");
    line(text, "transfers_received_octets_total", received.octets);
    let help = "Transfers from primaries that failed, or whose version was refused.";
    describe(text, "transfers_failed_total", "counter", help);
    line(text, "transfers_failed_total", received.failed);
}

fn write_notify(text: &mut String, counters: NotifyCounters) {
    let NotifyCounters { sent, answered, refused, given_up, dropped } = counters;
    describe(text, "notifies_sent_total", "counter", "NOTIFY messages sent, with those sent again.");
    line(text, "notifies_sent_total", sent);
    let help =
        "NOTIFY messages that were acknowledged; answered with an error; without an answer; not sent for want of room.";
    describe(text, "notifies_ended_total", "counter", help);
    let acknowledged = answered.saturating_sub(refused);
    for (result, count) in
        [("acknowledged", acknowledged), ("refused", refused), ("given_up", given_up), ("dropped", dropped)]
    {
        line(text, &format!("notifies_ended_total{{result=\"{result}\"}}"), count);
    }
}

fn describe(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    _ = writeln!(text, "# HELP zonda_{name} {help}\n# TYPE zonda_{name} {kind}");
}

fn line(text: &mut String, name: &str, value: u64) {
    _ = writeln!(text, "zonda_{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone_totals::ReceivedTotals;

    #[test]
    fn each_metric_is_described_once_and_has_a_value() {
        let usage = StoreUsage {
            log_octets: 1,
            live_octets: 2,
            image_octets: 3,
            history_octets: 4,
            dropped_changes: 5,
            dropped_octets: 6,
            is_failing: true,
        };
        let received = ReceivedTotals { axfr: 4, ixfr: 5, octets: 6, failed: 7 };
        let zones = ZoneTotals { serving: 1, expired: 2, unavailable: 3, received };
        let notify = NotifyCounters { sent: 9, answered: 5, refused: 2, given_up: 1, dropped: 8 };
        let text = render(&CounterReader::default(), Some(zones), Some(notify), JournalReport::Usage(usage));
        for expected in [
            "# TYPE zonda_queries_total counter\nzonda_queries_total{transport=\"udp\"} 0\n",
            "# TYPE zonda_journal_history_octets gauge\nzonda_journal_history_octets 4\n",
            "\nzonda_journal_dropped_changes_total 5\n",
            "\nzonda_journal_failing 1\n",
            "# TYPE zonda_zones gauge\nzonda_zones{state=\"serving\"} 1\nzonda_zones{state=\"expired\"} 2\n",
            "\nzonda_transfers_received_total{kind=\"ixfr\"} 5\n",
            "\nzonda_transfers_failed_total 7\n",
            "\nzonda_notifies_sent_total 9\n",
            "\nzonda_notifies_ended_total{result=\"acknowledged\"} 3\nzonda_notifies_ended_total{result=\"refused\"} 2\n",
            "\nzonda_notifies_ended_total{result=\"given_up\"} 1\nzonda_notifies_ended_total{result=\"dropped\"} 8\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        let mut described: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(described.len(), METRICS.len() + 1 + 4 + 2 + JOURNAL_METRICS.len() + 1);
        described.dedup();
        assert_eq!(described.len(), text.lines().filter(|line| line.starts_with("# HELP ")).count());
        let listeners = render(&CounterReader::default(), None, None, JournalReport::Absent);
        assert!(["journal", "zones", "notifies_sent"].iter().all(|absent| !listeners.contains(absent)));
        let manual = include_str!("../../../docs/manual/operations.md");
        let names = described.iter().filter_map(|line| line.split(' ').next());
        let missing: Vec<&str> = names.filter(|name| !manual.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/manual/operations.md does not explain {missing:?}");
    }

    /// The alert for a failing journal must not end just because the disk does not even report errors.
    #[test]
    fn a_journal_whose_disk_hangs_is_failing() {
        for (error, failing) in
            [(RecvTimeoutError::Timeout, Some("zonda_journal_failing 1")), (RecvTimeoutError::Disconnected, None)]
        {
            let text = render(&CounterReader::default(), None, None, Err::<StoreUsage, _>(error).into());
            let journal: Vec<&str> = text.lines().filter(|line| line.starts_with("zonda_journal")).collect();
            assert_eq!(journal, Vec::from_iter(failing));
        }
    }
}
