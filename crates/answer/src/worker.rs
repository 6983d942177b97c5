//! The state of one worker thread.

use zone::canonical_key::CanonicalKey;

use crate::counters::Counters;
use crate::qname::Qname;
use crate::referral_cache::ReferralCache;
use crate::rrl::RateLimiter;

/// What one worker keeps between queries: buffers, counters, RRL accounts, cached referrals. Never shared.
#[derive(Default)]
pub struct WorkerState {
    pub(crate) qname: Qname,
    pub(crate) key: CanonicalKey,
    pub(crate) rate_limiter: RateLimiter,
    pub(crate) referral_cache: ReferralCache,
    /// What this worker has done; its owner reads and publishes it.
    pub counters: Counters,
}

impl WorkerState {
    /// The state of a worker that has answered nothing yet.
    pub fn new() -> WorkerState {
        WorkerState::default()
    }
}
