//! The entries of `allow-notify`, `allow-transfer` and `allow-update`.

use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use wire::{AddressPrefix, Name, Rtype};
use zone::suggest::nearest;

use super::inline_table::{FlagOrName, InlineTable, deserialize_entry};
use super::key_spec::ConfigValue;
use super::value::{DomainName, Prefix};
use crate::printable::quoted;

/// Whom an entry of an access list matches: all that it says must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessEntry {
    /// The addresses; any if not set.
    pub address: Option<AddressPrefix>,
    /// The name of the key that must have signed the request.
    pub key: Option<Name>,
    /// How the request must arrive.
    pub tls: Option<TlsRequirement>,
}

/// What an entry requires of the transport.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TlsRequirement {
    /// TLS.
    Encrypted,
    /// TLS with a client certificate of this name.
    ClientName(Name),
}

/// An entry of `allow-update`: who may change which records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UpdateRight {
    /// Who.
    pub access: AccessEntry,
    /// The owner names; a first label `*` means all names below the rest. Any name of the zone if empty.
    pub names: Vec<Name>,
    /// The record types; any if empty.
    pub types: Vec<Rtype>,
    /// Whether it allows changes of a zone with DNSKEY records, too.
    pub signed: bool,
}

const ACCESS_KEYS: [&str; 3] = ["address", "key", "tls"];
const UPDATE_KEYS: [&str; 6] = ["address", "key", "tls", "names", "types", "signed"];

impl AccessEntry {
    fn of_prefix(Prefix(address): Prefix) -> AccessEntry {
        AccessEntry { address: Some(address), ..AccessEntry::default() }
    }

    fn read(table: &mut InlineTable) -> Result<AccessEntry, String> {
        let tls = match table.flag_or_name("tls")? {
            None | Some(FlagOrName::Flag(false)) => None,
            Some(FlagOrName::Flag(true)) => Some(TlsRequirement::Encrypted),
            Some(FlagOrName::Name(name)) => Some(TlsRequirement::ClientName(name)),
        };
        let key = table.parse("key")?.map(|DomainName(name)| name);
        let address = table.parse("address")?.map(|Prefix(address)| address);
        let entry = AccessEntry { address, key, tls };
        match entry == AccessEntry::default() {
            // Nobody should open a zone to everybody by an omission.
            true => Err("this entry matches everybody; set `address`, `key` or `tls`".into()),
            false => Ok(entry),
        }
    }
}

impl<'de> Deserialize<'de> for AccessEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AccessEntry, D::Error> {
        let from_text = |text: &str| text.parse().map(AccessEntry::of_prefix);
        deserialize_entry(deserializer, from_text, |mut table| {
            let entry = AccessEntry::read(&mut table)?;
            table.finish(&ACCESS_KEYS).map(|()| entry)
        })
    }
}

impl<'de> Deserialize<'de> for UpdateRight {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpdateRight, D::Error> {
        let of = |access| UpdateRight { access, ..UpdateRight::default() };
        let from_text = |text: &str| text.parse().map(AccessEntry::of_prefix).map(of);
        deserialize_entry(deserializer, from_text, |mut table| {
            let names = table.parse_list("names")?.unwrap_or_default();
            let types = table.parse_list("types")?.unwrap_or_default();
            let right = UpdateRight {
                access: AccessEntry::read(&mut table)?,
                names: names.into_iter().map(|DomainName(name)| name).collect(),
                types: types.into_iter().map(|RecordType(rtype)| rtype).collect(),
                signed: table.flag("signed")?,
            };
            table.finish(&UPDATE_KEYS).map(|()| right)
        })
    }
}

/// A record type by its mnemonic.
struct RecordType(Rtype);

impl FromStr for RecordType {
    type Err = String;

    fn from_str(text: &str) -> Result<RecordType, String> {
        text.parse().map(RecordType).map_err(|_| {
            let meant = nearest(text, Rtype::ALL.iter().map(Rtype::to_string));
            let meant = meant.map(|meant| format!("; did you mean `{meant}`?"));
            format!("{} is not a record type{}", quoted(text), meant.unwrap_or_default())
        })
    }
}

/// An entry as it is printed.
#[derive(Serialize)]
struct EntryTable {
    address: Option<Prefix>,
    key: Option<String>,
    tls: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    types: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    signed: bool,
}

impl EntryTable {
    fn new(entry: &AccessEntry) -> EntryTable {
        let tls = entry.tls.as_ref().map(|tls| match tls {
            TlsRequirement::Encrypted => true.into(),
            TlsRequirement::ClientName(name) => name.to_string().into(),
        });
        let key = entry.key.as_ref().map(Name::to_string);
        EntryTable { address: entry.address.map(Prefix), key, tls, names: Vec::new(), types: Vec::new(), signed: false }
    }
}

impl Serialize for AccessEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            AccessEntry { address: Some(address), key: None, tls: None } => Prefix(*address).serialize(serializer),
            entry => EntryTable::new(entry).serialize(serializer),
        }
    }
}

impl Serialize for UpdateRight {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.names.is_empty() && self.types.is_empty() && !self.signed {
            return self.access.serialize(serializer);
        }
        let names = self.names.iter().map(Name::to_string).collect();
        let types = self.types.iter().map(Rtype::to_string).collect();
        EntryTable { names, types, signed: self.signed, ..EntryTable::new(&self.access) }.serialize(serializer)
    }
}

impl ConfigValue for AccessEntry {
    fn expected() -> String {
        format!(
            "{} or a table like `{{ address = \"192.0.2.0/24\", key = \"transfer.example.\", tls = true }}`",
            Prefix::expected()
        )
    }
}

impl ConfigValue for UpdateRight {
    fn expected() -> String {
        format!(
            "{} or a table like `{{ key = \"dhcp.example.\", names = [\"*.dyn.example.com\"], types = [\"A\", \"AAAA\"] }}`",
            Prefix::expected()
        )
    }
}
