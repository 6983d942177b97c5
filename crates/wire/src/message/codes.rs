//! Opcodes and RCODEs with their mnemonics (IANA registry "DNS Parameters", RFC 6895 2.2 and 2.3).

use std::fmt;
use std::str::FromStr;

use crate::rtype::UnknownMnemonic;

/// An opcode (RFC 1035 4.1.1); 4 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opcode(pub u8);

/// An RCODE (RFC 1035 4.1.1, RFC 6891 6.1.3): 4 bits in the header, 12 with EDNS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rcode(pub u16);

/// The RCODE in the header of a message: without the upper bits that EDNS adds. NOERROR for less than a header.
pub fn header_rcode(message: &[u8]) -> Rcode {
    Rcode(message.get(3).map_or(0, |octet| u16::from(octet & 0xf)))
}

macro_rules! codes {
    ($type:ident $prefix:literal: $($name:ident = $code:literal),* $(,)?) => {
        #[allow(missing_docs)]
        impl $type {
            $(pub const $name: $type = $type($code);)*

            const ALL: &[($type, &str)] = &[$(($type::$name, stringify!($name))),*];
        }

        /// The mnemonic; without one, the prefix and the number.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match $type::ALL.iter().find(|(code, _)| code == self) {
                    Some((_, name)) => f.write_str(name),
                    None => write!(f, concat!($prefix, "{}"), self.0),
                }
            }
        }

        /// From a mnemonic, in any case.
        impl FromStr for $type {
            type Err = UnknownMnemonic;

            fn from_str(text: &str) -> Result<$type, UnknownMnemonic> {
                let found = $type::ALL.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
                found.map(|(code, _)| *code).ok_or(UnknownMnemonic)
            }
        }
    };
}

codes! { Opcode "OPCODE":
    QUERY = 0, IQUERY = 1, STATUS = 2, NOTIFY = 4, UPDATE = 5, DSO = 6,
}

// 16 is BADVERS in a message and BADSIG in a TSIG record (RFC 8945 3).
codes! { Rcode "RCODE":
    NOERROR = 0, FORMERR = 1, SERVFAIL = 2, NXDOMAIN = 3, NOTIMP = 4, REFUSED = 5, YXDOMAIN = 6, YXRRSET = 7,
    NXRRSET = 8, NOTAUTH = 9, NOTZONE = 10, DSOTYPENI = 11, BADVERS = 16, BADKEY = 17, BADTIME = 18, BADMODE = 19,
    BADNAME = 20, BADALG = 21, BADTRUNC = 22, BADCOOKIE = 23,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_are_printed_and_parsed() {
        assert_eq!((Rcode::NXDOMAIN.to_string(), Rcode(12).to_string()), ("NXDOMAIN".into(), "RCODE12".into()));
        assert_eq!((Opcode::UPDATE.to_string(), Opcode(3).to_string()), ("UPDATE".into(), "OPCODE3".into()));
        assert_eq!(("badvers".parse(), "Notify".parse()), (Ok(Rcode::BADVERS), Ok(Opcode::NOTIFY)));
        assert_eq!("RCODE".parse::<Rcode>(), Err(UnknownMnemonic));
    }
}
