//! Query files: one query per line, either `name type` as for dnsperf, or `query NAME CLASS TYPE`.
//!
//! Names are absolute, with or without a final dot. A `;` starts a comment. The second form is used if the first line
//! has it; then lines that do not begin with `query` are skipped.

use wire::{Class, Name, Rtype};

use super::{Queries, QueryEncoder, QueryTemplate};

/// A line that is not a query.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}; a query is `name type` or `query NAME CLASS TYPE`")]
pub struct LineError {
    /// The line number, from 1.
    pub line: usize,
    what: String,
}

/// Reads a query file.
pub fn read(text: &[u8], template: &QueryTemplate) -> Result<Queries, LineError> {
    let mut encoder = QueryEncoder::new(template);
    let mut lines =
        text.split(|&byte| byte == b'\n').map(words).enumerate().filter(|(_, words)| !words.is_empty()).peekable();
    let is_keyword_form = lines.peek().is_some_and(|(_, words)| has_query_keyword(words));
    for (index, words) in lines {
        let question = match words[..] {
            _ if is_keyword_form && !has_query_keyword(&words) => continue,
            [_, name, class, rtype] if is_keyword_form => question(name, class, rtype),
            [name, rtype] => question(name, b"IN", rtype),
            _ => Err(format!("{} words", words.len())),
        };
        let (name, rtype, class) = question.map_err(|what| LineError { line: index + 1, what })?;
        encoder.push(name.as_ref(), rtype, class);
    }
    Ok(encoder.finish())
}

fn words(line: &[u8]) -> Vec<&[u8]> {
    let mut is_escaped = false;
    let starts_comment = |&byte: &u8| {
        let found = byte == b';' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped; // RFC 1035 5.1
        found
    };
    let end = line.iter().position(starts_comment).unwrap_or(line.len());
    line[..end].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect()
}

fn has_query_keyword(words: &[&[u8]]) -> bool {
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
        let queries = read(text.as_bytes(), &QueryTemplate::default())?;
        Ok((0..queries.len() as u32).map(|number| queries.describe(number)).collect())
    }

    #[test]
    fn both_forms_are_parsed() {
        let dnsperf = "; a comment\nwww.example.com A\n\n  example.com. TYPE65 ; more\r\n. NS";
        assert_eq!(
            described(dnsperf),
            Ok(vec!["www.example.com. A".into(), "example.com. HTTPS".into(), ". NS".into()])
        );
        assert_eq!(described("a\\;b.example A; c"), Ok(vec!["a\\;b.example. A".into()]), "an escaped `;`");
        let keyword = "query uk.example. IN A\nno_reply\nquery . CH TXT\n";
        assert_eq!(described(keyword), Ok(vec!["uk.example. A".into(), ". TXT".into()]));
        assert_eq!(described("query A\nquery.example MX"), Ok(vec!["query. A".into(), "query.example. MX".into()]));
    }

    #[test]
    fn an_error_names_the_line() {
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
