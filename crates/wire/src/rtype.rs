//! RR types and classes: numbers, mnemonics, and the RDATA fields of each type.
//!
//! The table has the types of the IANA registry "Domain Name System (DNS) Parameters", and ALIAS, which several servers support. All
//! other types are unknown in the sense of RFC 3597, such as the drafts DELEG (61440) and DELEGPARAM (65433).

pub mod field;
pub mod numbers;

use std::fmt;
use std::str::FromStr;

use field::Form::*;
use field::RdataField;
use numbers::{ALGORITHMS, CERT_TYPES, DS_DIGESTS, DSYNC_SCHEMES, PROTOCOLS, SSHFP_DIGESTS, ZONEMD_DIGESTS};

/// An RR type or query type (RFC 1035 3.2.2, 3.2.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rtype(pub u16);

/// A class or query class (RFC 1035 3.2.4).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub u16);

/// The table entry of a type.
#[derive(Debug)]
pub struct RtypeInfo {
    /// The mnemonic, in upper case.
    pub mnemonic: &'static str,
    /// The document that defines the type.
    pub reference: &'static str,
    /// The fields of the RDATA.
    pub fields: &'static [RdataField],
}

/// The text is neither a registered mnemonic nor of the form `TYPE12345` or `CLASS12345` (RFC 3597 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such mnemonic")]
pub struct UnknownMnemonic;

//----------- the table --------------------------------------------------------

macro_rules! rtypes {
    ($($name:ident $code:literal $mnemonic:literal $reference:literal [$($field:literal $form:expr),*];)*) => {
        impl Rtype {
            $(
                #[doc = concat!("The type ", $mnemonic, ": ", $reference, ".")]
                pub const $name: Rtype = Rtype($code);
            )*

            /// Every type of the registry, in the order of the codes.
            pub const ALL: &[Rtype] = &[$(Rtype::$name),*];

            /// The entry of the type in the table; `None` for unknown types.
            pub fn info(self) -> Option<&'static RtypeInfo> {
                match self.0 {
                    $($code => Some(const {
                        &RtypeInfo {
                            mnemonic: $mnemonic,
                            reference: $reference,
                            fields: &[$(RdataField { name: $field, form: $form }),*],
                        }
                    }),)*
                    _ => None,
                }
            }
        }

        mod packed {
            $(pub const $name: u128 = super::pack($mnemonic.as_bytes());)*
        }

        fn from_packed(mnemonic: u128) -> Option<Rtype> {
            match mnemonic {
                $(packed::$name => Some(Rtype::$name),)*
                _ => None,
            }
        }
    };
}

