//! A NOTIFY message that is allowed, until the listener has passed it on.

use std::net::IpAddr;

use wire::Name;
use wire::message::Rcode;

use crate::key_ring::ResponseSigner;

/// A NOTIFY message from a client that may send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedNotify {
    /// The apex of the zone.
    pub apex: Name,
    /// The serial that it announces: a hint that nobody vouches for unless it is signed (RFC 1996 3.7).
    pub serial: Option<u32>,
    /// Who sent it.
    pub from: IpAddr,
}

/// An accepted NOTIFY message that must be passed on before it is answered.
pub struct PendingNotify {
    pub(crate) notify: ReceivedNotify,
    /// The length of the response, without TSIG.
    pub(crate) len: usize,
    pub(crate) signer: Option<ResponseSigner>,
    pub(crate) now_s: u32,
}

impl PendingNotify {
    /// Passes the message on and finishes its response, which is in `out`: SERVFAIL if `pass_on` returns false, so that the primary
    /// repeats it. Returns the length of the response.
    pub fn finish(self, out: &mut [u8], pass_on: impl FnOnce(ReceivedNotify) -> bool) -> usize {
        if !pass_on(self.notify) {
            out[3] |= Rcode::SERVFAIL.0 as u8;
        }
        let Some(mut signer) = self.signer else { return self.len };
        signer.sign_in_place(out, self.len, self.now_s.into()).expect("room is reserved for the record")
    }
}
