//! Encodes zones as transfer messages once, so that to serve one is to copy it.

use wire::{HEADER_LEN, Name, NameRef, Rtype};
use zone::text::{self, RecordSink, Source, ZoneRecord};
use zone::{Finding, Severity};

/// A zone ready for transfer.
#[derive(Debug)]
pub struct EncodedZone {
    /// The messages of an AXFR response (RFC 5936 2.2) with length prefixes, each with id 0 and the question.
    pub stream: Vec<u8>,
    /// The response to a SOA query, with id 0.
    pub soa_response: Vec<u8>,
    /// Records in `stream`.
    pub records: u64,
}

/// The maximum size of a message with several records: within reach of compression pointers.
const MESSAGE_LEN: usize = 16_000;
/// The fixed fields of a record: type, class, TTL, length.
const FIXED_LEN: usize = 10;

/// Parses a zone file and encodes the zone. The error is the first one in the file.
pub fn encode(source: Source<'_>, apex: &Name) -> Result<EncodedZone, Box<Finding>> {
    let name = source.name.clone();
    let parsed = text::parse(source, &text::ParseOptions::new(apex.as_ref()), RecordCollector::default);
    let error = parsed.findings.into_iter().find(|found| found.severity == Severity::Error);
    if let Some(error) = error {
        return Err(Box::new(error));
    }
    let records = || parsed.sinks.iter().flat_map(RecordCollector::records);
    let soa = records().find(|record| record.rtype == Rtype::SOA).ok_or_else(|| {
        Box::new(Finding {
            severity: Severity::Error,
            position: zone::FilePosition { file: name, ..zone::FilePosition::default() },
            message: "the zone has no SOA record".into(),
            help: String::new(),
        })
    })?;
    let mut writer = TransferWriter::new(apex);
    writer.push(&soa);
    for record in records().filter(|record| record.rtype != Rtype::SOA) {
        writer.push(&record);
    }
    writer.push(&soa);
    let (stream, records) = writer.finish();
    let mut soa_writer = TransferWriter::new(apex);
    soa_writer.push(&soa);
    let mut soa_response = soa_writer.finish().0.split_off(2);
    let qtype_at = HEADER_LEN + apex.wire().len();
    soa_response[qtype_at..qtype_at + 2].copy_from_slice(&Rtype::SOA.0.to_be_bytes());
    Ok(EncodedZone { stream, soa_response, records })
}

//----------- RecordCollector --------------------------------------------------

/// Concatenated records: owner, type, TTL, length, RDATA.
#[derive(Default)]
struct RecordCollector(Vec<u8>);

impl RecordSink for RecordCollector {
    fn record(&mut self, record: ZoneRecord<'_>) {
        let (rtype, ttl) = (record.rtype.0.to_be_bytes(), record.ttl.to_be_bytes());
        let len = (record.rdata.len() as u16).to_be_bytes();
        self.0.extend([record.owner.wire(), &rtype, &ttl, &len, record.rdata].concat());
    }
}

struct StoredRecord<'c> {
    owner: NameRef<'c>,
    rtype: Rtype,
    ttl: [u8; 4],
    rdata: &'c [u8],
}

impl RecordCollector {
    fn records(&self) -> impl Iterator<Item = StoredRecord<'_>> {
        let mut rest = &self.0[..];
        std::iter::from_fn(move || {
            let owner = NameRef::from_wire(rest).ok()?;
            let ([type_high, type_low, ttl @ .., len_high, len_low], after) =
                rest[owner.wire().len()..].split_first_chunk::<8>()?;
            let rtype = Rtype(u16::from_be_bytes([*type_high, *type_low]));
            let (rdata, after) = after.split_at(usize::from(u16::from_be_bytes([*len_high, *len_low])));
            rest = after;
            Some(StoredRecord { owner, rtype, ttl: *ttl, rdata })
        })
    }
}

//----------- TransferWriter ---------------------------------------------------

/// Writes messages. Owners are compressed against the question and the previous owner; RDATA is not compressed.
struct TransferWriter<'a> {
    apex: &'a Name,
    stream: Vec<u8>,
    /// The offset of the current message, after its length prefix.
    message_at: usize,
    /// Records in the current message.
    count: u16,
    records: u64,
    /// The previous owner in this message and its offset.
    last_owner: Option<(Name, u16)>,
}

impl TransferWriter<'_> {
    fn new(apex: &Name) -> TransferWriter<'_> {
        let mut writer =
            TransferWriter { apex, stream: Vec::new(), message_at: 0, count: 0, records: 0, last_owner: None };
        writer.begin_message();
        writer
    }

    fn begin_message(&mut self) {
        self.message_at = self.stream.len() + 2;
        let header = [0, 0, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        self.stream.extend([&[0, 0], &header[..], self.apex.wire(), &Rtype::AXFR.0.to_be_bytes(), &[0, 1]].concat());
        (self.count, self.last_owner) = (0, None);
    }

    fn end_message(&mut self) {
        let len = (self.stream.len() - self.message_at) as u16;
        self.stream[self.message_at - 2..self.message_at].copy_from_slice(&len.to_be_bytes());
        self.stream[self.message_at + 6..self.message_at + 8].copy_from_slice(&self.count.to_be_bytes());
    }

    fn push(&mut self, record: &StoredRecord<'_>) {
        let len = self.stream.len() - self.message_at + record.owner.wire().len() + FIXED_LEN + record.rdata.len();
        if len > MESSAGE_LEN && self.count > 0 {
            self.end_message();
            self.begin_message();
        }
        self.push_owner(record.owner);
        let len = (record.rdata.len() as u16).to_be_bytes();
        self.stream.extend([&record.rtype.0.to_be_bytes(), &[0, 1], &record.ttl[..], &len, record.rdata].concat());
        self.count += 1;
        self.records += 1;
    }

    /// Writes an owner, compressed (RFC 1035 4.1.4).
    fn push_owner(&mut self, owner: NameRef<'_>) {
        let pointer = |offset: u16| (0xc000 | offset).to_be_bytes();
        if let Some((_, offset)) = self.last_owner.as_ref().filter(|(last, _)| last.wire() == owner.wire()) {
            self.stream.extend_from_slice(&pointer(*offset));
            return;
        }
        let offset = (self.stream.len() - self.message_at) as u16;
        let apex_len = self.apex.wire().len();
        let (labels, apex) = owner.wire().split_at(owner.wire().len() - apex_len);
        // Compared with case, which compression must preserve.
        if apex == self.apex.wire() && apex_len > 1 {
            self.stream.extend_from_slice(labels);
            self.stream.extend_from_slice(&pointer(HEADER_LEN as u16));
        } else {
            self.stream.extend_from_slice(owner.wire());
        }
        self.last_owner = (offset < 0x4000).then(|| (owner.to_owned(), offset));
    }

    fn finish(mut self) -> (Vec<u8>, u64) {
        self.end_message();
        (self.stream, self.records)
    }
}
