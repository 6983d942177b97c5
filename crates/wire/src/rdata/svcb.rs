//! Service parameters of SVCB and HTTPS records: the registry of keys, and the rules for values (RFC 9460 2.2, 7, 8).

use ValueFormat::*;

/// A registered SvcParamKey.
#[derive(Clone, Copy, Debug)]
pub struct SvcParamKey {
    /// The number.
    pub number: u16,
    /// The name, in lower case.
    pub name: &'static str,
    /// The format of the value.
    pub value: ValueFormat,
}

/// The format of a SvcParamValue, on the wire and in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// Numbers of keys in ascending order, at least one; in text a list of names.
    Keys,
    /// Length-prefixed identifiers, none empty, at least this many octets; in text a list (RFC 9460 appendix A.1).
    Identifiers(usize),
    /// Nothing.
    Empty,
    /// A port number.
    Port,
    /// IPv4 addresses, at least one; in text a list.
    Addrs4,
    /// IPv6 addresses, at least one; in text a list.
    Addrs6,
    /// Octets, at least one; in text base64.
    Base64,
    /// Octets, at least one; in text a character string.
    Text,
    /// Distinct numbers of 16 bits, at least one; in text a list.
    Numbers,
    /// Any octets; in text a character string.
    Opaque,
}

/// The key `mandatory`.
pub const MANDATORY: u16 = 0;
/// The key `alpn`.
pub const ALPN: u16 = 1;
/// The key `no-default-alpn`.
pub const NO_DEFAULT_ALPN: u16 = 2;
/// The key `dohpath`.
pub const DOHPATH: u16 = 7;

/// The IANA registry "DNS SVCB Service Parameter Keys", by number.
#[rustfmt::skip]
pub const KEYS: &[SvcParamKey] = &[
    SvcParamKey { number: MANDATORY,       name: "mandatory",            value: Keys },           // RFC 9460 8
    SvcParamKey { number: ALPN,            name: "alpn",                 value: Identifiers(1) }, // RFC 9460 7.1
    SvcParamKey { number: NO_DEFAULT_ALPN, name: "no-default-alpn",      value: Empty },          // RFC 9460 7.1
    SvcParamKey { number: 3,               name: "port",                 value: Port },           // RFC 9460 7.2
    SvcParamKey { number: 4,               name: "ipv4hint",             value: Addrs4 },         // RFC 9460 7.3
    SvcParamKey { number: 5,               name: "ech",                  value: Base64 },         // RFC 9848 3
    SvcParamKey { number: 6,               name: "ipv6hint",             value: Addrs6 },         // RFC 9460 7.3
    SvcParamKey { number: DOHPATH,         name: "dohpath",              value: Text },           // RFC 9461 5
    SvcParamKey { number: 8,               name: "ohttp",                value: Empty },          // RFC 9540 4
    SvcParamKey { number: 9,               name: "tls-supported-groups", value: Numbers },        // draft-ietf-tls-key-share-prediction
    SvcParamKey { number: 10,              name: "docpath",              value: Identifiers(0) }, // RFC 9953
    SvcParamKey { number: 11,              name: "pvd",                  value: Empty },          // draft-ietf-intarea-proxy-config
];

/// The registered key with this number.
pub fn key(number: u16) -> Option<&'static SvcParamKey> {
    KEYS.get(usize::from(number))
}

/// The format of the value of this key.
pub fn value_of(number: u16) -> ValueFormat {
    key(number).map_or(Opaque, |key| key.value)
}

/// Iterates over key and value of each parameter, up to the first incomplete one.
pub fn params(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([head[2], head[3]])))?;
        bytes = rest;
        Some((u16::from_be_bytes([head[0], head[1]]), value))
    })
}

/// Checks all parameters: keys strictly ascending, values well-formed (RFC 9460 2.2), mandatory keys present (8),
/// `alpn` present where `no-default-alpn` is (7.1.1).
pub fn check(bytes: &[u8]) -> Result<(), &'static str> {
    let mut lowest = 0;
    let mut len = 0;
    for (key, value) in params(bytes) {
        if u32::from(key) < lowest {
            return Err("has keys that are not in ascending order");
        }
        check_value(key, value)?;
        lowest = u32::from(key) + 1;
        len += 4 + value.len();
    }
    if len != bytes.len() {
        return Err("is cut off");
    }
    // RFC 9460 14.3.2: key 65535 is reserved.
    if lowest > u32::from(u16::MAX) {
        return Err("has the reserved key 65535");
    }
    check_consistency(bytes)
}

/// Checks that `value` is well-formed for its key; the error is a predicate of the parameter list.
pub fn check_value(key: u16, value: &[u8]) -> Result<(), &'static str> {
    let holds = match value_of(key) {
        Keys => !value.is_empty() && value.len().is_multiple_of(2) && numbers(value).is_sorted_by(|a, b| a < b),
        Identifiers(least) => value.len() >= least && are_identifiers(value),
        Empty => value.is_empty(),
        Port => value.len() == 2,
        Addrs4 => !value.is_empty() && value.len().is_multiple_of(4),
        Addrs6 => !value.is_empty() && value.len().is_multiple_of(16),
        Base64 | Text => !value.is_empty(),
        Numbers => !value.is_empty() && value.len().is_multiple_of(2) && are_distinct(value),
        Opaque => true,
    };
    if holds { Ok(()) } else { Err("has a bad value") }
}

/// Checks `mandatory` and `no-default-alpn`. The keys and the list are both in ascending order, so one pass finds missing keys.
fn check_consistency(bytes: &[u8]) -> Result<(), &'static str> {
    let mut keys = params(bytes).map(|(key, _)| key);
    if let Some((MANDATORY, listed)) = params(bytes).next()
        && numbers(listed).any(|listed| listed == MANDATORY || !keys.any(|key| key == listed))
    {
        return Err("lacks a mandatory key, or names \"mandatory\" as one");
    }
    let has = |wanted| params(bytes).any(|(key, _)| key == wanted);
    if has(NO_DEFAULT_ALPN) && !has(ALPN) {
        return Err("has \"no-default-alpn\" without \"alpn\"");
    }
    Ok(())
}

/// The 16-bit numbers of a value.
pub fn numbers(value: &[u8]) -> impl Iterator<Item = u16> + Clone {
    value.chunks_exact(2).map(|number| u16::from_be_bytes([number[0], number[1]]))
}

/// The length-prefixed identifiers of a value, up to the first incomplete or empty one.
pub fn identifiers(mut value: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&len, rest) = value.split_first()?;
        let (identifier, rest) = rest.split_at_checked(usize::from(len)).filter(|_| len > 0)?;
        value = rest;
        Some(identifier)
    })
}

fn are_identifiers(value: &[u8]) -> bool {
    identifiers(value).map(|identifier| 1 + identifier.len()).sum::<usize>() == value.len()
}

fn are_distinct(value: &[u8]) -> bool {
    let mut seen: Vec<u16> = numbers(value).collect();
    seen.sort_unstable();
    seen.is_sorted_by(|a, b| a < b)
}
