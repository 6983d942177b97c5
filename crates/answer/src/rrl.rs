//! Response rate limiting: a server that answers forged queries must not become somebody's flood.
//!
//! After the design of ISC and Vernon Schryver: answers to one network that say the same are counted, and what is too
//! much is dropped, or now and then answered truncated ("slip") so that a real client comes back over TCP.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::MAX_NAME_LEN;

/// The limits, per second and network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitConfig {
    /// Answers of one kind about one name; 0: no limit.
    pub responses_per_second: u32,
    /// Every `slip`-th answer over the limit is sent truncated, the others are dropped; 0: all are dropped.
    pub slip: u32,
    /// How many leading bits of an IPv4 address name a network.
    pub ipv4_prefix_len: u8,
    /// How many leading bits of an IPv6 address name a network.
    pub ipv6_prefix_len: u8,
}

/// What to do with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Send it.
    Send,
    /// Send it truncated.
    Slip,
    /// Send nothing.
    Drop,
}

/// What makes answers to one network alike. Whatever random names are asked for, denials in a zone are alike, and so are
/// referrals to one zone, the answers of one wildcard or DNAME, and errors with the same response code.
#[derive(Clone, Copy)]
pub(crate) struct Alike<'n> {
    pub(crate) rcode: u8,
    /// The suffix of the question that they share, in either case; empty for errors and where there is no question.
    pub(crate) suffix: &'n [u8],
}

/// The accounts of one worker, in constant memory.
///
/// A stream of like answers has a bucket in the set that its hash names. Streams that share a bucket share its credit: one
/// that takes over a bucket gets no more than was left in it, so what leaves a worker is bounded whatever is asked.
#[derive(Default)]
pub(crate) struct Table {
    /// The key of the hash, from the system's random numbers: else anyone could find streams that share a bucket.
    key: RandomState,
    /// Made with the first answer that is limited.
    sets: Vec<Set>,
}

/// 2^14 sets of 64 octets: 1 MiB a worker. Ordinary load is spread over many streams, and drains no set as long as it has
/// fewer than 65,536 times the limit of answers a second.
const SET_BITS: u32 = 14;

/// The buckets where a stream may be: a cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set([Bucket; 4]);

/// The account of one stream.
#[derive(Clone, Copy)]
struct Bucket {
    /// Identifies the stream in its set.
    tag: u32,
    /// The second up to which credit was given.
    time_s: u32,
    /// Answers that may still be sent; below zero: how far the stream is over its limit.
    balance: i32,
    /// Counts what was over the limit.
    over: u32,
}

/// How many seconds of answers a stream may be in debt.
const WINDOW_S: i32 = 15;

impl Table {
    /// Counts an answer to `peer` and decides what is done with it.
    pub(crate) fn judge(&mut self, limits: &RateLimitConfig, peer: IpAddr, alike: Alike<'_>, now_s: u32) -> Verdict {
        let rate = i32::try_from(limits.responses_per_second).unwrap_or(i32::MAX).min(i32::MAX / WINDOW_S);
        if rate == 0 {
            return Verdict::Send;
        }
        if self.sets.is_empty() {
            let full = Bucket { tag: 0, time_s: now_s, balance: rate, over: 0 };
            self.sets = vec![Set([full; 4]); 1 << SET_BITS];
        }
        let hash = self.hash(limits, peer, alike);
        let set = &mut self.sets[(hash >> (64 - SET_BITS)) as usize];
        set.bucket(hash as u32, rate, now_s).judge(rate, limits.slip)
    }

    fn hash(&self, limits: &RateLimitConfig, peer: IpAddr, alike: Alike<'_>) -> u64 {
        let mut suffix = [0; MAX_NAME_LEN];
        let suffix = &mut suffix[..alike.suffix.len()];
        suffix.copy_from_slice(alike.suffix);
        suffix.make_ascii_lowercase();
        self.key.hash_one((network(limits, peer), alike.rcode, suffix))
    }
}

