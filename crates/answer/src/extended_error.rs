//! Extended DNS errors (EDE, RFC 8914).

/// The info-code of an extended error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendedError {
    /// RFC 8914 4.15: the zone is not loaded.
    NotReady = 14,
    /// RFC 8914 4.21: no zone here contains the name.
    NotAuthoritative = 20,
    /// RFC 8914 4.25: the zone has no answer that fits into a message.
    InvalidData = 24,
    /// RFC 9276 6: the proof needs too many NSEC3 iterations.
    UnsupportedNsec3Iterations = 27,
}
