//! Splits zone text into entries (a line, or several in parentheses) and fields: quotes, escapes, comments (RFC 1035 5.1).

use memchr::{memchr_iter, memchr2};
use wire::Rtype;

use super::Field;
use super::error::{LineColumn, ParseError};

/// The maximum field: 65,535 octets of RDATA, each written `\DDD`.
const MAX_FIELD_LEN: usize = 4 * 65_535;
/// The maximum number of fields of an entry: 65,535 octets of RDATA, each in its own field, after owner, TTL, class, type.
const MAX_FIELDS: usize = 65_535 + 8;

/// The meaning of a byte outside quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Plain,
    Escape,
    Blank,
    Newline,
    Comment,
    Quote,
    Open,
    Close,
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Plain; 256];
    classes[b'\\' as usize] = ByteClass::Escape;
    classes[b' ' as usize] = ByteClass::Blank;
    classes[b'\t' as usize] = ByteClass::Blank;
    classes[b'\n' as usize] = ByteClass::Newline;
    classes[b'\r' as usize] = ByteClass::Newline;
    classes[b';' as usize] = ByteClass::Comment;
    classes[b'"' as usize] = ByteClass::Quote;
    classes[b'(' as usize] = ByteClass::Open;
    classes[b')' as usize] = ByteClass::Close;
    classes
};

fn class(byte: u8) -> ByteClass {
    CLASSES[byte as usize]
}

/// The start of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineStart {
    /// The offset in the text.
    pub at: usize,
    /// The line, from 1.
    pub line: u32,
}

/// A position within a line.
#[derive(Clone, Copy)]
struct ScanPosition {
    at: usize,
    line: u32,
    line_start: usize,
}

impl ScanPosition {
    fn line_column(self) -> LineColumn {
        let column = u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX);
        LineColumn { line: self.line, column }
    }
}

/// Splits text into entries and fields.
pub(super) struct Scanner<'t> {
    text: &'t [u8],
    now: ScanPosition,
    /// The open parenthesis.
    open: Option<ScanPosition>,
    /// The first error in the current entry.
    error: Option<Box<ParseError>>,
    /// Unusual quotes in the current entry.
    pub quotes: QuotePlacement,
    /// Whether the entry may continue after the end of the text.
    reached_end: bool,
    /// The maximum entry if more text follows, else 0. An entry at the end of the text is complete only if it is as long.
    max_entry: usize,
}

/// Quotes that touch another field: some types allow them, and some servers accept them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuotePlacement {
    /// The first quoted value directly after its key, as in `alpn="h2,h3"`.
    pub joined_quote: Option<LineColumn>,
    /// The first other one, as in `"x"y` or `x"y"`.
    pub missing_blank: Option<LineColumn>,
}

