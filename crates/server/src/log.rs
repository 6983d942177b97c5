//! The log: text lines or JSON objects on standard error.
//!
//! One thread writes what all others queue: standard error may be a pipe that nobody reads, and only that thread may block
//! on it.

mod log_queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata, error};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::config::{LogFormat, LogLevel};
use log_queue::{LogOutput, LogQueue, LogReceiver};

/// The log of this process; its level can be changed.
pub struct Log {
    level: reload::Handle<LevelFilter, Registry>,
}

/// How long the process waits at its end for the log to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Queue of the log thread; not set in commands other than `serve`, whose threads write themselves.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Whether the terminal shows a progress line, to be cleared before the next log line.
static PROGRESS_SHOWN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this is the log thread.
    static IS_LOG_THREAD: Cell<bool> = const { Cell::new(false) };
}

impl Log {
    /// Starts to log to standard error, panics included. To be called once.
    pub fn start(level: LogLevel, format: LogFormat) -> Log {
        let (filter, level) = reload::Layer::new(filter(level));
        let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
        let is_journal = is_journal();
        let writer = LogWriters { has_priorities: is_journal };
        let lines = tracing_subscriber::fmt::layer().with_target(false).with_ansi(is_terminal).with_writer(writer);
        let registry = tracing_subscriber::registry().with(filter).with(filter_fn(is_wanted));
        match format {
            // The journal has the time of each line.
            LogFormat::Text if is_journal => registry.with(lines.without_time()).init(),
            LogFormat::Text => registry.with(lines).init(),
            LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
        }
        start_log_thread();
        std::panic::set_hook(Box::new(log_panic));
        Log { level }
    }

    /// A log without output.
    #[cfg(test)]
    pub(crate) fn detached() -> Log {
        let (_, level) = reload::Layer::new(LevelFilter::OFF);
        Log { level }
    }

    /// Sets the least severe level that is logged.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only if the subscriber is gone, which lives as long as the process.
        _ = self.level.modify(|now| *now = filter(level));
    }
}

/// Waits until the log is written, for `FLUSH_TIMEOUT` at most.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_TIMEOUT);
    }
}

/// Shows a progress line on the terminal, replacing the previous one; an empty one clears it.
pub fn show_progress(text: &str) {
    match QUEUE.get() {
        Some(queue) => queue.push_progress(text),
        None => put_progress(text),
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Whether events of this kind are logged: not the warnings of `quinn-proto`, which any peer can cause without limit.
fn is_wanted(event: &Metadata<'_>) -> bool {
    *event.level() >= Level::DEBUG || !event.target().starts_with("quinn_proto")
}

/// Logs a panic outside of a query; the default hook would block on standard error.
fn log_panic(info: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let panicked = info.to_string().replace('\n', " ");
    error!(thread = thread.name(), "zonda has a bug, please report it: {panicked}");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        error!("{backtrace}");
    }
    if thread.name() == Some("main") {
        flush();
    }
}

//----------- the log thread ------------------------------------------------

/// Starts the log thread. Without one, every thread writes itself, as `QUEUE` stays empty.
fn start_log_thread() {
    let (queue, outputs) = log_queue::new();
    let spawned = thread::Builder::new().name("log".into()).spawn(move || write_all(&outputs));
    if spawned.is_ok() {
        _ = QUEUE.set(queue);
    }
}

/// How long the log thread pauses after it has written: lines that follow each other, as those of thousands of transfers, are written
/// together, and do not wake it one by one. A line after a pause is written at once.
const PAUSE: Duration = Duration::from_millis(2);
/// Lines are written together up to so many octets.
const MAX_WRITE: usize = 64 << 10;

fn write_all(outputs: &LogReceiver) {
    IS_LOG_THREAD.set(true);
    let mut lines = Vec::new();
    while let Some(output) = outputs.next() {
        write(output, &mut lines);
        while let Some(output) = outputs.waiting() {
            write(output, &mut lines);
        }
        put_lines(&mut lines);
        thread::sleep(PAUSE);
    }
}

/// Writes an output, or appends it to the lines that are written next.
fn write(output: LogOutput, lines: &mut Vec<u8>) {
    if let LogOutput::Lines(more) = output {
        lines.extend_from_slice(&more);
        if lines.len() >= MAX_WRITE {
            put_lines(lines);
        }
        return;
    }
    put_lines(lines);
    match output {
        LogOutput::Dropped(lines) => error!(lines, "log lines were dropped: standard error was not read"),
        LogOutput::Progress(text) => put_progress(&text),
        // The waiting thread may have timed out.
        LogOutput::Flush(done) => _ = done.send(()),
        LogOutput::Lines(_) => (),
    }
}

fn put_lines(lines: &mut Vec<u8>) {
    if !lines.is_empty() {
        put_line(lines);
        lines.clear();
        // A burst must not keep its memory.
        lines.shrink_to(MAX_WRITE);
    }
}

/// Writes one line or several. Errors are ignored: there is nowhere to report them.
fn put_line(line: &[u8]) {
    put_progress("");
    _ = io::stderr().write_all(line);
}

/// An empty text clears the line.
fn put_progress(text: &str) {
    if PROGRESS_SHOWN.swap(!text.is_empty(), Ordering::Relaxed) || !text.is_empty() {
        _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}

/// Makes the formatter's output for each line.
struct LogWriters {
    has_priorities: bool,
}

impl MakeWriter<'_> for LogWriters {
    type Writer = LogWriter;

    fn make_writer(&self) -> LogWriter {
        LogWriter { priority: "" }
    }

    fn make_writer_for(&self, event: &Metadata<'_>) -> LogWriter {
        LogWriter { priority: if self.has_priorities { priority(*event.level()) } else { "" } }
    }
}

/// How a line for the journal begins (sd-daemon(3)).
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Whether standard error is the journal of systemd: `$JOURNAL_STREAM` has its device and inode (systemd.exec(5)).
pub fn is_journal() -> bool {
    let name = |file: fs::Metadata| format!("{}:{}", file.dev(), file.ino());
    let stream = fs::metadata("/proc/self/fd/2").map(name);
    stream.is_ok_and(|stream| std::env::var("JOURNAL_STREAM").is_ok_and(|journal| journal == stream))
}

/// The formatter's output; it writes each line in one call.
struct LogWriter {
    /// What the line begins with.
    priority: &'static str,
}

impl Write for LogWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let prefixed = (!self.priority.is_empty()).then(|| [self.priority.as_bytes(), text].concat());
        let line = prefixed.as_deref().unwrap_or(text);
        match QUEUE.get().filter(|_| !IS_LOG_THREAD.get()) {
            Some(queue) => queue.push_line(line),
            None => put_line(line),
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::enabled;

    #[test]
    fn what_any_quic_peer_can_cause_is_not_logged_as_a_warning() {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(filter_fn(is_wanted)), || {
            let of_quinn = [
                enabled!(target: "quinn_proto::endpoint", Level::ERROR),
                enabled!(target: "quinn_proto::connection", Level::WARN),
                enabled!(target: "quinn_proto::connection", Level::DEBUG),
            ];
            assert_eq!(of_quinn, [false, false, true]);
            assert!(enabled!(Level::WARN));
        });
    }
}
