//! RR types and classes: numbers and mnemonics.

/// An RR type or query type (RFC 1035 3.2.2, 3.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rtype(pub u16);

/// A class or query class (RFC 1035 3.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class(pub u16);

#[allow(missing_docs)]
impl Class {
    pub const IN: Class = Class(1);
    pub const CH: Class = Class(3);
    pub const NONE: Class = Class(254);
    pub const ANY: Class = Class(255);
}

macro_rules! rtypes {
    ($($name:ident $code:literal;)*) => {
        #[allow(missing_docs)]
        impl Rtype {
            $(pub const $name: Rtype = Rtype($code);)*
        }
    };
}

rtypes! {
    A 1; NS 2; MD 3; MF 4; CNAME 5; SOA 6; MB 7; MG 8; MR 9; NULL 10; PTR 12; MINFO 14; MX 15; TXT 16; RP 17; AFSDB 18;
    RT 21; SIG 24; KEY 25; PX 26; AAAA 28; LOC 29; NXT 30; SRV 33; NAPTR 35; KX 36; DNAME 39; OPT 41; DS 43; RRSIG 46;
    NSEC 47; DNSKEY 48; NSEC3 50; NSEC3PARAM 51; CDS 59; CDNSKEY 60; CSYNC 62; ZONEMD 63; SVCB 64; HTTPS 65;
    TSIG 250; IXFR 251; AXFR 252; MAILB 253; MAILA 254; ANY 255;
}
