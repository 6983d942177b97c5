//! The log: lines for people or JSON objects on standard error, from the control plane only.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::config::{LogFormat, LogLevel};

/// The log of this process; its level can be changed.
pub struct Log {
    level: reload::Handle<LevelFilter, Registry>,
}

/// Whether a progress line stands on the terminal, to be wiped before the next line of the log.
static PROGRESS_SHOWN: AtomicBool = AtomicBool::new(false);

impl Log {
    /// Sends what is logged to standard error. Call once.
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
        Log { level }
    }

    /// Logs from now on what is at least as severe as `level`.
    pub fn set_level(&self, level: LogLevel) {
        // Fails only when the log is gone, and that lives as long as the process.
        _ = self.level.modify(|now| *now = filter(level));
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

/// Standard error, with a progress line wiped first.
struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        wipe_progress();
        io::stderr().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Shows `text` as the last line of the terminal, in place of the one shown before.
pub fn show_progress(text: &str) {
    PROGRESS_SHOWN.store(true, Ordering::Relaxed);
    eprint!("\r\x1b[K{text}");
}

/// Takes the progress line away, if there is one.
pub fn wipe_progress() {
    if PROGRESS_SHOWN.swap(false, Ordering::Relaxed) {
        eprint!("\r\x1b[K");
    }
}
