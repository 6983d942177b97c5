//! Response rate limiting (RRL): keeps the server from amplifying floods of queries with forged source addresses.
//!
//! After the design of Paul Vixie and Vernon Schryver: identical responses to one client network are counted; those over
//! the limit are dropped, but every `slip`-th is sent truncated so that a real client retries over TCP.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::MAX_NAME_LEN;
use wire::message::Rcode;

use crate::config::{AnswerConfig, RateLimitConfig};
use crate::message_writer::ResponseStatus;
use crate::query::Query;

/// What to do with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RrlAction {
    /// Send it.
    Send,
    /// Send it truncated.
    Slip,
    /// Send nothing.
    Drop,
}

/// What makes responses to one network identical: negative answers of one zone are, whatever the names, and so are
/// referrals at one cut, answers from one wildcard or DNAME, and errors with one response code.
#[derive(Clone, Copy)]
struct ResponseIdentity<'n> {
    rcode: Rcode,
    /// The suffix of the question's name that they share, in any case; empty for errors.
    name_suffix: &'n [u8],
}

/// The rate accounts of one worker, in constant memory.
///
/// A set-associative table: a stream of identical responses has a bucket in the set that its hash selects. A stream that
/// evicts another inherits its bucket's credit, so the total that a worker sends is bounded whatever is queried.
#[derive(Default)]
pub(crate) struct RateLimiter {
    /// Randomly keyed, so that nobody can find streams that share a bucket.
    hasher: RandomState,
    /// Allocated with the first response that is counted.
    sets: Vec<BucketSet>,
}

/// 2^14 sets of 64 octets: 1 MiB per worker. Queries spread over many streams exhaust no set below 65,536 times the limit.
const SET_BITS: u32 = 14;

/// The buckets that a stream may use: one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct BucketSet([Bucket; 4]);

/// A token bucket.
#[derive(Clone, Copy)]
struct Bucket {
    /// Identifies the stream in its set.
    tag: u32,
    /// When the bucket was last refilled, in seconds.
    time_s: u32,
    /// Responses that may still be sent; negative while the stream is over its limit.
    balance: i32,
    /// Responses over the limit; every `slip`-th is sent truncated.
    limited: u32,
}

/// The most debt of a stream, in seconds of its rate (`window` in BIND).
const WINDOW_S: i32 = 15;

impl RateLimiter {
    /// Counts a response and decides whether it is sent. TCP, signed queries and clients with a valid server cookie are exempt.
    #[inline(always)]
    pub(crate) fn action(&mut self, config: &AnswerConfig, query: &Query<'_>, status: ResponseStatus) -> RrlAction {
        match &config.rate_limit {
            Some(limits) if query.request.transport.is_udp() => self.limited_action(limits, config, query, status),
            _ => RrlAction::Send,
        }
    }

    #[inline(never)]
    fn limited_action(
        &mut self,
        limits: &RateLimitConfig,
        config: &AnswerConfig,
        query: &Query<'_>,
        status: ResponseStatus,
    ) -> RrlAction {
        // RFC 7873 5.2.5: with a valid cookie, the client's address is not forged. Only holders of a key can make many different signed queries.
        let has_valid_cookie = config.cookies.as_ref().is_some_and(|secrets| query.has_valid_cookie(secrets));
        if query.key.is_some() || has_valid_cookie {
            return RrlAction::Send;
        }
        let name_suffix = query.name_suffix(status.rrl_suffix_len.into());
        let identity = ResponseIdentity { rcode: status.rcode, name_suffix };
        self.count(limits, query.request.peer, identity, query.request.now_s)
    }

    /// Counts a response to `peer` and decides whether it is sent.
    fn count(
        &mut self,
        limits: &RateLimitConfig,
        peer: IpAddr,
        identity: ResponseIdentity<'_>,
        now_s: u32,
    ) -> RrlAction {
        let rate = i32::try_from(limits.responses_per_second).unwrap_or(i32::MAX).min(i32::MAX / WINDOW_S);
        if rate == 0 {
            return RrlAction::Send;
        }
        if self.sets.is_empty() {
            let full = Bucket { tag: 0, time_s: now_s, balance: rate, limited: 0 };
            self.sets = vec![BucketSet([full; 4]); 1 << SET_BITS];
        }
        let hash = self.hash(limits, peer, identity);
        let set = &mut self.sets[(hash >> (64 - SET_BITS)) as usize];
        set.bucket(hash as u32, rate, now_s).take(rate, limits.slip)
    }

    fn hash(&self, limits: &RateLimitConfig, peer: IpAddr, identity: ResponseIdentity<'_>) -> u64 {
        let mut buffer = [0; MAX_NAME_LEN];
        let suffix = &mut buffer[..identity.name_suffix.len()];
        suffix.copy_from_slice(identity.name_suffix);
        suffix.make_ascii_lowercase();
        self.hasher.hash_one((network(limits, peer), identity.rcode.0, suffix))
    }
}

