//! The types of configuration keys: how they are written in TOML, and the phrases that describe them in help and manual.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use wire::{AddressPrefix, Name};
use zone::CheckMode;
use zone::serial_policy::SerialPolicy;

use super::key_spec::{ConfigValue, LIST_OF};
use crate::printable::{path_text, quoted};

/// The port of DNS (RFC 1035 4.2).
pub const DNS_PORT: u16 = 53;
/// The port of DNS over TLS (RFC 7858 3.1, RFC 9103 7.3).
pub const TLS_PORT: u16 = 853;

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "i64")]
pub struct WholeNumber<const MIN: u32, const MAX: u32>(pub u32);

/// Text of at most `MAX` octets.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String")]
pub struct BoundedText<const MAX: usize>(pub String);

/// The path of a file or folder, neither empty nor with a NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(pub PathBuf);

/// A domain name in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DomainName(pub Name);

/// An address and a port, 53 by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(pub SocketAddr);

/// An address and a port, 853 by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlsEndpoint(pub SocketAddr);

/// An address without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address(pub IpAddr);

/// A block of addresses by its first one; a single address is a block of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(pub AddressPrefix);

/// The strictness of zone checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckSetting(pub CheckMode);

/// How a changed zone gets its serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialSetting(pub SerialPolicy);

/// A secret of server cookies: 128 bits (RFC 9018 4). Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieSecret(pub [u8; 16]);

/// The algorithm of a TSIG key, as it is written in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TsigAlgorithm(pub &'static str);

/// The secret of a TSIG key. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TsigSecret(pub Vec<u8>);

impl fmt::Debug for TsigSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The least severe messages to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Needs an operator now.
    Error,
    /// May need an operator later.
    Warn,
    /// Starts, stops, changes of zones.
    Info,
    /// Details that explain the rest.
    Debug,
    /// Everything.
    Trace,
}

/// The format of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A line of text.
    Text,
    /// A JSON object on one line.
    Json,
}

/// When the digest of a zone must match its ZONEMD record (RFC 8976).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZonemdMode {
    /// Never.
    Off,
    /// When the whole zone was transferred or loaded.
    FullTransfers,
    /// After every change, which then costs as much as the zone is big.
    Always,
}

/// What happens to a version with bad signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DnssecCheck {
    /// Nothing: signatures are not checked.
    Off,
    /// It is published, and the log says what is wrong.
    Warn,
    /// It is not published.
    Refuse,
}

/// Which signatures are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DnssecScope {
    /// Those of the SOA, NS and DNSKEY records of the apex.
    Apex,
    /// All.
    Zone,
}

/// What a catalog zone is for (RFC 9432).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CatalogRole {
    /// Its members are served here.
    Consume,
    /// It lists the zones of this server.
    Produce,
}

/// The templates of the groups of a catalog (RFC 9432 4.3.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct CatalogTemplates(pub BTreeMap<String, String>);

/// What types accept, as a phrase.
macro_rules! expected {
    ($([$($generics:tt)*] $Type:ty: $expected:expr;)*) => {$(
        impl<$($generics)*> ConfigValue for $Type {
            fn expected() -> String {
                $expected.into()
            }
        }
    )*};
}

/// The types that are TOML strings: what they accept, their parser, and their text.
macro_rules! strings {
    ($($Type:ident: $expected:literal, $parse:ident, $print:expr;)*) => {$(
        impl FromStr for $Type {
            type Err = String;

            fn from_str(text: &str) -> Result<$Type, String> {
                $parse(text)
            }
        }

        impl fmt::Display for $Type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let print: fn(&$Type) -> String = $print;
                f.write_str(&print(self))
            }
        }

        impl<'de> Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$Type, D::Error> {
                $parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }

        impl Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        expected! { [] $Type: $expected; }
    )*};
}

