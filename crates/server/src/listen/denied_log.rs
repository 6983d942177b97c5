//! Log lines about requests that an access list or TSIG has denied.

use std::time::Duration;

use answer::{DenialReason, DeniedRequest};

use crate::rate_limited_log::RateLimitedLog;

/// Writes a few lines per thread and interval, since anybody can cause them.
pub(super) struct DeniedLog(RateLimitedLog);

impl Default for DeniedLog {
    fn default() -> DeniedLog {
        DeniedLog(RateLimitedLog::new(10, Duration::from_secs(10)))
    }
}

impl DeniedLog {
    /// One line; `left_out` counts the lines that the rate limit has left out.
    #[cold]
    pub(super) fn write(&mut self, denied: &DeniedRequest) {
        let Some(left_out) = self.0.permit() else { return };
        let DeniedRequest { zone, client, key, reason } = denied;
        let key = key.as_ref().map(tracing::field::display);
        let what = match reason {
            DenialReason::Transfer => "transfer denied: `allow-transfer` does not allow this client",
            DenialReason::Notify => "NOTIFY denied: neither `primaries` nor `allow-notify` allow this client",
            DenialReason::Update => "update denied: `allow-update` does not allow this client",
            DenialReason::Signature(error) => {
                return tracing::info!(name = %zone, %client, %error, left_out, "request with a wrong TSIG denied");
            }
        };
        tracing::info!(%zone, %client, key, left_out, "{what}");
    }
}
