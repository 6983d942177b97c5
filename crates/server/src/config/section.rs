//! What a key and a section of the configuration are, and the macro that makes both from one table.
//!
//! The tables stand in [`super::keys`]; parsing, messages, `zonda config` and the manual read nothing else.

use std::ops::Range;

use toml::Spanned;
use toml::de::DeValue;

/// One key, as the parser, the printer and the manual see it.
pub struct Key {
    /// The key, in kebab-case.
    pub name: &'static str,
    /// What may be written, as a phrase: "a whole number from 1 to 9".
    pub expected: fn() -> String,
    /// The default as TOML; empty where there is none.
    pub default: &'static str,
    /// When a changed value takes effect.
    pub takes: Takes,
    /// The documentation: Markdown paragraphs, a line each as in the source.
    pub doc: &'static str,
}

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// With SIGHUP or `zonda reload`.
    Reload,
    /// When the daemon starts again.
    Restart,
}

/// A table of the configuration file, made by `section!`.
pub trait Section: Default {
    /// The keys in the order of the manual.
    const KEYS: &'static [Key];

    /// Takes the value of `KEYS[index]`.
    fn set(&mut self, index: usize, value: &Spanned<DeValue<'_>>) -> Result<(), Vec<Refusal>>;

    /// The value of `KEYS[index]` as TOML; `None` where it is not set.
    fn toml(&self, index: usize) -> Option<String>;
}

/// A type that a key can have.
pub trait Setting: Sized {
    /// What may be written, as a phrase.
    fn expected() -> String;

    /// Takes a value.
    fn read(value: &Spanned<DeValue<'_>>) -> Result<Self, Vec<Refusal>>;

    /// The value as TOML; `None` where it is not set.
    fn toml(&self) -> Option<String>;

    /// The value of a key that is not in the file; `default` is TOML.
    fn from_default(default: &'static str) -> Self {
        let value = DeValue::parse(default).expect("the table's defaults are TOML");
        Self::read(&value).unwrap_or_else(|_| panic!("the table's default {default} has the key's type"))
    }
}

/// Why a value is not taken, and where in the block of text it stands.
#[derive(Debug)]
pub struct Refusal {
    /// Octets of the text.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

impl Refusal {
    /// One refusal of a whole value.
    pub fn of(value: &Spanned<DeValue<'_>>, message: impl Into<String>, help: impl Into<String>) -> Vec<Refusal> {
        vec![Refusal { span: value.span(), message: message.into(), help: help.into() }]
    }
}

/// Makes a struct with public fields, its documentation, its defaults and its [`Section`] from one table:
///
/// `/// DOC` lines, then `TAKES "key" field: Type = "default as TOML";` for each key.
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        pub struct $Section:ident {
            $($(#[doc = $doc:literal])* $takes:ident $key:literal $field:ident: $Type:ty = $default:literal;)*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $Section {
            $($(#[doc = $doc])* pub $field: $Type,)*
        }

        impl Default for $Section {
            fn default() -> $Section {
                $Section { $($field: <$Type as $crate::config::section::Setting>::from_default($default),)* }
            }
        }

        impl $crate::config::section::Section for $Section {
            const KEYS: &'static [$crate::config::section::Key] = &[$($crate::config::section::Key {
                name: $key,
                expected: <$Type as $crate::config::section::Setting>::expected,
                default: $default,
                takes: $crate::config::section::Takes::$takes,
                doc: concat!($($doc, "\n"),*),
            },)*];

            fn set(
                &mut self,
                index: usize,
                value: &toml::Spanned<toml::de::DeValue<'_>>,
            ) -> Result<(), Vec<$crate::config::section::Refusal>> {
                match Self::KEYS[index].name {
                    $($key => self.$field = $crate::config::section::Setting::read(value)?,)*
                    key => unreachable!("{key} is in KEYS and so in this match"),
                }
                Ok(())
            }

            fn toml(&self, index: usize) -> Option<String> {
                match Self::KEYS[index].name {
                    $($key => $crate::config::section::Setting::toml(&self.$field),)*
                    key => unreachable!("{key} is in KEYS and so in this match"),
                }
            }
        }
    };
}
pub(crate) use section;
