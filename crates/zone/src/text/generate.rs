//! `$GENERATE`: numbered records, in BIND's syntax.
//!
//! `$GENERATE START-STOP[/STEP] OWNER [TTL] [CLASS] TYPE RDATA`: in OWNER and RDATA, `$` is replaced by the number and
//! `${OFFSET,WIDTH,BASE}` by the number plus an offset, padded with zeros, in base `d`, `o`, `x`, `X`, or as nibbles (`n`,
//! `N`: `f.0.1` for 0x10f).

use super::error::{LineColumn, ParseError};
use super::record::{RecordHeader, RecordParser};
use super::scan::{LineStart, QuotePlacement, Scanner};
use super::{ErrorText, Field, RecordSink, rdata};

/// The maximum width of a number: the length of a name.
const MAX_WIDTH: usize = 255;
/// The maximum text of an owner or RDATA, in octets: a blank and `\DDD` for each octet of the longest RDATA.
const MAX_TEXT_LEN: usize = 5 * 65_535;

const HELP: &str = "as in $GENERATE 1-254 host$ A 192.0.2.$";

/// A parsed `$GENERATE`.
struct Generator<'f, 't> {
    line: u32,
    owner: Template,
    owner_field: &'f Field<'t>,
    header: RecordHeader,
    rdata: Template,
    rdata_field: &'f Field<'t>,
}

impl<S: RecordSink> RecordParser<'_, S> {
    /// Parses and delivers the records of a `$GENERATE`; stops at the first error.
    pub fn generate(&mut self, name: &Field<'_>, arguments: &[Field<'_>]) -> Result<(), Box<ParseError>> {
        let [range, owner_field, rest @ ..] = arguments else {
            let last = arguments.last().unwrap_or(name);
            return Err(ParseError::new(
                LineColumn::after(last),
                "a range, an owner, a type and RDATA are missing",
                HELP,
            ));
        };
        let numbers = numbers(range.text).map_err(|message| ParseError::at(range, message, HELP))?;
        let over_limit = |ErrorText { message, help }| ParseError::at(range, message, help);
        self.counter.check_range(numbers.len() as u64).map_err(over_limit)?;
        let header = self.header(owner_field, rest)?;
        let [rdata_field, ..] = &rest[header.len..] else {
            return Err(ParseError::new(LineColumn::after(&rest[header.len - 1]), "the RDATA is missing", HELP));
        };
        let owner = Template::new(&arguments[1..2])?;
        let rdata = Template::new(&rest[header.len..])?;
        let generator = Generator { line: name.line, owner, owner_field, header, rdata, rdata_field };
        // A following record without an owner has the last owner before the directive.
        let stated_owner = self.state.owner.clone();
        let is_generated = std::mem::replace(&mut self.counter.is_generated, true);
        let result = numbers.into_iter().try_for_each(|number| self.generate_record(&generator, number));
        self.counter.is_generated = is_generated;
        self.state.owner = stated_owner;
        result
    }

    fn generate_record(&mut self, generator: &Generator<'_, '_>, number: u32) -> Result<(), Box<ParseError>> {
        let Generator { line, header, owner_field, rdata_field, .. } = *generator;
        let owner = generator.owner.expand(number, owner_field)?;
        self.owner(&Field { text: &owner, ..*owner_field })?;
        let rdata = generator.rdata.expand(number, rdata_field)?;
        let over_limit = |ErrorText { message, help }| ParseError::at(rdata_field, message, help);
        self.counter.count_text(owner.len() + rdata.len()).map_err(over_limit)?;
        let mut scanner = Scanner::new(&rdata, LineStart { at: 0, line });
        let fields = fields(&mut scanner, rdata_field)?;
        let at_template = |at: Option<LineColumn>| at.map(|_| LineColumn::of(rdata_field));
        let QuotePlacement { joined_quote, missing_blank } = scanner.quotes;
        let quotes =
            QuotePlacement { joined_quote: at_template(joined_quote), missing_blank: at_template(missing_blank) };
        self.record(line, header, &fields, rdata_field, &quotes)
    }
}

