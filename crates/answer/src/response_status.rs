//! What the header of a response says, and what RRL counts it as.

use wire::message::Rcode;

/// The status of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseStatus {
    pub(crate) rcode: Rcode,
    /// The AA flag.
    pub(crate) authoritative: bool,
    /// The length of the suffix of the question's name for which [`crate::rrl`] counts the response; 0 for errors.
    pub(crate) rrl_suffix_len: u8,
}

impl ResponseStatus {
    /// A response without records.
    pub(crate) fn empty(rcode: Rcode) -> ResponseStatus {
        ResponseStatus { rcode, ..ResponseStatus::default() }
    }
}
