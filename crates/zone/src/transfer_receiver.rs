//! Incoming transfers as a state machine: the client side of AXFR (RFC 5936) and IXFR (RFC 1995). It is given the messages of one
//! primary, in order, and checks everything but the ID and the TSIG record, which the caller needs to find the exchange.
//!
//! Responses of other servers differ, and all these forms are accepted: the question in every message or in the first one only or in
//! none, compressed names or not, one record or many per message, a whole zone in response to IXFR, empty messages.

use wire::message::{MessageError, Opcode, Rcode, header_rcode};
use wire::serial::{is_later, of_soa};
use wire::{Class, HEADER_LEN, Name, NameRef, Rtype};

use crate::encoded_change::{EncodedChange, append_record};
use crate::finding::{Finding, Findings};
use crate::received_record::{MessageReader, RecordBuffer, RecordHead};
pub use crate::transfer_error::TransferError;
use crate::ttl_limit::limited_ttl;
use crate::zone::Zone;
use crate::zone_builder::{ZoneBuilder, ZoneBuilderOptions};

/// What was asked of the primary.
#[derive(Clone, Copy, Debug)]
pub struct TransferRequest {
    /// The serial of the version to change by IXFR; `None` asks for the whole zone by AXFR.
    pub ixfr_from: Option<u32>,
    /// The serial that is served: earlier versions are refused, and of this one no more than the SOA record is received. `None` accepts
    /// any version: there is none yet, or it has expired, or the operator forces the transfer.
    pub not_before: Option<u32>,
    /// The exchange is over UDP: the response is one message (RFC 1995 2).
    pub is_udp: bool,
}

/// How much a transfer may send.
#[derive(Clone, Copy, Debug)]
pub struct TransferLimits {
    /// Records of the zone, and records that one change removes or adds.
    pub max_records: u64,
    /// Octets of records, uncompressed.
    pub max_octets: u64,
    /// Octets of memory.
    pub max_memory: u64,
}

impl Default for TransferLimits {
    /// No limits.
    fn default() -> TransferLimits {
        TransferLimits { max_records: u64::MAX, max_octets: u64::MAX, max_memory: u64::MAX }
    }
}

/// Whether the transfer goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveStatus {
    /// Another message follows.
    More,
    /// This was the last message: call [`TransferReceiver::finish`].
    Complete,
}

/// The result of a transfer.
pub enum Received {
    /// The SOA record alone. The primary has this serial: the version to change is up to date; or the response to IXFR over UDP was too
    /// long, and the serial is later.
    SoaOnly {
        /// The serial of the primary.
        serial: u32,
    },
    /// The whole zone.
    Full {
        /// The zone.
        zone: Zone,
        /// Warnings about odd records.
        findings: Vec<Finding>,
    },
    /// Changes, one after the other, from the version asked for.
    Changes(Vec<EncodedChange>),
}

/// Messages may have this many octets besides records in any case, so that padding (RFC 9103 7.9.1, 7.10.3) is accepted...
const FREE_PADDING: u64 = 4 << 20;
/// ... and this many times the octets of records: a short record in a message of its own, with a long question and a signature.
const PADDING_RATIO: u64 = 32;
/// Messages without a record in a row: a primary that sends more has stalled, whatever its connection says.
const MAX_EMPTY_MESSAGES: u32 = 1000;

/// Receives one transfer.
pub struct TransferReceiver {
    apex: Name,
    request: TransferRequest,
    limits: TransferLimits,
    state: ReceiveState,
    /// The first SOA record.
    soa: Option<ReceivedSoa>,
    builder: Option<ZoneBuilder>,
    options: ZoneBuilderOptions,
    change: PartialChange,
    changes: Vec<EncodedChange>,
    /// The octets of `changes`.
    change_octets: usize,
    /// What is odd about the records that they add.
    found: Findings,
    buffer: RecordBuffer,
    records: u64,
    /// Records of the whole zone, or those that the current change removes or adds.
    part_records: u64,
    record_octets: u64,
    octets: u64,
    /// Messages since the last record.
    empty_messages: u32,
}

/// The state before the next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReceiveState {
    /// The first SOA record is next.
    Start,
    /// The second record, which says what the response is (RFC 1995 4).
    Second,
    /// Records of the whole zone.
    Full,
    /// Removed records, up to the new SOA record.
    Removed,
    /// Added records, up to the next old SOA record or the last SOA record.
    Added,
    Complete,
}

struct ReceivedSoa {
    owner: Name,
    ttl: u32,
    serial: u32,
    rdata: Box<[u8]>,
}

