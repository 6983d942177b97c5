//! Queries from text: a query a line, `name type` as dnsperf has them, or `query NAME CLASS TYPE`.
//!
//! A name is absolute with or without its final dot. Blank lines and what follows a `;` are skipped. In a file of the second
//! form lines that do not begin with `query` belong to something else and are skipped too.

use wire::{Class, Name, Rtype};

use super::{Dress, Queries, Renderer};

/// A line that is no query.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; a query is `name type` or `query NAME CLASS TYPE`")]
pub struct LineError {
    /// The line, from 1.
    pub line: usize,
    what: String,
}

/// Reads a query file.
pub fn read(text: &[u8], dress: &Dress) -> Result<Queries, LineError> {
    let mut renderer = Renderer::new(dress);
    let mut lines =
        text.split(|&byte| byte == b'\n').map(words).enumerate().filter(|(_, words)| !words.is_empty()).peekable();
    let has_keyword = lines.peek().is_some_and(|(_, words)| is_keyword_form(words));
    for (index, words) in lines {
        let question = match words[..] {
            _ if has_keyword && !is_keyword_form(&words) => continue,
            [_, name, class, rtype] if has_keyword => question(name, class, rtype),
            [name, rtype] => question(name, b"IN", rtype),
            _ => Err(format!("{} words", words.len())),
        };
        let (name, rtype, class) = question.map_err(|what| LineError { line: index + 1, what })?;
        renderer.ask(name.as_ref(), rtype, class);
    }
    Ok(renderer.finish())
}

fn words(line: &[u8]) -> Vec<&[u8]> {
    let line = line.split(|&byte| byte == b';').next().unwrap_or_default();
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

fn is_keyword_form(words: &[&[u8]]) -> bool {
    words.len() == 4 && words[0].eq_ignore_ascii_case(b"query")
}

fn question(name: &[u8], class: &[u8], rtype: &[u8]) -> Result<(Name, Rtype, Class), String> {
    let text = String::from_utf8_lossy;
    Ok((
        Name::from_text(name, Some(wire::NameRef::ROOT)).map_err(|error| format!("name `{}`: {error}", text(name)))?,
        Rtype::from_text(rtype).ok_or_else(|| format!("no type `{}`", text(rtype)))?,
        Class::from_text(class).ok_or_else(|| format!("no class `{}`", text(class)))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Result<Vec<String>, LineError> {
        let queries = read(text.as_bytes(), &Dress::default())?;
        Ok((0..queries.len() as u32).map(|number| queries.describe(number)).collect())
    }

    #[test]
    fn both_forms_are_read() {
        let dnsperf = "; a comment\nwww.example.com A\n\n  example.com. TYPE65 ; more\r\n. NS";
        assert_eq!(
            described(dnsperf),
            Ok(vec!["www.example.com. A".into(), "example.com. HTTPS".into(), ". NS".into()])
        );
        let keyword = "query uk.example. IN A\nno_reply\nquery . CH TXT\n";
        assert_eq!(described(keyword), Ok(vec!["uk.example. A".into(), ". TXT".into()]));
        assert_eq!(described("query A\nquery.example MX"), Ok(vec!["query. A".into(), "query.example. MX".into()]));
    }

    #[test]
    fn a_bad_line_is_named() {
        for (text, line, what) in [
            ("a A\nb", 2, "1 words"),
            ("a A\n\n..b A", 3, "name `..b`: the name has an empty label"),
            ("a B", 1, "no type `B`"),
            ("query a IX A\n", 1, "no class `IX`"),
        ] {
            assert_eq!(described(text), Err(LineError { line, what: what.into() }));
        }
    }
}