#[rustfmt::skip]
rtypes! {
    A              1 "A"          "RFC 1035 3.4.1"    ["address" Addr4];
    NS             2 "NS"         "RFC 1035 3.3.11"   ["name server" CompressibleName];
    MD             3 "MD"         "RFC 1035 3.3.4"    ["mail agent" CompressibleName];
    MF             4 "MF"         "RFC 1035 3.3.5"    ["mail agent" CompressibleName];
    CNAME          5 "CNAME"      "RFC 1035 3.3.1"    ["canonical name" CompressibleName];
    SOA            6 "SOA"        "RFC 1035 3.3.13"   ["primary server" CompressibleName, "mailbox" CompressibleName,
        "serial" U32, "refresh interval" Interval, "retry interval" Interval, "expire interval" Interval,
        "minimum TTL" Interval];
    MB             7 "MB"         "RFC 1035 3.3.3"    ["mailbox host" CompressibleName];
    MG             8 "MG"         "RFC 1035 3.3.6"    ["group member" CompressibleName];
    MR             9 "MR"         "RFC 1035 3.3.8"    ["new name" CompressibleName];
    NULL          10 "NULL"       "RFC 1035 3.3.10"   ["data" Opaque];
    WKS           11 "WKS"        "RFC 1035 3.4.2"    ["address" Addr4, "protocol" Named8(PROTOCOLS),
        "service list" Services];
    PTR           12 "PTR"        "RFC 1035 3.3.12"   ["target" CompressibleName];
    HINFO         13 "HINFO"      "RFC 1035 3.3.2"    ["CPU" CharString, "operating system" CharString];
    MINFO         14 "MINFO"      "RFC 1035 3.3.7"    ["responsible mailbox" CompressibleName,
        "error mailbox" CompressibleName];
    MX            15 "MX"         "RFC 1035 3.3.9"    ["preference" U16, "exchange" CompressibleName];
    TXT           16 "TXT"        "RFC 1035 3.3.14"   ["text" CharStrings];
    RP            17 "RP"         "RFC 1183 2.2"      ["mailbox" Name, "text name" Name];
    AFSDB         18 "AFSDB"      "RFC 1183 1"        ["subtype" U16, "host name" Name];
    X25           19 "X25"        "RFC 1183 3.1"      ["address" Digits];
    ISDN          20 "ISDN"       "RFC 1183 3.2"      ["address" CharString, "subaddress" OptionalCharString];
    RT            21 "RT"         "RFC 1183 3.3"      ["preference" U16, "intermediate host" Name];
    NSAP          22 "NSAP"       "RFC 1706 5"        ["address" Nsap];
    NSAP_PTR      23 "NSAP-PTR"   "RFC 1706 6"        ["name" Name];
    SIG           24 "SIG"        "RFC 2535 4.1"      ["type covered" Type, "algorithm" Named8(ALGORITHMS), "labels" U8,
        "original TTL" U32, "expiration" Time, "inception" Time, "key tag" U16, "signer" Name, "signature" Base64(1)];
    KEY           25 "KEY"        "RFC 2535 3.1"      ["flags field" U16, "protocol" U8, "algorithm" Named8(ALGORITHMS),
        "key" Key];
    PX            26 "PX"         "RFC 2163 4"        ["preference" U16, "RFC 822 domain" Name, "X.400 domain" Name];
    GPOS          27 "GPOS"       "RFC 1712 3"        ["longitude" Decimal, "latitude" Decimal, "altitude" Decimal];
    AAAA          28 "AAAA"       "RFC 3596 2.2"      ["address" Addr6];
    LOC           29 "LOC"        "RFC 1876 2"        ["location" Location];
    NXT           30 "NXT"        "RFC 2535 5.2"      ["next name" Name, "type list" NxtTypes];
    EID           31 "EID"        "draft-ietf-nimrod-dns" ["endpoint identifier" Hex(1)];
    NIMLOC        32 "NIMLOC"     "draft-ietf-nimrod-dns" ["locator" Hex(1)];
    SRV           33 "SRV"        "RFC 2782"          ["priority" U16, "weight" U16, "port" U16, "target" Name];
    ATMA          34 "ATMA"       "ATM Forum af-dans-0152.000" ["address" AtmAddress];
    NAPTR         35 "NAPTR"      "RFC 3403 4.1"      ["order" U16, "preference" U16, "flags field" CharString,
        "service field" CharString, "regular expression" CharString, "replacement" Name];
    KX            36 "KX"         "RFC 2230 3.1"      ["preference" U16, "exchanger" Name];
    CERT          37 "CERT"       "RFC 4398 2"        ["certificate type" Named16(CERT_TYPES), "key tag" U16,
        "algorithm" Named8(ALGORITHMS), "certificate" Base64(1)];
    A6            38 "A6"         "RFC 2874 3.1"      ["prefix length" PrefixLength, "address suffix" AddressSuffix,
        "prefix name" PrefixName];
    DNAME         39 "DNAME"      "RFC 6672 2.1"      ["target" Name];
    SINK          40 "SINK"       "draft-eastlake-kitchen-sink" ["data" Opaque];
    OPT           41 "OPT"        "RFC 6891 6.1"      ["data" Opaque];
    APL           42 "APL"        "RFC 3123 4"        ["prefix list" Prefixes];
    DS            43 "DS"         "RFC 4034 5.1"      ["key tag" U16, "algorithm" Named8(ALGORITHMS), "digest type" U8,
        "digest" Digest(1, DS_DIGESTS)];
    SSHFP         44 "SSHFP"      "RFC 4255 3.1"      ["algorithm" U8, "fingerprint type" U8,
        "fingerprint" Digest(1, SSHFP_DIGESTS)];
    IPSECKEY      45 "IPSECKEY"   "RFC 4025 2.1"      ["precedence" U8, "gateway type" U8, "algorithm" U8,
        "gateway" Gateway(0xff), "public key" Base64(0)];
    RRSIG         46 "RRSIG"      "RFC 4034 3.1"      ["type covered" Type, "algorithm" Named8(ALGORITHMS), "labels" U8,
        "original TTL" U32, "expiration" Time, "inception" Time, "key tag" U16, "signer" Name, "signature" Base64(1)];
    NSEC          47 "NSEC"       "RFC 4034 4.1"      ["next name" Name, "type list" Types(1)];
    DNSKEY        48 "DNSKEY"     "RFC 4034 2.1"      ["flags field" U16, "protocol" U8, "algorithm" Named8(ALGORITHMS),
        "public key" Base64(1)];
    DHCID         49 "DHCID"      "RFC 4701 3.1"      ["data" Base64(1)];
    NSEC3         50 "NSEC3"      "RFC 5155 3.2"      ["hash algorithm" U8, "flags field" U8, "iteration count" U16,
        "salt" Salt, "next hashed owner" Hash, "type list" Types(0)];
    NSEC3PARAM    51 "NSEC3PARAM" "RFC 5155 4.2"      ["hash algorithm" U8, "flags field" U8, "iteration count" U16,
        "salt" Salt];
    TLSA          52 "TLSA"       "RFC 6698 2.1"      ["usage" U8, "selector" U8, "matching type" U8,
        "association data" Hex(1)];
    SMIMEA        53 "SMIMEA"     "RFC 8162 2"        ["usage" U8, "selector" U8, "matching type" U8,
        "association data" Hex(1)];
    HIP           55 "HIP"        "RFC 8005 5"        ["host identity" HostIdentity, "rendezvous server" Names];
    NINFO         56 "NINFO"      "draft-reid-dnsext-zs" ["text" CharStrings];
    RKEY          57 "RKEY"       "draft-reid-dnsext-rkey" ["flags field" U16, "protocol" U8,
        "algorithm" Named8(ALGORITHMS), "public key" Base64(1)];
    TALINK        58 "TALINK"     "draft-wijngaards-dnsop-trust-history" ["previous name" Name, "next name" Name];
    CDS           59 "CDS"        "RFC 7344 3.1"      ["key tag" U16, "algorithm" Named8(ALGORITHMS), "digest type" U8,
        "digest" Digest(1, DS_DIGESTS)];
    CDNSKEY       60 "CDNSKEY"    "RFC 7344 3.2"      ["flags field" U16, "protocol" U8, "algorithm" Named8(ALGORITHMS),
        "public key" Base64(1)];
    OPENPGPKEY    61 "OPENPGPKEY" "RFC 7929 2.1"      ["public key" Base64(1)];
    CSYNC         62 "CSYNC"      "RFC 7477 2.1"      ["serial" U32, "flags field" U16, "type list" Types(0)];
    ZONEMD        63 "ZONEMD"     "RFC 8976 2.2"      ["serial" U32, "scheme" U8, "hash algorithm" U8,
        "digest" Digest(12, ZONEMD_DIGESTS)];
    SVCB          64 "SVCB"       "RFC 9460 2"        ["priority" U16, "target" Name, "parameter list" SvcParams];
    HTTPS         65 "HTTPS"      "RFC 9460 9"        ["priority" U16, "target" Name, "parameter list" SvcParams];
    DSYNC         66 "DSYNC"      "RFC 9859"          ["type" Type, "scheme" Named8(DSYNC_SCHEMES), "port" U16,
        "target" Name];
    HHIT          67 "HHIT"       "RFC 9886"          ["data" Base64(1)];
    BRID          68 "BRID"       "RFC 9886"          ["data" Base64(1)];
    SPF           99 "SPF"        "RFC 7208 3.1"      ["text" CharStrings];
    UINFO        100 "UINFO"      "IANA, reserved"    ["data" Opaque];
    UID          101 "UID"        "IANA, reserved"    ["data" Opaque];
    GID          102 "GID"        "IANA, reserved"    ["data" Opaque];
    UNSPEC       103 "UNSPEC"     "IANA, reserved"    ["data" Opaque];
    NID          104 "NID"        "RFC 6742 2.1"      ["preference" U16, "node identifier" Locator64];
    L32          105 "L32"        "RFC 6742 2.2"      ["preference" U16, "locator" Addr4];
    L64          106 "L64"        "RFC 6742 2.3"      ["preference" U16, "locator" Locator64];
    LP           107 "LP"         "RFC 6742 2.4"      ["preference" U16, "name" Name];
    EUI48        108 "EUI48"      "RFC 7043 3.1"      ["address" Eui(6)];
    EUI64        109 "EUI64"      "RFC 7043 4.1"      ["address" Eui(8)];
    NXNAME       128 "NXNAME"     "RFC 9824"          ["data" Opaque];
    TKEY         249 "TKEY"       "RFC 2930 2"        ["data" Opaque];
    TSIG         250 "TSIG"       "RFC 8945 4.2"      ["data" Opaque];
    IXFR         251 "IXFR"       "RFC 1995"          ["data" Opaque];
    AXFR         252 "AXFR"       "RFC 5936"          ["data" Opaque];
    MAILB        253 "MAILB"      "RFC 1035 3.2.3"    ["data" Opaque];
    MAILA        254 "MAILA"      "RFC 1035 3.2.3"    ["data" Opaque];
    ANY          255 "ANY"        "RFC 8482"          ["data" Opaque];
    URI          256 "URI"        "RFC 7553 4.5"      ["priority" U16, "weight" U16, "target" Text(1)];
    CAA          257 "CAA"        "RFC 8659 4.1"      ["flags field" U8, "tag" Tag, "value" Text(0)];
    AVC          258 "AVC"        "IANA template AVC" ["text" CharStrings];
    DOA          259 "DOA"        "draft-durand-doa-over-dns" ["enterprise" U32, "type" U32, "location" U8,
        "media type" CharString, "data" Base64OrDash];
    AMTRELAY     260 "AMTRELAY"   "RFC 8777 4.2"      ["precedence" U8, "relay type" Discovery, "relay" Gateway(0x7f)];
    RESINFO      261 "RESINFO"    "RFC 9606"          ["text" CharStrings];
    WALLET       262 "WALLET"     "IANA template WALLET" ["text" CharStrings];
    CLA          263 "CLA"        "draft-johnson-dns-ipn-cla" ["text" CharStrings];
    IPN          264 "IPN"        "draft-johnson-dns-ipn-cla" ["node number" U64];
    TA         32768 "TA"         "IANA, trust authorities" ["key tag" U16, "algorithm" Named8(ALGORITHMS),
        "digest type" U8, "digest" Digest(1, DS_DIGESTS)];
    DLV        32769 "DLV"        "RFC 8749"          ["key tag" U16, "algorithm" Named8(ALGORITHMS), "digest type" U8,
        "digest" Digest(1, DS_DIGESTS)];
    ALIAS      65401 "ALIAS"      "PowerDNS, private use" ["target" Name];
}

