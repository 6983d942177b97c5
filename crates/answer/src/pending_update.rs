//! An UPDATE message that is allowed as far as is known without its records, until the writer has applied or forwarded it.

use wire::message::Rcode;
use wire::{HEADER_LEN, Name};

use crate::key_ring::ResponseSigner;
use crate::update_acl::UpdateClient;

/// An UPDATE message from a client that may update the zone, as far as is known without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedUpdate {
    /// The apex of the zone, in lower case.
    pub apex: Name,
    /// The message as received, with its TSIG record.
    pub message: Box<[u8]>,
    /// Who sent it.
    pub client: UpdateClient,
    /// Whether it is for the primaries of the zone.
    pub is_forwarded: bool,
}

/// An accepted UPDATE message, and the response that it gets later.
pub struct PendingUpdate {
    /// What to apply or forward.
    pub update: ReceivedUpdate,
    /// How to answer it.
    pub response: UpdateResponse,
}

/// The response to an UPDATE message, but for its RCODE.
pub struct UpdateResponse {
    pub(crate) octets: Vec<u8>,
    pub(crate) signer: Option<ResponseSigner>,
    /// The longest response that the client takes.
    pub(crate) max_len: usize,
}

impl UpdateResponse {
    /// The response with this RCODE, one of those in the header; signed if the message was. `now_s` is in seconds since 1970.
    pub fn finish(self, rcode: Rcode, now_s: u32) -> Vec<u8> {
        let UpdateResponse { mut octets, signer, .. } = self;
        debug_assert!(rcode.0 < 16);
        octets[3] |= rcode.0 as u8 & 15;
        if let Some(mut signer) = signer {
            signer.sign(&mut octets, 0, now_s.into()).expect("the message is short");
        }
        octets
    }

    /// RFC 2136 6.6: the response of a primary, with the ID of the client; `None` if it is no response or too long. A signature
    /// remains valid: it is about the ID in the TSIG record (RFC 8945 5.3.2).
    pub fn relay(&self, mut from_primary: Vec<u8>) -> Option<Vec<u8>> {
        if !(HEADER_LEN..=self.max_len).contains(&from_primary.len()) {
            return None;
        }
        from_primary[..2].copy_from_slice(&self.octets[..2]);
        Some(from_primary)
    }
}
