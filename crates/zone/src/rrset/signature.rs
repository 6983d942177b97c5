//! The RRSIG records of an RRset. Most sets have one, and most signatures of a zone have the same head: all of the RDATA up to the
//! signature (RFC 4034 3.1), which is then interned, as a length and RDATA without its end.
//!
//! A signer may spread the times of its signatures. Heads with times are interned up to a limit; other signatures share a head whose
//! times are 0, and have their own.

use wire::{NameRef, Rtype};

use super::write::{RecordHead, write_opaque};
use super::{LENGTH_LEN, RECORD_HEAD_LEN, missing_len, rdata_len, split_length};
use crate::intern::Interner;

/// The octets of an RRSIG RDATA up to the name of the signer.
const FIXED_LEN: usize = 18;
/// Expiration and inception (RFC 4034 3.1.5) in a head, which begins with the length of the RDATA.
const TIMES: std::ops::Range<usize> = 10..18;
/// The times of signatures that have their own.
const NO_TIMES: &[u8] = &[0; TIMES_LEN];
const TIMES_LEN: usize = 8;

/// The RRSIG records that cover an RRset; they have its TTL (RFC 4034 3).
#[derive(Clone, Copy, Default)]
pub struct Signatures<'z> {
    /// The number of records.
    pub count: usize,
    /// The interned head of the only record; empty if all records are in full.
    head: &'z [u8],
    /// In full: length (u16, big-endian) and RDATA of each. Otherwise the times, if the head has none, and the signature.
    data: &'z [u8],
}

/// The RDATA of an RRSIG record, in parts.
#[derive(Clone, Copy)]
pub struct SignatureRdata<'z> {
    /// Their concatenation is the RDATA.
    pub parts: [&'z [u8]; 4],
}

impl<'z> Signatures<'z> {
    pub(super) fn split(bytes: &'z [u8]) -> (Signatures<'z>, &'z [u8]) {
        let (count, rest) = split_length(bytes);
        let (len, rest) = split_length(rest);
        let (data, rest) = rest.split_at(len);
        (Signatures { count, head: &[], data }, rest)
    }

    #[inline]
    pub(super) fn split_shared(head: &'z [u8], bytes: &'z [u8]) -> (Signatures<'z>, &'z [u8]) {
        let (data, rest) = bytes.split_at(rest_len(head));
        (Signatures { count: 1, head, data }, rest)
    }

    /// The octets of the records in a message.
    #[inline]
    pub fn message_len(&self) -> usize {
        let len = if self.head.is_empty() { self.data.len() } else { LENGTH_LEN + rdata_len(self.head) };
        len + self.count * (RECORD_HEAD_LEN - LENGTH_LEN)
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The RDATA of each record.
    pub fn rdatas(&self) -> impl Iterator<Item = SignatureRdata<'z>> + use<'z> {
        let Signatures { head, data: mut rest, .. } = *self;
        let mut shared = (!head.is_empty()).then(|| SignatureRdata::of_parts(head, rest));
        if shared.is_some() {
            rest = &[];
        }
        std::iter::from_fn(move || {
            if let Some(rdata) = shared.take() {
                return Some(rdata);
            }
            let (len, more) = rest.split_first_chunk::<2>()?;
            let (rdata, more) = more.split_at(u16::from_be_bytes(*len) as usize);
            rest = more;
            Some(SignatureRdata { parts: [rdata, &[], &[], &[]] })
        })
    }

    /// Writes the records at `at` and returns their end. Requires room for [`Self::message_len`].
    #[inline]
    pub fn write(&self, owner: usize, ttl: u32, out: &mut [u8], at: usize) -> usize {
        let record = RecordHead::new(owner, Rtype::RRSIG, ttl);
        if self.head.is_empty() {
            return write_opaque(self.data, &record, out, at);
        }
        let len = rdata_len(self.head);
        let rdata = record.write(len, &mut out[at..at + RECORD_HEAD_LEN + len]);
        let (head, rest) = rdata.split_at_mut(self.head.len() - LENGTH_LEN);
        head.copy_from_slice(&self.head[LENGTH_LEN..]);
        // The times, if they are in `data`, are right before the signature.
        let (times, signature) = self.data.split_at(self.data.len() - rest.len());
        if !times.is_empty() {
            head[TIMES.start - LENGTH_LEN..TIMES.end - LENGTH_LEN].copy_from_slice(times);
        }
        rest.copy_from_slice(signature);
        at + RECORD_HEAD_LEN + len
    }
}

impl<'z> SignatureRdata<'z> {
    fn of_parts(head: &'z [u8], data: &'z [u8]) -> SignatureRdata<'z> {
        if !has_own_times(head) {
            return SignatureRdata { parts: [&head[LENGTH_LEN..], data, &[], &[]] };
        }
        let (times, signature) = data.split_at(TIMES_LEN);
        SignatureRdata { parts: [&head[LENGTH_LEN..TIMES.start], times, &head[TIMES.end..], signature] }
    }