/// The mnemonic in upper case as a number, for fast comparison; 0 if it is longer than any mnemonic.
const fn pack(mnemonic: &[u8]) -> u128 {
    if mnemonic.len() > 15 {
        return 0;
    }
    // The leading 1 makes NUL octets at the front count.
    let mut packed = 1;
    let mut at = 0;
    while at < mnemonic.len() {
        packed = packed << 8 | mnemonic[at].to_ascii_uppercase() as u128;
        at += 1;
    }
    packed
}

//----------- Rtype ------------------------------------------------------------

impl Rtype {
    /// The type of this mnemonic in any case, or of the form `TYPE12345` (RFC 3597 5).
    pub fn from_text(text: &[u8]) -> Option<Rtype> {
        from_packed(pack(text)).or_else(|| numbered(text, b"TYPE").map(Rtype))
    }

    /// Whether the code is a QTYPE, a meta-TYPE or reserved (0 and 65535), so not a data type (RFC 6895 3.1).
    pub fn is_meta(self) -> bool {
        matches!(self.0, 0 | 41 | 128..=255 | 65535)
    }

    /// Whether the type cannot be in a zone, as it has another use in messages: OPT (RFC 6891 6.1.1), NXNAME
    /// (RFC 9824), TKEY (RFC 2930 2), TSIG (RFC 8945 4), IXFR (RFC 1995), AXFR (RFC 5936), ANY (RFC 8482).
    pub fn is_reserved_for_messages(self) -> bool {
        matches!(self, Rtype::OPT | Rtype::NXNAME | Rtype::TKEY | Rtype::TSIG | Rtype::IXFR | Rtype::AXFR | Rtype::ANY)
    }
}

