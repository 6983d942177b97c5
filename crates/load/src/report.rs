//! Results as JSON lines in the form of DNS-OARC's dns-metrics, and progress for people.
//!
//! Times are in nanoseconds. What the form has no place for stands in the member `zonda`.

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde_json::{Map, Value, json};

use crate::measure::Measure;
use crate::run::Outcome;
use crate::verify::rcode_name;

/// Writes the records of one run to standard output, each whole and flushed, and progress to standard error if that is a terminal.
pub struct Reporter {
    run_id: String,
    /// `open` or `closed`.
    loop_kind: &'static str,
    transport: &'static str,
    shows_progress: bool,
    began: Option<Duration>,
    /// Why the first record that was lost could not be written.
    lost: RefCell<Option<io::Error>>,
}

impl Reporter {
    /// A reporter; writes the header, with the command line in it.
    pub fn new(loop_kind: &'static str, transport: &'static str) -> Reporter {
        let now = netio::clock::real();
        let run_id = format!("{:x}-{:x}", now.as_nanos(), std::process::id());
        let shows_progress = io::stderr().is_terminal();
        let reporter = Reporter { run_id, loop_kind, transport, shows_progress, began: None, lost: RefCell::default() };
        let command = without_secrets(std::env::args());
        reporter.write(
            "header",
            json!({
                "schema_version": 20221114,
                "generator": "zonda-load",
                "generator_version": env!("CARGO_PKG_VERSION"),
                "time": nanoseconds(now),
                "time_units_per_sec": 1_000_000_000,
                "zonda": {"command": command},
            }),
        );
        reporter
    }

    /// Writes an event: something that happened, with its figures.
    pub fn event(&self, kind: &str, message: &str, zonda: Value) {
        let now = nanoseconds(netio::clock::real());
        self.write("event", json!({"time": now, "msg_type": kind, "msg": message, "zonda": zonda}));
    }

    /// Writes what came in an interval.
    pub fn periodic(&mut self, outcome: &Outcome) {
        self.write("stats_periodic", self.stats(outcome, Map::new(), false));
        if self.shows_progress {
            let began = *self.began.get_or_insert(outcome.since);
            eprint!("\r\x1b[K{}", progress_line(outcome, began));
        }
    }

    /// Writes what came in the whole run, with further figures of the command's own, and says why it is not valid, if so.
    /// An error if this or an earlier record could not be written.
    pub fn sum(&self, outcome: &Outcome, more: Map<String, Value>) -> io::Result<()> {
        self.write("stats_sum", self.stats(outcome, more, true));
        if self.shows_progress {
            eprintln!("\r\x1b[K{}", progress_line(outcome, outcome.since));
        }
        self.all_written()
    }

    /// Writes the record of a command that sends no queries; fails as [`Reporter::sum`] does.
    pub fn figures(&self, since: Duration, until: Duration, zonda: Map<String, Value>) -> io::Result<()> {
        let times = json!({"since": nanoseconds(since), "until": nanoseconds(until), "zonda": zonda});
        self.write("stats_sum", times);
        self.all_written()
    }

    fn all_written(&self) -> io::Result<()> {
        self.lost.take().map_or(Ok(()), Err)
    }

    fn write(&self, kind: &str, mut record: Value) {
        record["runid"] = json!(self.run_id);
        record["type"] = json!(kind);
        let mut out = io::stdout().lock();
        if let Err(error) = writeln!(out, "{record}").and_then(|()| out.flush()) {
            self.lost.borrow_mut().get_or_insert(error);
        }
    }

    fn stats(&self, outcome: &Outcome, more: Map<String, Value>, is_whole: bool) -> Value {
        let measure = &outcome.measure;
        let mut record = json!({
            "since": nanoseconds(outcome.since),
            "until": nanoseconds(outcome.until),
            "queries": measure.queries,
            "responses": measure.responses,
            "timeouts": measure.timeouts,
            "interrupted": measure.interrupted,
            "unexpected": measure.unexpected,
            "discarded": measure.discarded,
            "response_rcodes": rcodes(measure),
            "response_latency": latency(&measure.latency_actual),
            "zonda": self.zonda(measure, more, is_whole),
        });
        if self.transport != "udp" {
            record["conn_info"] = json!({
                "type": self.transport,
                "handshakes": measure.handshakes,
                "handshakes_failed": measure.handshakes_failed,
                "handshakes_resumed": measure.handshakes_resumed,
                "handshake_failure": measure.handshake_failure,
                "conn_latency": {"handshake": latency(&measure.handshake)},
            });
        }
        record
    }

