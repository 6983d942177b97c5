//! The fields of uncompressed RDATA: iteration over them, and checks that octets are valid for their type.
//!
//! Zone text parses and prints the same [`Form`]s. The table of types is in [`crate::rtype`].

mod form;
pub mod svcb;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::slice;

use crate::name::{NameError, NameRef};
use crate::rtype::Rtype;
pub use crate::rtype::field::{Form, RdataField};

/// The longest RDATA, in octets: its length is a 16 bit number (RFC 1035 3.2.1).
pub const MAX_RDATA_LEN: usize = 65535;

/// Why octets are not valid RDATA of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdataError {
    /// The RDATA ends inside this field.
    #[error("the {0} is cut off")]
    Short(&'static str),
    /// This many octets follow the last field.
    #[error("octets left over at the end: {0}")]
    Long(usize),
    /// An invalid name in this field.
    #[error("the {0}: {1}")]
    Name(&'static str, NameError),
    /// This field violates a rule of its RFC. The RDATA can still be stored and served.
    #[error("the {0} {1}")]
    Form(&'static str, &'static str),
}

impl RdataError {
    /// The violated rule, where octets that do not fit their type can be served.
    fn into_rule(self) -> RdataError {
        match self {
            RdataError::Short(field) => RdataError::Form(field, "is cut off"),
            RdataError::Long(_) => RdataError::Form("data", "has octets left over at the end"),
            RdataError::Name(field, _) => RdataError::Form(field, "is not a domain name"),
            RdataError::Form(..) => self,
        }
    }
}

impl RdataField {
    /// The end of this field, which starts at `at` in `rdata`. The preceding fields must be complete.
    pub fn end(&self, rdata: &[u8], at: usize) -> Result<usize, RdataError> {
        form::end(self.form, rdata, at).map_err(|error| error.in_field(self.name))
    }

    /// Checks the field at `range`, up to its [`RdataField::end`], against the rules of its RFC.
    pub fn check(&self, rdata: &[u8], range: Range<usize>) -> Result<(), RdataError> {
        form::rule(self.form, rdata, range).map_err(|rule| RdataError::Form(self.name, rule))
    }
}

/// The fields of RDATA of this type; for unknown types one of form [`Form::Opaque`].
pub fn fields_of(rtype: Rtype) -> &'static [RdataField] {
    const UNKNOWN: &[RdataField] = &[RdataField { name: "data", form: Form::Opaque }];
    rtype.info().map_or(UNKNOWN, |info| info.fields)
}

/// Checks that `rdata` is well-formed for its type; for unknown types any octets are.
///
/// Returns [`RdataError::Form`], a violated rule, only if there is no other error: then the RDATA [`can_be_served`].
pub fn check(rtype: Rtype, rdata: &[u8]) -> Result<(), RdataError> {
    if rdata.len() > MAX_RDATA_LEN {
        return Err(RdataError::Long(rdata.len() - MAX_RDATA_LEN));
    }
    if is_plain(rtype, rdata) { Ok(()) } else { check_fields(rtype, rdata) }
}

fn check_fields(rtype: Rtype, rdata: &[u8]) -> Result<(), RdataError> {
    let mut rules = Ok(());
    for field in split(rtype, rdata) {
        let (field, range) = field.map_err(|error| if is_read(rtype) { error } else { error.into_rule() })?;
        rules = rules.and_then(|()| field.check(rdata, range));
    }
    rules
}

/// Whether it is RDATA without mistakes of a type that most records of big zones have: without the loop over fields.
#[inline]
fn is_plain(rtype: Rtype, rdata: &[u8]) -> bool {
    match rtype {
        Rtype::NS => NameRef::from_wire(rdata).is_ok_and(|name| name.wire().len() == rdata.len()),
        Rtype::A => rdata.len() == 4,
        Rtype::AAAA => rdata.len() == 16,
        Rtype::RRSIG => is_plain_rrsig(rdata),
        // RFC 4034 5.1: the digest type and, after four octets, the digest.
        Rtype::DS => matches!((rdata.get(3), rdata.len()), (Some(1), 24) | (Some(2), 36) | (Some(4), 52)),
        Rtype::NSEC3 => is_plain_nsec3(rdata).is_some(),
        _ => false,
    }
}

/// RFC 4034 3.1: the signature, which is not empty, follows 18 octets and the name of the signer.
fn is_plain_rrsig(rdata: &[u8]) -> bool {
    let rest = rdata.get(18..).unwrap_or_default();
    NameRef::from_wire(rest).is_ok_and(|signer| signer.wire().len() < rest.len())
}

/// RFC 5155 3.2: hash algorithm 1, any salt, a hash of 20 octets, and no types or one window of them (RFC 4034 4.1.2).
fn is_plain_nsec3(rdata: &[u8]) -> Option<()> {
    let (&[1, _, _, _, salt_len], rest) = rdata.split_first_chunk()? else { return None };
    let (&[20], rest) = rest.get(usize::from(salt_len)..)?.split_first_chunk()? else { return None };
    match rest.get(20..)? {
        [] => Some(()),
        [_, len @ 1..=32, bitmap @ .., last] if usize::from(*len) == bitmap.len() + 1 && *last != 0 => Some(()),
        _ => None,
    }
}

