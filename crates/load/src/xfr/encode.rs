//! Encodes zones as transfer messages once, so that to serve one is to copy it.
//!
//! Version `v` of a changing zone has the serial of the file plus `v`, and a TXT record that contains `v`, so that all versions
//! have the same layout: to serve one is to copy the messages and to set the serials and the text.

use std::collections::HashMap;

use wire::serial::of_soa;
use wire::{HEADER_LEN, Name, NameRef, Rtype, soa};
use zone::text::{self, RecordSink, Source, ZoneRecord};
use zone::{Finding, Severity};

/// The zones of a primary, by name.
pub type EncodedZones = HashMap<Name, EncodedZone>;

/// A zone ready for transfer.
#[derive(Debug)]
pub struct EncodedZone {
    /// The messages of an AXFR response (RFC 5936 2.2) with length prefixes, each with id 0 and the question.
    pub stream: Vec<u8>,
    /// The response to a SOA query, with id 0.
    pub soa_response: Vec<u8>,
    /// Records in `stream`.
    pub records: u64,
    /// The serial of version 0.
    pub serial: u32,
    apex: Name,
    /// Where the serials of both SOA records are in `stream`.
    serials_at: [usize; 2],
    /// Where the text of the version is in `stream`; `None` if the zone does not change.
    version_at: Option<usize>,
    soa_ttl: [u8; 4],
    soa_rdata: Vec<u8>,
}

/// The maximum size of a message with several records: within reach of compression pointers.
const MESSAGE_LEN: usize = 16_000;
/// The fixed fields of a record: type, class, TTL, length.
const FIXED_LEN: usize = 10;
/// The fixed fields of a question: type, class.
const QUESTION_FIXED_LEN: usize = 4;
/// The digits of a version.
const VERSION_LEN: usize = 10;
/// The label of the TXT record with the version.
const VERSION_LABEL: &[u8] = b"\x08_version";
/// RFC 1995 4: a client that is further behind gets the whole zone, as servers with a short journal do.
pub const MAX_DIFFERENCES: u32 = 100;

/// How zones are encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZoneEncoder {
    /// Whether they change while they are served.
    pub is_changing: bool,
    /// The length of the TSIG record that each message will have.
    pub tsig_len: usize,
}

impl ZoneEncoder {
    /// Parses a zone file and encodes the zone. The error is the first one in the file.
    pub fn encode(self, source: Source<'_>, apex: &Name) -> Result<EncodedZone, Box<Finding>> {
        let name = source.name.clone();
        let finding = |message: &str| {
            let position = zone::FilePosition { file: name.clone(), ..zone::FilePosition::default() };
            Box::new(Finding { severity: Severity::Error, position, message: message.into(), help: String::new() })
        };
        let parsed = text::parse(source, &text::ParseOptions::new(apex.as_ref()), RecordCollector::default);
        let error = parsed.findings.into_iter().find(|found| found.severity == Severity::Error);
        if let Some(error) = error {
            return Err(Box::new(error));
        }
        if let Some(record) = records_of(&parsed.sinks).find(|record| !self.fits(apex, record)) {
            let (owner, rtype, len) = (record.owner, record.rtype, record.rdata.len());
            return Err(finding(&format!("the {rtype} record of {owner} with {len} octets fits in no message")));
        }
        encode_records(&parsed.sinks, apex, self.is_changing).map_err(finding)
    }

    /// Whether a message can have the record alone: its length has 16 bits (RFC 1035 4.2.2).
    fn fits(self, apex: &Name, record: &StoredRecord<'_>) -> bool {
        let question_len = apex.wire().len() + QUESTION_FIXED_LEN;
        HEADER_LEN + question_len + record.max_len() + self.tsig_len <= usize::from(u16::MAX)
    }
}

