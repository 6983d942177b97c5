//! Response rate limiting: a server that answers forged queries must not become somebody's flood.
//!
//! After the design of ISC and Vernon Schryver: answers to one network that say the same are counted, and what is too
//! much is dropped, or now and then answered truncated ("slip") so that a real client comes back over TCP.

use std::net::IpAddr;

use wire::Rtype;

use crate::lookup::{NOERROR, NXDOMAIN, YXDOMAIN};
use crate::qname::Qname;

/// The limits, per second and network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Answers of one kind about one name; 0: no limit.
    pub responses_per_second: u32,
    /// Of the answers over the limit every so many-th goes out truncated, the others are dropped; 0: all are dropped.
    pub slip: u32,
    /// How many leading bits of an IPv4 address name a network.
    pub ipv4_prefix_len: u8,
    /// How many leading bits of an IPv6 address name a network.
    pub ipv6_prefix_len: u8,
}

/// What to do with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it.
    Send,
    /// Send it truncated.
    Slip,
    /// Send nothing.
    Drop,
}

/// The counters of one worker; as large as it is, whatever comes.
#[derive(Default)]
pub struct Table {
    /// Made with the first answer that is limited.
    buckets: Vec<Bucket>,
}

/// One stream of like answers.
#[derive(Clone, Copy, Default)]
struct Bucket {
    /// What tells this stream from others that fall into the same place.
    tag: u32,
    /// The second of the last answer.
    time_s: u32,
    /// Answers that may still go out; below zero: how far the stream is over its limit.
    balance: i32,
    /// Counts what was over the limit.
    over: u32,
}

/// 2^14 buckets of 16 octets: 256 KiB a worker. Streams that share a bucket push each other out.
const BUCKET_BITS: u32 = 14;
/// How many seconds of answers a stream may be in debt.
const WINDOW_S: i32 = 15;

/// What makes answers alike: the name that all of them are about, and the response code. Whatever random names are asked for,
/// denials within a zone count as one, and so do referrals to one zone, what a wildcard or a DNAME stands for, and errors.
pub(crate) fn kind(answer: &[u8], question_end: usize, qname: &Qname) -> u64 {
    let rcode = answer[3] & 15;
    let hash = |hash: u64, octet: &u8| (hash ^ u64::from(octet.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3);
    alike(answer, question_end, qname, rcode).iter().fold(0xcbf2_9ce4_8422_2325 ^ u64::from(rcode), hash)
}

/// Type and class behind the name of a question.
const QUESTION_FIXED_LEN: usize = 4;

/// The name that like answers are about, in any case.
fn alike<'n>(answer: &'n [u8], question_end: usize, qname: &'n Qname, rcode: u8) -> &'n [u8] {
    let (has_answers, has_authority) = (answer[6..8] != [0, 0], answer[8..10] != [0, 0]);
    // The first record: mostly its owner is a pointer into the question.
    let (owner, rtype) = match answer.get(question_end..question_end + 4) {
        Some(&[high, low, type_high, type_low]) if (has_answers || has_authority) && high >= 0xc0 => {
            let offset = usize::from(u16::from_be_bytes([high, low]) & 0x3fff);
            (answer.get(offset..question_end - QUESTION_FIXED_LEN), Rtype(u16::from_be_bytes([type_high, type_low])))
        }
        _ => (None, Rtype(0)),
    };
    match owner {
        _ if !matches!(rcode, NOERROR | NXDOMAIN | YXDOMAIN) => &[],
        Some(owner) if !has_answers || rtype == Rtype::DNAME => owner,
        _ => qname.shared(),
    }
}

impl Table {
    /// Counts an answer of the kind `kind` (its hash) to `peer` and judges it.
    pub fn judge(&mut self, limits: &Limits, peer: IpAddr, kind: u64, now_s: u32) -> Verdict {
        if limits.responses_per_second == 0 {
            return Verdict::Send;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![Bucket::default(); 1 << BUCKET_BITS];
        }
        let hash = (kind ^ network(limits, peer)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bucket = &mut self.buckets[(hash >> (64 - BUCKET_BITS)) as usize];
        bucket.judge(limits, hash as u32 | 1, now_s)
    }
}

impl Bucket {
    fn judge(&mut self, limits: &Limits, tag: u32, now_s: u32) -> Verdict {
        let rate = i32::try_from(limits.responses_per_second).unwrap_or(i32::MAX / WINDOW_S).min(i32::MAX / WINDOW_S);
        if self.tag != tag {
            *self = Bucket { tag, time_s: now_s, balance: rate, over: 0 };
        }
        let passed_s = now_s.wrapping_sub(self.time_s).min(WINDOW_S as u32) as i32;
        self.time_s = now_s;
        self.balance = self.balance.saturating_add(passed_s.saturating_mul(rate)).min(rate);
        self.balance = (self.balance - 1).max(-rate * WINDOW_S);
        if self.balance >= 0 {
            return Verdict::Send;
        }
        self.over = self.over.wrapping_add(1);
        match limits.slip {
            0 => Verdict::Drop,
            slip if self.over.is_multiple_of(slip) => Verdict::Slip,
            _ => Verdict::Drop,
        }
    }
}

/// The network of an address as a number.
fn network(limits: &Limits, peer: IpAddr) -> u64 {
    match peer.to_canonical() {
        IpAddr::V4(address) => {
            let bits = u32::from(limits.ipv4_prefix_len).min(32);
            u64::from(address.to_bits().checked_shr(32 - bits).unwrap_or(0)) << 8 | 4
        }
        IpAddr::V6(address) => {
            let bits = u32::from(limits.ipv6_prefix_len).min(128);
            let prefix = address.to_bits().checked_shr(128 - bits).unwrap_or(0);
            ((prefix >> 64) as u64 ^ prefix as u64).wrapping_mul(0xff51_afd7_ed55_8ccd) | 6
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { responses_per_second: 5, slip: 2, ipv4_prefix_len: 24, ipv6_prefix_len: 56 };

    fn judge(table: &mut Table, peer: &str, kind: u64, now_s: u32) -> Verdict {
        table.judge(&LIMITS, peer.parse().expect("an address"), kind, now_s)
    }

    #[test]
    fn what_is_too_much_is_dropped_and_slips() {
        let mut table = Table::default();
        let mut verdicts = Vec::new();
        for n in 0..9 {
            verdicts.push(judge(&mut table, &format!("192.0.2.{n}"), 1, 100));
        }
        use Verdict::{Drop, Send, Slip};
        assert_eq!(verdicts, [Send, Send, Send, Send, Send, Drop, Slip, Drop, Slip]);
        assert_eq!(judge(&mut table, "192.0.3.1", 1, 100), Send, "another network");
        assert_eq!(judge(&mut table, "192.0.2.1", 2, 100), Send, "another answer");
        assert_eq!(judge(&mut table, "192.0.2.1", 1, 101), Send, "a second later");
    }

    #[test]
    fn a_flood_is_forgiven_after_the_window() {
        let mut table = Table::default();
        for _ in 0..10_000 {
            judge(&mut table, "2001:db8::1", 1, 100);
        }
        assert_ne!(judge(&mut table, "2001:db8:0:ff::9", 1, 110), Verdict::Send, "the same /56, still in debt");
        assert_eq!(judge(&mut table, "2001:db8::1", 1, 110 + WINDOW_S as u32 + 1), Verdict::Send);
    }
}
