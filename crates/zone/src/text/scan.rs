//! Zone text cut into entries (a line, or several in parentheses) and fields (RFC 1035 5.1). For the parser only.

use memchr::{memchr_iter, memchr2};
use wire::Rtype;

use super::Field;
use super::error::{LineColumn, ParseError};

/// The longest field: 65,535 octets of RDATA, each written `\DDD`.
const MAX_FIELD_LEN: usize = 4 * 65_535;
/// The most fields of an entry: 65,535 octets of RDATA, each in a field of its own, and what stands before them.
const MAX_FIELDS: usize = 65_535 + 8;

/// What a byte does outside of quotes.
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

/// A place within a line.
#[derive(Clone, Copy)]
struct ScanPosition {
    at: usize,
    line: u32,
    line_start: usize,
}

impl ScanPosition {
    fn spot(self) -> LineColumn {
        let column = u32::try_from(self.at - self.line_start + 1).unwrap_or(u32::MAX);
        LineColumn { line: self.line, column }
    }
}

/// Cuts text into entries and fields.
pub(super) struct Scanner<'t> {
    text: &'t [u8],
    now: ScanPosition,
    /// The parenthesis that is open.
    open: Option<ScanPosition>,
    /// The first mistake in the entry at hand.
    fault: Option<Box<ParseError>>,
    /// What is odd with the entry at hand.
    pub oddities: QuotePlacement,
    /// Whether the end of the text had a say in the entry.
    reached_end: bool,
    /// The text is a part, and an entry at its end is whole only if it is as long as this; 0 where the text is all.
    longest: usize,
}

/// What some types allow, or some servers read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuotePlacement {
    /// Where a value in quotes is joined to its key, as in `alpn="h2,h3"`.
    pub joined_quote: Option<LineColumn>,
    /// Where what is in quotes touches another field, as in `"x"y` or `x"y"`.
    pub missing_blank: Option<LineColumn>,
}

impl<'t> Scanner<'t> {
    /// A scanner of `text` from the start of a line on.
    pub fn new(text: &'t [u8], from: LineStart) -> Scanner<'t> {
        Scanner::of_part(text, from, 0)
    }

    /// A scanner of a part of a text in which no entry is longer than `longest`.
    pub fn of_part(text: &'t [u8], from: LineStart, longest: usize) -> Scanner<'t> {
        let now = ScanPosition { at: from.at, line: from.line, line_start: from.at };
        let (open, oddities) = (None, QuotePlacement::default());
        Scanner { text, now, open, fault: None, oddities, reached_end: false, longest }
    }

    /// Where the next entry starts.
    pub fn position(&self) -> LineStart {
        LineStart { at: self.now.at, line: self.now.line }
    }

    /// Whether nothing is left.
    pub fn is_at_end(&self) -> bool {
        self.now.at >= self.text.len()
    }

    /// Whether the next entry starts with a blank, and so has no owner of its own.
    pub fn starts_blank(&self) -> bool {
        self.text.get(self.now.at).is_some_and(|&byte| class(byte) == ByteClass::Blank)
    }

    /// Reads the fields of the next entry; none for an empty line and at the end of the text.
    ///
    /// After a mistake the scanner stands at the entry to go on with.
    pub fn entry(&mut self, fields: &mut Vec<Field<'t>>) -> Result<(), Box<ParseError>> {
        fields.clear();
        self.oddities = QuotePlacement::default();
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
            None => self.fault.take().map_or(Ok(()), Err),
        }
    }

    //----------- parts of a text ----------------------------------------------

    /// Goes back to the start of an entry.
    pub fn rewind(&mut self, start: LineStart) {
        self.now = ScanPosition { at: start.at, line: start.line, line_start: start.at };
    }

    /// Whether the entry that was read from `start` on may read otherwise with the text that follows.
    pub fn is_cut_off(&self, start: LineStart) -> bool {
        self.reached_end && self.text.len() - start.at < self.longest
    }

    /// Whether the entry that was read goes on although it is as long as an entry may be.
    pub fn is_too_long(&self) -> bool {
        self.longest > 0 && self.now.at == self.text.len()
    }

    //----------- fields -------------------------------------------------------

    fn word(&mut self, fields: &mut Vec<Field<'t>>) {
        let rest = &self.text[self.now.at..];
        let mut len = plain_len(rest);
        if matches!(rest.get(len), Some(b'\\' | b'"')) {
            len = self.odd_word_len(rest, len);
        }
        self.push(fields, &rest[..len], false);
        // Mostly one blank follows.
        self.now.at += len + usize::from(rest.get(len).is_some_and(|&byte| class(byte) == ByteClass::Blank));
    }

    /// How long a word with escapes or quotes in it is, the first of them after `len` octets.
    #[cold]
    fn odd_word_len(&mut self, word: &[u8], mut len: usize) -> usize {
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

    /// How long the escape at the start of `rest` is, `behind` octets into the word.
    fn escape_len(&mut self, rest: &[u8], behind: usize) -> usize {
        match rest.get(1) {
            Some(&byte) if class(byte) != ByteClass::Newline => 2,
            _ => {
                let message = "a backslash at the end of the line escapes nothing";
                self.error_after(behind, message, "write \\\\ for a backslash");
                1
            }
        }
    }

    /// How long what starts with the quote `at` octets into the word is, or as an error where the word ends.
    ///
    /// Behind `=` it is a value (RFC 9460 2.1), else a string that lacks the blank before it.
    fn quote_in_word(&mut self, word: &[u8], at: usize) -> Result<usize, usize> {
        let value = &word[at + 1..];
        let Some(len) = self.closing_quote(value).filter(|&len| !has_newline(&value[..len])) else {
            self.error_after(at, "a quote in the middle of a word", "put a blank before it, or write \\\"");
            return Ok(1);
        };
        if word[at - 1] != b'=' {
            self.oddities.missing_blank.get_or_insert(self.spot_after(at));
            return Err(at);
        }
        self.oddities.joined_quote.get_or_insert(self.spot_after(at));
        if is_word_part(value.get(len + 1)) {
            self.oddities.missing_blank.get_or_insert(self.spot_after(at + len + 2));
        }
        Err(at + len + 2)
    }

    fn quoted(&mut self, fields: &mut Vec<Field<'t>>) -> Result<(), Box<ParseError>> {
        let opening = self.now;
        let rest = &self.text[opening.at + 1..];
        let Some(len) = self.closing_quote(rest) else { return Err(self.unclosed_quote(opening)) };
        let content = &rest[..len];
        if is_word_part(rest.get(len + 1)) {
            // A string over several lines that ends in front of a word: its end is rather the start of another string.
            if has_newline(content) {
                return Err(self.unclosed_quote(opening));
            }
            self.oddities.missing_blank.get_or_insert(self.spot_after(len + 2));
        }
        self.push(fields, content, true);
        self.skip_quoted(content);
        Ok(())
    }

    /// Where the string that starts `text` ends; `None` if it does not, or is longer than a field may be.
    fn closing_quote(&mut self, text: &[u8]) -> Option<usize> {
        let len = closing_quote(text);
        self.reached_end |= len.is_none() && text.len() <= MAX_FIELD_LEN;
        len
    }

    /// Moves behind a quoted string, counting the lines in it.
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
            let LineColumn { line, column } = self.now.spot();
            fields.push(Field { text, quoted, line, column });
        } else {
            self.refuse_field(text);
        }
    }

