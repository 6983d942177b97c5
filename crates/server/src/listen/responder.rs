//! What answers the queries of a thread, and passes on what is not answered at once.

use super::counters::ListenerCounters;
use super::denied_request_log::DeniedRequestLog;
use super::late_reply::{IncomingUpdate, LateReply};
use answer::{
    PendingNotify, ReceivedNotify, ReceivedUpdate, Request, Response, ResponseStream, Served, Subscriber, WorkerState,
};
use std::sync::Arc;
use wire::message::Rcode;

/// Answers the queries of one thread: [`ZoneResponder`], or a stub in tests.
pub trait Responder: Send + 'static {
    /// Switches to what is published now; called once per batch.
    fn refresh(&mut self);
    /// Prefetches the data for queries to be answered next, see [`answer::prefetch`].
    fn prefetch<'m>(&mut self, _messages: impl Iterator<Item = &'m [u8]>) {}
    /// Answers one query into `out`, see [`answer::respond`].
    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response;
    /// Passes an accepted NOTIFY message on; false if there is no room for it.
    fn notify(&mut self, _notify: ReceivedNotify) -> bool {
        false
    }
    /// Passes an UPDATE message on; returns it if there is no room for it.
    fn update(&mut self, update: Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> {
        Err(update)
    }
    /// Whether a transfer keeps no version in memory but one that is published.
    fn serves_version_of(&self, _transfer: &ResponseStream) -> bool {
        true
    }
    /// Logs a request of the batch that was refused.
    fn log_refused(&mut self) {}
    /// Its counters; read once per batch.
    fn counters(&self) -> &answer::Counters;
}

/// Answers from the published zones.
pub struct ZoneResponder {
    subscriber: Subscriber<Served>,
    worker: WorkerState,
    sinks: EventSinks,
    denied_request_log: DeniedRequestLog,
}

impl ZoneResponder {
    /// A responder for one thread.
    pub fn new(subscriber: Subscriber<Served>, sinks: EventSinks) -> ZoneResponder {
        ZoneResponder { subscriber, worker: WorkerState::new(), sinks, denied_request_log: DeniedRequestLog::default() }
    }
}

impl Responder for ZoneResponder {
    fn refresh(&mut self) {
        self.subscriber.refresh();
    }

    #[inline]
    fn prefetch<'m>(&mut self, messages: impl Iterator<Item = &'m [u8]>) {
        answer::prefetch(self.subscriber.last(), &mut self.worker, messages);
    }

    #[inline]
    fn answer(&mut self, request: Request<'_>, out: &mut [u8]) -> Response {
        answer::respond(self.subscriber.last(), &mut self.worker, request, out)
    }

    fn notify(&mut self, notify: ReceivedNotify) -> bool {
        (self.sinks.notify)(notify)
    }

    fn update(&mut self, update: Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> {
        (self.sinks.update)(update)
    }

    fn serves_version_of(&self, transfer: &ResponseStream) -> bool {
        let Some(version) = transfer.version() else { return true };
        let zone = self.subscriber.last().zones.get(transfer.apex().wire());
        zone.and_then(|zone| zone.zone()).is_some_and(|zone| zone.version() == version)
    }

    #[inline]
    fn log_refused(&mut self) {
        if let Some(refused) = self.worker.take_refused() {
            self.denied_request_log.write(&refused);
        }
    }

    fn counters(&self) -> &answer::Counters {
        &self.worker.counters
    }
}

/// Take what is not answered at once, without blocking.
#[derive(Clone)]
pub struct EventSinks {
    /// Accepted NOTIFY messages.
    pub notify: NotifySink,
    /// UPDATE messages of clients that may send them.
    pub update: UpdateSink,
}

/// False if its queue is full.
pub type NotifySink = Arc<dyn Fn(ReceivedNotify) -> bool + Send + Sync>;
/// Returns the message if its queue is full.
pub type UpdateSink = Arc<dyn Fn(Box<IncomingUpdate>) -> Result<(), Box<IncomingUpdate>> + Send + Sync>;

/// Passes a NOTIFY message on and finishes its response in `out`. Returns the length of the response.
#[cold]
pub(super) fn finish_notify(
    pending: PendingNotify,
    responder: &mut impl Responder,
    counters: &ListenerCounters,
    out: &mut [u8],
) -> usize {
    pending.finish(out, |notify| {
        let is_taken = responder.notify(notify);
        if is_taken {
            counters.notifies.add(1)
        } else {
            counters.notifies_rejected.add(1)
        }
        is_taken
    })
}

/// Passes an UPDATE message on, or answers it with SERVFAIL if there is no room for it.
pub(super) fn pass_on_update(
    update: ReceivedUpdate,
    reply: LateReply,
    responder: &mut impl Responder,
    counters: &ListenerCounters,
) {
    match responder.update(Box::new(IncomingUpdate { update, reply })) {
        Ok(()) => counters.updates.add(1),
        Err(rejected) => {
            counters.updates_rejected.add(1);
            rejected.reply.send(Rcode::SERVFAIL);
        }
    }
}
