//! What an access list or TSIG has refused, for the log: who is refused in silence cannot be helped.

use std::net::IpAddr;

use wire::tsig::TsigError;
use wire::{Name, NameRef};

use crate::qname::Qname;
use crate::query::Query;

/// A request that was refused.
#[derive(Debug)]
pub struct RefusedRequest {
    /// The apex of the zone; the name of the question if the signature is wrong.
    pub zone: Name,
    /// Who sent it.
    pub client: IpAddr,
    /// The key that signed it, verified.
    pub key: Option<Name>,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// `allow-transfer` does not allow the client.
    Transfer,
    /// `allow-notify` and `primaries` do not allow the client.
    Notify,
    /// `allow-update` does not allow the client.
    Update,
    /// Its signature is not valid (RFC 8945 5.2).
    Signature(TsigError),
}

impl RefusedRequest {
    pub(crate) fn new(qname: &Qname, query: &Query<'_>, reason: RefusalReason) -> RefusedRequest {
        let zone = NameRef::from_valid_wire(qname.wire()).to_owned();
        let client = query.client();
        RefusedRequest { zone, client: client.address, key: client.key.map(|key| key.to_owned()), reason }
    }
}
