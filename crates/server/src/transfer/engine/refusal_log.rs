//! Log lines about servers that refuse NOTIFY or IXFR, and about responses that cannot be verified.

use std::time::Duration;

use wire::tsig::TsigError;

use super::super::notify_sender::NotifyAnswer;
use super::super::primary::PrimaryId;
use super::super::session::{TransferFailure, TransferSink};
use super::TransferEngine;
use crate::rate_limited_log::RateLimitedLog;
use crate::zone_id::ZoneId;

/// Lines per interval, of each kind: one server may cause them for a million zones.
const LINES: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(10);

/// The help for a signature that is not accepted.
const SIGNATURE_HELP: &str =
    "see whether both servers have the same key, with the same secret and algorithm, and the same time";

/// Limits these lines.
pub(super) struct PeerRefusalLog {
    notify: RateLimitedLog,
    soa: RateLimitedLog,
    ixfr: RateLimitedLog,
}

impl Default for PeerRefusalLog {
    fn default() -> PeerRefusalLog {
        let [notify, soa, ixfr] = [(); 3].map(|()| RateLimitedLog::new(LINES, INTERVAL));
        PeerRefusalLog { notify, soa, ixfr }
    }
}

impl<T: TransferSink> TransferEngine<T> {
    /// Logs that a target refuses NOTIFY (RFC 1996 3.10, 3.11): it will not follow this zone before its own refresh.
    pub(super) fn log_if_refused(&mut self, answer: Option<NotifyAnswer>) {
        let refusal = answer.filter(NotifyAnswer::is_refusal);
        let Some(NotifyAnswer { zone, target, rcode, tsig_error, is_ignored }) = refusal else { return };
        let (Some(zone), Some(left_out)) = (self.apexes.get(zone.index), self.refusal_log.notify.permit()) else {
            return;
        };
        match tsig_error {
            None => {
                tracing::warn!(%zone, %target, %rcode, left_out, "NOTIFY was refused (help: see whether the target serves the zone and allows NOTIFY from the address, and with the key, of this server)");
            }
            Some(error) if is_ignored => {
                tracing::warn!(%zone, %target, %rcode, left_out, "a response to NOTIFY is ignored: {error} (help: {SIGNATURE_HELP})");
            }
            Some(error) => {
                tracing::warn!(%zone, %target, %rcode, left_out, "NOTIFY was refused: {error} (help: {SIGNATURE_HELP})");
            }
        }
    }

    /// Logs why a zone is transferred as a whole: otherwise nobody would learn that a primary sends no changes, or bad ones.
    pub(super) fn log_ixfr_failure(&mut self, zone: ZoneId, primary: PrimaryId, failure: &TransferFailure) {
        let Some(address) = self.scheduler.primary(primary).map(|config| config.address) else { return };
        if let (Some(zone), Some(left_out)) = (self.apexes.get(zone.index), self.refusal_log.ixfr.permit()) {
            tracing::info!(%zone, primary = %address, left_out, "IXFR failed, requesting the whole zone: {failure}");
        }
    }

    /// Logs why a response to a SOA query is not accepted: the zone is not current as long as the key or the clock is wrong.
    pub(super) fn log_probe_signature(&mut self, zone: ZoneId, primary: PrimaryId, error: TsigError) {
        let Some(address) = self.scheduler.primary(primary).map(|config| config.address) else { return };
        if let (Some(zone), Some(left_out)) = (self.apexes.get(zone.index), self.refusal_log.soa.permit()) {
            tracing::warn!(%zone, primary = %address, left_out, "a response to a SOA query is not accepted: {error} (help: {SIGNATURE_HELP})");
        }
    }
}
