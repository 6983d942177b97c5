//! The types that a key of the configuration can have: how they are read from TOML, written, and told in a message.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;
use wire::Name;

use super::section::{Refusal, Setting};
use crate::printable::{is_harmful, path_text, printable_json};

/// The port of DNS (RFC 1035 4.2).
pub const DNS_PORT: u16 = 53;

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: u32, const MAX: u32>(pub u32);

/// Text of at most `MAX` octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<const MAX: usize>(pub String);

/// An address and a port; port 53 where none is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint(pub SocketAddr);

/// A block of addresses; a single address is a block of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The address, its bits behind the length zero.
    pub address: IpAddr,
    /// How many leading bits count: at most 32 or 128.
    pub length: u8,
}

/// A secret of server cookies: 128 bits (RFC 9018 4). Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieSecret(pub [u8; 16]);

/// A name from a short list of words.
pub trait Word: Sized + Copy + PartialEq + 'static {
    /// Every word with what it stands for.
    const WORDS: &'static [(&'static str, Self)];
}

//----------- text forms -------------------------------------------------------

impl std::str::FromStr for Endpoint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Endpoint, &'static str> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Endpoint(SocketAddr::new(address, DNS_PORT)));
        }
        text.parse().map(Endpoint).map_err(|_| "write it like 192.0.2.1:53, [2001:db8::1]:53 or 192.0.2.1")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for Prefix {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Prefix, &'static str> {
        const FORM: &str = "write it like 192.0.2.0/24, 2001:db8::/32 or 192.0.2.1";
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u8>().map_err(|_| FORM)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| FORM)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = Prefix { address, length: length.unwrap_or(bits) };
        if prefix.length > bits {
            return Err("the length is at most 32 for IPv4 and 128 for IPv6");
        }
        if prefix.masked() != address {
            return Err("the address has bits set behind the length: set them to zero or make the length longer");
        }
        Ok(prefix)
    }
}

impl Prefix {
    fn masked(&self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => IpAddr::from(
                (address.to_bits() & u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0)).to_be_bytes(),
            ),
            IpAddr::V6(address) => IpAddr::from(
                (address.to_bits() & u128::MAX.checked_shl(128 - u32::from(self.length)).unwrap_or(0)).to_be_bytes(),
            ),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl std::str::FromStr for CookieSecret {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<CookieSecret, &'static str> {
        const FORM: &str = "write 32 hexadecimal digits, made by `openssl rand -hex 16`";
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(FORM);
        }
        let mut secret = [0; 16];
        for (at, octet) in secret.iter_mut().enumerate() {
            *octet = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| FORM)?;
        }
        Ok(CookieSecret(secret))
    }
}

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

//----------- settings ---------------------------------------------------------

impl Setting for bool {
    fn expected() -> String {
        "true or false".into()
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<bool, Vec<Refusal>> {
        value.get_ref().as_bool().ok_or_else(|| wrong_type::<bool>(value))
    }

    fn toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl<const MIN: u32, const MAX: u32> Setting for Whole<MIN, MAX> {
    fn expected() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<Self, Vec<Refusal>> {
        let integer = value.get_ref().as_integer().ok_or_else(|| wrong_type::<Self>(value))?;
        match u32::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Whole(number)),
            _ => Err(Refusal::of(value, format!("{integer} is out of range"), format!("write {}", Self::expected()))),
        }
    }

    fn toml(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

impl<const MAX: usize> Setting for Text<MAX> {
    fn expected() -> String {
        format!("a string of at most {MAX} octets")
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<Self, Vec<Refusal>> {
        let text = string::<Self>(value)?;
        match text.len() <= MAX {
            true => Ok(Text(text.to_owned())),
            false => {
                Err(Refusal::of(value, format!("this string has {} octets", text.len()), format!("at most {MAX}")))
            }
        }
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.0))
    }
}

impl Setting for PathBuf {
    fn expected() -> String {
        "a path, relative to the folder of the file it stands in".into()
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<PathBuf, Vec<Refusal>> {
        match string::<PathBuf>(value)? {
            "" => Err(Refusal::of(value, "the path is empty", "write a path or leave the key out")),
            path if path.contains('\0') => Err(Refusal::of(value, "a path cannot hold the character zero", "")),
            path => Ok(path.into()),
        }
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&path_text(self)))
    }
}

