//! SOA queries: over UDP, and over a stream where UDP does not do.

use super::super::Now;
use super::super::link::{Request, RequestPurpose};
use super::super::primary::PrimaryId;
use super::super::refresh::ProbeResult;
use super::super::session::TransferSink;
use super::super::soa_probe::{ProbeOutcome, ProbeTimeout};
use super::{TransferEngine, TransferIo};
use crate::zone_id::ZoneId;

/// How long a primary that answers SOA queries over TCP only is asked so at once: an hour.
const NO_UDP_MS: u64 = 3_600_000;

impl<T: TransferSink> TransferEngine<T> {
    /// Asks over UDP; over a stream if the primary is reached by TLS (RFC 9103 7.6 allows both), so that nobody sees the zone's name and how
    /// far it lags (5.3.2), or if its datagrams do not arrive.
    pub(super) fn probe(&mut self, zone: ZoneId, primary: PrimaryId, now: Now, io: &mut impl TransferIo<Sink = T>) {
        self.link(primary);
        let (Some(config), Some(link)) = (self.scheduler.primary(primary), self.links.get_mut(&primary)) else {
            return;
        };
        if config.tls != 0 || now.ms < link.no_udp_until_ms {
            return link.queue_probe(zone, false, now);
        }
        let apex = self.apexes.get(zone.index).filter(|_| self.scheduler.contains(zone));
        match apex.and_then(|apex| link.prober.start(zone, apex, link.uses_edns(now), now)) {
            Some(datagram) => io.send_probe(primary, config, datagram),
            None => self.probe_result(zone, primary, ProbeResult::NotSent, now),
        }
    }

    /// A datagram from a primary. Call [`TransferEngine::step`] after one or several.
    pub fn probe_received(&mut self, primary: PrimaryId, datagram: &[u8], now: Now) {
        self.schedule.touch(primary);
        let Some(link) = self.links.get_mut(&primary) else { return };
        let apexes = &self.apexes;
        match link.prober.receive(datagram, |zone| apexes.get(zone.index), now) {
            None => (),
            Some((zone, ProbeOutcome::Result(result))) => {
                link.heard_ms = Some(now.ms);
                self.probe_result(zone, primary, result, now);
            }
            Some((zone, ProbeOutcome::Useless(reason))) => {
                self.probe_failed(zone, primary, ProbeResult::Refused, reason.to_string(), now);
            }
            // RFC 7766 5: a truncated response is asked for again over TCP.
            Some((zone, ProbeOutcome::NeedsStream)) => link.queue_probe(zone, false, now),
            Some((zone, ProbeOutcome::NeedsNoEdns)) => {
                link.avoid_edns(now);
                link.queue_probe(zone, false, now);
            }
            Some((zone, ProbeOutcome::SignatureRefused(error))) => {
                self.log_probe_signature(zone, primary, error);
                self.probe_failed(zone, primary, ProbeResult::Refused, error.to_string(), now);
            }
            Some((zone, ProbeOutcome::Unverified(error))) => self.log_probe_signature(zone, primary, error),
        }
    }

    /// Nothing listens on the UDP port of a primary (ICMP): what is in flight is asked for over TCP at once.
    pub fn probes_refused(&mut self, primary: PrimaryId, now: Now) {
        self.schedule.touch(primary);
        let Some(link) = self.links.get_mut(&primary) else { return };
        for zone in link.prober.give_up_all() {
            link.queue_probe(zone, true, now);
        }
    }

    /// A primary may answer over TCP only (RFC 7766 5), for example because of a firewall: probes without an answer are repeated over TCP.
    pub(super) fn time_out_probes(&mut self, now: Now, io: &mut impl TransferIo<Sink = T>) {
        let mut slow = Vec::new();
        for primary in self.schedule.touched() {
            let Some(link) = self.links.get_mut(&primary) else { continue };
            let Some(config) = self.scheduler.primary(primary) else { continue };
            while let Some(timeout) = link.prober.next_timeout(now, |datagram| io.send_probe(primary, config, datagram))
            {
                match timeout {
                    ProbeTimeout::Slow(zone) => slow.push((zone, primary)),
                    ProbeTimeout::GivenUp(zone) => link.queue_probe(zone, true, now),
                }
            }
            slow.extend(link.take_slow_probes(now).into_iter().map(|zone| (zone, primary)));
        }
        for (zone, primary) in slow {
            self.scheduler.probe_is_slow(zone, primary, self.clock_steps.steady_s(now));
        }
    }

    /// A probe was answered over a stream.
    pub(super) fn stream_probe_answered(&mut self, primary: PrimaryId, request: Request, now: Now) {
        if let (RequestPurpose::Probe { is_fallback: true, .. }, Some(link)) =
            (request.purpose, self.links.get_mut(&primary))
        {
            link.no_udp_until_ms = now.ms + NO_UDP_MS;
        }
    }
}