/// A change of which the last records are missing.
#[derive(Default)]
struct PartialChange {
    bytes: Vec<u8>,
    new_soa: usize,
    from_serial: u32,
    to_serial: u32,
}

impl TransferReceiver {
    /// Expects the response to a request for the zone with this apex. A whole zone is built with `options`.
    pub fn new(
        apex: NameRef<'_>,
        request: TransferRequest,
        limits: TransferLimits,
        options: ZoneBuilderOptions,
    ) -> TransferReceiver {
        TransferReceiver {
            apex: apex.to_owned(),
            request,
            limits,
            state: ReceiveState::Start,
            soa: None,
            builder: None,
            options,
            change: PartialChange::default(),
            changes: Vec::new(),
            change_octets: 0,
            found: Findings::default(),
            buffer: RecordBuffer::new(),
            records: 0,
            part_records: 0,
            record_octets: 0,
            octets: 0,
            empty_messages: 0,
        }
    }

    /// Receives the next message, without the TCP length prefix. After an error the transfer is over.
    pub fn receive(&mut self, message: &[u8]) -> Result<ReceiveStatus, TransferError> {
        let header: &[u8; HEADER_LEN] = message.first_chunk().ok_or(MessageError::Short)?;
        check_header(header)?;
        let mut reader = MessageReader::new(message);
        let [questions, answers] = [[header[4], header[5]], [header[6], header[7]]].map(u16::from_be_bytes);
        for _ in 0..questions {
            self.check_question(&mut reader)?;
        }
        self.octets += message.len() as u64;
        for _ in 0..answers {
            let head = reader.record(&mut self.buffer)?;
            self.record(head)?;
            if self.is_current() {
                break;
            }
        }
        if self.memory() > self.limits.max_memory {
            return Err(TransferError::TooLarge(self.limits.max_memory));
        }
        // Bounds a primary that sends messages without an end and hardly a record.
        self.empty_messages = if answers == 0 { self.empty_messages + 1 } else { 0 };
        let has_stalled = self.empty_messages > MAX_EMPTY_MESSAGES;
        if has_stalled || self.octets > FREE_PADDING + PADDING_RATIO * self.record_octets {
            return Err(TransferError::Padding { sent: self.octets, records: self.record_octets });
        }
        // RFC 1995 2: the SOA record alone is a whole response to a client with the same or a later serial, and over UDP.
        let is_behind = |ours| self.serial().is_some_and(|serial| !is_later(serial, ours));
        let is_whole = self.request.is_udp || self.request.ixfr_from.is_some_and(is_behind);
        if is_whole && self.state == ReceiveState::Second {
            self.state = ReceiveState::Complete;
        }
        match self.state {
            ReceiveState::Complete => {
                // Freed here: a thread that frees small allocations of another one reuses them, and what it keeps then holds pages of that
                // heap.
                self.buffer = RecordBuffer::new();
                Ok(ReceiveStatus::Complete)
            }
            _ if self.request.is_udp => Err(TransferError::Incomplete(self.records)),
            _ => Ok(ReceiveStatus::More),
        }
    }

