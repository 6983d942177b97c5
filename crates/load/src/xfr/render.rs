//! Zones as the octets of a transfer, rendered once, so that serving one is copying.

use wire::{HEADER_LEN, Name, NameRef, Rtype};
use zone::text::{self, Record, Sink, Source};
use zone::{Diagnostic, Severity};

/// A zone ready to be sent.
#[derive(Debug)]
pub struct Rendered {
    /// The messages of an AXFR response (RFC 5936 2.2), each behind its length, with id 0 and the question in each.
    pub stream: Vec<u8>,
    /// The answer to a query for the SOA record, with id 0.
    pub soa_answer: Vec<u8>,
    /// Records in `stream`.
    pub records: u64,
}

/// Messages are filled up to this size, in octets: what compression pointers reach.
const MESSAGE_LEN: usize = 16_000;
/// The longest head of a record behind its owner: type, class, TTL, length.
const HEAD_LEN: usize = 10;

/// Reads zone text and renders it; an error is the first one in the text.
pub fn render(source: Source<'_>, apex: &Name) -> Result<Rendered, Box<Diagnostic>> {
    let name = source.name.clone();
    let parsed = text::parse(source, &text::Options::new(apex.as_ref()), Collector::default);
    let error = parsed.diagnostics.into_iter().find(|found| found.severity == Severity::Error);
    if let Some(error) = error {
        return Err(Box::new(error));
    }
    let records = || parsed.sinks.iter().flat_map(Collector::records);
    let soa = records().find(|record| record.rtype == Rtype::SOA).ok_or_else(|| {
        Box::new(Diagnostic {
            severity: Severity::Error,
            place: zone::Place { file: name, ..zone::Place::default() },
            message: "the zone has no SOA record".into(),
            help: String::new(),
        })
    })?;
    let mut writer = Writer::new(apex);
    writer.push(&soa);
    for record in records().filter(|record| record.rtype != Rtype::SOA) {
        writer.push(&record);
    }
    writer.push(&soa);
    let (stream, records) = writer.finish();
    let mut answer = Writer::new(apex);
    answer.push(&soa);
    let mut soa_answer = answer.finish().0.split_off(2);
    let qtype_at = HEADER_LEN + apex.wire().len();
    soa_answer[qtype_at..qtype_at + 2].copy_from_slice(&Rtype::SOA.0.to_be_bytes());
    Ok(Rendered { stream, soa_answer, records })
}

//----------- Collector --------------------------------------------------------

/// Records one behind the other: owner, type, TTL, length, RDATA.
#[derive(Default)]
struct Collector(Vec<u8>);

impl Sink for Collector {
    fn record(&mut self, record: Record<'_>) {
        self.0.extend_from_slice(record.owner.wire());
        self.0.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.0.extend_from_slice(&record.ttl.to_be_bytes());
        self.0.extend_from_slice(&(record.rdata.len() as u16).to_be_bytes());
        self.0.extend_from_slice(record.rdata);
    }
}

struct Stored<'c> {
    owner: NameRef<'c>,
    rtype: Rtype,
    ttl: [u8; 4],
    rdata: &'c [u8],
}

impl Collector {
    fn records(&self) -> impl Iterator<Item = Stored<'_>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let owner = NameRef::from_wire(rest).ok()?;
            let ([type_high, type_low, ttl @ .., len_high, len_low], behind) =
                rest[owner.wire().len()..].split_first_chunk::<8>()?;
            let rtype = Rtype(u16::from_be_bytes([*type_high, *type_low]));
            let (rdata, behind) = behind.split_at(usize::from(u16::from_be_bytes([*len_high, *len_low])));
            rest = behind;
            Some(Stored { owner, rtype, ttl: *ttl, rdata })
        })
    }
}

//----------- Writer -----------------------------------------------------------

/// Writes messages. Owners are compressed against the question and the owner before; RDATA is not compressed.
struct Writer<'a> {
    apex: &'a Name,
    stream: Vec<u8>,
    /// Where in `stream` the message at hand begins, behind its length.
    message_at: usize,
    count: u16,
    records: u64,
    /// The last owner in this message and its offset.
    owner: Option<(Name, u16)>,
}

impl Writer<'_> {
    fn new(apex: &Name) -> Writer<'_> {
        let mut writer = Writer { apex, stream: Vec::new(), message_at: 0, count: 0, records: 0, owner: None };
        writer.begin();
        writer
    }

    fn begin(&mut self) {
        self.stream.extend_from_slice(&[0, 0]);
        self.message_at = self.stream.len();
        self.stream.extend_from_slice(&[0, 0, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        self.stream.extend_from_slice(self.apex.wire());
        self.stream.extend_from_slice(&Rtype::AXFR.0.to_be_bytes());
        self.stream.extend_from_slice(&[0, 1]);
        (self.count, self.owner) = (0, None);
    }

    fn end(&mut self) {
        let len = (self.stream.len() - self.message_at) as u16;
        self.stream[self.message_at - 2..self.message_at].copy_from_slice(&len.to_be_bytes());
        self.stream[self.message_at + 6..self.message_at + 8].copy_from_slice(&self.count.to_be_bytes());
    }

    fn push(&mut self, record: &Stored<'_>) {
        let len = self.stream.len() - self.message_at + record.owner.wire().len() + HEAD_LEN + record.rdata.len();
        if len > MESSAGE_LEN && self.count > 0 {
            self.end();
            self.begin();
        }
        self.push_owner(record.owner);
        self.stream.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.stream.extend_from_slice(&[0, 1]);
        self.stream.extend_from_slice(&record.ttl);
        self.stream.extend_from_slice(&(record.rdata.len() as u16).to_be_bytes());
        self.stream.extend_from_slice(record.rdata);
        self.count += 1;
        self.records += 1;
    }

    /// RFC 1035 4.1.4.
    fn push_owner(&mut self, owner: NameRef<'_>) {
        let pointer = |offset: u16| (0xc000 | offset).to_be_bytes();
        if let Some((_, offset)) = self.owner.as_ref().filter(|(last, _)| last.wire() == owner.wire()) {
            self.stream.extend_from_slice(&pointer(*offset));
            return;
        }
        let offset = (self.stream.len() - self.message_at) as u16;
        let apex_len = self.apex.wire().len();
        let (labels, apex) = owner.wire().split_at(owner.wire().len() - apex_len);
        // The same octets: the case of the text is kept.
        if apex == self.apex.wire() && apex_len > 1 {
            self.stream.extend_from_slice(labels);
            self.stream.extend_from_slice(&pointer(HEADER_LEN as u16));
        } else {
            self.stream.extend_from_slice(owner.wire());
        }
        self.owner = (offset < 0x4000).then(|| (owner.to_owned(), offset));
    }

    fn finish(mut self) -> (Vec<u8>, u64) {
        self.end();
        (self.stream, self.records)
    }
}
