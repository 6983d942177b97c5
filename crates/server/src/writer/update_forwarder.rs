//! Forwards updates of secondary zones to their primaries (RFC 2136 6).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::Name;
use wire::message::Rcode;

use super::update_answer::PendingAnswer;
use crate::config::value::Address;
use crate::config::{RemoteServer, ZonePolicy};
use crate::tls::{TlsConnector, TlsPeers};
use crate::transfer::primary::{MAX_PRIMARIES, PeerConfig};
use crate::updates::{ForwardingLanes, MAX_RUNNING, UpdatePermit, exchange};
use crate::zones::work_pool::WorkPool;

/// The threads that forward updates.
pub(super) struct UpdateForwarder {
    pool: WorkPool<()>,
    lanes: ForwardingLanes,
    tls: TlsPeers,
    /// Makes message IDs.
    ids: RandomState,
    forwarded: u64,
}

/// An update to be forwarded.
pub(super) struct ForwardedUpdate {
    pub(super) message: Box<[u8]>,
    pub(super) answer: PendingAnswer,
    pub(super) permit: UpdatePermit,
}

/// Threads, each of which waits for one primary at a time.
const THREADS: usize = 4 * MAX_RUNNING;
/// How long one primary may take.
const PRIMARY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long all primaries of a zone may take: clients wait for some ten seconds.
const TIMEOUT: Duration = Duration::from_secs(12);

impl UpdateForwarder {
    /// No threads run yet.
    pub(super) fn new(tls: TlsPeers) -> UpdateForwarder {
        // The lanes report a panic.
        let pool = WorkPool::new(THREADS, |_, _| ());
        UpdateForwarder { pool, lanes: ForwardingLanes::default(), tls, ids: RandomState::new(), forwarded: 0 }
    }

    /// Forwards an update to the primaries of a zone with this policy, one after the other until one takes it.
    pub(super) fn forward(&mut self, zone: &Name, update: ForwardedUpdate, policy: &Arc<ZonePolicy>) {
        let permit = match self.lanes.admit(zone, &update.message) {
            Ok(permit) => permit,
            Err(refusal) => return update.answer.refuse(Rcode::SERVFAIL, &refusal.to_string()),
        };
        let peer = |server| self.peer(server, &policy.source);
        let primaries: Vec<PeerConfig> = policy.primaries.iter().take(MAX_PRIMARIES).map(peer).collect();
        self.forwarded += 1;
        let id = (self.ids.hash_one(self.forwarded) as u16).to_be_bytes();
        let (tls, end) = (self.tls.clone(), Instant::now() + TIMEOUT);
        let job = move || forward(update, &primaries, TlsConnector(tls), id, end);
        if let Some(work) = self.lanes.run(permit, job) {
            self.pool.submit(work);
        }
    }

    /// The message is not signed with the primary's key: it would lend the client the rights of this server.
    fn peer(&self, server: &RemoteServer, sources: &[Address]) -> PeerConfig {
        let mut sources = sources.iter().map(|Address(source)| *source);
        let source = sources.find(|source| source.is_ipv4() == server.address.is_ipv4());
        // Settings that cannot be used were reported when the zone was configured.
        let (tls, _) = self.tls.number(server.tls.as_ref());
        PeerConfig { address: server.address, key: None, source: server.source.or(source), tls }
    }
}

/// RFC 2136 6.5: tries the next primary if one cannot be reached. 4.5: the same if it answers SERVFAIL or NOTIMP.
fn forward(update: ForwardedUpdate, primaries: &[PeerConfig], mut connector: TlsConnector, id: [u8; 2], end: Instant) {
    let ForwardedUpdate { message, answer, permit } = update;
    let (mut response, mut problems) = (None, String::new());
    for primary in primaries.iter().take_while(|_| Instant::now() < end) {
        let primary_end = end.min(Instant::now() + PRIMARY_TIMEOUT);
        match exchange::forward(&mut connector, primary, &message, id, primary_end) {
            Ok(got) => {
                let is_final = ![Rcode::SERVFAIL, Rcode::NOTIMP].contains(&Rcode(u16::from(got[3] & 15)));
                response = Some((got, primary.address));
                if is_final {
                    break;
                }
            }
            Err(error) => problems += &format!(" {}: {error};", primary.address),
        }
    }
    match response {
        Some((response, primary)) => answer.relay(response, &primary.to_string()),
        None => answer.refuse(Rcode::SERVFAIL, &format!("no primary took it in time:{problems}")),
    }
    drop(permit);
}
