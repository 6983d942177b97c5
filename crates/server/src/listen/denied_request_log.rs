//! Log lines about requests that an access list or TSIG has refused.

use std::time::Duration;

use answer::{RefusalReason, RefusedRequest};

use crate::rate_limited_log::RateLimitedLog;

/// Writes a few lines per thread and interval, since anybody can cause them.
pub(super) struct DeniedRequestLog(RateLimitedLog);

impl Default for DeniedRequestLog {
    fn default() -> DeniedRequestLog {
        DeniedRequestLog(RateLimitedLog::new(10, Duration::from_secs(10)))
    }
}

impl DeniedRequestLog {
    /// One line; `left_out` counts the lines that the rate limit has left out.
    #[cold]
    pub(super) fn write(&mut self, refused: &RefusedRequest) {
        let Some(left_out) = self.0.permit() else { return };
        let RefusedRequest { zone, client, key, reason } = refused;
        let key = key.as_ref().map(tracing::field::display);
        let what = match reason {
            RefusalReason::Transfer => "transfer denied: `allow-transfer` does not allow this client",
            RefusalReason::Notify => "NOTIFY denied: neither `primaries` nor `allow-notify` allow this client",
            RefusalReason::Update => "update denied: `allow-update` does not allow this client",
            RefusalReason::Signature(error) => {
                return tracing::info!(name = %zone, %client, %error, left_out, "request with a wrong TSIG denied");
            }
        };
        tracing::info!(%zone, %client, key, left_out, "{what}");
    }
}
