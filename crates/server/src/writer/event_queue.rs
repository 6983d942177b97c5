//! The event queue of the writer, and how other threads request a reload through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use answer::ReceivedNotify;
use zone::Finding;

use super::added_zones::EditRequest;
use super::received_zone::{FinishedTransfer, ZoneReceiver};
use super::zone_control::ControlEvent;
use super::zone_requests::StatusRequest;
use crate::catalogs::CatalogEvent;
use crate::clock;
use crate::config::Config;
use crate::listen::IncomingUpdate;
use crate::report::Report;
use crate::tls::ReadTls;
use crate::transfer::engine::TransferEvent;
use crate::updates::{QueuedUpdate, UpdateBudget};
use crate::zones::journal::JournalEvent;
use crate::zones::{FinishedRead, FinishedWork};

/// What the writer reacts to.
pub(super) enum WriterEvent {
    ReloadRequested(ReloadRequest),
    ConfigurationRead(Box<Result<(Config, ReadTls), Vec<Finding>>>),
    ZonesRead(Vec<FinishedRead>),
    ZoneWorked(FinishedWork),
    /// From the threads of the journal.
    Journal(Box<JournalEvent>),
    /// A client that may announce changes of a zone did so.
    NotifyReceived(ReceivedNotify),
    /// From the transfer thread.
    Transfer(Box<TransferEvent<ZoneReceiver>>),
    /// A transferred zone was built and checked.
    TransferFinished(Box<FinishedTransfer>),
    StatusRequested(StatusRequest),
    /// An operator controls zones.
    ControlRequested(Box<ControlEvent>),
    /// A client that may update a zone sent an UPDATE message.
    UpdateReceived(Box<QueuedUpdate>),
    /// Zones are to be added or removed.
    ZonesEdited(Box<EditRequest>),
    /// From the pool that reads catalogs.
    Catalog(Box<CatalogEvent>),
    /// The daemon stops: reply when everything is stored.
    StopRequested(SyncSender<()>),
}

/// A request to reload.
pub struct ReloadRequest {
    /// Receives the report, if anybody waits for it.
    pub reply: Option<SyncSender<Report>>,
    /// When it was made.
    pub requested_at: Instant,
}

/// The writer's end of the queue. Its length is bounded by the senders: [`WriterHandle`] counts its requests, the read pool
/// has a bounded number of tasks, and one thread at a time reads the configuration.
pub struct EventQueue {
    events: Receiver<WriterEvent>,
    pub(super) sender: Sender<WriterEvent>,
    waiting: Arc<AtomicUsize>,
    notifies: Arc<AtomicUsize>,
}

/// NOTIFY messages that wait in the queue of the writer: a primary of many zones may send one for each at once.
const MAX_NOTIFIES: usize = 16 * 1024;

/// Updates that are not answered yet: with 64 KiB each there could be 256.
const MAX_UPDATES: (usize, usize) = (8 * 1024, 16 << 20);
/// Updates to be forwarded that are not answered yet. They have a budget of their own, as anybody may send them.
const MAX_FORWARDED: (usize, usize) = (256, 4 << 20);
/// How long the end of the daemon waits for the writer, which may have much to do just then.
const MAX_STOP_WAIT: Duration = Duration::from_secs(8);

/// Sends requests to the writer.
#[derive(Clone)]
pub struct WriterHandle {
    events: Sender<WriterEvent>,
    /// Requests that the writer has not received yet.
    waiting: Arc<AtomicUsize>,
    max_waiting: usize,
    /// NOTIFY messages that the writer has not received yet.
    notifies: Arc<AtomicUsize>,
    updates: Arc<UpdateBudget>,
    forwarded: Arc<UpdateBudget>,
}

/// A queue in which at most `max_waiting` requests wait.
pub fn queue(max_waiting: usize) -> (WriterHandle, EventQueue) {
    let (sender, events) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let notifies = Arc::new(AtomicUsize::new(0));
    let handle = WriterHandle {
        events: sender.clone(),
        waiting: waiting.clone(),
        max_waiting,
        notifies: notifies.clone(),
        updates: UpdateBudget::new(MAX_UPDATES.0, MAX_UPDATES.1),
        forwarded: UpdateBudget::new(MAX_FORWARDED.0, MAX_FORWARDED.1),
    };
    (handle, EventQueue { events, sender, waiting, notifies })
}

impl EventQueue {
    /// Sends the results of the read pool to the writer.
    pub fn zone_sender(&self) -> impl Fn(Vec<FinishedRead>) + Send + Sync + use<> {
        let sender = self.sender.clone();
        // Fails only if the writer has ended, and that ends with the process.
        move |finished| _ = sender.send(WriterEvent::ZonesRead(finished))
    }