strings! {
    FilePath: "a path as a string, relative to the folder of the configuration file",
        parse_path, |FilePath(path)| path_text(path);
    DomainName: "a domain name as a string; the final dot is optional",
        parse_name, |DomainName(name)| name.to_string();
    Endpoint: "an address with an optional port as a string, like `192.0.2.1:53`, `[2001:db8::1]:53` or `192.0.2.1`",
        parse_endpoint, |Endpoint(address)| address.to_string();
    TlsEndpoint: "an address with an optional port as a string, like `192.0.2.1:853`, `[2001:db8::1]:853` or `192.0.2.1`",
        parse_tls_endpoint, |TlsEndpoint(address)| address.to_string();
    Address: "an address as a string, like `192.0.2.1` or `2001:db8::1`",
        parse_address, |Address(address)| address.to_string();
    Prefix: "an address or a prefix as a string, like `192.0.2.1` or `2001:db8::/32`",
        parse_prefix, |Prefix(prefix)| prefix.to_string();
    CheckSetting: "one of \"lenient\", \"strict\"",
        parse_check_setting, |CheckSetting(mode)| format!("{mode:?}").to_lowercase();
    SerialSetting: "one of \"keep\", \"increment\", \"date\", \"unix\"",
        parse_serial_setting, |SerialSetting(policy)| format!("{policy:?}").to_lowercase();
    CookieSecret: "a string of 32 hexadecimal digits, as `openssl rand -hex 16` prints",
        parse_secret, |_| "(hidden)".into();
    TsigAlgorithm: "one of \"hmac-sha1\", \"hmac-sha224\", \"hmac-sha256\", \"hmac-sha384\", \"hmac-sha512\"",
        parse_algorithm, |TsigAlgorithm(name)| (*name).to_owned();
    TsigSecret: "a string in base64, as `openssl rand -base64 32` prints",
        parse_tsig_secret, |_| "(hidden)".into();
}

expected! {
    [] bool: "true or false";
    [] LogLevel: one_of::<LogLevel>();
    [] LogFormat: one_of::<LogFormat>();
    [] ZonemdMode: one_of::<ZonemdMode>();
    [] DnssecCheck: one_of::<DnssecCheck>();
    [] DnssecScope: one_of::<DnssecScope>();
    [] CatalogRole: one_of::<CatalogRole>();
    [] CatalogTemplates: "a table of groups and templates, like `{ customers = \"secondary\" }`";
    [const MIN: u32, const MAX: u32] WholeNumber<MIN, MAX>: format!("a whole number from {MIN} to {MAX}");
    [const MAX: usize] BoundedText<MAX>: format!("a string of at most {MAX} octets");
    [T: ConfigValue] Vec<T>: format!("{LIST_OF}{}", T::expected());
    [T: ConfigValue] Spanned<T>: T::expected();
}

impl<T: ConfigValue + Clone> ConfigValue for Option<T> {
    fn expected() -> String {
        T::expected()
    }

    fn from_default(_default: &str) -> Option<T> {
        None
    }

    fn inherit(&mut self, other: &Option<T>) {
        if self.is_none() {
            self.clone_from(other);
        }
    }
}

fn one_of<W: ValueEnum>() -> String {
    let words = W::value_variants().iter().filter_map(W::to_possible_value);
    format!("one of {}", words.map(|word| format!("\"{}\"", word.get_name())).collect::<Vec<_>>().join(", "))
}

impl<const MIN: u32, const MAX: u32> TryFrom<i64> for WholeNumber<MIN, MAX> {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        let in_range = u32::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number));
        in_range.map(WholeNumber).ok_or_else(|| format!("{number} is out of range"))
    }
}

impl<const MAX: usize> TryFrom<String> for BoundedText<MAX> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.len() <= MAX {
            true => Ok(BoundedText(text)),
            false => Err(format!("this string has {} octets", text.len())),
        }
    }
}

fn parse_path(text: &str) -> Result<FilePath, String> {
    match text {
        "" => Err("the path is empty".into()),
        text if text.contains('\0') => Err("a path cannot contain the character NUL".into()),
        text => Ok(FilePath(text.into())),
    }
}

fn parse_name(text: &str) -> Result<DomainName, String> {
    let name = text.parse::<Name>().map_err(|error| format!("{} is not a domain name: {error}", quoted(text)))?;
    Ok(DomainName(name.to_lowercase()))
}

fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    parse_socket_address(text, DNS_PORT).map(Endpoint)
}

fn parse_tls_endpoint(text: &str) -> Result<TlsEndpoint, String> {
    parse_socket_address(text, TLS_PORT).map(TlsEndpoint)
}

