//! What waits to be written to standard error: bounded in octets. Lines that find no room are dropped and counted.

use std::sync::mpsc::{self, Sender, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the thread that writes is given.
pub(super) enum LogOutput {
    /// A line of the log with its line feed.
    Line(Vec<u8>),
    /// So many lines were dropped here.
    Dropped(u64),
    /// A line of progress that takes the place of the last; empty for none.
    Progress(String),
    /// All before this is written.
    Flush(SyncSender<()>),
}

/// How many octets of lines may wait: the errors of some 50,000 zones.
const MAX_OCTETS: usize = 8 << 20;

/// The end to which all threads write; none ever waits.
pub(super) struct LogQueue {
    outputs: Sender<LogOutput>,
    fill: Arc<Mutex<QueueFill>>,
}

/// The end from which one thread reads.
pub(super) struct LogReceiver {
    outputs: mpsc::Receiver<LogOutput>,
    fill: Arc<Mutex<QueueFill>>,
}

#[derive(Default)]
struct QueueFill {
    octets: usize,
    /// Lines dropped since the last one that was queued.
    dropped: u64,
}

/// Both ends of a queue.
pub(super) fn new() -> (LogQueue, LogReceiver) {
    let (sender, receiver) = mpsc::channel();
    let fill = Arc::new(Mutex::new(QueueFill::default()));
    (LogQueue { outputs: sender, fill: fill.clone() }, LogReceiver { outputs: receiver, fill })
}

impl LogQueue {
    /// Queues an output, or drops it where there is no room.
    pub(super) fn push(&self, output: LogOutput) {
        // Held while sending, so that the notice stands where the lines are missing.
        let mut fill = locked(&self.fill);
        if let Some(dropped) = fill.admit(&output) {
            let notice = (dropped > 0).then_some(LogOutput::Dropped(dropped));
            // Fails only when the thread that writes is gone, and that ends with the process.
            notice.into_iter().chain([output]).for_each(|output| _ = self.outputs.send(output));
        }
    }

    /// Waits until all that was queued is written, at most as long as `timeout`.
    pub(super) fn flush(&self, timeout: Duration) {
        let (done, is_done) = sync_channel(1);
        if self.outputs.send(LogOutput::Flush(done)).is_ok() {
            _ = is_done.recv_timeout(timeout);
        }
    }
}

impl LogReceiver {
    /// The next output; waits for it. `None` when nobody can send any more.
    pub(super) fn next(&self) -> Option<LogOutput> {
        let output = self.outputs.recv().ok()?;
        locked(&self.fill).octets -= output.len();
        Some(output)
    }
}

impl QueueFill {
    /// Counts an output in, and returns how many lines were dropped before it; `None` drops it too.
    ///
    /// Once lines are dropped they are until half of the queue is written: one notice for all of them, not one for each.
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
    /// The octets that it keeps in memory, about.
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

    /// The lines waiting, and the notice `D` where some are missing.
    fn waiting(receiver: &LogReceiver, count: usize) -> String {
        let letter = |output| match output {
            LogOutput::Line(_) => "x".to_owned(),
            LogOutput::Dropped(lines) => format!("D{lines}"),
            LogOutput::Progress(_) | LogOutput::Flush(_) => "?".to_owned(),
        };
        (0..count).map(|_| receiver.next().map_or_else(|| "end".into(), letter)).collect()
    }

    #[test]
    fn lines_without_room_are_dropped_and_counted_where_they_are_missing() {
        let (queue, receiver) = new();
        push(&queue, 6);
        assert_eq!(waiting(&receiver, 2), "xx");
        // Half is not free yet for one more.
        push(&queue, 1);
        assert_eq!(waiting(&receiver, 1), "x");
        push(&queue, 4);
        assert_eq!(waiting(&receiver, 5), "xD3xxx", "the fourth finds no room again");
        drop(queue);
        assert!(receiver.next().is_none());
    }

    #[test]
    fn a_flush_waits_for_the_writer_but_not_for_ever() {
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