/// Whether RDATA of this type can be stored and served: its fields fit, although their rules may be violated, or nobody
/// here reads them.
pub fn can_be_served(rtype: Rtype, rdata: &[u8]) -> bool {
    !is_read(rtype) || is_complete(rtype, rdata)
}

/// Whether all fields are there, with nothing after them.
pub fn is_complete(rtype: Rtype, rdata: &[u8]) -> bool {
    split(rtype, rdata).all(|field| field.is_ok())
}

/// Whether a server reads RDATA of this type: to compress, decompress, convert to lower case (RFC 4034 6.2) or follow its names,
/// for proofs and digests, and in catalogs. To all other types it may treat as unknown (RFC 3597 3), any octets fit, as in NSD and Knot.
fn is_read(rtype: Rtype) -> bool {
    // All compressed names are those of canonicalized types. A6 is historic: others store any octets.
    let has_names = is_canonicalized(rtype) && rtype != Rtype::A6;
    has_names
        || matches!(
            rtype,
            Rtype::A
                | Rtype::AAAA
                | Rtype::TXT
                | Rtype::DS
                | Rtype::NSEC
                | Rtype::NSEC3
                | Rtype::NSEC3PARAM
                | Rtype::ZONEMD
                | Rtype::SVCB
                | Rtype::HTTPS
        )
}

/// Whether names in RDATA of this type are in lower case in its canonical form: the types of RFC 4034 6.2, without NSEC (RFC 6840 5.1).
pub fn is_canonicalized(rtype: Rtype) -> bool {
    matches!(
        rtype,
        Rtype::NS
            | Rtype::MD
            | Rtype::MF
            | Rtype::CNAME
            | Rtype::SOA
            | Rtype::MB
            | Rtype::MG
            | Rtype::MR
            | Rtype::PTR
            | Rtype::MINFO
            | Rtype::MX
            | Rtype::RP
            | Rtype::AFSDB
            | Rtype::RT
            | Rtype::SIG
            | Rtype::PX
            | Rtype::NXT
            | Rtype::NAPTR
            | Rtype::KX
            | Rtype::SRV
            | Rtype::DNAME
            | Rtype::A6
            | Rtype::RRSIG
    )
}

/// Whether names in RDATA of this type may be compressed: in the types of RFC 1035, and in those that receivers decompress because some
/// senders compress them (RFC 3597 4). Those in the other types of RFC 4034 6.2 never are.
pub fn may_be_compressed(rtype: Rtype) -> bool {
    is_canonicalized(rtype) && !matches!(rtype, Rtype::KX | Rtype::DNAME | Rtype::A6 | Rtype::RRSIG)
}

/// Iterates over the fields of `rdata` without checking their rules; ends at the first error.
pub fn split(rtype: Rtype, rdata: &[u8]) -> Split<'_> {
    Split { fields: fields_of(rtype).iter(), rdata, at: 0 }
}

/// Iterates over the ranges of the names in `rdata`, up to the first error.
pub fn names(rtype: Rtype, rdata: &[u8]) -> Names<'_> {
    Names { split: split(rtype, rdata), list: 0..0 }
}

//----------- Split ------------------------------------------------------------

/// The fields of RDATA with their ranges; see [`split`].
#[derive(Clone)]
pub struct Split<'r> {
    fields: slice::Iter<'static, RdataField>,
    rdata: &'r [u8],
    at: usize,
}

impl Split<'_> {
    fn stop(&mut self) {
        self.fields = [].iter();
        self.at = self.rdata.len();
    }
}

impl Iterator for Split<'_> {
    type Item = Result<(&'static RdataField, Range<usize>), RdataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let Some(field) = self.fields.next() else {
            let left = self.rdata.len() - start;
            self.stop();
            return (left > 0).then_some(Err(RdataError::Long(left)));
        };
        let end = field.end(self.rdata, start);
        match end {
            Ok(end) => self.at = end,
            Err(_) => self.stop(),
        }
        Some(end.map(|end| (field, start..end)))
    }
}

//----------- Names ------------------------------------------------------------

/// The ranges of the names in RDATA; see [`names`].
#[derive(Clone)]
pub struct Names<'r> {
    split: Split<'r>,
    /// The rest of a list of names.
    list: Range<usize>,
}

impl Iterator for Names<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.list.is_empty() {
            let (field, range) = self.split.next()?.ok()?;
            if field.form.is_names(self.split.rdata) {
                self.list = range;
            }
        }
        let start = self.list.start;
        let name = NameRef::from_wire(&self.split.rdata[start..]).ok()?;
        self.list.start += name.wire().len();
        Some(start..self.list.start)
    }
}

impl Form {
    /// Whether a field of this form in `rdata` consists of names.
    fn is_names(self, rdata: &[u8]) -> bool {
        match self {
            Form::CompressibleName | Form::Name | Form::Names | Form::PrefixName => true,
            Form::Gateway(mask) => rdata[1] & mask == 3,
            _ => false,
        }
    }
}
