//! What a configuration key is, and the macro that makes a struct and its [`KeySpec`]s from one documented table.
//!
//! The tables are in [`super::keys`]. The reader, error messages, `zonda config` and the manual use nothing else.

use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeArray, DeValue, ValueDeserializer};

use crate::printable::{printable_json, quoted};

/// One key, as the reader, `zonda config` and the manual see it.
pub struct KeySpec {
    /// The key, in kebab-case.
    pub name: &'static str,
    /// The values it accepts, as a phrase: "a whole number from 1 to 9".
    pub expected: fn() -> String,
    /// The default as TOML; empty where there is none.
    pub default: &'static str,
    /// When a changed value takes effect.
    pub effective_after: EffectiveAfter,
    /// The documentation: Markdown paragraphs, with the line breaks of the source.
    pub doc: &'static str,
}

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectiveAfter {
    /// SIGHUP or `zonda reload`.
    Reload,
    /// A restart of the daemon.
    Restart,
}

/// A struct with a field for each key of a table, made by `key_table!`.
pub trait KeyTable: Default + Serialize {
    /// The keys in the order of the manual.
    const KEYS: &'static [KeySpec];

    /// Sets the key with this name.
    fn set(&mut self, key: &'static str, value: ValueDeserializer<'_>) -> Result<(), toml::de::Error>;

    /// Fills optional keys that are not set from `other`.
    fn inherit(&mut self, other: &Self);

    /// Every key that has a default set to it.
    fn with_defaults() -> Self {
        let mut table = Self::default();
        for key in Self::KEYS.iter().filter(|key| !key.default.is_empty()) {
            let value = ValueDeserializer::parse(key.default).expect("defaults are TOML");
            table.set(key.name, value).expect("a default has the type of its key");
        }
        table
    }

    /// Sets a key from TOML; each bad entry of a list is an error of its own.
    fn read(&mut self, key: &KeySpec, value: Spanned<DeValue<'_>>) -> Vec<ValueError> {
        let Err(error) = self.set(key.name, value.clone().into()) else { return Vec::new() };
        let expected = (key.expected)();
        if let (DeValue::Array(entries), Some(expected)) = (value.get_ref(), expected.strip_prefix(LIST_OF)) {
            let entry_error = |entry: &Spanned<DeValue<'_>>| {
                let list = DeValue::Array(DeArray::from_iter([entry.clone()]));
                let error = self.set(key.name, Spanned::new(entry.span(), list).into()).err()?;
                Some(ValueError::new(&error, entry, expected))
            };
            let errors: Vec<ValueError> = entries.iter().filter_map(entry_error).collect();
            if !errors.is_empty() {
                return errors;
            }
        }
        vec![ValueError::new(&error, &value, &expected)]
    }

    /// Every key with its value as TOML; `None` where it is not set.
    fn values(&self) -> impl Iterator<Item = (&'static KeySpec, Option<String>)> {
        let values = serde_json::to_value(self).expect("every value has a JSON form");
        Self::KEYS.iter().map(move |key| (key, toml_text(&values[key.name])))
    }

    /// The keys with another value in `new` that takes effect after a restart.
    fn waiting_for_restart(&self, new: &Self) -> Vec<String> {
        let pairs = self.values().zip(new.values()).filter(|((_, old), (_, new))| old != new);
        let keys = pairs.map(|((key, _), _)| key).filter(|key| key.effective_after == EffectiveAfter::Restart);
        keys.map(|key| key.name.to_owned()).collect()
    }
}

/// The type of a key.
pub trait ConfigValue: DeserializeOwned {
    /// The accepted values, as a phrase.
    fn expected() -> String;

    /// The value of a key that is not in the file; `default` is TOML.
    fn from_default(default: &str) -> Self {
        let value = ValueDeserializer::parse(default).expect("defaults are TOML");
        Self::deserialize(value).expect("a default has the type of its key")
    }

