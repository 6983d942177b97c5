//! Writes results as JSON lines in the dns-metrics format of DNS-OARC, or as text to a terminal, and progress to a terminal.
//!
//! Times are in nanoseconds. Members that dns-metrics does not define are in the object `zonda`.

mod summary;

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use data_encoding::BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use serde::Serialize;
use serde_json::{Value, json};
use wire::message::Rcode;

use crate::echo::Exchanges;
use crate::job::{Job, Timing, Transport};
use crate::metrics::Metrics;
use crate::run::RunResult;

/// The counters that dns-metrics defines.
const DNS_METRICS_COUNTERS: [&str; 6] = ["queries", "responses", "timeouts", "interrupted", "unexpected", "discarded"];
/// The metrics of connections, in `conn_info`.
const HANDSHAKE_METRICS: [&str; 4] = ["handshakes", "handshakes_failed", "handshakes_resumed", "handshake_failure"];

/// The version of the schema that the records comply with, in its form YYYYMMDD.
const SCHEMA_VERSION: u32 = 20_221_207;

/// Whether a terminal gets JSON lines too.
static JSON_ON_TERMINALS: AtomicBool = AtomicBool::new(false);

/// Makes reporters that are created from now on write JSON lines also to terminals.
pub fn write_json_to_terminals() {
    JSON_ON_TERMINALS.store(true, Ordering::Relaxed);
}

/// How a run is described in its header.
#[derive(Clone, Debug)]
pub struct ReportHeader {
    /// `open` or `closed`.
    pub loop_kind: &'static str,
    /// `udp`, `tcp`, `tls` or `mixed`.
    pub transport: &'static str,
    /// The type of connections in the schema; `None` without connections.
    pub connections: Option<&'static str>,
    /// The reporting interval; zero without periodic reports.
    pub interval: Duration,
    /// The time-out of a query.
    pub timeout: Duration,
    /// How queries are sent, if the run sends any.
    pub sending: Value,
}

impl Default for ReportHeader {
    /// An open loop over UDP without periodic reports.
    fn default() -> ReportHeader {
        let (interval, timeout) = (Duration::ZERO, Duration::ZERO);
        let sending = Value::Null;
        ReportHeader { loop_kind: "open", transport: "udp", connections: None, interval, timeout, sending }
    }
}

impl ReportHeader {
    /// The header of a command that waits for each result before it continues.
    pub fn closed(transport: &'static str) -> ReportHeader {
        ReportHeader { loop_kind: "closed", transport, ..ReportHeader::default() }
    }

    /// The header of a run of queries.
    pub fn of(job: &Job) -> ReportHeader {
        ReportHeader {
            loop_kind: if matches!(job.timing, Timing::Closed { .. }) { "closed" } else { "open" },
            transport: match job.transport {
                Transport::Udp => "udp",
                Transport::Tcp if job.tls.is_some() => "tls",
                Transport::Tcp => "tcp",
                Transport::Mixed => "mixed",
            },
            connections: (job.transport != Transport::Udp).then(|| connection_type(job.tls.is_some())),
            interval: job.interval,
            timeout: job.timeout,
            sending: json!({
                "burst": job.burst_len,
                "order": if job.sort_by_length { "length" } else { "file" },
                "timestamps": if job.kernel_timestamps { "kernel" } else { "user" },
            }),
        }
    }
}

/// The schema's type of connections.
pub fn connection_type(has_tls: bool) -> &'static str {
    if has_tls { "tls_conn" } else { "tcp" }
}

/// Writes the records of a run to standard output, flushing each, and progress to standard error if that is a terminal.
pub struct Reporter {
    run_id: String,
    header: ReportHeader,
    /// Whether standard output gets text for people instead of records.
    writes_text: bool,
    shows_progress: bool,
    began: Option<Duration>,
    /// The first error of writing a record.
    write_error: RefCell<Option<io::Error>>,
}

