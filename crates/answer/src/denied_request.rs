//! What an access list or TSIG has denied, for the log: who is denied in silence cannot be helped.

use std::net::IpAddr;

use wire::tsig::TsigError;
use wire::{Name, NameRef};

use crate::qname::Qname;
use crate::query::Query;

/// A request that was denied.
#[derive(Debug)]
pub struct DeniedRequest {
    /// The apex of the zone; the name of the question if the signature is wrong.
    pub zone: Name,
    /// Who sent it.
    pub client: IpAddr,
    /// The key that signed it, verified.
    pub key: Option<Name>,
    /// Why.
    pub reason: DenialReason,
}

/// Why a request was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DenialReason {
    /// `allow-transfer` does not allow the client.
    Transfer,
    /// `allow-notify` and `primaries` do not allow the client.
    Notify,
    /// `allow-update` does not allow the client.
    Update,
    /// Its signature is not valid (RFC 8945 5.2).
    Signature(TsigError),
}

impl DeniedRequest {
    pub(crate) fn new(qname: &Qname, query: &Query<'_>, reason: DenialReason) -> DeniedRequest {
        let zone = NameRef::from_valid_wire(qname.wire()).to_owned();
        let client = query.client();
        DeniedRequest { zone, client: client.address, key: client.key.map(|key| key.to_owned()), reason }
    }
}
