//! Counts the handshakes of a thread that resume a session: `quinn-proto` does not report which do.

use super::super::counters::ListenerCounters;
use rustls::ServerConfig;
use rustls::server::StoresServerSessions;
use std::fmt;
use std::sync::Arc;

/// The sessions of all threads, as one thread uses them.
struct CountedSessions {
    sessions: Arc<dyn StoresServerSessions>,
    counters: Arc<ListenerCounters>,
}

/// The settings of a thread, which has these counters.
pub(super) fn counted(tls: &ServerConfig, counters: &Arc<ListenerCounters>) -> Arc<ServerConfig> {
    let mut tls = tls.clone();
    tls.session_storage = Arc::new(CountedSessions { sessions: tls.session_storage, counters: counters.clone() });
    Arc::new(tls)
}

impl StoresServerSessions for CountedSessions {
    fn put(&self, ticket: Vec<u8>, session: Vec<u8>) -> bool {
        self.sessions.put(ticket, session)
    }

    fn get(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.sessions.get(ticket)
    }

    /// Called by handshakes of this thread only. A client that was given a ticket resumes with it, unless it asks for another
    /// cipher suite or server name than before.
    fn take(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.sessions.take(ticket).inspect(|_| self.counters.resumed.add(1))
    }

    fn can_cache(&self) -> bool {
        self.sessions.can_cache()
    }
}

impl fmt::Debug for CountedSessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.sessions, formatter)
    }
}