impl BucketSet {
    /// The stream's bucket; a stream without one takes over the fullest, with its balance.
    fn bucket(&mut self, tag: u32, rate: i32, now_s: u32) -> &mut Bucket {
        self.0.iter_mut().for_each(|bucket| bucket.refill(rate, now_s));
        let own_or_fullest = self.0.iter_mut().max_by_key(|bucket| (bucket.tag == tag, bucket.balance));
        let bucket = own_or_fullest.expect("a set has buckets");
        bucket.tag = tag;
        bucket
    }
}

impl Bucket {
    fn refill(&mut self, rate: i32, now_s: u32) {
        // A clock that is set back gives no credit.
        let elapsed_s = (now_s.wrapping_sub(self.time_s) as i32).clamp(0, WINDOW_S);
        self.time_s = now_s;
        self.balance = self.balance.saturating_add(elapsed_s * rate).min(rate);
    }

    fn take(&mut self, rate: i32, slip: u32) -> RrlAction {
        self.balance = (self.balance - 1).max(-rate * WINDOW_S);
        if self.balance >= 0 {
            return RrlAction::Send;
        }
        self.limited = self.limited.wrapping_add(1);
        if slip > 0 && self.limited.is_multiple_of(slip) { RrlAction::Slip } else { RrlAction::Drop }
    }
}

/// The client network: the address with all host bits cleared.
fn network(limits: &RateLimitConfig, peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => {
            let host = u32::MAX.checked_shr(limits.ipv4_prefix_len.into()).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & !host).into()
        }
        IpAddr::V6(address) => {
            let host = u128::MAX.checked_shr(limits.ipv6_prefix_len.into()).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & !host).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RateLimitConfig =
        RateLimitConfig { responses_per_second: 5, slip: 2, ipv4_prefix_len: 24, ipv6_prefix_len: 56 };

    fn count(limiter: &mut RateLimiter, peer: &str, name_suffix: &[u8], now_s: u32) -> RrlAction {
        let identity = ResponseIdentity { rcode: Rcode::NOERROR, name_suffix };
        limiter.count(&LIMITS, peer.parse().expect("an address"), identity, now_s)
    }

    #[test]
    fn responses_over_the_limit_are_dropped_or_slip() {
        let mut limiter = RateLimiter::default();
        let actions: Vec<_> = (0..9).map(|n| count(&mut limiter, &format!("192.0.2.{n}"), b"\x01a\0", 100)).collect();
        use RrlAction::{Drop, Send, Slip};
        assert_eq!(actions, [Send, Send, Send, Send, Send, Drop, Slip, Drop, Slip]);
        assert_eq!(count(&mut limiter, "192.0.2.1", b"\x01A\0", 100), Drop, "the same name");
        assert_eq!(count(&mut limiter, "192.0.3.1", b"\x01a\0", 100), Send, "another network");
        assert_eq!(count(&mut limiter, "192.0.2.1", b"\x01b\0", 100), Send, "another name");
        assert_eq!(count(&mut limiter, "192.0.2.1", b"\x01a\0", 102), Send, "two seconds later");
    }

    #[test]
    fn debt_ends_after_the_window() {
        let mut limiter = RateLimiter::default();
        for _ in 0..10_000 {
            count(&mut limiter, "2001:db8::1", b"\0", 100);
        }
        assert_ne!(count(&mut limiter, "2001:db8:0:ff::9", b"\0", 110), RrlAction::Send, "the same /56, in debt");
        assert_eq!(count(&mut limiter, "2001:db8::1", b"\0", 110 + WINDOW_S as u32 + 1), RrlAction::Send);
    }

    /// However many streams share a set, no more is sent than its buckets have credit for.
    #[test]
    fn a_stream_that_evicts_another_gets_no_fresh_credit() {
        let full = Bucket { tag: 0, time_s: 100, balance: 5, limited: 0 };
        let mut set = BucketSet([full; 4]);
        for seconds in 0..3 {
            let sent = (0..4000).filter(|n| set.bucket(n % 8, 5, 100 + seconds).take(5, 0) == RrlAction::Send);
            assert!(sent.count() <= 4 * 5, "in second {seconds}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_gives_no_credit() {
        let mut limiter = RateLimiter::default();
        let sent = (0..100).filter(|n| count(&mut limiter, "192.0.2.1", b"\0", 1000 - n) == RrlAction::Send);
        assert_eq!(sent.count(), 5);
    }

    /// Every limiter has its own hash key: streams that share a set in one do not in another.
    #[test]
    fn hashes_are_unpredictable() {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let identity = ResponseIdentity { rcode: Rcode::NOERROR, name_suffix: b"\0" };
        let hash = |limiter: RateLimiter| limiter.hash(&LIMITS, peer, identity);
        assert_ne!(hash(RateLimiter::default()), hash(RateLimiter::default()));
    }
}