    /// Takes the value from `other` if this one is optional and not set.
    fn inherit(&mut self, _other: &Self) {}
}

/// How the phrase for a list begins; the phrase for its entries follows.
pub(super) const LIST_OF: &str = "a list, each entry ";

/// Why a value is not accepted.
#[derive(Debug)]
pub struct ValueError {
    /// Where the value starts, in octets from the start of the block.
    pub offset: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

impl ValueError {
    fn new(error: &toml::de::Error, value: &Spanned<DeValue<'_>>, expected: &str) -> ValueError {
        // serde quotes a value of the wrong type, which could be a secret, and appends its own phrase for what it expects.
        let message = match (error.message(), value.get_ref()) {
            (message, value) if message.starts_with("invalid type") => {
                format!("this has the type {}", value.type_str())
            }
            (message, DeValue::String(word)) if message.starts_with("unknown variant") => {
                format!("unknown value {}", quoted(word))
            }
            (message, _) => message.rsplit_once(", expected ").map_or(message, |(found, _)| found).to_owned(),
        };
        ValueError { offset: value.span().start, message, help: format!("write {expected}") }
    }
}

/// A value as TOML, which accepts every JSON string, number and array; control characters are escaped.
fn toml_text(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::Null => None,
        serde_json::Value::Array(entries) => {
            Some(format!("[{}]", entries.iter().filter_map(toml_text).collect::<Vec<_>>().join(", ")))
        }
        serde_json::Value::Object(keys) => {
            let keys = keys.iter().filter_map(|(key, value)| Some((toml_key(key), toml_text(value)?)));
            let keys: Vec<String> = keys.map(|(key, value)| format!("{key} = {value}")).collect();
            Some(if keys.is_empty() { "{}".into() } else { format!("{{ {} }}", keys.join(", ")) })
        }
        value => Some(printable_json(&value.to_string())),
    }
}

/// A key of an inline table, quoted unless it is a word.
fn toml_key(key: &str) -> String {
    let is_bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    if is_bare { key.to_owned() } else { printable_json(&serde_json::Value::from(key).to_string()) }
}

/// Makes a struct with public fields, its documentation, its defaults and its [`KeyTable`] from one table:
///
/// `/// DOC` lines, then `EFFECTIVE_AFTER "key" field: Type = "default as TOML";` for each key.
macro_rules! key_table {
    (
        $(#[doc = $about:literal])*
        pub struct $Table:ident {
            $($(#[doc = $doc:literal])* $after:ident $key:literal $field:ident: $Type:ty = $default:literal;)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize)]
        pub struct $Table {
            $($(#[doc = $doc])* #[serde(rename = $key)] pub $field: $Type,)*
        }

        impl Default for $Table {
            fn default() -> $Table {
                $Table { $($field: <$Type as $crate::config::key_spec::ConfigValue>::from_default($default),)* }
            }
        }

        impl $crate::config::key_spec::KeyTable for $Table {
            const KEYS: &'static [$crate::config::key_spec::KeySpec] = &[$($crate::config::key_spec::KeySpec {
                name: $key,
                expected: <$Type as $crate::config::key_spec::ConfigValue>::expected,
                default: $default,
                effective_after: $crate::config::key_spec::EffectiveAfter::$after,
                doc: concat!($($doc, "\n"),*),
            },)*];

            fn set(
                &mut self,
                key: &'static str,
                value: toml::de::ValueDeserializer<'_>,
            ) -> Result<(), toml::de::Error> {
                match key {
                    $($key => self.$field = serde::Deserialize::deserialize(value)?,)*
                    key => unreachable!("{key} is not in KEYS"),
                }
                Ok(())
            }

            fn inherit(&mut self, other: &Self) {
                $($crate::config::key_spec::ConfigValue::inherit(&mut self.$field, &other.$field);)*
            }
        }
    };
}
pub(crate) use key_table;
