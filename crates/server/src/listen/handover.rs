//! TLS connections on their way from the thread that did their handshakes to the threads that serve them.

use super::tcp_connection::TcpConnection;
use crate::tls::ServerTls;
use netio::epoll::Waker;
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
    waker: Arc<Waker>,
}

impl Handover {
    /// `waker` wakes the thread that takes.
    pub(super) fn new(waker: Arc<Waker>) -> Arc<Handover> {
        Arc::new(Handover { waiting: Mutex::default(), waker })
    }

    /// Passes a connection on.
    pub(super) fn give(&self, connection: TcpConnection) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.waker.wake();
    }

    /// All that have been given since.
    pub(super) fn take(&self) -> Vec<TcpConnection> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
