//! A response of many messages: a zone transfer, signed message by message if the query was signed.

use wire::NameRef;
use zone::ZoneVersion;
use zone::transfer_stream::{TransferContent, TransferStream};

use crate::key_ring::ResponseSigner;

/// The messages of a transfer.
pub struct ResponseStream {
    transfer: TransferStream,
    pub(crate) signer: Option<ResponseSigner>,
}

impl ResponseStream {
    pub(crate) fn new(transfer: TransferStream) -> ResponseStream {
        ResponseStream { transfer, signer: None }
    }

    /// Writes the next message, without the TCP length prefix, into `out`, which must hold 65,535 octets. Returns its length; `None`
    /// after the last message. RFC 8945 5.3.1: every message is signed.
    pub fn next_message(&mut self, out: &mut [u8], now_s: u32) -> Option<usize> {
        let Some(signer) = &mut self.signer else { return self.transfer.next_message(out) };
        let room = out.len() - signer.record_len();
        let len = self.transfer.next_message(&mut out[..room])?;
        Some(signer.sign_in_place(out, len, now_s.into()).expect("room is left for the record"))
    }

    /// Whether the last message reports a failure.
    pub fn has_failed(&self) -> bool {
        self.transfer.has_failed()
    }

    /// What it contains.
    pub fn content(&self) -> TransferContent {
        self.transfer.content()
    }

    /// The serial of the version that the changes start from; `None` if there are none.
    pub fn from_serial(&self) -> Option<u32> {
        self.transfer.from_serial()
    }

    /// The apex of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.transfer.apex()
    }

    /// The version that it keeps in memory; none if it has changes only.
    pub fn version(&self) -> Option<ZoneVersion> {
        self.transfer.version()
    }

    /// The serial of the transferred version.
    pub fn serial(&self) -> u32 {
        self.transfer.serial()
    }

    /// The number of records written so far.
    pub fn records(&self) -> u64 {
        self.transfer.records()
    }

    /// The name of the key that signed the query.
    pub fn key(&self) -> Option<NameRef<'_>> {
        self.signer.as_ref().map(|signer| signer.key().name())
    }
}