    /// Sends the results of the work pool to the writer.
    pub fn work_sender(&self) -> impl Fn(FinishedWork) + Send + Sync + use<> {
        let sender = self.sender.clone();
        move |finished| _ = sender.send(WriterEvent::ZoneWorked(finished))
    }

    /// Sends the events of the journal to the writer.
    pub fn journal_sender(&self) -> impl Fn(JournalEvent) + Send + Sync + Clone + use<> {
        let sender = self.sender.clone();
        move |event| _ = sender.send(WriterEvent::Journal(Box::new(event)))
    }

    /// Sends the results of the work on catalogs to the writer.
    pub fn catalog_sender(&self) -> impl Fn(CatalogEvent) + Send + Sync + use<> {
        let sender = self.sender.clone();
        move |event| _ = sender.send(WriterEvent::Catalog(Box::new(event)))
    }

    /// Waits for the next event; `None` if there is none until `end`.
    pub(super) fn next(&self, end: Option<Instant>) -> Option<WriterEvent> {
        let event = match end {
            None => self.events.recv().map_err(RecvTimeoutError::from),
            Some(end) => self.events.recv_timeout(end.saturating_duration_since(Instant::now())),
        };
        event.ok().inspect(|event| self.note_received(event))
    }

    /// The next event, if it is there already.
    pub(super) fn waiting_event(&self) -> Option<WriterEvent> {
        self.events.try_recv().ok().inspect(|event| self.note_received(event))
    }

    fn note_received(&self, event: &WriterEvent) {
        let count = match event {
            WriterEvent::ReloadRequested(_) => &self.waiting,
            WriterEvent::NotifyReceived(_) => &self.notifies,
            _ => return,
        };
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WriterHandle {
    /// Requests a reload. If the queue is full, the reloads in it have yet to begin and see all that this one would.
    pub fn request_reload(&self, reply: Option<SyncSender<Report>>) -> Result<(), TrySendError<()>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.max_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(TrySendError::Full(()));
        }
        let request = ReloadRequest { reply, requested_at: clock::now() };
        self.events.send(WriterEvent::ReloadRequested(request)).map_err(|_| TrySendError::Disconnected(()))
    }

    /// Requests to add or remove zones. There are at most as many requests as clients of the control socket.
    pub fn request_edits(&self, request: EditRequest) {
        // Fails only if the writer has ended; then the reply is dropped.
        _ = self.events.send(WriterEvent::ZonesEdited(Box::new(request)));
    }

    /// Passes on that a client announced a change of a zone; false if the queue is full.
    pub fn notify_received(&self, notify: ReceivedNotify) -> bool {
        if self.notifies.fetch_add(1, Ordering::Relaxed) >= MAX_NOTIFIES {
            self.notifies.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.events.send(WriterEvent::NotifyReceived(notify)).is_ok()
    }

    /// Passes on an UPDATE message; returns it if too many wait.
    pub fn update_received(&self, incoming: Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> {
        let budget = if incoming.update.is_forwarded { &self.forwarded } else { &self.updates };
        let queued = budget.admit(incoming)?;
        self.events.send(WriterEvent::UpdateReceived(Box::new(queued))).map_err(|unsent| match unsent.0 {
            WriterEvent::UpdateReceived(queued) => queued.incoming,
            _ => unreachable!("the event that was not sent is returned"),
        })
    }

    /// Waits until everything that is to be kept was passed to the storage thread, or for some seconds.
    pub fn prepare_stop(&self) {
        let (done, stored) = sync_channel(1);
        if self.events.send(WriterEvent::StopRequested(done)).is_ok() {
            _ = stored.recv_timeout(MAX_STOP_WAIT);
        }
    }

    /// Requests the status of zones: at most [`crate::control::CLIENTS`] wait for one.
    pub fn request_status(&self, request: StatusRequest) {
        // Without a writer the reply is dropped, which the client notices.
        _ = self.events.send(WriterEvent::StatusRequested(request));
    }

    /// Requests control of zones: at most [`crate::control::CLIENTS`] wait for it. `event` makes the request, with where its reply goes;
    /// the receiver gets that, or an error if the writer has ended.
    pub fn ask<T>(&self, event: impl FnOnce(SyncSender<T>) -> ControlEvent) -> Receiver<T> {
        let (reply, received) = sync_channel(1);
        // Without a writer the reply is dropped, which the receiver notices.
        _ = self.events.send(WriterEvent::ControlRequested(Box::new(event(reply))));
        received
    }
}