impl FromStr for Rtype {
    type Err = UnknownMnemonic;

    fn from_str(text: &str) -> Result<Rtype, UnknownMnemonic> {
        Rtype::from_text(text.as_bytes()).ok_or(UnknownMnemonic)
    }
}

impl fmt::Display for Rtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(info) => f.pad(info.mnemonic),
            None => write!(f, "TYPE{}", self.0),
        }
    }
}

impl fmt::Debug for Rtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//----------- Class ------------------------------------------------------------

impl Class {
    /// The Internet.
    pub const IN: Class = Class(1);
    /// Chaosnet, used for queries about the server itself.
    pub const CH: Class = Class(3);
    /// Hesiod.
    pub const HS: Class = Class(4);
    /// No class: in updates (RFC 2136 2.4).
    pub const NONE: Class = Class(254);
    /// Any class, in questions and updates.
    pub const ANY: Class = Class(255);

    const NAMED: [(Class, &str); 5] =
        [(Class::IN, "IN"), (Class::CH, "CH"), (Class::HS, "HS"), (Class::NONE, "NONE"), (Class::ANY, "ANY")];

    /// The class of this mnemonic in any case, or of the form `CLASS12345` (RFC 3597 5).
    pub fn from_text(text: &[u8]) -> Option<Class> {
        let named = Class::NAMED.iter().find(|(_, mnemonic)| text.eq_ignore_ascii_case(mnemonic.as_bytes()));
        named.map(|&(class, _)| class).or_else(|| numbered(text, b"CLASS").map(Class))
    }
}

