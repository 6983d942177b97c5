//! TLS connections on their way from the thread that did their handshakes to the threads that serve them.

use super::tcp_connection::TcpConnection;
use crate::tls::ServerTls;
use netio::epoll::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a thread does with new connections.
pub(super) enum Route {
    /// Accepts and serves them.
    Own,
    /// Accepts them, does their handshakes, and gives each to one of these threads.
    Give(Arc<ServerTls>, Vec<Arc<Handover>>),
    /// Serves those that it is given.
    Take(Arc<Handover>),
}

/// The connections for one thread, which it takes in its next round: a few.
pub(super) struct Handover {
    waiting: Mutex<Vec<TcpConnection>>,
    /// The thread that gives has no descriptors.
    wants_descriptors: AtomicBool,
    waker: Arc<Waker>,
}

impl Handover {
    /// `waker` wakes the thread that takes.
    pub(super) fn new(waker: Arc<Waker>) -> Arc<Handover> {
        Arc::new(Handover { waiting: Mutex::default(), wants_descriptors: AtomicBool::new(false), waker })
    }

    /// Passes a connection on.
    pub(super) fn give(&self, connection: TcpConnection) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.waker.wake();
    }

    /// Asks the thread that takes to close idle connections.
    pub(super) fn request_descriptors(&self) {
        self.wants_descriptors.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Whether idle connections are to be closed, once for each request.
    pub(super) fn take_request(&self) -> bool {
        self.wants_descriptors.swap(false, Ordering::Relaxed)
    }

    /// All that have been given since.
    pub(super) fn take(&self) -> Vec<TcpConnection> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
