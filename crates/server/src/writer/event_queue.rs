//! The queue of the writer: what makes it do something, and how others ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Instant;

use zone::Finding;

use crate::config::Config;
use crate::control::{ControlRequest, ControlResponse};
use crate::report::Report;
use crate::zones::FinishedRead;

/// What makes the writer do something.
pub(super) enum WriterEvent {
    ReloadRequested(ReloadRequest),
    ConfigurationRead(Box<Result<Config, Vec<Finding>>>),
    ZoneRead(FinishedRead),
}

/// A reload to be done, and who waits for its report.
pub struct ReloadRequest {
    /// Where the report goes, if anybody wants it.
    pub reply: Option<SyncSender<Report>>,
    /// Since when.
    pub asked: Instant,
}

/// The writer's end of the queue. It is bounded by those who write to it: [`WriterHandle`], the pool that reads zones, which is
/// given so many at once, and one thread that reads the configuration.
pub struct EventQueue {
    events: Receiver<WriterEvent>,
    pub(super) sender: Sender<WriterEvent>,
    waiting: Arc<AtomicUsize>,
}

/// Asks for reloads.
#[derive(Clone)]
pub struct WriterHandle {
    events: Sender<WriterEvent>,
    /// WriterHandle that the writer has not seen yet.
    waiting: Arc<AtomicUsize>,
    most: usize,
}

/// A queue where at most so many jobs wait.
pub fn queue(most: usize) -> (WriterHandle, EventQueue) {
    let (sender, events) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (WriterHandle { events: sender.clone(), waiting: waiting.clone(), most }, EventQueue { events, sender, waiting })
}

impl EventQueue {
    /// Where the pool sends its results.
    pub fn results(&self) -> impl Fn(FinishedRead) + Send + Sync + use<> {
        let sender = self.sender.clone();
        // The writer lives as long as the process.
        move |done| _ = sender.send(WriterEvent::ZoneRead(done))
    }

    /// The next event, or none until `end`.
    pub(super) fn next(&self, end: Option<Instant>) -> Option<WriterEvent> {
        let event = match end {
            None => self.events.recv().map_err(RecvTimeoutError::from),
            Some(end) => self.events.recv_timeout(end.saturating_duration_since(Instant::now())),
        };
        if let Ok(WriterEvent::ReloadRequested(_)) = event {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        event.ok()
    }
}

impl WriterHandle {
    /// Asks for a reload. If the queue is full, those in it will see what this one would.
    pub fn try_send(&self, job: ReloadRequest) -> Result<(), TrySendError<ReloadRequest>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(TrySendError::Full(job));
        }
        self.events.send(WriterEvent::ReloadRequested(job)).map_err(|error| match error.0 {
            WriterEvent::ReloadRequested(job) => TrySendError::Disconnected(job),
            _ => unreachable!("what was sent comes back"),
        })
    }
}

impl ReloadRequest {
    /// A reload whose report goes there.
    pub fn new(reply: Option<SyncSender<Report>>) -> ReloadRequest {
        ReloadRequest { reply, asked: Instant::now() }
    }
}

/// Answers a request by having the writer do it.
pub fn ask(jobs: &WriterHandle, ControlRequest::Reload: ControlRequest) -> ControlResponse {
    let (reply, answer) = sync_channel(1);
    match jobs.try_send(ReloadRequest::new(Some(reply))) {
        Err(TrySendError::Full(_)) => {
            ControlResponse::Refused("too many reloads are waiting already; try again".into())
        }
        // The writer ends only with the process, or by a bug.
        Err(TrySendError::Disconnected(_)) => {
            ControlResponse::Refused("this zonda cannot reload any more; restart it".into())
        }
        Ok(()) => match answer.recv() {
            Ok(report) => ControlResponse::Reloaded(report),
            Err(_) => ControlResponse::Refused("the reload was broken off; the log says why".into()),
        },
    }
}