impl FromStr for Class {
    type Err = UnknownMnemonic;

    fn from_str(text: &str) -> Result<Class, UnknownMnemonic> {
        Class::from_text(text.as_bytes()).ok_or(UnknownMnemonic)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Class::NAMED.iter().find(|(class, _)| class == self) {
            Some((_, mnemonic)) => f.pad(mnemonic),
            None => write!(f, "CLASS{}", self.0),
        }
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The number after `prefix`: one to five digits, up to 65535.
fn numbered(text: &[u8], prefix: &[u8]) -> Option<u16> {
    let (head, digits) = text.split_at_checked(prefix.len())?;
    if !head.eq_ignore_ascii_case(prefix) || !(1..=5).contains(&digits.len()) {
        return None;
    }
    let mut number = 0u32;
    for digit in digits {
        number = number * 10 + char::from(*digit).to_digit(10)?;
    }
    u16::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mnemonic_is_read_in_any_case_and_written() {
        for &rtype in Rtype::ALL {
            let mnemonic = rtype.info().expect("in the table").mnemonic;
            assert_eq!(rtype.to_string(), mnemonic);
            assert_eq!(mnemonic.parse(), Ok(rtype));
            assert_eq!(mnemonic.to_lowercase().parse(), Ok(rtype));
            assert_eq!(format!("type{}", rtype.0).parse(), Ok(rtype));
        }
        assert!(Rtype::ALL.is_sorted(), "the table is in the order of the codes");
    }

    #[test]
    fn unknown_types_are_numbers_as_in_rfc_3597_5() {
        assert_eq!(Rtype(731).to_string(), "TYPE731");
        assert_eq!("TYPE731".parse(), Ok(Rtype(731)));
        assert_eq!("TYPE65535".parse(), Ok(Rtype(65535)));
        for bad in
            ["", "TYPE", "TYPE65536", "TYPE-1", "TYPE+1", "TYPE1x", "TYPE000001", "731", "NSEC3PARAM\0", "\0A", "AB"]
        {
            assert_eq!(bad.parse::<Rtype>(), Err(UnknownMnemonic), "{bad}");
        }
        assert_eq!("A".repeat(17).parse::<Rtype>(), Err(UnknownMnemonic));
    }

    #[test]
    fn meta_types_are_those_of_rfc_6895_3_1() {
        for rtype in [Rtype::OPT, Rtype::TSIG, Rtype::AXFR, Rtype::ANY, Rtype::NXNAME, Rtype(0), Rtype(65535)] {
            assert!(rtype.is_meta(), "{rtype}");
        }
        for rtype in [Rtype::A, Rtype::URI, Rtype::EUI64, Rtype::DLV, Rtype(61440)] {
            assert!(!rtype.is_meta(), "{rtype}");
        }
    }

    #[test]
    fn classes_are_read_and_written() {
        for (text, class) in [("IN", Class::IN), ("CH", Class::CH), ("NONE", Class::NONE), ("CLASS32", Class(32))] {
            assert_eq!(text.parse(), Ok(class));
            assert_eq!(text.to_lowercase().parse(), Ok(class));
            assert_eq!(class.to_string(), text);
        }
        assert_eq!("CLASS1".parse(), Ok(Class::IN));
        for bad in ["", "CLASS", "CLASS65536", "INN", "I"] {
            assert_eq!(bad.parse::<Class>(), Err(UnknownMnemonic), "{bad}");
        }
    }
}