fn encode_records(sinks: &[RecordCollector], apex: &Name, is_changing: bool) -> Result<EncodedZone, &'static str> {
    let soa = records_of(sinks).find(|record| record.rtype == Rtype::SOA).ok_or("the zone has no SOA record")?;
    let version_owner = is_changing.then(|| version_owner(apex)).transpose();
    let version_owner = version_owner.map_err(|_| "the zone's name is too long for a name below it")?;
    let mut writer = TransferWriter::new(apex);
    writer.push(&soa);
    let first_serial = writer.stream.len() - soa::NUMBERS_LEN;
    let version_at = version_owner.map(|owner| {
        writer.push_version(owner.as_ref(), 0);
        writer.stream.len() - VERSION_LEN
    });
    for record in records_of(sinks).filter(|record| record.rtype != Rtype::SOA) {
        writer.push(&record);
    }
    writer.push(&soa);
    let serials_at = [first_serial, writer.stream.len() - soa::NUMBERS_LEN];
    let (stream, records) = writer.finish();
    let mut soa_writer = TransferWriter::new(apex);
    soa_writer.push(&soa);
    let mut soa_response = soa_writer.finish().0.split_off(2);
    let qtype_at = HEADER_LEN + apex.wire().len();
    soa_response[qtype_at..qtype_at + 2].copy_from_slice(&Rtype::SOA.0.to_be_bytes());
    Ok(EncodedZone {
        stream,
        soa_response,
        records,
        serial: of_soa(soa.rdata).ok_or("the SOA record is too short")?,
        apex: apex.clone(),
        serials_at,
        version_at,
        soa_ttl: soa.ttl,
        soa_rdata: soa.rdata.to_vec(),
    })
}

impl EncodedZone {
    /// Whether it has further versions.
    pub fn is_changing(&self) -> bool {
        self.version_at.is_some()
    }

    /// The serial of a version (RFC 1982: it wraps around).
    pub fn serial_of(&self, version: u32) -> u32 {
        self.serial.wrapping_add(version)
    }

    /// Writes the response to a SOA query, with id 0.
    pub fn write_soa_response(&self, version: u32, out: &mut Vec<u8>) {
        out.clone_from(&self.soa_response);
        soa::set_serial(out, self.serial_of(version));
    }

    /// Sets what differs in a version, in a copy of the octets of `stream` from `start`, which are whole messages.
    pub fn set_version(&self, version: u32, start: usize, copy: &mut [u8]) {
        let mut set = |at: usize, octets: &[u8]| {
            let target = at.checked_sub(start).and_then(|at| copy.get_mut(at..at + octets.len()));
            target.into_iter().for_each(|target| target.copy_from_slice(octets));
        };
        if let Some(version_at) = self.version_at {
            set(version_at, &version_digits(version));
            self.serials_at.iter().for_each(|&at| set(at, &self.serial_of(version).to_be_bytes()));
        }
    }

    /// The messages of an incremental response (RFC 1995 4), from the client's serial to a version, with the number of their records.
    ///
    /// `None` if the client needs the whole zone: it has a version that never was, or is too far behind.
    pub fn differences(&self, client_serial: u32, version: u32) -> Option<(Vec<u8>, u64)> {
        let client_version = client_serial.wrapping_sub(self.serial);
        let steps = version.checked_sub(client_version).filter(|steps| (1..=MAX_DIFFERENCES).contains(steps))?;
        let owner = version_owner(&self.apex).ok().filter(|_| self.is_changing())?;
        let mut writer = TransferWriter::new(&self.apex);
        let push_soa = |writer: &mut TransferWriter<'_>, version| {
            let mut rdata = self.soa_rdata.clone();
            soa::set_serial(&mut rdata, self.serial_of(version));
            let owner = self.apex.as_ref();
            writer.push(&StoredRecord { owner, rtype: Rtype::SOA, ttl: self.soa_ttl, rdata: &rdata });
        };
        push_soa(&mut writer, version);
        // A difference for each version, as a server that keeps all of them sends it: what was deleted, and what was added.
        for old in version - steps..version {
            for changed in [old, old + 1] {
                push_soa(&mut writer, changed);
                writer.push_version(owner.as_ref(), changed);
            }
        }
        push_soa(&mut writer, version);
        Some(writer.finish())
    }
}

fn version_digits(version: u32) -> [u8; VERSION_LEN] {
    let mut digits = [b'0'; VERSION_LEN];
    let text = version.to_string();
    digits[VERSION_LEN - text.len()..].copy_from_slice(text.as_bytes());
    digits
}

fn version_owner(apex: &Name) -> Result<Name, wire::name::NameError> {
    Name::from_wire(&[VERSION_LABEL, apex.wire()].concat())
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

impl StoredRecord<'_> {
    /// Its length with an uncompressed owner.
    fn max_len(&self) -> usize {
        self.owner.wire().len() + FIXED_LEN + self.rdata.len()
    }
}