/// An address with an optional port.
pub(super) fn parse_socket_address(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, default_port));
    }
    text.parse().map_err(|_| format!("{} is not an address with an optional port", quoted(text)))
}

fn parse_address(text: &str) -> Result<Address, String> {
    text.parse().map(Address).map_err(|_| format!("{} is not an address", quoted(text)))
}

fn parse_prefix(text: &str) -> Result<Prefix, String> {
    let malformed = || format!("{} is not an address or a prefix", quoted(text));
    let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
    let address: IpAddr = address.parse().map_err(|_| malformed())?;
    let bits = AddressPrefix::max_len(address);
    let len: u8 = len.map_or(Ok(bits), str::parse).map_err(|_| malformed())?;
    if len > bits {
        return Err(format!("the prefix length of {} is greater than {bits}", quoted(text)));
    }
    let prefix = AddressPrefix { address, len };
    match prefix.without_host_bits() == prefix {
        true => Ok(Prefix(prefix)),
        false => Err(format!("the address of {} has bits set after the prefix length", quoted(text))),
    }
}

fn parse_check_setting(text: &str) -> Result<CheckSetting, String> {
    one_named(text, [CheckMode::Lenient, CheckMode::Strict].map(CheckSetting))
}

fn parse_serial_setting(text: &str) -> Result<SerialSetting, String> {
    one_named(text, SerialPolicy::ALL.map(SerialSetting))
}

/// The value that is written like this.
fn one_named<T: fmt::Display, const N: usize>(text: &str, values: [T; N]) -> Result<T, String> {
    values.into_iter().find(|value| value.to_string() == text).ok_or_else(|| format!("unknown value {}", quoted(text)))
}

/// The message must not show the secret.
fn parse_secret(text: &str) -> Result<CookieSecret, String> {
    match u128::from_str_radix(text, 16) {
        Ok(secret) if text.len() == 32 && !text.starts_with('+') => Ok(CookieSecret(secret.to_be_bytes())),
        _ => Err("this is not a cookie secret".into()),
    }
}

fn parse_algorithm(text: &str) -> Result<TsigAlgorithm, String> {
    let wanted = text.strip_suffix('.').unwrap_or(text);
    let known = wire::tsig::ALGORITHM_NAMES.into_iter().find(|name| name.eq_ignore_ascii_case(wanted));
    known.map(TsigAlgorithm).ok_or_else(|| format!("unknown algorithm {}", quoted(text)))
}

/// The message must not show the secret.
fn parse_tsig_secret(text: &str) -> Result<TsigSecret, String> {
    match data_encoding::BASE64.decode(text.as_bytes()) {
        Ok(secret) if !secret.is_empty() => Ok(TsigSecret(secret)),
        _ => Err("this is not a secret in base64".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_default_to_port_53() {
        for (text, full) in [
            ("192.0.2.1", "192.0.2.1:53"),
            ("192.0.2.1:5300", "192.0.2.1:5300"),
            ("2001:db8::1", "[2001:db8::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
        ] {
            assert_eq!(text.parse::<Endpoint>().map(|endpoint| endpoint.to_string()), Ok(full.into()), "{text}");
        }
        for text in ["", "localhost", "192.0.2.1:", "192.0.2.1:65536", "::1:x"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    #[test]
    fn prefixes_are_checked() {
        for (text, full) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("::/0", "::/0"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1", "2001:db8::1/128"),
        ] {
            assert_eq!(text.parse::<Prefix>().map(|prefix| prefix.to_string()), Ok(full.into()), "{text}");
        }
        for text in ["192.0.2.1/24", "192.0.2.0/", "192.0.2.0/33", "::/129", "x/8", "192.0.2.0/-1", "2001:db8::1/0"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let secret: CookieSecret = "00112233445566778899aabbccddeeff".parse().expect("a secret");
        assert_eq!(secret.0[15], 0xff);
        assert!(!format!("{secret:?} {secret}").contains("aabb"));
        for text in ["00", "ää112233445566778899aabbccddee", "+0112233445566778899aabbccddeeff"] {
            assert!(text.parse::<CookieSecret>().is_err(), "{text}");
        }
    }
}
