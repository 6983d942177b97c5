//! The storage thread: appends what the rest of the server sends it, and reports what is durable. The decisions are in `committer.rs`.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::commit_queue::CommitQueue;
use super::committer::{Committer, NextStep};
use super::disk::{Disk, StateFolder};
use super::limits::CommitLimits;
use super::storage_handle::{StorageEvent, StorageHandle};
use super::store::Store;

/// The storage thread. Dropped, it goes on until the process ends.
pub struct StorageThread<D: Disk = StateFolder> {
    queue: Arc<CommitQueue<D>>,
    thread: JoinHandle<()>,
}

impl<D: Disk> StorageThread<D> {
    /// Starts the thread. `on_event` runs on it, and must not wait.
    pub fn start(
        store: Store<D>,
        limits: CommitLimits,
        on_event: impl FnMut(StorageEvent<D>) + Send + 'static,
    ) -> io::Result<(StorageThread<D>, StorageHandle<D>)> {
        let (committer, handle) = Committer::new(store, limits, on_event);
        let thread = std::thread::Builder::new().name("storage".into()).spawn(move || run(committer))?;
        Ok((StorageThread { queue: handle.queue.clone(), thread }, handle))
    }

    /// Writes what is queued and ends the thread. If the disk fails, that is logged, and what was not acknowledged is lost.
    pub fn stop(self) {
        self.queue.close();
        if self.thread.join().is_err() {
            tracing::error!("the storage thread has panicked");
        }
    }
}

fn run<D: Disk>(mut committer: Committer<D>) {
    loop {
        let next = committer.step(Instant::now());
        let queue = committer.queue();
        if queue.is_closed() {
            return committer.flush(Instant::now());
        }
        match next {
            NextStep::Now => (),
            NextStep::At(time) => queue.wait(Some(time), true),
            NextStep::RetryAt(time) => queue.wait(Some(time), false),
            NextStep::WhenQueued => queue.wait(None, true),
        }
    }
}