impl<'t> Scanner<'t> {
    /// A scanner of `text` from the start of a line on.
    pub fn new(text: &'t [u8], from: LineStart) -> Scanner<'t> {
        Scanner::of_part(text, from, 0)
    }

    /// A scanner of a part of a text; `max_entry` is the maximum entry if more text follows, else 0.
    pub fn of_part(text: &'t [u8], from: LineStart, max_entry: usize) -> Scanner<'t> {
        let now = ScanPosition { at: from.at, line: from.line, line_start: from.at };
        let (open, quotes) = (None, QuotePlacement::default());
        Scanner { text, now, open, error: None, quotes, reached_end: false, max_entry }
    }

    /// The start of the next entry.
    pub fn position(&self) -> LineStart {
        LineStart { at: self.now.at, line: self.now.line }
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.now.at >= self.text.len()
    }

    /// Whether the next entry starts with a blank: it states no owner.
    pub fn starts_blank(&self) -> bool {
        self.text.get(self.now.at).is_some_and(|&byte| class(byte) == ByteClass::Blank)
    }

    /// Reads the fields of the next entry; none for an empty line and at the end of the text. After an error the scanner is
    /// at the entry to continue with.
    pub fn entry(&mut self, fields: &mut Vec<Field<'t>>) -> Result<(), Box<ParseError>> {
        fields.clear();
        self.quotes = QuotePlacement::default();
        self.reached_end = false;
        loop {
            let Some(&byte) = self.text.get(self.now.at) else {
                self.reached_end = true;
                break;
            };
            match class(byte) {
                ByteClass::Plain | ByteClass::Escape => self.word(fields),
                ByteClass::Blank => self.now.at += 1,
                ByteClass::Newline => {
                    self.newline();
                    if self.open.is_none() {
                        break;
                    }
                }
                ByteClass::Comment => self.now.at = self.line_end(),
                ByteClass::Quote => self.quoted(fields)?,
                ByteClass::Open => self.open()?,
                ByteClass::Close => self.close(),
            }
        }
        match self.open {
            Some(open) => Err(self.unclosed_parenthesis(open)),
            None => self.error.take().map_or(Ok(()), Err),
        }
    }

    //----------- parts of a text ----------------------------------------------

    /// Goes back to the start of an entry.
    pub fn rewind(&mut self, start: LineStart) {
        self.now = ScanPosition { at: start.at, line: start.line, line_start: start.at };
    }

    /// Whether the entry read from `start` on may continue in the text that follows.
    pub fn is_cut_off(&self, start: LineStart) -> bool {
        self.reached_end && self.text.len() - start.at < self.max_entry
    }

    /// Whether the entry just read continues although it has the maximum length.
    pub fn is_too_long(&self) -> bool {
        self.max_entry > 0 && self.now.at == self.text.len()
    }

    //----------- fields -------------------------------------------------------

    fn word(&mut self, fields: &mut Vec<Field<'t>>) {
        let rest = &self.text[self.now.at..];
        let mut len = plain_len(rest);
        if matches!(rest.get(len), Some(b'\\' | b'"')) {
            len = self.special_word_len(rest, len);
        }
        self.push(fields, &rest[..len], false);
        // Most words are followed by one blank.
        self.now.at += len + usize::from(rest.get(len).is_some_and(|&byte| class(byte) == ByteClass::Blank));
    }

    /// The length of a word with escapes or quotes, the first of them after `len` octets.
    #[cold]
    fn special_word_len(&mut self, word: &[u8], mut len: usize) -> usize {
        while let Some(&byte) = word.get(len) {
            match byte {
                b'\\' => len += self.escape_len(&word[len..], len),
                b'"' => match self.quote_in_word(word, len) {
                    Ok(quote_len) => len += quote_len,
                    Err(end) => return end,
                },
                _ => break,
            }
            len += plain_len(&word[len..]);
        }
        len
    }

    /// The length of the escape at the start of `rest`, `offset` octets into the word.
    fn escape_len(&mut self, rest: &[u8], offset: usize) -> usize {
        match rest.get(1) {
            Some(&byte) if class(byte) != ByteClass::Newline => 2,
            _ => {
                let message = "a backslash at the end of the line escapes nothing";
                self.error_at(offset, message, "write \\\\ for a backslash");
                1
            }
        }
    }

    /// The length to skip for a quote `at` octets into the word, or, as `Err`, the length of the whole word.
    ///
    /// After `=` it starts a value (RFC 9460 2.1), else a string without a blank before it.
    fn quote_in_word(&mut self, word: &[u8], at: usize) -> Result<usize, usize> {
        let value = &word[at + 1..];
        let Some(len) = self.closing_quote(value).filter(|&len| !has_newline(&value[..len])) else {
            self.error_at(at, "a quote in the middle of a word", "write a space before it, or \\\"");
            return Ok(1);
        };
        if word[at - 1] != b'=' {
            self.quotes.missing_blank.get_or_insert(self.line_column_at(at));
            return Err(at);
        }
        self.quotes.joined_quote.get_or_insert(self.line_column_at(at));
        if is_word_part(value.get(len + 1)) {
            self.quotes.missing_blank.get_or_insert(self.line_column_at(at + len + 2));
        }
        Err(at + len + 2)
    }

    fn quoted(&mut self, fields: &mut Vec<Field<'t>>) -> Result<(), Box<ParseError>> {
        let opening = self.now;
        let rest = &self.text[opening.at + 1..];
        let Some(len) = self.closing_quote(rest) else { return Err(self.unclosed_quote(opening)) };
        let content = &rest[..len];
        if is_word_part(rest.get(len + 1)) {
            // A multi-line string that ends right before a word: that quote more likely starts another string.
            if has_newline(content) {
                return Err(self.unclosed_quote(opening));
            }
            self.quotes.missing_blank.get_or_insert(self.line_column_at(len + 2));
        }
        self.push(fields, content, true);
        self.skip_quoted(content);
        Ok(())
    }

    /// The offset of the closing quote of the string at the start of `text`; `None` if there is none or the field is too long.
    fn closing_quote(&mut self, text: &[u8]) -> Option<usize> {
        let len = closing_quote(text);
        self.reached_end |= len.is_none() && text.len() <= MAX_FIELD_LEN;
        len
    }

    /// Skips a quoted string, counting its lines.
    fn skip_quoted(&mut self, content: &[u8]) {
        let end = self.now.at + content.len() + 2;
        self.now.at += 1;
        while let Some(newline) = memchr2(b'\n', b'\r', &self.text[self.now.at..end]) {
            self.now.at += newline;
            self.newline();
        }
        self.now.at = end;
    }

    #[inline(always)]
    fn push(&mut self, fields: &mut Vec<Field<'t>>, text: &'t [u8], quoted: bool) {
        if text.len() <= MAX_FIELD_LEN && fields.len() < MAX_FIELDS {
            let LineColumn { line, column } = self.now.line_column();
            fields.push(Field { text, quoted, line, column });
        } else {
            self.reject_field(text);
        }
    }

    #[cold]
    fn reject_field(&mut self, text: &[u8]) {
        let message = match text.len() {
            0..=MAX_FIELD_LEN => "the entry has more fields than any record",
            _ => "the field is longer than any RDATA",
        };
        self.error_at(0, message, "RDATA has at most 65535 octets");
    }

    //----------- parentheses and lines ----------------------------------------

    fn open(&mut self) -> Result<(), Box<ParseError>> {
        if let Some(open) = self.open {
            return Err(self.unclosed_parenthesis(open));
        }
        self.open = Some(self.now);
        self.now.at += 1;
        Ok(())
    }

    fn close(&mut self) {
        if self.open.take().is_none() {
            self.error_at(0, "a closing parenthesis without an opening one", "remove it, or write \\)");
        }
        self.now.at += 1;
    }

    fn newline(&mut self) {
        let crlf = self.text[self.now.at..].starts_with(b"\r\n");
        self.now.at += 1 + usize::from(crlf);
        // A line feed may follow a carriage return.
        self.reached_end |= self.now.at == self.text.len();
        self.now.line_start = self.now.at;
        self.now.line = self.now.line.saturating_add(1);
    }

    fn line_end(&mut self) -> usize {
        let rest = &self.text[self.now.at..];
        let len = memchr2(b'\n', b'\r', rest);
        self.reached_end |= len.is_none();
        self.now.at + len.unwrap_or(rest.len())
    }

    fn skip_line(&mut self) {
        self.now.at = self.line_end();
        if self.now.at < self.text.len() {
            self.newline();
        }
    }

    //----------- errors -------------------------------------------------------

    /// Notes an error `offset` octets further in the line, unless the entry has one already.
    fn error_at(&mut self, offset: usize, message: &'static str, help: &'static str) {
        let at = self.line_column_at(offset);
        self.error.get_or_insert_with(|| ParseError::new(at, message, help));
    }

    /// The position `offset` octets further in the line.
    fn line_column_at(&self, offset: usize) -> LineColumn {
        ScanPosition { at: self.now.at + offset, ..self.now }.line_column()
    }

    fn unclosed_parenthesis(&mut self, opening: ScanPosition) -> Box<ParseError> {
        self.recover_after(opening);
        ParseError::new(
            opening.line_column(),
            "this parenthesis is not closed",
            "close it with ) before the next record",
        )
    }

    /// The error for an unclosed quote, or for the open parenthesis if lines after that look like other records.
    fn unclosed_quote(&mut self, opening: ScanPosition) -> Box<ParseError> {
        let between =
            self.text[self.open.unwrap_or(opening).at..opening.at].split(|&byte| class(byte) == ByteClass::Newline);
        if let Some(open) = self.open.filter(|_| between.skip(1).any(looks_like_entry)) {
            return self.unclosed_parenthesis(open);
        }
        self.recover_after(opening);
        ParseError::new(
            opening.line_column(),
            "this quote is not closed",
            "close it with \", and write \\\" for a quote in a string",
        )
    }

    /// Moves to the next line after `opening` that looks like a record or directive.
    fn recover_after(&mut self, opening: ScanPosition) {
        self.now = opening;
        self.open = None;
        self.error = None;
        self.skip_line();
        while self.now.at < self.text.len() {
            let line_end = self.line_end();
            if looks_like_entry(&self.text[self.now.at..line_end]) {
                break;
            }
            self.skip_line();
        }
    }
}

/// The number of plain bytes at the start of `text`.
fn plain_len(text: &[u8]) -> usize {
    text.iter().position(|&byte| class(byte) != ByteClass::Plain).unwrap_or(text.len())
}

fn has_newline(text: &[u8]) -> bool {
    memchr2(b'\n', b'\r', text).is_some()
}

fn is_word_part(byte: Option<&u8>) -> bool {
    byte.is_some_and(|&byte| matches!(class(byte), ByteClass::Plain | ByteClass::Escape | ByteClass::Quote))
}

fn closing_quote(text: &[u8]) -> Option<usize> {
    let text = &text[..text.len().min(MAX_FIELD_LEN + 1)];
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Whether a line is a directive, or has a type where a record has it: after owner, TTL and class.
fn looks_like_entry(line: &[u8]) -> bool {
    let words = line.split(|&byte| class(byte) == ByteClass::Blank);
    let mut words = words.filter(|word| !word.is_empty()).take(4);
    let owner = if line.first().is_some_and(|&byte| class(byte) == ByteClass::Blank) { None } else { words.next() };
    owner.is_some_and(|owner| owner.starts_with(b"$")) || words.any(|word| Rtype::from_text(word).is_some())
}

//----------- splitting into chunks --------------------------------------------

/// The first line at or after `from` that starts with a word other than a directive: it states an owner, unless it is in
/// parentheses or quotes.
pub(super) fn owner_line(text: &[u8], from: usize) -> Option<usize> {
    let from = from.max(1);
    let newlines = memchr_iter(b'\n', text.get(from - 1..).unwrap_or_default());
    let mut starts = newlines.map(|newline| from + newline);
    let states_owner = |byte: &u8| *byte != b'$' && matches!(class(*byte), ByteClass::Plain | ByteClass::Escape);
    starts.find(|&at| text.get(at).is_some_and(states_owner))
}

/// The number of line ends in `text`: line feed, carriage return, or both together.
pub(super) fn count_lines(text: &[u8]) -> u32 {
    let feeds = memchr_iter(b'\n', text).count();
    let lone_returns = memchr_iter(b'\r', text).filter(|&at| text.get(at + 1) != Some(&b'\n')).count();
    u32::try_from(feeds + lone_returns).unwrap_or(u32::MAX)
}