impl Setting for Name {
    fn expected() -> String {
        "a domain name as a string; the final dot may be left out".into()
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<Name, Vec<Refusal>> {
        let text = string::<Name>(value)?;
        text.parse::<Name>().map(|name| name.to_lowercase()).map_err(|error| {
            Refusal::of(value, format!("`{text}` is no domain name: {error}"), "write it like example.com.")
        })
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl Setting for CookieSecret {
    fn expected() -> String {
        "a string of 32 hexadecimal digits".into()
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<CookieSecret, Vec<Refusal>> {
        // The message must not show the secret.
        string::<CookieSecret>(value)?.parse().map_err(|help| Refusal::of(value, "this is no cookie secret", help))
    }

    fn toml(&self) -> Option<String> {
        Some(quoted("(hidden)"))
    }
}

macro_rules! from_text {
    ($Type:ty, $expected:literal, $what:literal) => {
        impl Setting for $Type {
            fn expected() -> String {
                $expected.into()
            }

            fn read(value: &Spanned<DeValue<'_>>) -> Result<$Type, Vec<Refusal>> {
                let text = string::<$Type>(value)?;
                text.parse().map_err(|help| Refusal::of(value, format!(concat!("`{}` is ", $what), text), help))
            }

            fn toml(&self) -> Option<String> {
                Some(quoted(&self.to_string()))
            }
        }
    };
}

from_text!(Endpoint, "an address with an optional port, as a string", "no address with a port");
from_text!(Prefix, "an address or a block of addresses, as a string", "no block of addresses");

impl<W: Word> Setting for W {
    fn expected() -> String {
        let words: Vec<String> = W::WORDS.iter().map(|(word, _)| quoted(word)).collect();
        format!("one of {}", words.join(", "))
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<W, Vec<Refusal>> {
        let text = string::<W>(value)?;
        let found = W::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            Refusal::of(value, format!("`{text}` is not known here"), format!("write {}", W::expected()))
        })
    }

    fn toml(&self) -> Option<String> {
        W::WORDS.iter().find(|(_, meaning)| meaning == self).map(|(word, _)| quoted(word))
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn expected() -> String {
        format!("a list, each entry {}", T::expected())
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<Vec<T>, Vec<Refusal>> {
        let entries = value.get_ref().as_array().ok_or_else(|| wrong_type::<Vec<T>>(value))?;
        let (mut good, mut bad) = (Vec::with_capacity(entries.len()), Vec::new());
        for entry in entries.iter() {
            match T::read(entry) {
                Ok(entry) => good.push(entry),
                Err(refusals) => bad.extend(refusals),
            }
        }
        if bad.is_empty() { Ok(good) } else { Err(bad) }
    }

    fn toml(&self) -> Option<String> {
        let entries: Vec<String> = self.iter().filter_map(T::toml).collect();
        Some(format!("[{}]", entries.join(", ")))
    }
}

impl<T: Setting> Setting for Option<T> {
    fn expected() -> String {
        T::expected()
    }

    fn read(value: &Spanned<DeValue<'_>>) -> Result<Option<T>, Vec<Refusal>> {
        T::read(value).map(Some)
    }

    fn toml(&self) -> Option<String> {
        self.as_ref().and_then(T::toml)
    }

    fn from_default(_default: &'static str) -> Option<T> {
        None
    }
}

fn string<'v, T: Setting>(value: &'v Spanned<DeValue<'_>>) -> Result<&'v str, Vec<Refusal>> {
    value.get_ref().as_str().ok_or_else(|| wrong_type::<T>(value))
}

fn wrong_type<T: Setting>(value: &Spanned<DeValue<'_>>) -> Vec<Refusal> {
    Refusal::of(value, format!("this has the type {}", value.get_ref().type_str()), format!("write {}", T::expected()))
}

fn quoted(text: &str) -> String {
    match text.chars().any(is_harmful) {
        // A string of JSON is one of TOML.
        true => printable_json(&serde_json::Value::from(text).to_string()),
        false => toml::Value::from(text).to_string(),
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
        for text in ["192.0.2.1/24", "192.0.2.0/33", "::/129", "x/8", "192.0.2.0/-1", "2001:db8::1/0"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }

    #[test]
    fn secrets_are_never_shown() {
        let secret: CookieSecret = "00112233445566778899aabbccddeeff".parse().expect("a secret");
        assert_eq!(secret.0[15], 0xff);
        assert!(!format!("{secret:?} {:?}", Setting::toml(&secret)).contains("aabb"));
        assert!("00".parse::<CookieSecret>().is_err());
        assert!("ää112233445566778899aabbccddee".parse::<CookieSecret>().is_err());
    }
}
