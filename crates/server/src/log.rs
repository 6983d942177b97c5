//! The log: lines for people or JSON objects on standard error, from the control plane only.
//!
//! One thread writes what all others queue: standard error may be a pipe that nobody reads, and only that thread may wait for it.

mod log_queue;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tracing::error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::config::{LogFormat, LogLevel};
use log_queue::{LogOutput, LogQueue, LogReceiver};

/// The log of this process; its level can be changed.
pub struct Log {
    level: reload::Handle<LevelFilter, Registry>,
}

/// How long the end of the process waits for a standard error that takes nothing.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// What waits to be written; not set in commands other than `serve`, which write themselves.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

/// Whether a progress line stands on the terminal, to be wiped before the next line of the log.
static PROGRESS_SHOWN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread is the one that writes.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

impl Log {
    /// Sends what is logged, panics included, to standard error. Call once.
    pub fn start(level: LogLevel, format: LogFormat) -> Log {
        let (filter, level) = reload::Layer::new(filter(level));
        let is_terminal = io::IsTerminal::is_terminal(&io::stderr());
        let lines =
            tracing_subscriber::fmt::layer().with_target(false).with_ansi(is_terminal).with_writer(|| LogWriter);
        let registry = tracing_subscriber::registry().with(filter);
        match format {
            LogFormat::Text => registry.with(lines).init(),
            LogFormat::Json => registry.with(lines.json().flatten_event(true)).init(),
        }
        start_writing();
        std::panic::set_hook(Box::new(log_panic));
        Log { level }
    }

    /// Logs from now on what is at least as severe as `level`.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only when the log is gone, and that lives as long as the process.
        _ = self.level.modify(|now| *now = filter(level));
    }
}

/// Waits until all that was logged is written, but not for ever: for the end of the process.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_TIMEOUT);
    }
}

/// Shows `text` as the last line of the terminal, in place of the one shown before.
pub fn show_progress(text: &str) {
    match QUEUE.get() {
        Some(queue) => queue.push(LogOutput::Progress(text.to_owned())),
        None => put_progress(text),
    }
}

/// Takes the progress line away, if there is one.
pub fn wipe_progress() {
    match QUEUE.get() {
        Some(queue) => queue.push(LogOutput::Progress(String::new())),
        None => put_progress(""),
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

/// A thread that panics outside of a query is logged like everything else; the default would wait for standard error.
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

//----------- the thread that writes ------------------------------------------------

/// Where no thread can be had, everybody writes as before: `QUEUE` stays empty.
fn start_writing() {
    let (queue, outputs) = log_queue::new();
    let spawned = thread::Builder::new().name("log".into()).spawn(move || write_all(&outputs));
    if spawned.is_ok() {
        _ = QUEUE.set(queue);
    }
}

fn write_all(outputs: &LogReceiver) {
    WRITES.set(true);
    while let Some(output) = outputs.next() {
        match output {
            LogOutput::Line(line) => put_line(&line),
            LogOutput::Dropped(lines) => error!(lines, "log lines were dropped: standard error was not read"),
            LogOutput::Progress(text) => put_progress(&text),
            // Who waits may have given up.
            LogOutput::Flush(done) => _ = done.send(()),
        }
    }
}

/// Nothing can be done, and nothing be said, where standard error takes no lines.
fn put_line(line: &[u8]) {
    put_progress("");
    _ = io::stderr().write_all(line);
}

/// An empty text wipes the line.
fn put_progress(text: &str) {
    if PROGRESS_SHOWN.swap(!text.is_empty(), Ordering::Relaxed) || !text.is_empty() {
        _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}

/// What the formatter writes to: it writes each line at once.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match QUEUE.get().filter(|_| !WRITES.get()) {
            Some(queue) => queue.push(LogOutput::Line(line.to_owned())),
            None => put_line(line),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
