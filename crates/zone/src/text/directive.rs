//! Directives `$ORIGIN`, `$TTL` and `$INCLUDE` (RFC 1035 5.1, RFC 2308 4). `$GENERATE` is in [`super::generate`].

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use wire::{Name, NameRef};

use super::Field;
use super::error::{LineColumn, ParseError};
use crate::suggest::nearest;

/// An `$INCLUDE`.
#[derive(Clone, Debug)]
pub(super) struct Include {
    /// The path, with escapes resolved: any octets.
    pub path: PathBuf,
    /// The origin of the included file, if the directive states one.
    pub origin: Option<Name>,
    /// The position of the path.
    pub at: LineColumn,
}

const DIRECTIVES: [&str; 4] = ["$ORIGIN", "$TTL", "$INCLUDE", "$GENERATE"];

/// The new origin stated by `$ORIGIN`; a relative one is completed with the old one.
pub(super) fn origin(name: &Field<'_>, arguments: &[Field<'_>], old: NameRef<'_>) -> Result<Name, Box<ParseError>> {
    let field = only_argument(name, arguments, "a name is missing", "as in $ORIGIN example.com.")?;
    absolute(field, old)
}

/// The TTL field of `$TTL`.
pub(super) fn ttl<'f, 't>(name: &Field<'_>, arguments: &'f [Field<'t>]) -> Result<&'f Field<'t>, Box<ParseError>> {
    only_argument(name, arguments, "a TTL is missing", "as in $TTL 3600 or $TTL 1h")
}

/// `$INCLUDE` with a path and maybe an origin.
pub(super) fn include(
    name: &Field<'_>,
    arguments: &[Field<'_>],
    origin: NameRef<'_>,
) -> Result<Box<Include>, Box<ParseError>> {
    let help = "as in $INCLUDE hosts.zone sub.example.com.";
    let [path, rest @ ..] = arguments else {
        return Err(ParseError::new(LineColumn::after(name), "a file is missing", help));
    };
    let origin = match rest {
        [] => None,
        [field] => Some(absolute(field, origin)?),
        [_, extra, ..] => return Err(ParseError::at(extra, "unexpected field after the origin", help)),
    };
    Ok(Box::new(Include { path: unescaped_path(path)?, origin, at: LineColumn::of(path) }))
}

fn only_argument<'f, 't>(
    name: &Field<'_>,
    arguments: &'f [Field<'t>],
    missing: &'static str,
    help: &'static str,
) -> Result<&'f Field<'t>, Box<ParseError>> {
    match arguments {
        [field] => Ok(field),
        [] => Err(ParseError::new(LineColumn::after(name), missing, help)),
        [_, extra, ..] => Err(ParseError::at(extra, "unexpected field after the argument", help)),
    }
}

fn absolute(field: &Field<'_>, origin: NameRef<'_>) -> Result<Name, Box<ParseError>> {
    Name::from_text(field.text, Some(origin))
        .map_err(|error| ParseError::at(field, error.to_string(), "correct the name"))
}

fn unescaped_path(field: &Field<'_>) -> Result<PathBuf, Box<ParseError>> {
    let mut bytes = field.text.iter().copied();
    let mut path = Vec::with_capacity(field.text.len());
    while let Some(byte) = bytes.next() {
        path.push(match byte {
            b'\\' => wire::name::unescape(&mut bytes)
                .map_err(|error| ParseError::at(field, error.to_string(), "write \\\\ for a backslash"))?,
            _ => byte,
        });
    }
    Ok(OsString::from_vec(path).into())
}

/// The error for an unknown directive.
pub(super) fn unknown(name: &Field<'_>) -> Box<ParseError> {
    let help = match std::str::from_utf8(name.text).ok().and_then(|name| nearest(name, DIRECTIVES)) {
        Some(directive) => format!("did you mean {directive}?"),
        None => "known are $ORIGIN, $TTL, $INCLUDE and $GENERATE; write \\$ for an owner that starts with $".into(),
    };
    ParseError::at(name, format!("unknown directive {}", name.text.escape_ascii()), help)
}
