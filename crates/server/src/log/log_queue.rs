//! The queue of the log thread, bounded in octets: lines that do not fit are dropped and counted.

use std::sync::mpsc::{self, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the log thread writes.
pub(super) enum LogOutput {
    /// A log line with its line feed.
    Line(Vec<u8>),
    /// The number of lines dropped at this point.
    Dropped(u64),
    /// A progress line, which replaces the previous one; empty to clear it.
    Progress(String),
    /// Signals that everything queued before is written.
    Flush(SyncSender<()>),
}

/// How many octets may wait: the errors of some 50,000 zones.
const MAX_OCTETS: usize = 8 << 20;

/// The sending end, for all threads; never blocks.
pub(super) struct LogQueue {
    outputs: Sender<LogOutput>,
    fill: Arc<Mutex<QueueFill>>,
}

/// The receiving end, for the log thread.
pub(super) struct LogReceiver {
    outputs: mpsc::Receiver<LogOutput>,
    fill: Arc<Mutex<QueueFill>>,
}

#[derive(Default)]
struct QueueFill {
    octets: usize,
    /// Lines dropped since the last queued one.
    dropped: u64,
}

/// Both ends of a queue.
pub(super) fn new() -> (LogQueue, LogReceiver) {
    let (sender, receiver) = mpsc::channel();
    let fill = Arc::new(Mutex::new(QueueFill::default()));
    (LogQueue { outputs: sender, fill: fill.clone() }, LogReceiver { outputs: receiver, fill })
}

impl LogQueue {
    /// Queues an output, or drops it if there is no room.
    pub(super) fn push(&self, output: LogOutput) {
        // Locked while sending, so that the notice comes where the lines are missing.
        let mut fill = locked(&self.fill);
        if let Some(dropped) = fill.admit(&output) {
            let notice = (dropped > 0).then_some(LogOutput::Dropped(dropped));
            // Fails only if the log thread has ended, and that ends with the process.
            notice.into_iter().chain([output]).for_each(|output| _ = self.outputs.send(output));
        }
    }

    /// Waits until everything queued is written, for `timeout` at most.
    pub(super) fn flush(&self, timeout: Duration) {
        let (done, is_done) = sync_channel(1);
        if self.outputs.send(LogOutput::Flush(done)).is_ok() {
            _ = is_done.recv_timeout(timeout);
        }
    }
}

impl LogReceiver {
    /// Waits for the next output; `None` when all senders are gone.
    pub(super) fn next(&self) -> Option<LogOutput> {
        self.outputs.recv().ok().inspect(|output| self.note_received(output))
    }

    /// The next output, if it is there already.
    pub(super) fn waiting(&self) -> Option<LogOutput> {
        self.outputs.try_recv().ok().inspect(|output| self.note_received(output))
    }

    fn note_received(&self, output: &LogOutput) {
        locked(&self.fill).octets -= output.len();
    }
}

impl QueueFill {
    /// Counts an output and returns the number of lines dropped before it, or drops it and returns `None`.
    ///
    /// Once a line is dropped, so are all others until half of the queue is written: one notice for all of them.
    fn admit(&mut self, output: &LogOutput) -> Option<u64> {
        let max = if self.dropped > 0 { MAX_OCTETS / 2 } else { MAX_OCTETS };
        if self.octets + output.len() > max {
            self.dropped += u64::from(matches!(output, LogOutput::Line(_)));
            return None;
        }
        self.octets += output.len();
        Some(std::mem::take(&mut self.dropped))
    }
}

impl LogOutput {
    /// About the octets that it keeps in memory.
    fn len(&self) -> usize {
        match self {
            LogOutput::Line(line) => line.len(),
            LogOutput::Progress(text) => text.len(),
            LogOutput::Dropped(_) | LogOutput::Flush(_) => 0,
        }
    }
}

fn locked(fill: &Mutex<QueueFill>) -> MutexGuard<'_, QueueFill> {
    fill.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &LogQueue, lines: usize) {
        (0..lines).for_each(|_| queue.push(LogOutput::Line(vec![b'x'; MAX_OCTETS / 4])));
    }

    /// The next `count` outputs: `x` for a line, `D` with the number of lines dropped.
    fn waiting(receiver: &LogReceiver, count: usize) -> String {
        let letter = |output| match output {
            LogOutput::Line(_) => "x".to_owned(),
            LogOutput::Dropped(lines) => format!("D{lines}"),
            LogOutput::Progress(_) | LogOutput::Flush(_) => "?".to_owned(),
        };
        (0..count).map(|_| receiver.next().map_or_else(|| "end".into(), letter)).collect()
    }

    #[test]
    fn lines_that_do_not_fit_are_dropped_and_counted() {
        let (queue, receiver) = new();
        push(&queue, 6);
        assert_eq!(waiting(&receiver, 2), "xx");
        // Half of the queue is not written yet.
        push(&queue, 1);
        assert_eq!(waiting(&receiver, 1), "x");
        push(&queue, 4);
        assert_eq!(waiting(&receiver, 5), "xD3xxx", "the fourth does not fit again");
        drop(queue);
        assert!(receiver.next().is_none());
    }

    #[test]
    fn a_flush_waits_for_the_log_thread_until_its_timeout() {
        let (queue, receiver) = new();
        queue.flush(Duration::from_millis(1));
        let writer = std::thread::spawn(move || {
            while let Some(output) = receiver.next() {
                if let LogOutput::Flush(done) = output {
                    _ = done.send(());
                }
            }
        });
        queue.flush(Duration::from_secs(60));
        drop(queue);
        writer.join().expect("no panic");
    }
}
