//! The fields of uncompressed RDATA: iteration over them, and checks that octets are valid for their type.
//!
//! Zone text parses and prints the same [`Form`]s. The table of types is in [`crate::rtype`].

mod form;
mod numbers;
pub mod svcb;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::slice;

use crate::name::{NameError, NameRef};
use crate::rtype::Rtype;
pub use numbers::{
    ALGORITHMS, CERT_TYPES, DS_DIGESTS, DSYNC_SCHEMES, PROTOCOLS, SSHFP_DIGESTS, ZONEMD_DIGESTS, digest_len,
};

/// The longest RDATA, in octets: its length is a 16 bit number (RFC 1035 3.2.1).
pub const MAX_RDATA_LEN: usize = 65535;

/// A field of RDATA, or several that can only be parsed together.
#[derive(Clone, Copy, Debug)]
pub struct RdataField {
    /// Its name in error messages.
    pub name: &'static str,
    /// Its format.
    pub form: Form,
}

/// The format of a field, on the wire and in text.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A name that may be compressed in messages; only in types of RFC 1035 (RFC 3597 4).
    CompressibleName,
    /// A name that is never compressed.
    Name,
    /// Names up to the end, possibly none.
    Names,

    /// A number of 8 bits.
    U8,
    /// A number of 16 bits.
    U16,
    /// A number of 32 bits.
    U32,
    /// A number of 64 bits.
    U64,
    /// A number of 8 bits; text may use a mnemonic.
    Named8(&'static [(u8, &'static str)]),
    /// A number of 16 bits; text may use a mnemonic.
    Named16(&'static [(u16, &'static str)]),
    /// Seconds in 32 bits; text may use the units of TTLs.
    Interval,
    /// A point in time in 32 bits; in text `YYYYMMDDHHmmSS` or seconds since 1970 (RFC 4034 3.2).
    Time,
    /// An RR type.
    Type,

    /// An IPv4 address.
    Addr4,
    /// An IPv6 address.
    Addr6,
    /// 64 bits; in text four groups of hexadecimal digits separated by colons (RFC 6742 2.1).
    Locator64,
    /// This many octets; in text hexadecimal, separated by hyphens (RFC 7043).
    Eui(usize),

    /// A character string: a length octet and up to 255 octets (RFC 1035 3.3).
    CharString,
    /// A character string or nothing.
    OptionalCharString,
    /// Character strings up to the end, at least one.
    CharStrings,
    /// A character string of at least four decimal digits (RFC 1183 3.1).
    Digits,
    /// A character string that is a decimal fraction (RFC 1712 3).
    Decimal,
    /// A character string of letters and digits, at least one; never quoted (RFC 8659 4.1).
    Tag,
    /// Octets up to the end, at least this many; in text a quoted string of any length.
    Text(usize),

    /// A length octet and octets; in text hexadecimal, or `-` for none (RFC 5155 3.3).
    Salt,
    /// A length octet and octets, at least one; in text base32hex (RFC 5155 3.3).
    Hash,
    /// Octets up to the end, at least this many; in text hexadecimal.
    Hex(usize),
    /// A digest up to the end, at least this many octets; in text hexadecimal. The preceding octet, its type, determines the length.
    Digest(usize, &'static [(u8, usize)]),
    /// Octets up to the end, at least this many; in text base64.
    Base64(usize),
    /// As `Base64(1)`, but empty if the preceding flags say that there is no key (RFC 2535 3.1.2).
    Key,
    /// Octets up to the end; in text base64, or `-` for none.
    Base64OrDash,

    /// A type bitmap up to the end, with at least this many types (RFC 4034 4.1.2).
    Types(usize),
    /// A bitmap of the types 1 to 127 up to the end (RFC 2535 5.2).
    NxtTypes,

    /// A bitmap of port numbers up to the end (RFC 1035 3.4.2).
    Services,
    /// An OSI address up to the end (RFC 1706 5).
    Nsap,
    /// An ATM address up to the end: a format octet and the address.
    AtmAddress,
    /// Latitude, longitude, altitude, size and precision (RFC 1876 2).
    Location,
    /// The length of the prefix of an A6 record, 0 to 128 (RFC 2874 3.1).
    PrefixLength,
    /// The bits of an IPv6 address after the prefix.
    AddressSuffix,
    /// The name that has the prefix; absent if the prefix is empty.
    PrefixName,
    /// Address prefixes up to the end (RFC 3123 4).
    Prefixes,
    /// The discovery bit and the gateway type of AMTRELAY (RFC 8777 4.2).
    Discovery,
    /// Nothing, an address or a name, by the gateway type: these bits of the second octet of the RDATA
    /// (RFC 4025 2.5, RFC 8777 4.2.4).
    Gateway(u8),
    /// The identity and key of a host, with their lengths and algorithm (RFC 8005 5).
    HostIdentity,
    /// Service parameters up to the end (RFC 9460 2.2).
    SvcParams,

    /// Octets up to the end whose only text form is that of RFC 3597.
    Opaque,
}

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
/// Returns [`RdataError::Form`], a violated rule, only if there is no other error.
pub fn check(rtype: Rtype, rdata: &[u8]) -> Result<(), RdataError> {
    if rdata.len() > MAX_RDATA_LEN {
        return Err(RdataError::Long(rdata.len() - MAX_RDATA_LEN));
    }
    let mut rules = Ok(());
    for field in split(rtype, rdata) {
        let (field, range) = field?;
        rules = rules.and_then(|()| field.check(rdata, range));
    }
    rules
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