    /// Warnings about odd records that changes add; those of a whole zone come with it.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.found).finish(&self.options.source)
    }

    /// The result. Builds the zone if it was transferred as a whole, which takes time.
    pub fn finish(self) -> Result<Received, TransferError> {
        if self.state != ReceiveState::Complete {
            return Err(TransferError::Incomplete(self.records));
        }
        if let Some(builder) = self.builder {
            let (zone, findings) = builder.finish().map_err(TransferError::Invalid)?;
            return Ok(Received::Full { zone, findings });
        }
        match self.soa {
            Some(soa) if self.changes.is_empty() => Ok(Received::SoaOnly { serial: soa.serial }),
            _ => Ok(Received::Changes(self.changes)),
        }
    }

    /// The serial of the primary, once its first record has arrived.
    pub fn serial(&self) -> Option<u32> {
        self.soa.as_ref().map(|soa| soa.serial)
    }

    /// The records received so far, SOA records included.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// About the octets of memory that the records take so far.
    pub fn memory(&self) -> u64 {
        let builder = self.builder.as_ref().map_or(0, ZoneBuilder::octets);
        (builder + self.change_octets + self.change.bytes.len()) as u64
    }

    /// The changes received so far; none of a whole zone.
    pub fn changes(&self) -> &[EncodedChange] {
        &self.changes
    }

    /// The octets of the messages received so far.
    pub fn octets(&self) -> u64 {
        self.octets
    }

    /// RFC 5936 2.2.1, 2.2.2: the question of a response, if there is one, is that of the query.
    fn check_question(&mut self, reader: &mut MessageReader<'_>) -> Result<(), TransferError> {
        let (qtype, qclass) = reader.question(&mut self.buffer)?;
        let is_expected = qtype == if self.request.ixfr_from.is_some() { Rtype::IXFR } else { Rtype::AXFR };
        if !is_expected || qclass != Class::IN || self.buffer.owner() != self.apex.as_ref() {
            return Err(TransferError::Question(self.buffer.owner().to_owned(), qtype));
        }
        Ok(())
    }

    fn record(&mut self, head: RecordHead<'_>) -> Result<(), TransferError> {
        let owner = self.buffer.owner();
        self.records += 1;
        self.record_octets += (owner.wire().len() + 10 + head.rdata(&self.buffer).len()) as u64;
        if self.record_octets > self.limits.max_octets {
            return Err(TransferError::TooManyOctets(self.limits.max_octets));
        }
        if head.class != Class::IN {
            return Err(TransferError::Class(owner.to_owned(), head.rtype));
        }
        if head.rtype == Rtype::SOA {
            if owner != self.apex.as_ref() {
                return Err(TransferError::OtherZone(owner.to_owned(), self.apex.clone()));
            }
            let serial = of_soa(head.rdata(&self.buffer)).ok_or(MessageError::Rdata(Rtype::SOA))?;
            return self.soa(head, serial);
        }
        self.part_records += 1;
        if self.part_records > self.limits.max_records {
            return Err(TransferError::TooManyRecords(self.limits.max_records));
        }
        match self.state {
            ReceiveState::Start => Err(TransferError::NoSoa(head.rtype)),
            ReceiveState::Second => {
                self.begin_full();
                self.push(head);
                Ok(())
            }
            ReceiveState::Full => {
                self.push(head);
                Ok(())
            }
            ReceiveState::Removed | ReceiveState::Added => self.push_change(head),
            ReceiveState::Complete => Err(TransferError::Trailing),
        }
    }

    fn soa(&mut self, head: RecordHead<'_>, serial: u32) -> Result<(), TransferError> {
        // The SOA record is one of the records.
        self.part_records = 1;
        match self.state {
            ReceiveState::Start => return self.first_soa(head, serial),
            // RFC 1995 4: the SOA record of the version to change means that changes follow.
            ReceiveState::Second if Some(serial) == self.request.ixfr_from => {
                self.change = PartialChange { from_serial: serial, ..PartialChange::default() };
                self.state = ReceiveState::Removed;
            }
            ReceiveState::Second if self.request.ixfr_from.is_some() && Some(serial) != self.serial() => {
                let expected = self.request.ixfr_from.unwrap_or_default();
                return Err(TransferError::Gap { sent: serial, expected });
            }
            ReceiveState::Second => {
                self.begin_full();
                return self.last_soa(serial);
            }
            ReceiveState::Full => return self.last_soa(serial),
            ReceiveState::Removed => self.new_soa(serial)?,
            ReceiveState::Added => {
                let is_last = Some(self.change.to_serial) == self.serial();
                if !is_last && serial != self.change.to_serial {
                    return Err(TransferError::Gap { sent: serial, expected: self.change.to_serial });
                }
                if is_last {
                    self.last_soa(serial)?;
                }
                self.finish_change();
                if is_last {
                    return Ok(());
                }
                self.change.from_serial = serial;
                self.state = ReceiveState::Removed;
            }
            ReceiveState::Complete => return Err(TransferError::Trailing),
        }
        self.append(head);
        Ok(())
    }

    fn first_soa(&mut self, head: RecordHead<'_>, serial: u32) -> Result<(), TransferError> {
        if let Some(ours) = self.request.not_before
            && serial != ours
            && !is_later(serial, ours)
        {
            return Err(TransferError::EarlierSerial { theirs: serial, ours });
        }
        self.soa = Some(ReceivedSoa {
            owner: self.buffer.owner().to_owned(),
            ttl: head.ttl,
            serial,
            rdata: head.rdata(&self.buffer).into(),
        });
        self.state = if self.is_current() { ReceiveState::Complete } else { ReceiveState::Second };
        Ok(())
    }

    /// Whether the first record says that the client is up to date. RFC 1995 4: in response to IXFR it is alone. The whole zone follows it
    /// in response to AXFR, and from servers that know no IXFR.
    fn is_current(&self) -> bool {
        let TransferRequest { ixfr_from, not_before, .. } = self.request;
        self.records == 1 && self.serial().is_some() && [ixfr_from, not_before].contains(&self.serial())
    }

    /// RFC 5936 2.2: the last record is the same as the first one.
    fn last_soa(&mut self, serial: u32) -> Result<(), TransferError> {
        self.check_same_soa(serial)?;
        self.state = ReceiveState::Complete;
        Ok(())
    }

    fn check_same_soa(&self, serial: u32) -> Result<(), TransferError> {
        match &self.soa {
            Some(soa) if is_same_soa(&soa.rdata, &self.buffer.rdata) => Ok(()),
            soa => Err(TransferError::SoaMismatch { first: soa.as_ref().map_or(0, |soa| soa.serial), last: serial }),
        }
    }

    //----------- whole zones --------------------------------------------------

    fn begin_full(&mut self) {
        let mut builder = ZoneBuilder::new(self.apex.as_ref(), self.options.clone());
        if let Some(ReceivedSoa { owner, ttl, rdata, .. }) = &self.soa {
            builder.push(owner.as_ref(), Rtype::SOA, *ttl, rdata);
        }
        self.builder = Some(builder);
        self.state = ReceiveState::Full;
    }

    fn push(&mut self, head: RecordHead<'_>) {
        if let Some(builder) = &mut self.builder {
            builder.push(self.buffer.owner(), head.rtype, head.ttl, head.rdata(&self.buffer));
        }
    }

    //----------- changes ------------------------------------------------------

    fn new_soa(&mut self, serial: u32) -> Result<(), TransferError> {
        let (from, last) = (self.change.from_serial, self.serial().unwrap_or_default());
        // The chain ends, as each serial is later than the one before and none is later than the last.
        if !is_later(serial, from) || is_later(serial, last) {
            return Err(TransferError::NoProgressInSerial { from, to: serial, last });
        }
        if serial == last {
            self.check_same_soa(serial)?;
        }
        (self.change.new_soa, self.change.to_serial) = (self.change.bytes.len(), serial);
        self.state = ReceiveState::Added;
        Ok(())
    }

    fn push_change(&mut self, head: RecordHead<'_>) -> Result<(), TransferError> {
        let owner = self.buffer.owner();
        let record = (head.rtype, head.ttl, head.rdata(&self.buffer));
        // Nobody needs to know what was odd about a removed record.
        let mut none = Findings::new(0);
        let found = if self.state == ReceiveState::Added { &mut self.found } else { &mut none };
        // As in a whole zone, records that cannot be in it are skipped.
        match self.options.check_record(self.apex.as_ref(), owner, record, found) {
            Ok(true) => self.append(head),
            Ok(false) => {}
            Err(error) => return Err(TransferError::Rdata(owner.to_owned(), head.rtype, error)),
        }
        Ok(())
    }

    fn append(&mut self, head: RecordHead<'_>) {
        let ttl = limited_ttl(head.ttl);
        append_record(&mut self.change.bytes, self.buffer.owner(), head.rtype, ttl, head.rdata(&self.buffer));
    }

    fn finish_change(&mut self) {
        let PartialChange { bytes, new_soa, from_serial, to_serial } = std::mem::take(&mut self.change);
        self.change_octets += bytes.len();
        self.changes.push(EncodedChange::from_parts(bytes, new_soa, [from_serial, to_serial]));
    }
}

/// RFC 5936 2.2: whether two SOA records are the same. The case of names does not count (RFC 4343), that of the octets of numbers does.
fn is_same_soa(first: &[u8], last: &[u8]) -> bool {
    // RFC 1035 3.3.13: five numbers follow the names.
    const NUMBERS_LEN: usize = 20;
    let [first, last] = [first, last].map(|rdata| rdata.split_at(rdata.len().saturating_sub(NUMBERS_LEN)));
    first.0.eq_ignore_ascii_case(last.0) && first.1 == last.1
}

/// RFC 5936 2.2.1: a response to a query without an error. AA is not required, as some servers do not set it.
fn check_header(header: &[u8; HEADER_LEN]) -> Result<(), TransferError> {
    const QR: u8 = 0x80;
    const TC: u8 = 2;
    let opcode = Opcode(header[2] >> 3 & 0xf);
    if header[2] & QR == 0 || opcode != Opcode::QUERY {
        return Err(TransferError::NotResponse);
    }
    match header_rcode(header) {
        Rcode::NOERROR if header[2] & TC != 0 => Err(TransferError::Truncated),
        Rcode::NOERROR => Ok(()),
        rcode => Err(TransferError::Rcode(rcode)),
    }
}
