//! The lines that start with `$` (RFC 1035 5.1, RFC 2308 4).

use wire::{Name, NameRef};

use super::error::{LineColumn, ParseError};
use super::record::RecordParser;
use super::suggest::nearest;
use super::{Field, RecordSink};

/// What an `$INCLUDE` asks for.
#[derive(Clone, Debug)]
pub(super) struct Include {
    /// As written.
    pub path: String,
    /// What completes relative names in the file, if not the origin here.
    pub origin: Option<Name>,
    /// Where the path stands.
    pub at: LineColumn,
}

const DIRECTIVES: [&str; 4] = ["$ORIGIN", "$TTL", "$INCLUDE", "$GENERATE"];

impl<S: RecordSink> RecordParser<'_, S> {
    /// Obeys a directive; an `$INCLUDE` is handed back.
    pub fn directive(
        &mut self,
        name: &Field<'_>,
        arguments: &[Field<'_>],
    ) -> Result<Option<Box<Include>>, Box<ParseError>> {
        match name.text.to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => self.state.origin = origin(name, arguments, self.state.origin.as_ref())?,
            b"$TTL" => {
                let field = only(name, arguments, "a TTL is missing", "as in $TTL 3600 or $TTL 1h")?;
                self.state.default_ttl = Some(self.stated(field)?);
            }
            b"$INCLUDE" => return include(name, arguments, self.state.origin.as_ref()).map(Some),
            b"$GENERATE" => self.generate(name, arguments)?,
            _ => return Err(unknown(name)),
        }
        Ok(None)
    }
}

/// The new origin that the arguments of `$ORIGIN` state; a relative one is completed by the old.
pub(super) fn origin(name: &Field<'_>, arguments: &[Field<'_>], old: NameRef<'_>) -> Result<Name, Box<ParseError>> {
    let field = only(name, arguments, "a name is missing", "as in $ORIGIN example.com.")?;
    absolute(field, old)
}

fn include(name: &Field<'_>, arguments: &[Field<'_>], origin: NameRef<'_>) -> Result<Box<Include>, Box<ParseError>> {
    let help = "as in $INCLUDE hosts.zone sub.example.com.";
    let [path, rest @ ..] = arguments else {
        return Err(ParseError::new(LineColumn::after(name), "a file is missing", help));
    };
    let origin = match rest {
        [] => None,
        [field] => Some(absolute(field, origin)?),
        [_, extra, ..] => return Err(ParseError::at(extra, "something follows the origin", help)),
    };
    Ok(Box::new(Include { path: unescaped(path)?, origin, at: LineColumn::of(path) }))
}

/// The single argument of a directive.
fn only<'f, 't>(
    name: &Field<'_>,
    arguments: &'f [Field<'t>],
    missing: &'static str,
    help: &'static str,
) -> Result<&'f Field<'t>, Box<ParseError>> {
    match arguments {
        [field] => Ok(field),
        [] => Err(ParseError::new(LineColumn::after(name), missing, help)),
        [_, extra, ..] => Err(ParseError::at(extra, "something follows the directive", help)),
    }
}

fn absolute(field: &Field<'_>, origin: NameRef<'_>) -> Result<Name, Box<ParseError>> {
    Name::from_text(field.text, Some(origin))
        .map_err(|error| ParseError::at(field, error.to_string(), "correct the name"))
}

fn unescaped(path: &Field<'_>) -> Result<String, Box<ParseError>> {
    let mut bytes = path.text.iter().copied();
    let mut plain = Vec::with_capacity(path.text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => wire::name::unescape(&mut bytes)
                .map_err(|error| ParseError::at(path, error.to_string(), "write \\\\ for a backslash"))?,
            _ => byte,
        });
    }
    String::from_utf8(plain).map_err(|_| ParseError::at(path, "the path is not UTF-8", "give the file another name"))
}

fn unknown(name: &Field<'_>) -> Box<ParseError> {
    let help = match nearest(name.text, DIRECTIVES) {
        Some(directive) => format!("did you mean {directive}?"),
        None => "there are $ORIGIN, $TTL, $INCLUDE and $GENERATE; an owner that starts with $ is written \\$".into(),
    };
    ParseError::at(name, format!("unknown directive {}", name.text.escape_ascii()), help)
}