impl Set {
    /// The bucket of a stream; if it has none, the one with the most credit becomes its own, as it is.
    fn bucket(&mut self, tag: u32, rate: i32, now_s: u32) -> &mut Bucket {
        self.0.iter_mut().for_each(|bucket| bucket.refill(rate, now_s));
        let own_or_richest = self.0.iter_mut().max_by_key(|bucket| (bucket.tag == tag, bucket.balance));
        let bucket = own_or_richest.expect("a set has buckets");
        bucket.tag = tag;
        bucket
    }
}

impl Bucket {
    fn refill(&mut self, rate: i32, now_s: u32) {
        // A clock that was set back gives no credit.
        let passed_s = (now_s.wrapping_sub(self.time_s) as i32).clamp(0, WINDOW_S);
        self.time_s = now_s;
        self.balance = self.balance.saturating_add(passed_s * rate).min(rate);
    }

    fn judge(&mut self, rate: i32, slip: u32) -> Verdict {
        self.balance = (self.balance - 1).max(-rate * WINDOW_S);
        if self.balance >= 0 {
            return Verdict::Send;
        }
        self.over = self.over.wrapping_add(1);
        if slip > 0 && self.over.is_multiple_of(slip) { Verdict::Slip } else { Verdict::Drop }
    }
}

/// The address with all bits cleared that do not name its network.
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

    fn judge(table: &mut Table, peer: &str, name: &[u8], now_s: u32) -> Verdict {
        table.judge(&LIMITS, peer.parse().expect("an address"), Alike { rcode: 0, suffix: name }, now_s)
    }

    #[test]
    fn what_is_too_much_is_dropped_and_slips() {
        let mut table = Table::default();
        let mut verdicts = Vec::new();
        for n in 0..9 {
            verdicts.push(judge(&mut table, &format!("192.0.2.{n}"), b"\x01a\0", 100));
        }
        use Verdict::{Drop, Send, Slip};
        assert_eq!(verdicts, [Send, Send, Send, Send, Send, Drop, Slip, Drop, Slip]);
        assert_eq!(judge(&mut table, "192.0.2.1", b"\x01A\0", 100), Drop, "the same name");
        assert_eq!(judge(&mut table, "192.0.3.1", b"\x01a\0", 100), Send, "another network");
        assert_eq!(judge(&mut table, "192.0.2.1", b"\x01b\0", 100), Send, "another answer");
        assert_eq!(judge(&mut table, "192.0.2.1", b"\x01a\0", 102), Send, "two seconds later");
    }

    #[test]
    fn a_flood_is_forgiven_after_the_window() {
        let mut table = Table::default();
        for _ in 0..10_000 {
            judge(&mut table, "2001:db8::1", b"\0", 100);
        }
        assert_ne!(judge(&mut table, "2001:db8:0:ff::9", b"\0", 110), Verdict::Send, "the same /56, still in debt");
        assert_eq!(judge(&mut table, "2001:db8::1", b"\0", 110 + WINDOW_S as u32 + 1), Verdict::Send);
    }

    /// However many streams there are, those of a set are not sent more than its buckets have credit for.
    #[test]
    fn streams_that_take_over_a_bucket_get_no_fresh_credit() {
        let full = Bucket { tag: 0, time_s: 100, balance: 5, over: 0 };
        let mut set = Set([full; 4]);
        for seconds in 0..3 {
            let sent = (0..4000).filter(|n| set.bucket(n % 8, 5, 100 + seconds).judge(5, 0) == Verdict::Send);
            assert!(sent.count() <= 4 * 5, "in second {seconds}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_gives_no_credit() {
        let mut table = Table::default();
        let sent = (0..100).filter(|n| judge(&mut table, "192.0.2.1", b"\0", 1000 - n) == Verdict::Send);
        assert_eq!(sent.count(), 5);
    }

    /// Each table has a key of its own: streams that share a set in one table do not in another.
    #[test]
    fn no_hash_is_known_beforehand() {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let hash = |table: Table| table.hash(&LIMITS, peer, Alike { rcode: 0, suffix: b"\0" });
        assert_ne!(hash(Table::default()), hash(Table::default()));
    }
}