/// The fields of generated RDATA, with the position of their template.
fn fields<'t>(scanner: &mut Scanner<'t>, template: &Field<'_>) -> Result<Vec<Field<'t>>, Box<ParseError>> {
    let mut fields = Vec::new();
    scanner.entry(&mut fields).map_err(|error| ParseError::at(template, error.message, error.help))?;
    if !scanner.is_at_end() {
        return Err(ParseError::at(template, "the RDATA has more than one line", "write it on one line"));
    }
    for field in &mut fields {
        (field.line, field.column) = (template.line, template.column);
    }
    Ok(fields)
}

/// `START-STOP` or `START-STOP/STEP`.
fn numbers(range: &[u8]) -> Result<impl ExactSizeIterator<Item = u32>, &'static str> {
    let text = std::str::from_utf8(range).unwrap_or("");
    let (bounds, step) = text.split_once('/').unwrap_or((text, "1"));
    let (start, stop) = bounds.split_once('-').ok_or("the range is not START-STOP or START-STOP/STEP")?;
    let number = |text| decimal(text).ok_or("the range has something other than numbers up to 2147483647");
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
    if stop < start {
        return Err("the range ends before it starts");
    }
    if step == 0 {
        return Err("the step of the range is 0");
    }
    // Neither sum overflows: all are at most 2^31 - 1.
    Ok((0..(stop - start) / step + 1).map(move |nth| start + nth * step))
}

/// A number up to 2^31 - 1 without a sign.
fn decimal(text: &str) -> Option<u32> {
    rdata::decimal(text.as_bytes(), i32::MAX as u64).map(|number| number as u32)
}

//----------- Template ---------------------------------------------------------

/// Text with placeholders for the number.
struct Template(Vec<Piece>);

enum Piece {
    Text(Vec<u8>),
    Number { offset: i64, width: usize, base: u8 },
}

pub(super) const PIECE_HELP: &str = "as in $, ${10}, ${0,3,d}; base is one of d o x X n N; write $$ for a dollar sign";

impl Template {
    /// A template of at least one field.
    fn new(fields: &[Field<'_>]) -> Result<Template, Box<ParseError>> {
        match pieces(&joined(fields)) {
            Ok(pieces) if pieces.iter().map(Piece::max_len).sum::<usize>() > MAX_TEXT_LEN => {
                Err(ParseError::at(&fields[0], "the text is longer than any RDATA", PIECE_HELP))
            }
            Ok(pieces) => Ok(Template(pieces)),
            Err(message) => Err(ParseError::at(&fields[0], message, PIECE_HELP)),
        }
    }

    /// The text for a number. `field` is the template, for errors.
    fn expand(&self, number: u32, field: &Field<'_>) -> Result<Vec<u8>, Box<ParseError>> {
        let mut out = Vec::with_capacity(32);
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Number { offset, width, base } => {
                    let value = i32::try_from(i64::from(number) + offset)
                        .map_err(|_| ParseError::at(field, "the offset makes the number too large", HELP))?;
                    write_number(value, *width, *base, &mut out);
                }
            }
        }
        Ok(out)
    }
}

impl Piece {
    /// The maximum length of its text.
    fn max_len(&self) -> usize {
        match self {
            Piece::Text(text) => text.len(),
            // Eight nibbles and their dots, or the width; nibbles may take one octet more.
            Piece::Number { width, .. } => 1 + width.max(&16),
        }
    }
}

