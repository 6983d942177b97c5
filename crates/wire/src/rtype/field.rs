//! The fields that RDATA consists of, as data for the table of types in [`super`].

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