impl Reporter {
    /// A reporter; writes the header, which has the command line.
    pub fn new(header: ReportHeader) -> Reporter {
        let now = netio::clock::real();
        let record = json!({
            "schema_version": SCHEMA_VERSION,
            "generator": "zonda-load",
            "generator_version": env!("CARGO_PKG_VERSION"),
            "generator_params": without_secrets(std::env::args().skip(1)),
            "time_units_per_sec": 1_000_000_000,
            "stats_interval": header.interval.as_secs_f64(),
            "timeout": header.timeout.as_secs_f64(),
            "zonda": {"time": nanoseconds(now), "loop": header.loop_kind, "sending": header.sending},
        });
        let reporter = Reporter {
            run_id: format!("{:x}-{:x}", now.as_nanos(), std::process::id()),
            header,
            writes_text: io::stdout().is_terminal() && !JSON_ON_TERMINALS.load(Ordering::Relaxed),
            shows_progress: io::stderr().is_terminal(),
            began: None,
            write_error: RefCell::default(),
        };
        reporter.write("header", record);
        reporter
    }

    /// Writes an event with figures.
    pub fn event(&self, kind: &str, message: &str, zonda: Value) {
        let now = nanoseconds(netio::clock::real());
        self.write("event", json!({"time": now, "msg_type": kind, "msg": message, "zonda": zonda}));
    }

    /// Writes the result of an interval.
    pub fn write_interval(&mut self, result: &RunResult) {
        self.write("stats_periodic", self.stats(result, Value::Null, false));
        if self.shows_progress {
            let began = *self.began.get_or_insert(result.since);
            eprint!("\r\x1b[K{}", progress_line(result, began));
        }
    }

    /// Writes the result of the run, with the members of `extra` added to `zonda`.
    ///
    /// Returns the first error of writing any record.
    pub fn write_sum(&self, result: &RunResult, extra: Value) -> io::Result<()> {
        self.write("stats_sum", self.stats(result, extra, true));
        if self.shows_progress && !self.writes_text {
            eprintln!("\r\x1b[K{}", progress_line(result, result.since));
        }
        self.first_error()
    }

    /// Writes the result of a command without query metrics; returns errors like [`Reporter::write_sum`].
    pub fn write_figures(&self, since: Duration, until: Duration, zonda: Value) -> io::Result<()> {
        let times = json!({"since": nanoseconds(since), "until": nanoseconds(until), "zonda": zonda});
        self.write("stats_sum", times);
        self.first_error()
    }

    /// Writes the totals of a server; returns errors like [`Reporter::write_sum`].
    pub fn write_totals(&self, since: Duration, until: Duration, total: Exchanges, zonda: Value) -> io::Result<()> {
        let mut record = fields(total);
        record["since"] = json!(nanoseconds(since));
        record["until"] = json!(nanoseconds(until));
        record["zonda"] = zonda;
        self.write("stats_sum", record);
        self.first_error()
    }

    fn first_error(&self) -> io::Result<()> {
        self.write_error.take().map_or(Ok(()), Err)
    }

    fn write(&self, kind: &str, mut record: Value) {
        record["runid"] = json!(self.run_id);
        record["type"] = json!(kind);
        let mut out = io::stdout().lock();
        let text = match self.writes_text {
            true if self.shows_progress => format!("\r\x1b[K{}", summary::text_of(&record)),
            true => summary::text_of(&record),
            false => format!("{record}\n"),
        };
        if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            self.write_error.borrow_mut().get_or_insert(error);
        }
    }

    fn stats(&self, result: &RunResult, extra: Value, is_sum: bool) -> Value {
        let metrics = &result.metrics;
        let mut zonda = fields(metrics);
        let mut record = remove_keys(&mut zonda, &DNS_METRICS_COUNTERS);
        remove_keys(&mut zonda, &HANDSHAKE_METRICS);
        record["since"] = json!(nanoseconds(result.since));
        record["until"] = json!(nanoseconds(result.until));
        record["response_rcodes"] = rcodes(metrics);
        record["response_latency"] = latency(&metrics.latency_actual);
        if let Some(kind) = self.header.connections {
            let mut connections = handshakes(metrics);
            connections["type"] = json!(kind);
            record["conn_info"] = connections;
        }
        zonda["loop"] = json!(self.header.loop_kind);
        zonda["transport"] = json!(self.header.transport);
        zonda["schedule_error"] = quantiles(&metrics.schedule_error);
        zonda["quantiles_intended"] = quantiles(&metrics.latency_intended);
        zonda["quantiles_actual"] = quantiles(&metrics.latency_actual);
        zonda["latency_intended"] = encode_histogram(&metrics.latency_intended);
        zonda["latency_actual"] = encode_histogram(&metrics.latency_actual);
        let breakdown = breakdown(metrics);
        if is_sum && !breakdown.is_empty() {
            zonda["breakdown"] = json!(breakdown);
        }
        if is_sum {
            zonda["responses_in_window"] = json!(metrics.responses_in_window());
            zonda["busy"] = json!((result.busy * 1e4).round() / 1e4);
            zonda["invalid_because"] = json!(metrics.invalid_because());
        }
        for (key, value) in extra.as_object().into_iter().flatten() {
            zonda[key] = value.clone();
        }
        record["zonda"] = zonda;
        record
    }
}