fn records_of(sinks: &[RecordCollector]) -> impl Iterator<Item = StoredRecord<'_>> {
    sinks.iter().flat_map(RecordCollector::records)
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

/// Writes messages. Owners are compressed against the apex and the previous owner; RDATA is not compressed.
struct TransferWriter<'a> {
    apex: &'a Name,
    stream: Vec<u8>,
    /// The offset of the current message, after its length prefix.
    message_at: usize,
    /// Records in the current message.
    count: u16,
    records: u64,
    /// The offset of the apex in its own case. RFC 5936 3.4: names keep their case, and the question has that of the query.
    apex_at: Option<u16>,
    /// The previous owner in this message and its offset.
    last_owner: Option<(Name, u16)>,
}

impl TransferWriter<'_> {
    fn new(apex: &Name) -> TransferWriter<'_> {
        let (stream, apex_at, last_owner) = (Vec::new(), None, None);
        let mut writer = TransferWriter { apex, stream, message_at: 0, count: 0, records: 0, apex_at, last_owner };
        writer.begin_message();
        writer
    }

    fn begin_message(&mut self) {
        self.message_at = self.stream.len() + 2;
        let header = [0, 0, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        self.stream.extend([&[0, 0], &header[..], self.apex.wire(), &Rtype::AXFR.0.to_be_bytes(), &[0, 1]].concat());
        (self.count, self.apex_at, self.last_owner) = (0, None, None);
    }

    fn end_message(&mut self) {
        let len = (self.stream.len() - self.message_at) as u16;
        self.stream[self.message_at - 2..self.message_at].copy_from_slice(&len.to_be_bytes());
        self.stream[self.message_at + 6..self.message_at + 8].copy_from_slice(&self.count.to_be_bytes());
    }

    fn push(&mut self, record: &StoredRecord<'_>) {
        let len = self.stream.len() - self.message_at + record.max_len();
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

    /// Writes the TXT record of a version.
    fn push_version(&mut self, owner: NameRef<'_>, version: u32) {
        // RFC 1035 3.3.14: a character-string, with its length.
        let rdata = [&[VERSION_LEN as u8][..], &version_digits(version)].concat();
        self.push(&StoredRecord { owner, rtype: Rtype::TXT, ttl: [0; 4], rdata: &rdata });
    }

    /// Writes an owner, compressed (RFC 1035 4.1.4).
    fn push_owner(&mut self, owner: NameRef<'_>) {
        let pointer = |offset: u16| (0xc000 | offset).to_be_bytes();
        if let Some((_, offset)) = self.last_owner.as_ref().filter(|(last, _)| last.wire() == owner.wire()) {
            self.stream.extend_from_slice(&pointer(*offset));
            return;
        }
        // Below 0x4000, the limit of pointers: an owner begins within `MESSAGE_LEN`.
        let offset = (self.stream.len() - self.message_at) as u16;
        let apex_len = self.apex.wire().len();
        let (labels, apex) = owner.wire().split_at(owner.wire().len() - apex_len);
        let has_apex = apex == self.apex.wire() && apex_len > 1;
        if let Some(apex_at) = self.apex_at.filter(|_| has_apex) {
            self.stream.extend_from_slice(labels);
            self.stream.extend_from_slice(&pointer(apex_at));
        } else {
            self.stream.extend_from_slice(owner.wire());
            self.apex_at = self.apex_at.or_else(|| has_apex.then_some(offset + labels.len() as u16));
        }
        self.last_owner = Some((owner.to_owned(), offset));
    }

    fn finish(mut self) -> (Vec<u8>, u64) {
        self.end_message();
        (self.stream, self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Message;
    use wire::framing::split_message;

    fn changing_zone() -> EncodedZone {
        let text: String = (0..2000).map(|host| format!("host{host} A 192.0.2.{}\n", host % 256)).collect();
        let text = format!("$TTL 60\n@ SOA ns hostmaster 4294967295 1 1 1 1\n@ NS ns\n{text}");
        let source = Source { name: "test".into(), bytes: text.as_bytes() };
        let encoder = ZoneEncoder { is_changing: true, tsig_len: 0 };
        encoder.encode(source, &"example.org".parse().expect("a literal")).expect("a good zone")
    }

    /// The records of a stream: serials of SOA records, and the texts of TXT records.
    fn summary(mut stream: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        while let Some((message, after)) = split_message(stream) {
            found.extend(Message::parse(message).expect("well-formed").answer.into_iter().filter_map(|record| {
                match record.rtype {
                    Rtype::SOA => of_soa(&record.rdata).map(|serial| format!("SOA {serial}")),
                    Rtype::TXT => Some(format!("{} {}", record.owner, String::from_utf8_lossy(&record.rdata[1..]))),
                    _ => None,
                }
            }));
            stream = after;
        }
        found
    }

    #[test]
    fn every_version_has_its_serial_and_its_text() {
        let zone = changing_zone();
        for (version, serial) in [(0, "4294967295"), (1, "0"), (77, "76")] {
            let (mut out, mut rest) = (Vec::new(), &zone.stream[..]);
            while let Some((message, after)) = split_message(rest) {
                let (start, copied) = (zone.stream.len() - rest.len(), out.len());
                out.extend_from_slice(&rest[..message.len() + 2]);
                zone.set_version(version, start, &mut out[copied..]);
                rest = after;
            }
            let soa = format!("SOA {serial}");
            assert_eq!(summary(&out), [soa.clone(), format!("_version.example.org. {version:010}"), soa.clone()]);
            zone.write_soa_response(version, &mut out);
            assert_eq!(
                of_soa(&Message::parse(&out).expect("well-formed").answer[0].rdata),
                Some(zone.serial_of(version))
            );
        }
        assert_eq!(summary(&zone.stream).len(), 3, "in several messages");
    }

    /// RFC 1995 4: the new SOA record, then for each version the old SOA record with what was deleted and the new one with
    /// what was added, then the new SOA record.
    #[test]
    fn rfc_1995_4_differences_lead_from_the_clients_version_to_the_current_one() {
        let zone = changing_zone();
        let (stream, records) = zone.differences(4294967295, 2).expect("two versions");
        let text = |version: u32| format!("_version.example.org. {version:010}");
        let soa = |serial: u32| format!("SOA {serial}");
        let first = [soa(1), soa(4294967295), text(0), soa(0), text(1)];
        let second = [soa(0), text(1), soa(1), text(2), soa(1)];
        assert_eq!(summary(&stream), [first, second].concat());
        assert_eq!(records, 10);
    }

    /// RFC 1035 4.2.2: 16 bits have the length of a message.
    #[test]
    fn rfc_1035_4_2_2_a_record_that_fits_in_no_message_is_an_error() {
        let encode = |rdata_len: usize, tsig_len| {
            let text = format!(
                "@ 60 SOA ns h 1 1 1 1 1\na 60 A 192.0.2.1\nb 60 TYPE65280 \\# {rdata_len} {}\n",
                "00".repeat(rdata_len)
            );
            let source = Source { name: "test".into(), bytes: text.as_bytes() };
            ZoneEncoder { is_changing: false, tsig_len }.encode(source, &"example.org".parse().expect("a literal"))
        };
        // Header, question, and the record's owner and fixed fields.
        let longest = 65_535 - 12 - (13 + 4) - (15 + 10);
        let zone = encode(longest, 0).expect("fits alone");
        let (mut rest, mut lens) = (&zone.stream[..], Vec::new());
        while let Some((message, after)) = split_message(rest) {
            lens.push((message.len(), Message::parse(message).expect("well-formed").answer.len()));
            rest = after;
        }
        assert_eq!((lens.len(), lens[1]), (3, (65_535, 1)), "{lens:?}");
        for (rdata_len, tsig_len) in [(longest + 1, 0), (longest, 1), (65_535, 0)] {
            let error = encode(rdata_len, tsig_len).expect_err("too long").to_string();
            let said = format!(
                "test: error: the TYPE65280 record of b.example.org. with {rdata_len} octets fits in no message"
            );
            assert_eq!(error, said);
        }
    }

    #[test]
    fn clients_without_a_known_version_get_the_whole_zone() {
        let zone = changing_zone();
        for (client_serial, version) in [(7, 2), (1, 1), (4294967294, 5), (4294967295, MAX_DIFFERENCES + 1)] {
            assert!(zone.differences(client_serial, version).is_none(), "{client_serial} {version}");
        }
        assert!(zone.differences(0, MAX_DIFFERENCES + 1).is_some());
    }
}
