//! Reads a list entry that is a string or an inline table with keys of its own.

use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use toml::Value;
use wire::Name;
use zone::suggest::nearest;

use super::value::DomainName;
use crate::printable::quoted;

/// The keys of an inline table that were not read yet.
pub struct InlineTable(toml::Table);

/// The value of a key like `tls`.
pub enum FlagOrName {
    Flag(bool),
    Name(Name),
}

/// Reads an entry: a string with `from_text`, a table with `from_table`.
pub fn deserialize_entry<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    from_text: impl FnOnce(&str) -> Result<T, String>,
    from_table: impl FnOnce(InlineTable) -> Result<T, String>,
) -> Result<T, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => from_text(&text),
        Value::Table(table) => from_table(InlineTable(table)),
        other => Err(format!("this has the type {}", other.type_str())),
    }
    .map_err(Error::custom)
}

impl InlineTable {
    /// Removes a key of any type.
    pub fn value(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    /// Removes a key whose value is a string of the type `T`.
    pub fn parse<T: FromStr<Err = String>>(&mut self, key: &str) -> Result<Option<T>, String> {
        self.value(key).map(|value| parse_string(key, value)).transpose()
    }

    /// Removes a key whose value is true or false; false if it is not set.
    pub fn flag(&mut self, key: &str) -> Result<bool, String> {
        match self.value(key) {
            None => Ok(false),
            Some(Value::Boolean(value)) => Ok(value),
            Some(other) => Err(format!("`{key}` has the type {} and must be true or false", other.type_str())),
        }
    }

    /// Removes a key whose value is true, false or a domain name.
    pub fn flag_or_name(&mut self, key: &str) -> Result<Option<FlagOrName>, String> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Boolean(flag)) => Ok(Some(FlagOrName::Flag(flag))),
            Some(name @ Value::String(_)) => {
                parse_string(key, name).map(|DomainName(name)| Some(FlagOrName::Name(name)))
            }
            Some(other) => Err(format!("`{key}` has the type {} and must be true or a name", other.type_str())),
        }
    }

    /// Removes a key whose value is a list of strings of the type `T`; `None` if it is not set.
    pub fn parse_list<T: FromStr<Err = String>>(&mut self, key: &str) -> Result<Option<Vec<T>>, String> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(entries)) => {
                entries.into_iter().map(|entry| parse_string(key, entry)).collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(format!("`{key}` has the type {} and must be a list", other.type_str())),
        }
    }

    /// Fails if there are keys left; `known` are all that there could have been.
    pub fn finish(self, known: &[&str]) -> Result<(), String> {
        let Some(key) = self.0.keys().next() else { return Ok(()) };
        let meant = nearest(key, known).map(|meant| format!("; did you mean `{meant}`?"));
        Err(format!("an entry has no key {}{}", quoted(key), meant.unwrap_or_default()))
    }
}

fn parse_string<T: FromStr<Err = String>>(key: &str, value: Value) -> Result<T, String> {
    match value {
        Value::String(text) => text.parse().map_err(|error| format!("`{key}`: {error}")),
        other => Err(format!("`{key}` has the type {} and must be a string", other.type_str())),
    }
}