    fn zonda(&self, measure: &Measure, more: Map<String, Value>, is_whole: bool) -> Value {
        let mut zonda = json!({
            "loop": self.loop_kind,
            "transport": self.transport,
            "scheduled": measure.scheduled,
            "late": measure.late,
            "missed": measure.missed,
            "checked": measure.checked,
            "wrong": measure.wrong,
            "wrong_examples": measure.wrong_examples,
            "truncated": measure.truncated,
            "query_octets": measure.query_octets,
            "response_octets": measure.response_octets,
            "closed_early": measure.closed_early,
            "refused": measure.refused,
            "cpu_ns": measure.cpu_ns,
            "schedule_error": quantiles(&measure.schedule_error),
            "quantiles_intended": quantiles(&measure.latency_intended),
            "quantiles_actual": quantiles(&measure.latency_actual),
            "latency_intended": encode(&measure.latency_intended),
            "latency_actual": encode(&measure.latency_actual),
        });
        if is_whole {
            zonda["invalid_because"] = json!(measure.invalid_because());
        }
        for (key, value) in more {
            zonda[key] = value;
        }
        zonda
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if self.shows_progress && self.began.is_some() {
            eprintln!();
        }
    }
}

/// The command line, with the secrets of keys left out.
fn without_secrets(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_key = false;
    let shown = arguments.map(|argument| {
        let has_key = std::mem::replace(&mut is_key, argument == "--tsig") || argument.starts_with("--tsig=");
        let secret_at = argument.rfind(':').filter(|_| has_key);
        secret_at.map_or(argument.clone(), |at| format!("{}:...", &argument[..at]))
    });
    shown.collect()
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn rcodes(measure: &Measure) -> Value {
    let counted = measure.rcodes.iter().enumerate().filter(|&(_, &count)| count > 0);
    Value::Object(counted.map(|(rcode, &count)| (rcode_name(rcode as u8), json!(count))).collect())
}

fn latency(histogram: &Histogram<u64>) -> Value {
    json!({
        "avg": histogram.mean().round() as u64,
        "min": histogram.min(),
        "max": histogram.max(),
        "stddev": histogram.stdev().round() as u64,
    })
}

/// Some quantiles, in nanoseconds: what most readers look for without decoding a histogram.
fn quantiles(histogram: &Histogram<u64>) -> Value {
    json!({
        "p50": histogram.value_at_quantile(0.5),
        "p90": histogram.value_at_quantile(0.9),
        "p99": histogram.value_at_quantile(0.99),
        "p99.9": histogram.value_at_quantile(0.999),
        "max": histogram.max(),
    })
}

/// HdrHistogram V2, compressed, in base64, as the histogram logs of other tools have it.
fn encode(histogram: &Histogram<u64>) -> String {
    let mut octets = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut octets).expect("writing to memory");
    STANDARD.encode(octets)
}

fn progress_line(outcome: &Outcome, began: Duration) -> String {
    let measure = &outcome.measure;
    let seconds = (outcome.until - outcome.since).as_secs_f64();
    let at_quantile = |quantile| measure.latency_intended.value_at_quantile(quantile) as f64 / 1e6;
    format!(
        "{:6.1} s  {:9.0} q/s  {:9.0} answers/s  {} timeouts  {} wrong  p50 {:.3} ms  p99 {:.3} ms",
        (outcome.until.saturating_sub(began)).as_secs_f64(),
        measure.queries as f64 / seconds,
        measure.responses as f64 / seconds,
        measure.timeouts,
        measure.wrong,
        at_quantile(0.5),
        at_quantile(0.99),
    )
}
