//! NOTIFY: over UDP, and over streams to targets with TLS settings, and to those that do not answer over UDP.
//!
//! RFC 9103 leaves NOTIFY as it is, over UDP. But a target with TLS settings is meant to be reached over TLS alone: it may listen on no
//! other port, and unencrypted NOTIFY shows who the secondaries are (RFC 9103 5.3.1).

use std::net::SocketAddr;

use super::super::Now;
use super::super::link::{Request, RequestPurpose};
use super::super::notify_sender::{NotifyId, NotifyMessage, NotifyTransport};
use super::super::primary::{GroupId, PeerConfig, PrimaryId};
use super::super::session::TransferSink;
use super::{TransferEngine, TransferIo};
use crate::zone_id::ZoneId;

/// A target that is reached over a stream.
pub(super) struct StreamTarget {
    /// Keeps its link.
    group: GroupId,
    used_ms: u64,
}

/// How long the link to a target is kept after the last message: longer than the time until that is sent again.
const KEPT_MS: u64 = 70_000;

impl<T: TransferSink> TransferEngine<T> {
    /// A datagram on a socket for NOTIFY. Call [`TransferEngine::step`] after one or several.
    pub fn notify_answered(&mut self, from: SocketAddr, datagram: &[u8], now: Now) {
        let answer = self.notify.receive(from, datagram, now);
        self.log_if_refused(answer);
    }

    pub(super) fn send_notifies(&mut self, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let apexes = &self.apexes;
        let mut on_streams: Vec<(PeerConfig, ZoneId, NotifyId)> = Vec::new();
        self.notify.send_due(
            now,
            |zone| apexes.get(zone.index),
            |NotifyMessage { target, transport }| match transport {
                NotifyTransport::Datagram(octets) => io.send_notify(target, octets),
                NotifyTransport::Stream { zone, id } => on_streams.push((target.clone(), zone, id)),
            },
        );
        for (target, zone, id) in on_streams {
            let Some(primary) = self.stream_target(&target, now) else { continue };
            let link = self.link(primary);
            let request = Request { zone, purpose: RequestPurpose::Notify(id), attempts: 0 };
            // What waits for a connection is about an earlier version, or the same.
            link.queue.retain(|waiting| waiting.key() != request.key());
            // A target that is a primary, too, gets it before all probes and transfers that wait.
            let is_other = |waiting: &Request| !matches!(waiting.purpose, RequestPurpose::Notify(_));
            let at = link.queue.iter().position(is_other).unwrap_or(link.queue.len());
            link.queue.insert(at, request);
        }
        self.release_stream_targets(now);
    }

    /// The link to a target: the same one as to a primary with this address and these settings.
    fn stream_target(&mut self, target: &PeerConfig, now: Now) -> Option<PrimaryId> {
        let (group, primary) = self.scheduler.acquire_peer(target)?;
        match self.stream_targets.get_mut(&primary) {
            Some(known) => {
                known.used_ms = now.ms;
                self.scheduler.release_peer(group);
            }
            None => _ = self.stream_targets.insert(primary, StreamTarget { group, used_ms: now.ms }),
        }
        Some(primary)
    }

    fn release_stream_targets(&mut self, now: Now) {
        let unused = self.stream_targets.extract_if(|_, target| now.ms >= target.used_ms + KEPT_MS);
        let groups: Vec<GroupId> = unused.map(|(_, target)| target.group).collect();
        groups.into_iter().for_each(|group| self.scheduler.release_peer(group));
    }

    pub(super) fn stream_target_times(&self) -> impl Iterator<Item = u64> {
        self.stream_targets.values().map(|target| target.used_ms + KEPT_MS)
    }
}
