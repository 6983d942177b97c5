//! An outgoing transfer of either kind.

use wire::NameRef;

use crate::axfr::AxfrStream;
use crate::ixfr::IxfrStream;
use crate::zone::ZoneVersion;

/// The messages of one transfer.
pub enum TransferStream {
    /// The whole zone.
    Axfr(AxfrStream),
    /// The changes since the client's version, or the SOA record alone.
    Ixfr(IxfrStream),
}

/// What a transfer contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferContent {
    /// The whole zone.
    Full,
    /// Changes.
    Incremental,
    /// The SOA record alone: the client is up to date.
    SoaOnly,
}

impl TransferStream {
    /// Writes the next message, as [`AxfrStream::next_message`].
    pub fn next_message(&mut self, out: &mut [u8]) -> Option<usize> {
        match self {
            TransferStream::Axfr(stream) => stream.next_message(out),
            TransferStream::Ixfr(stream) => stream.next_message(out),
        }
    }

    /// What it contains.
    pub fn content(&self) -> TransferContent {
        match self {
            TransferStream::Axfr(_) => TransferContent::Full,
            TransferStream::Ixfr(stream) if stream.is_soa_only() => TransferContent::SoaOnly,
            TransferStream::Ixfr(_) => TransferContent::Incremental,
        }
    }

    /// Whether the last message reports a failure.
    pub fn has_failed(&self) -> bool {
        match self {
            TransferStream::Axfr(stream) => stream.has_failed(),
            TransferStream::Ixfr(stream) => stream.has_failed(),
        }
    }

    /// The apex of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        match self {
            TransferStream::Axfr(stream) => stream.apex(),
            TransferStream::Ixfr(stream) => stream.apex(),
        }
    }

    /// The serial of the version that the changes start from; `None` if there are none.
    pub fn from_serial(&self) -> Option<u32> {
        match self {
            TransferStream::Axfr(_) => None,
            TransferStream::Ixfr(stream) => stream.from_serial(),
        }
    }

    /// The version that it keeps in memory; none if it has changes only.
    pub fn version(&self) -> Option<ZoneVersion> {
        match self {
            TransferStream::Axfr(stream) => Some(stream.version()),
            TransferStream::Ixfr(_) => None,
        }
    }

    /// The serial of the version that the client has afterwards.
    pub fn serial(&self) -> u32 {
        match self {
            TransferStream::Axfr(stream) => stream.serial(),
            TransferStream::Ixfr(stream) => stream.serial(),
        }
    }

    /// The number of records written so far.
    pub fn records(&self) -> u64 {
        match self {
            TransferStream::Axfr(stream) => stream.records(),
            TransferStream::Ixfr(stream) => stream.records(),
        }
    }
}
