//! What RDATA consists of: the parts of each type as data, a walk over them, and the check that bytes fit their type.
//!
//! All RDATA here is uncompressed. Zone text reads and prints the same [`Form`]s; the table of types is in
//! [`crate::rtype`].

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

/// One part of an RDATA: a field, or several that cannot be told apart without each other.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// What messages call it.
    pub name: &'static str,
    /// How it looks, on the wire and in text.
    pub form: Form,
}

/// How a part looks, on the wire and in text.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// A name that may be compressed in messages: only in types of RFC 1035 (RFC 3597 4).
    CompressibleName,
    /// A name that is never compressed.
    Name,
    /// Names up to the end, or none.
    Names,

    /// A number of 8 bits.
    U8,
    /// A number of 16 bits.
    U16,
    /// A number of 32 bits.
    U32,
    /// A number of 64 bits.
    U64,
    /// A number of 8 bits that text may also call by a mnemonic.
    Named8(&'static [(u8, &'static str)]),
    /// A number of 16 bits that text may also call by a mnemonic.
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
    /// 64 bits as four groups of hexadecimal digits with colons between (RFC 6742 2.1).
    Locator64,
    /// That many octets in hexadecimal with hyphens between (RFC 7043).
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
    /// Octets up to the end, at least so many; text in quotes, of any length.
    Text(usize),

    /// A length octet and octets; in text hexadecimal, or `-` for none (RFC 5155 3.3).
    Salt,
    /// A length octet and octets, at least one; in text base32hex (RFC 5155 3.3).
    Hash,
    /// Octets up to the end, at least so many; in text hexadecimal.
    Hex(usize),
    /// A digest up to the end, at least so many octets; in text hexadecimal, and of the length that belongs to the
    /// octet before it.
    Digest(usize, &'static [(u8, usize)]),
    /// Octets up to the end, at least so many; in text base64.
    Base64(usize),
    /// As `Base64(1)`, and empty only if the flags before it say that there is no key (RFC 2535 3.1.2).
    Key,
    /// Octets up to the end; in text base64, or `-` for none.
    Base64OrDash,

    /// A bitmap of types in windows up to the end, with at least so many types (RFC 4034 4.1.2).
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
    /// The bits of an IPv6 address behind the prefix.
    AddressSuffix,
    /// The name that has the prefix; absent if the prefix is empty.
    PrefixName,
    /// Address prefixes up to the end (RFC 3123 4).
    Prefixes,
    /// The discovery bit and the gateway type of AMTRELAY (RFC 8777 4.2).
    Discovery,
    /// Nothing, an address or a name, as the gateway type says: these bits of the second octet of the RDATA
    /// (RFC 4025 2.5, RFC 8777 4.2.4).
    Gateway(u8),
    /// The identity and key of a host, with their lengths and algorithm (RFC 8005 5).
    HostIdentity,
    /// Service parameters up to the end (RFC 9460 2.2).
    SvcParams,

    /// Octets up to the end that have no text form but that of RFC 3597.
    Opaque,
}

/// Why bytes are no RDATA of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RdataError {
    /// The RDATA ends within a part.
    #[error("the {0} is cut off")]
    Short(&'static str),
    /// So many octets remain behind the last part.
    #[error("octets left over at the end: {0}")]
    Long(usize),
    /// A part is not a name.
    #[error("the {0}: {1}")]
    Name(&'static str, NameError),
    /// A part breaks a rule of its RFC. The octets can be stored and served all the same.
    #[error("the {0} {1}")]
    Form(&'static str, &'static str),
}

impl Part {
    /// The end of this part where it starts at `at` in `rdata`, whose parts before it are as long as their forms say.
    pub fn end(&self, rdata: &[u8], at: usize) -> Result<usize, RdataError> {
        form::end(self.form, rdata, at).map_err(|fault| fault.in_part(self.name))
    }

    /// Checks the part at `place`, which [`Part::end`] found, against the rules of its RFC.
    pub fn check(&self, rdata: &[u8], place: Range<usize>) -> Result<(), RdataError> {
        form::rule(self.form, rdata, place).map_err(|rule| RdataError::Form(self.name, rule))
    }
}

/// The parts of RDATA of that type; one of form [`Form::Opaque`] for unknown types.
pub fn parts(rtype: Rtype) -> &'static [Part] {
    const UNKNOWN: &[Part] = &[Part { name: "data", form: Form::Opaque }];
    rtype.info().map_or(UNKNOWN, |info| info.parts)
}

/// Checks that `rdata` is well-formed for its type. Unknown types take anything.
///
/// [`RdataError::Form`], a broken rule, is the error only where nothing is worse.
pub fn check(rtype: Rtype, rdata: &[u8]) -> Result<(), RdataError> {
    if rdata.len() > MAX_RDATA_LEN {
        return Err(RdataError::Long(rdata.len() - MAX_RDATA_LEN));
    }
    let mut rules = Ok(());
    for part in split(rtype, rdata) {
        let (part, place) = part?;
        rules = rules.and_then(|()| part.check(rdata, place));
    }
    rules
}

/// Walks over the parts of `rdata`, whatever rules they break; ends after the first part that is cut off.
pub fn split(rtype: Rtype, rdata: &[u8]) -> Split<'_> {
    Split { parts: parts(rtype).iter(), rdata, at: 0 }
}

/// Walks over the places of the names in `rdata`, as far as it is well-formed.
pub fn names(rtype: Rtype, rdata: &[u8]) -> Names<'_> {
    Names { split: split(rtype, rdata), list: 0..0 }
}

//----------- Split ------------------------------------------------------------

/// The parts of an RDATA, each with the place where it stands; see [`split`].
#[derive(Clone)]
pub struct Split<'r> {
    parts: slice::Iter<'static, Part>,
    rdata: &'r [u8],
    at: usize,
}

impl Split<'_> {
    fn stop(&mut self) {
        self.parts = [].iter();
        self.at = self.rdata.len();
    }
}

impl Iterator for Split<'_> {
    type Item = Result<(&'static Part, Range<usize>), RdataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let Some(part) = self.parts.next() else {
            let left = self.rdata.len() - start;
            self.stop();
            return (left > 0).then_some(Err(RdataError::Long(left)));
        };
        let end = part.end(self.rdata, start);
        match end {
            Ok(end) => self.at = end,
            Err(_) => self.stop(),
        }
        Some(end.map(|end| (part, start..end)))
    }
}

//----------- Names ------------------------------------------------------------

/// The places of the names in an RDATA; see [`names`].
#[derive(Clone)]
pub struct Names<'r> {
    split: Split<'r>,
    /// What is left of a list of names.
    list: Range<usize>,
}

impl Iterator for Names<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.list.is_empty() {
            let (part, place) = self.split.next()?.ok()?;
            if part.form.is_names(self.split.rdata) {
                self.list = place;
            }
        }
        let start = self.list.start;
        let name = NameRef::from_wire(&self.split.rdata[start..]).ok()?;
        self.list.start += name.wire().len();
        Some(start..self.list.start)
    }
}

impl Form {
    /// Whether a part of this form in `rdata` is one name or several.
    fn is_names(self, rdata: &[u8]) -> bool {
        match self {
            Form::CompressibleName | Form::Name | Form::Names | Form::PrefixName => true,
            Form::Gateway(mask) => rdata[1] & mask == 3,
            _ => false,
        }
    }
}
