//! The settings of the answerer that apply to all zones.

use crate::cookie::CookieSecrets;
use crate::key_ring::KeyRing;

/// How to answer, whatever the zone.
pub struct AnswerConfig {
    /// The largest UDP response, in octets: 512 to [`crate::MAX_UDP`].
    pub udp_payload: u16,
    /// The name server identifier (RFC 5001); empty: none is sent.
    pub nsid: Box<[u8]>,
    /// The answer to `version.bind` and `version.server` in class CHAOS (RFC 4892); `None`: refused.
    pub version: Option<Box<[u8]>>,
    /// The answer to `id.server` and `hostname.bind` in class CHAOS (RFC 4892); `None`: refused.
    pub identity: Option<Box<[u8]>>,
    /// The secrets of server cookies (RFC 9018); `None`: no cookies.
    pub cookies: Option<CookieSecrets>,
    /// The keys of signed queries (TSIG).
    pub keys: KeyRing,
    /// Response rate limiting; `None`: no limit.
    pub rate_limit: Option<RateLimitConfig>,
}

impl Default for AnswerConfig {
    fn default() -> AnswerConfig {
        AnswerConfig {
            udp_payload: 1232,
            nsid: Box::default(),
            version: None,
            identity: None,
            cookies: None,
            keys: KeyRing::default(),
            rate_limit: None,
        }
    }
}

/// Response rate limiting (RRL), per client network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitConfig {
    /// Identical responses per second; 0: no limit.
    pub responses_per_second: u32,
    /// Every `slip`-th limited response is sent with TC set, the others are dropped; 0: all are dropped.
    pub slip: u32,
    /// The prefix length of an IPv4 client network, in bits.
    pub ipv4_prefix_len: u8,
    /// The prefix length of an IPv6 client network, in bits.
    pub ipv6_prefix_len: u8,
}