/// The text of the fields. A single quoted field is the text of several, as in BIND: `MX "10 mail$"`.
fn joined(fields: &[Field<'_>]) -> Vec<u8> {
    if let [Field { text, quoted: true, .. }] = fields {
        return without_quote_escapes(text);
    }
    let quoted =
        |field: &Field<'_>| if field.quoted { [b"\"", field.text, b"\""].concat() } else { field.text.to_vec() };
    fields.iter().map(quoted).collect::<Vec<_>>().join(&b' ')
}

/// Replaces `\"` by `"`.
fn without_quote_escapes(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (byte, rest.split_first()) {
            (b'\\', Some((b'"', after))) => {
                plain.push(b'"');
                rest = after;
            }
            (b'\\', Some((&escaped, after))) => {
                plain.extend([byte, escaped]);
                rest = after;
            }
            _ => plain.push(byte),
        }
    }
    plain
}

/// Splits text at its placeholders. `$$` is a dollar sign; escapes are left to the record parser.
fn pieces(text: &[u8]) -> Result<Vec<Piece>, &'static str> {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), Vec::new(), text);
    loop {
        rest = match rest {
            [] => break,
            [b'\\', byte, rest @ ..] => {
                plain.extend([b'\\', *byte]);
                rest
            }
            [b'$', b'$', rest @ ..] => {
                plain.push(b'$');
                rest
            }
            [b'$', rest @ ..] => {
                let (number, rest) = number_piece(rest)?;
                pieces.extend([Piece::Text(std::mem::take(&mut plain)), number]);
                rest
            }
            [byte, rest @ ..] => {
                plain.push(*byte);
                rest
            }
        };
    }
    pieces.push(Piece::Text(plain));
    Ok(pieces)
}

/// The placeholder after a `$`, `{OFFSET}`, `{OFFSET,WIDTH}`, `{OFFSET,WIDTH,BASE}` or empty, and the text after it.
fn number_piece(rest: &[u8]) -> Result<(Piece, &[u8]), &'static str> {
    let Some(braced) = rest.strip_prefix(b"{") else {
        return Ok((Piece::Number { offset: 0, width: 0, base: b'd' }, rest));
    };
    let end = memchr::memchr(b'}', braced).ok_or("a closing brace is missing")?;
    let text = std::str::from_utf8(&braced[..end]).unwrap_or("");
    let mut parts = text.split(',');
    let offset = parts.next().and_then(signed).ok_or("the offset is not a number")?;
    let width = parts.next().unwrap_or("0");
    let width = decimal(width.strip_prefix('+').unwrap_or(width)).ok_or("the width is not a number")? as usize;
    if width > MAX_WIDTH {
        return Err("the width is over 255");
    }
    let base = match parts.next().unwrap_or("d").as_bytes() {
        [base @ (b'd' | b'o' | b'x' | b'X' | b'n' | b'N')] => *base,
        _ => return Err("the base is unknown"),
    };
    match parts.next() {
        None => Ok((Piece::Number { offset, width, base }, &braced[end + 1..])),
        Some(_) => Err("the braces hold more than offset, width and base"),
    }
}

fn signed(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    decimal(digits).map(|number| sign * i64::from(number))
}

/// Writes the number as BIND does: except in decimal, a negative one is its 32-bit two's complement.
fn write_number(value: i32, width: usize, base: u8, out: &mut Vec<u8>) {
    let text = match base {
        b'o' => format!("{value:0width$o}"),
        b'x' => format!("{value:0width$x}"),
        b'X' => format!("{value:0width$X}"),
        b'n' => nibbles(&format!("{value:x}"), width),
        b'N' => nibbles(&format!("{value:X}"), width),
        _ => format!("{value:0width$}"),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Hexadecimal digits in reverse order, separated by dots; the width counts the dots, as in BIND.
fn nibbles(digits: &str, width: usize) -> String {
    let zeros = width.div_ceil(2).saturating_sub(digits.len());
    let mut text = String::new();
    for digit in digits.chars().rev().chain(std::iter::repeat_n('0', zeros)) {
        text.push(digit);
        text.push('.');
    }
    if width == 0 || width % 2 == 1 || text.len() - 1 > width {
        text.pop();
    }
    text
}
