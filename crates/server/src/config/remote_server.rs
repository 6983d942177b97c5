//! The entries of `primaries` and `notify`: another server, and how to reach it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use data_encoding::BASE64;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::Value;
use wire::Name;

use super::inline_table::{FlagOrName, InlineTable, deserialize_entry};
use super::key_spec::ConfigValue;
use super::value::{Address, DNS_PORT, DomainName, FilePath, TLS_PORT, parse_socket_address};

/// A server to transfer from or to notify.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteServer {
    /// Its address and port.
    pub address: SocketAddr,
    /// The name of the key that signs the messages to it.
    pub key: Option<Name>,
    /// TLS and how to authenticate; TCP and UDP if not set.
    pub tls: Option<RemoteTls>,
    /// The address to send from.
    pub source: Option<IpAddr>,
}

/// How to use TLS or QUIC with a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RemoteTls {
    /// The name that its certificate must have.
    pub name: Option<Name>,
    /// The digest that its public key must have.
    pub pin: Option<KeyPin>,
    /// The files of the own certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Whether to use QUIC (RFC 9250) instead of TLS over TCP.
    pub quic: bool,
}

/// The SHA-256 digest of a public key (SubjectPublicKeyInfo, as in RFC 7858 4.2); in text `sha256/` and base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPin(pub [u8; 32]);

const KEYS: [&str; 8] = ["address", "key", "tls", "tls-pin", "tls-client-cert", "tls-client-key", "quic", "source"];

impl RemoteServer {
    /// Lets the paths start at `folder`.
    pub fn resolve_paths(&mut self, folder: &Path) {
        if let Some((certificate, key)) = self.tls.as_mut().and_then(|tls| tls.client.as_mut()) {
            (*certificate, *key) = (folder.join(&*certificate), folder.join(&*key));
        }
    }

    fn at(address: SocketAddr) -> RemoteServer {
        RemoteServer { address, key: None, tls: None, source: None }
    }

    fn read(mut table: InlineTable) -> Result<RemoteServer, String> {
        let tls = RemoteTls::read(&mut table)?;
        let port = if tls.is_some() { TLS_PORT } else { DNS_PORT };
        let address = match table.value("address") {
            None => return Err("this entry has no `address`".into()),
            Some(Value::String(text)) => parse_socket_address(&text, port)?,
            Some(other) => return Err(format!("`address` has the type {} and must be a string", other.type_str())),
        };
        let source = table.parse("source")?.map(|Address(source)| source);
        if source.is_some_and(|source| source.is_ipv4() != address.is_ipv4()) {
            return Err("`source` and `address` must both be IPv4 or both be IPv6".into());
        }
        let key = table.parse("key")?.map(|DomainName(name)| name);
        table.finish(&KEYS).map(|()| RemoteServer { address, key, tls, source })
    }
}

impl RemoteTls {
    /// `None` if the table asks for no TLS; a pin, a client certificate or QUIC asks for it too.
    fn read(table: &mut InlineTable) -> Result<Option<RemoteTls>, String> {
        let (name, wanted) = match table.flag_or_name("tls")? {
            None => (None, None),
            Some(FlagOrName::Flag(wanted)) => (None, Some(wanted)),
            Some(FlagOrName::Name(name)) => (Some(name), Some(true)),
        };
        let pin = table.parse("tls-pin")?;
        let path = |FilePath(path)| path;
        let client = match (table.parse("tls-client-cert")?.map(path), table.parse("tls-client-key")?.map(path)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("`tls-client-cert` and `tls-client-key` must both be set".into()),
        };
        let tls = RemoteTls { name, pin, client, quic: table.flag("quic")? };
        match wanted {
            Some(false) if tls != RemoteTls::default() => Err("`tls = false` contradicts the other TLS keys".into()),
            Some(true) => Ok(Some(tls)),
            _ => Ok(Some(tls).filter(|tls| *tls != RemoteTls::default())),
        }
    }
}

impl FromStr for KeyPin {
    type Err = String;

    fn from_str(text: &str) -> Result<KeyPin, String> {
        let digest = text.strip_prefix("sha256/").and_then(|digest| BASE64.decode(digest.as_bytes()).ok());
        let digest = digest.and_then(|digest| digest.try_into().ok());
        digest.map(KeyPin).ok_or_else(|| "write `sha256/` and the 32 octets of the digest in base64".into())
    }
}

impl fmt::Display for KeyPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256/{}", BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for RemoteServer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RemoteServer, D::Error> {
        let from_text = |text: &str| parse_socket_address(text, DNS_PORT).map(RemoteServer::at);
        deserialize_entry(deserializer, from_text, RemoteServer::read)
    }
}

impl Serialize for RemoteServer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == RemoteServer::at(self.address) {
            return self.address.serialize(serializer);
        }
        let tls = self.tls.as_ref();
        let client = tls.and_then(|tls| tls.client.clone());
        let texts = [
            ("address", Some(self.address.to_string())),
            ("key", self.key.as_ref().map(Name::to_string)),
            ("tls-pin", tls.and_then(|tls| tls.pin).map(|pin| pin.to_string())),
            ("tls-client-cert", client.as_ref().map(|(certificate, _)| FilePath(certificate.clone()).to_string())),
            ("tls-client-key", client.as_ref().map(|(_, key)| FilePath(key.clone()).to_string())),
            ("source", self.source.map(|source| source.to_string())),
        ];
        let mut table = serde_json::Map::new();
        table.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into()))));
        if let Some(tls) = tls {
            let name = tls.name.as_ref().map(|name| name.to_string().into());
            table.insert("tls".into(), name.unwrap_or(true.into()));
            if tls.quic {
                table.insert("quic".into(), true.into());
            }
        }
        table.serialize(serializer)
    }
}

impl ConfigValue for RemoteServer {
    fn expected() -> String {
        "an address with an optional port as a string, like `192.0.2.1` or `[2001:db8::1]:53`, or a table like \
         `{ address = \"192.0.2.1\", key = \"transfer.example.\", tls = \"ns1.example.net\" }`"
            .into()
    }
}
