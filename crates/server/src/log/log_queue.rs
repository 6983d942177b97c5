//! The queue of the log thread, bounded in octets: lines that do not fit are dropped and counted.

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the log thread writes.
pub(super) enum LogOutput {
    /// Log lines with their line feeds.
    Lines(Vec<u8>),
    /// The number of lines dropped at this point.
    Dropped(u64),
    /// A progress line, which replaces the previous one; empty to clear it.
    Progress(String),
    /// Signals that everything queued before is written.
    Flush(SyncSender<()>),
}

/// How many octets may wait: the errors of some 50,000 zones.
const MAX_OCTETS: usize = 8 << 20;
/// Lines that wait share an allocation of this many octets. If each had its own, a line for each of a million zones would lie between
/// what stays of the zones, and leave holes in the heap that are too small for the next.
const BLOCK_LEN: usize = 8 << 10;

/// The sending end, for all threads; never blocks.
pub(super) struct LogQueue(Arc<Shared>);

/// The receiving end, for the log thread.
pub(super) struct LogReceiver(Arc<Shared>);

#[derive(Default)]
struct Shared {
    waiting: Mutex<WaitingOutputs>,
    /// The log thread waits for outputs.
    has_outputs: Condvar,
}

#[derive(Default)]
struct WaitingOutputs {
    outputs: VecDeque<LogOutput>,
    octets: usize,
    /// Lines dropped since the last queued one.
    dropped: u64,
    has_ended: bool,
}

/// Both ends of a queue.
pub(super) fn new() -> (LogQueue, LogReceiver) {
    let shared = Arc::new(Shared::default());
    (LogQueue(shared.clone()), LogReceiver(shared))
}

impl LogQueue {
    /// Queues a line with its line feed, or drops it if there is no room.
    pub(super) fn push_line(&self, line: &[u8]) {
        let mut waiting = self.0.lock();
        match waiting.admit(line.len()) {
            true => waiting.push_line(line),
            false => waiting.dropped += 1,
        }
        drop(waiting);
        self.0.has_outputs.notify_one();
    }

    /// Queues a progress line, or drops it if there is no room.
    pub(super) fn push_progress(&self, text: &str) {
        let mut waiting = self.0.lock();
        if waiting.admit(text.len()) {
            waiting.outputs.push_back(LogOutput::Progress(text.to_owned()));
        }
        drop(waiting);
        self.0.has_outputs.notify_one();
    }

    /// Waits until everything queued is written, for `timeout` at most.
    pub(super) fn flush(&self, timeout: Duration) {
        let (done, is_done) = sync_channel(1);
        self.0.lock().outputs.push_back(LogOutput::Flush(done));
        self.0.has_outputs.notify_one();
        _ = is_done.recv_timeout(timeout);
    }
}

impl Drop for LogQueue {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.has_outputs.notify_one();
    }
}

impl LogReceiver {
    /// Waits for the next output; `None` when the queue is gone.
    pub(super) fn next(&self) -> Option<LogOutput> {
        let is_idle = |waiting: &mut WaitingOutputs| waiting.outputs.is_empty() && !waiting.has_ended;
        let waiting = self.0.has_outputs.wait_while(self.0.lock(), is_idle);
        waiting.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The next output, if it is there already.
    pub(super) fn waiting(&self) -> Option<LogOutput> {
        self.0.lock().take()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, WaitingOutputs> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingOutputs {
    /// Counts the octets of an output, and reports the lines dropped before it; returns false if there is no room.
    ///
    /// Once a line is dropped, so are all others until half of the queue is written: one notice for all of them.
    fn admit(&mut self, octets: usize) -> bool {
        let max = if self.dropped > 0 { MAX_OCTETS / 2 } else { MAX_OCTETS };
        if self.octets + octets > max {
            return false;
        }
        self.octets += octets;
        let dropped = std::mem::take(&mut self.dropped);
        self.outputs.extend((dropped > 0).then_some(LogOutput::Dropped(dropped)));
        true
    }

    fn push_line(&mut self, line: &[u8]) {
        match self.outputs.back_mut() {
            Some(LogOutput::Lines(lines)) if lines.capacity() - lines.len() >= line.len() => {
                lines.extend_from_slice(line)
            }
            _ => {
                let mut lines = Vec::with_capacity(line.len().max(BLOCK_LEN));
                lines.extend_from_slice(line);
                self.outputs.push_back(LogOutput::Lines(lines));
            }
        }
    }

    fn take(&mut self) -> Option<LogOutput> {
        let output = self.outputs.pop_front()?;
        self.octets -= output.len();
        Some(output)
    }
}

impl LogOutput {
    /// About the octets that it keeps in memory.
    fn len(&self) -> usize {
        match self {
            LogOutput::Lines(lines) => lines.len(),
            LogOutput::Progress(text) => text.len(),
            LogOutput::Dropped(_) | LogOutput::Flush(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &LogQueue, lines: usize) {
        (0..lines).for_each(|_| queue.push_line(&vec![b'x'; MAX_OCTETS / 4]));
    }

    /// The next `count` outputs: `x` for a line, `D` with the number of lines dropped.
    fn waiting(receiver: &LogReceiver, count: usize) -> String {
        let letter = |output| match output {
            LogOutput::Lines(_) => "x".to_owned(),
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
    fn lines_that_wait_share_allocations() {
        let (queue, receiver) = new();
        (0..2 * BLOCK_LEN / 100).for_each(|_| queue.push_line(&[b'x'; 100]));
        queue.push_progress("y");
        queue.push_line(b"z");
        let outputs: Vec<LogOutput> = std::iter::from_fn(|| receiver.waiting()).collect();
        let lens: Vec<usize> = outputs.iter().map(LogOutput::len).collect();
        assert_eq!(lens, [BLOCK_LEN / 100 * 100, BLOCK_LEN / 100 * 100, 100, 1, 1]);
        assert_eq!(receiver.0.lock().octets, 0);
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
