//! What a thread for connections is made with, whatever their transport.

use super::counters::ListenerCounters;
use netio::epoll::Waker;
use std::sync::Arc;

/// What belongs to one thread.
pub(super) struct WorkerSetup<R> {
    /// Answers its queries.
    pub(super) responder: R,
    /// Its counters, which no other thread writes.
    pub(super) counters: Arc<ListenerCounters>,
    /// Wakes it for a stop, for late responses, and for connections that another thread gives it.
    pub(super) waker: Arc<Waker>,
}
