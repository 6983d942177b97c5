//! Forwards updates of secondary zones to their primaries (RFC 2136 6).

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use tracing::error;
use wire::Name;
use wire::message::Rcode;

use super::forwarded_update::{ForwardedUpdate, Forwarding};
use crate::clock;
use crate::config::{RemoteServer, ZonePolicy};
use crate::tls::{TlsConnector, TlsPeers};
use crate::transfer::primary::{MAX_PRIMARIES, PeerConfig};
use crate::updates::{ForwardingLanes, MAX_RUNNING, exchange};
use crate::zones::work_pool::WorkPool;

/// Decides which updates are forwarded, and whereto.
pub(super) struct UpdateForwarder {
    exchanges: Box<dyn UpdateExchanges>,
    lanes: ForwardingLanes,
    tls: TlsPeers,
    /// Makes message IDs.
    ids: RandomState,
    forwarded: u64,
}

/// Exchanges messages with primaries: [`ExchangeThreads`] in the daemon.
pub(super) trait UpdateExchanges: Send {
    /// Begins to forward this update, or queues it.
    fn start(&mut self, forwarding: Forwarding);
}

impl UpdateForwarder {
    /// Nothing is being forwarded. `tls` numbers the TLS settings of primaries.
    pub(super) fn new(tls: TlsPeers, exchanges: Box<dyn UpdateExchanges>) -> UpdateForwarder {
        UpdateForwarder { exchanges, lanes: ForwardingLanes::default(), tls, ids: RandomState::new(), forwarded: 0 }
    }

    /// Forwards an update to the primaries of a zone with this policy, one after the other until one takes it.
    pub(super) fn forward(&mut self, zone: &Name, update: ForwardedUpdate, policy: &Arc<ZonePolicy>) {
        let first = policy.primaries.first().map(|primary| primary.address);
        let place = match self.lanes.admit(zone, first, &update.message) {
            Ok(place) => place,
            Err(refusal) => return update.answer.refuse(Rcode::SERVFAIL, &refusal.to_string()),
        };
        let peer = |server| self.peer(server, policy);
        let primaries = policy.primaries.iter().take(MAX_PRIMARIES).map(peer).collect();
        self.forwarded += 1;
        let id = (self.ids.hash_one(self.forwarded) as u16).to_be_bytes();
        self.exchanges.start(Forwarding::new(update, place, primaries, id, clock::now()));
    }

    /// The message is not signed with the primary's key: it would lend the client the rights of this server.
    fn peer(&self, server: &RemoteServer, policy: &ZonePolicy) -> PeerConfig {
        let source = server.source.or_else(|| policy.source_for(server.address.ip()));
        // Settings that cannot be used were reported when the zone was configured.
        let (tls, _) = self.tls.number(server.tls.as_ref());
        PeerConfig { address: server.address, key: None, source, tls }
    }
}

/// Threads, each of which waits for one primary at a time. A primary gets a part of them, and those whose updates wait take turns.
pub(super) struct ExchangeThreads {
    pool: WorkPool<()>,
    tls: TlsPeers,
}

const THREADS: usize = 4 * MAX_RUNNING;

impl ExchangeThreads {
    /// No threads run yet. `tls` is for connections to primaries.
    pub(super) fn new(tls: TlsPeers) -> ExchangeThreads {
        // Panics are reported where they are caught.
        ExchangeThreads { pool: WorkPool::with_lanes(THREADS, MAX_RUNNING, |_, _| ()), tls }
    }
}

impl UpdateExchanges for ExchangeThreads {
    fn start(&mut self, forwarding: Forwarding) {
        let tls = self.tls.clone();
        self.pool.submit_to(forwarding.lane(), move || {
            if catch_unwind(AssertUnwindSafe(|| forward(forwarding, TlsConnector(tls)))).is_err() {
                error!("zonda panicked while forwarding an update; this is a bug, please report it");
            }
        });
    }
}

fn forward(mut forwarding: Forwarding, mut connector: TlsConnector) {
    while let Some(next) = forwarding.next_exchange(Instant::now()) {
        forwarding.exchanged(exchange::exchange(&mut connector, &next.primary, &next.octets, next.end));
    }
    forwarding.answer();
}