    /// The length of the RDATA.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Always false: RRSIG RDATA has at least its fixed fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the RDATA to `out`.
    pub fn append(&self, out: &mut Vec<u8>) {
        self.parts.iter().for_each(|part| out.extend_from_slice(part));
    }
}

/// Whether the times of a signature with this head are stored with it.
#[inline]
fn has_own_times(head: &[u8]) -> bool {
    &head[TIMES] == NO_TIMES
}

/// The octets stored besides a head.
#[inline]
pub(super) fn rest_len(head: &[u8]) -> usize {
    let times = if has_own_times(head) { TIMES_LEN } else { 0 };
    missing_len(head) + times
}

//----------- encoding ---------------------------------------------------------

/// Finds the interned heads of signatures; remembers the last one, which most signatures have.
#[derive(Default)]
pub(super) struct SignatureHeads {
    /// The head of the last signature, its number, and whether the times are left out.
    last: Vec<u8>,
    found: Option<SharedHead>,
}

/// The interned head of a signature.
#[derive(Clone, Copy)]
pub(super) struct SharedHead {
    number: u32,
    /// The length of the head in the RDATA.
    len: usize,
    has_own_times: bool,
}

impl SignatureHeads {
    /// The interned head of an RRSIG RDATA; `None` if it is not interned.
    pub(super) fn find(&mut self, interner: &Interner<'_>, rdata: &[u8]) -> Option<SharedHead> {
        let known = &*self.last;
        let is_known = self.found.is_some()
            && known[..LENGTH_LEN] == (rdata.len() as u16).to_be_bytes()
            && rdata.starts_with(&known[LENGTH_LEN..]);
        if !is_known {
            self.found = self.intern(interner, rdata);
        }
        self.found
    }

    fn intern(&mut self, interner: &Interner<'_>, rdata: &[u8]) -> Option<SharedHead> {
        interner.is_enabled().then_some(())?;
        let signer = NameRef::from_wire(rdata.get(FIXED_LEN..)?).ok()?;
        let len = FIXED_LEN + signer.wire().len();
        self.last.clear();
        self.last.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        self.last.extend_from_slice(&rdata[..len]);
        // Always interned, for signatures that a later change adds.
        let mut timeless = self.last.clone();
        timeless[TIMES].copy_from_slice(NO_TIMES);
        let general = interner.shared_part(&timeless);
        let exact = if has_own_times(&self.last) { None } else { interner.shared_part(&self.last) };
        let number = exact.or(general)?;
        Some(SharedHead { number, len, has_own_times: exact.is_none() })
    }
}

impl SharedHead {
    /// Appends the stored form of the signature with this RDATA.
    pub(super) fn append(&self, rdata: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes()[..3]);
        if self.has_own_times {
            out.extend_from_slice(&rdata[TIMES.start - LENGTH_LEN..TIMES.end - LENGTH_LEN]);
        }
        out.extend_from_slice(&rdata[self.len..]);
    }
}

//----------- validating -------------------------------------------------------

/// Whether octets from outside are the head of signatures of sets of this type.
pub(super) fn is_head(covered: Rtype, bytes: &[u8]) -> bool {
    let Some((len, head)) = bytes.split_first_chunk() else { return false };
    let signer = head.get(FIXED_LEN..).and_then(|name| NameRef::from_wire(name).ok());
    let is_complete = signer.is_some_and(|signer| FIXED_LEN + signer.wire().len() == head.len());
    // The signature itself has an octet at least.
    is_complete && usize::from(u16::from_be_bytes(*len)) > head.len() && head.starts_with(&covered.0.to_be_bytes())
}