/// The metrics of connections, as in `conn_info`.
pub fn handshakes(metrics: &Metrics) -> Value {
    let mut handshakes = remove_keys(&mut fields(metrics), &HANDSHAKE_METRICS);
    handshakes["conn_latency"] = json!({"handshake": latency(&metrics.handshake)});
    handshakes
}

/// The fields of a serializable struct, as a JSON object.
pub fn fields(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("keys are field names")
}

fn remove_keys(object: &mut Value, keys: &[&str]) -> Value {
    keys.iter().map(|&key| (key, object.as_object_mut().and_then(|members| members.remove(key)))).collect()
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if self.shows_progress && !self.writes_text && self.began.is_some() {
            eprintln!();
        }
    }
}

/// The command line without TSIG secrets.
fn without_secrets(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_key = false;
    let shown = arguments.map(|argument| {
        let has_key = std::mem::replace(&mut is_key, argument == "--tsig") || argument.starts_with("--tsig=");
        let secret_at = argument.rfind(':').filter(|_| has_key);
        secret_at.map_or(argument.clone(), |at| format!("{}:...", &argument[..at]))
    });
    shown.collect()
}

/// Nanoseconds for reports.
pub fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn rcodes(metrics: &Metrics) -> Value {
    let counted = metrics.rcodes.iter().enumerate().filter(|&(_, &count)| count > 0);
    Value::Object(counted.map(|(rcode, &count)| (Rcode(rcode as u16).to_string(), json!(count))).collect())
}

/// Latencies by query type and RCODE; the RCODE of queries without a response is null.
fn breakdown(metrics: &Metrics) -> Vec<Value> {
    let parts = metrics.breakdown.iter().map(|(qtype, rcode, latency)| {
        json!({
            "qtype": qtype.to_string(),
            "rcode": rcode.map(|rcode| Rcode(rcode.into()).to_string()),
            "responses": if rcode.is_some() { latency.len() } else { 0 },
            "queries": latency.len(),
            "latency": quantiles(latency),
        })
    });
    parts.collect()
}

fn latency(histogram: &Histogram<u64>) -> Value {
    json!({
        "avg": histogram.mean().round() as u64,
        "min": histogram.min(),
        "max": histogram.max(),
        "stddev": histogram.stdev().round() as u64,
    })
}

/// The percentiles that most readers want, in nanoseconds, without decoding the histogram.
pub fn quantiles(histogram: &Histogram<u64>) -> Value {
    json!({
        "p50": histogram.value_at_quantile(0.5),
        "p90": histogram.value_at_quantile(0.9),
        "p99": histogram.value_at_quantile(0.99),
        "p99.9": histogram.value_at_quantile(0.999),
        "max": histogram.max(),
    })
}

/// The histogram as HdrHistogram V2, compressed, in base64, like HdrHistogram logs.
pub fn encode_histogram(histogram: &Histogram<u64>) -> Value {
    let mut octets = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut octets).expect("writing to memory");
    json!(BASE64.encode(&octets))
}

fn progress_line(result: &RunResult, began: Duration) -> String {
    let metrics = &result.metrics;
    let seconds = (result.until - result.since).as_secs_f64();
    let at_quantile = |quantile| metrics.latency_intended.value_at_quantile(quantile) as f64 / 1e6;
    format!(
        "{:6.1} s  {:9.0} q/s  {:9.0} answers/s  {} timeouts  {} wrong  p50 {:.3} ms  p99 {:.3} ms",
        (result.until.saturating_sub(began)).as_secs_f64(),
        metrics.queries as f64 / seconds,
        metrics.responses as f64 / seconds,
        metrics.timeouts,
        metrics.wrong,
        at_quantile(0.5),
        at_quantile(0.99),
    )
}