    #[cold]
    fn refuse_field(&mut self, text: &[u8]) {
        let message = match text.len() {
            0..=MAX_FIELD_LEN => "the entry has more fields than any RDATA",
            _ => "the field is longer than any RDATA",
        };
        self.error_after(0, message, "RDATA has at most 65535 octets");
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
            self.error_after(0, "a closing parenthesis without an opening one", "take it out, or write \\)");
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

    //----------- mistakes -----------------------------------------------------

    /// Notes a mistake `behind` octets further on in this line, unless the entry has one already.
    fn error_after(&mut self, behind: usize, message: &'static str, help: &'static str) {
        let spot = self.spot_after(behind);
        self.fault.get_or_insert_with(|| ParseError::new(spot, message, help));
    }

    /// The place that many octets further on in this line.
    fn spot_after(&self, behind: usize) -> LineColumn {
        ScanPosition { at: self.now.at + behind, ..self.now }.spot()
    }

    fn unclosed_parenthesis(&mut self, opening: ScanPosition) -> Box<ParseError> {
        self.go_on_behind(opening);
        ParseError::new(opening.spot(), "this parenthesis is not closed", "close it with ) before the next record")
    }

    /// A quote that is not closed; or rather a parenthesis, if what follows the parenthesis looks like other records.
    fn unclosed_quote(&mut self, opening: ScanPosition) -> Box<ParseError> {
        let between =
            self.text[self.open.unwrap_or(opening).at..opening.at].split(|&byte| class(byte) == ByteClass::Newline);
        if let Some(open) = self.open.filter(|_| between.skip(1).any(looks_like_entry)) {
            return self.unclosed_parenthesis(open);
        }
        self.go_on_behind(opening);
        ParseError::new(
            opening.spot(),
            "this quote is not closed",
            "close it with \", and write \\\" for a quote in a string",
        )
    }

    /// Goes to the next line behind `opening` that looks like a record or directive.
    fn go_on_behind(&mut self, opening: ScanPosition) {
        self.now = opening;
        self.open = None;
        self.fault = None;
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

/// How many plain bytes stand at the start of `text`; most words are short, so that eight at a time beat wider registers.
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

/// Whether a line is a directive, or has a type where a record has it: behind owner, TTL and class.
fn looks_like_entry(line: &[u8]) -> bool {
    let words = line.split(|&byte| class(byte) == ByteClass::Blank);
    let mut words = words.filter(|word| !word.is_empty()).take(4);
    let owner = if line.first().is_some_and(|&byte| class(byte) == ByteClass::Blank) { None } else { words.next() };
    owner.is_some_and(|owner| owner.starts_with(b"$")) || words.any(|word| Rtype::from_text(word).is_some())
}

//----------- cutting into chunks ----------------------------------------------

/// The first line at or behind `from` that starts with a word which is no directive.
///
/// Outside of parentheses and quotes such a line states its owner.
pub(super) fn owner_line(text: &[u8], from: usize) -> Option<usize> {
    let from = from.max(1);
    let newlines = memchr_iter(b'\n', text.get(from - 1..).unwrap_or_default());
    let mut starts = newlines.map(|newline| from + newline);
    let states_owner = |byte: &u8| *byte != b'$' && matches!(class(*byte), ByteClass::Plain | ByteClass::Escape);
    starts.find(|&at| text.get(at).is_some_and(states_owner))
}

/// How many lines end in `text`, by a line feed, a carriage return, or both together.
pub(super) fn count_lines(text: &[u8]) -> u32 {
    let feeds = memchr_iter(b'\n', text).count();
    let lone_returns = memchr_iter(b'\r', text).filter(|&at| text.get(at + 1) != Some(&b'\n')).count();
    u32::try_from(feeds + lone_returns).unwrap_or(u32::MAX)
}
