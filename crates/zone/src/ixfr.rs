//! Outgoing IXFR (RFC 1995) as a state machine, as [`crate::axfr`] is for AXFR.

use wire::rdata::{self, Form};
use wire::{Class, MAX_NAME_LEN, Name, NameRef, Rtype};

use crate::encoded_change::{EncodedChange, EncodedRecord};
use crate::rrset::MAX_POINTER;
use crate::transfer_message::{MessageWriter, NoRoom, TransferMessages};
use crate::version_diff::append_soa;
use crate::zone::Zone;

/// The messages of one incremental transfer: the current SOA record, the changes from old to new, the current SOA record. Without
/// changes it is the SOA record alone, for a client that is up to date.
pub struct IxfrStream {
    messages: TransferMessages,
    /// In its original case.
    apex: Name,
    serial: u32,
    /// The current SOA record, as a change without records: as the first and the last record.
    soa: Vec<u8>,
    changes: Vec<EncodedChange>,
    state: IxfrState,
}

/// What is written next.
#[derive(Clone, Copy)]
enum IxfrState {
    FirstSoa,
    /// The record at this offset of this change.
    Change(usize, usize),
    LastSoa,
    Done,
}

impl IxfrStream {
    /// The response to the query with this ID and question (name, type and class in wire form). `opt` is the OPT record in wire form,
    /// empty for a client without EDNS. `None` if the changes do not lead, one after the other and each to a later serial, to the
    /// version `zone`: then only a full transfer helps.
    pub fn new(
        zone: &Zone,
        changes: Vec<EncodedChange>,
        id: [u8; 2],
        question: &[u8],
        opt: &[u8],
    ) -> Option<IxfrStream> {
        let serial = zone.serial();
        let is_chain = changes.windows(2).all(|pair| pair[0].to_serial() == pair[1].from_serial());
        let is_current = changes.last().is_none_or(|last| last.to_serial() == serial);
        if !is_chain || !is_current || !changes.iter().all(EncodedChange::increases_serial) {
            return None;
        }
        let apex = zone.owner(&zone.apex_entry());
        let mut soa = Vec::new();
        append_soa(zone, &mut soa);
        let messages = TransferMessages::new(id, question, opt, apex.as_ref());
        Some(IxfrStream { messages, apex, serial, soa, changes, state: IxfrState::FirstSoa })
    }

    /// Writes the next message, as [`crate::axfr::AxfrStream::next_message`] does, of at most `out.len()` octets.
    pub fn next_message(&mut self, out: &mut [u8]) -> Option<usize> {
        if matches!(self.state, IxfrState::Done) {
            return None;
        }
        let IxfrStream { messages, apex, soa, changes, state, .. } = self;
        let source = IxfrSource { soa, changes };
        let len = messages.write(out, |message| fill(state, &source, &mut IxfrWriter::new(message, apex.as_ref())));
        if self.messages.has_failed() {
            self.state = IxfrState::Done;
        }
        Some(len)
    }

    /// The whole transfer as one message of at most `out.len()` octets, with the question; returns its length. `None` if it does not
    /// fit: then the response over UDP is the SOA record alone (RFC 1995 2).
    pub fn udp_message(mut self, out: &mut [u8]) -> Option<usize> {
        let len = self.next_message(out)?;
        let (is_whole, has_question) = (matches!(self.state, IxfrState::Done), out[5] != 0);
        (is_whole && has_question && !self.messages.has_failed()).then_some(len)
    }

    /// Whether it is the SOA record alone.
    pub fn is_soa_only(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the last message reports a failure.
    pub fn has_failed(&self) -> bool {
        self.messages.has_failed()
    }

    /// The apex of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.apex.as_ref()
    }

    /// The serial of the version that the changes start from; `None` if there are none.
    pub fn from_serial(&self) -> Option<u32> {
        self.changes.first().map(EncodedChange::from_serial)
    }

    /// The serial of the version that the transfer leads to.
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// The number of records written so far.
    pub fn records(&self) -> u64 {
        self.messages.records()
    }
}

struct IxfrSource<'c> {
    soa: &'c [u8],
    changes: &'c [EncodedChange],
}

impl IxfrSource<'_> {
    fn push_soa(&self, writer: &mut IxfrWriter<'_, '_, '_>) -> Result<(), NoRoom> {
        let (soa, _) = EncodedRecord::at(self.soa, 0).expect("the SOA record was encoded when the transfer started");
        writer.push(&soa)
    }
}

/// Fills one message.
fn fill(state: &mut IxfrState, source: &IxfrSource<'_>, writer: &mut IxfrWriter<'_, '_, '_>) -> Result<(), NoRoom> {
    loop {
        match *state {
            IxfrState::FirstSoa => {
                source.push_soa(writer)?;
                *state = if source.changes.is_empty() { IxfrState::Done } else { IxfrState::Change(0, 0) };
            }
            IxfrState::Change(index, offset) => {
                *state = match EncodedRecord::at(source.changes[index].as_bytes(), offset) {
                    Some((record, next)) => {
                        writer.push(&record)?;
                        IxfrState::Change(index, next)
                    }
                    None if index + 1 < source.changes.len() => IxfrState::Change(index + 1, 0),
                    None => IxfrState::LastSoa,
                }
            }
            IxfrState::LastSoa => {
                source.push_soa(writer)?;
                *state = IxfrState::Done;
            }
            IxfrState::Done => return Ok(()),
        }
    }
}

/// Writes records of changes into one message. Names may point to the apex and to the last owner.
struct IxfrWriter<'m, 'o, 'a> {
    message: &'m mut MessageWriter<'o>,
    apex: NameRef<'a>,
    /// The last owner and its offset.
    owner: Vec<u8>,
    owner_offset: usize,
    record: Vec<u8>,
}

impl<'m, 'o, 'a> IxfrWriter<'m, 'o, 'a> {
    fn new(message: &'m mut MessageWriter<'o>, apex: NameRef<'a>) -> IxfrWriter<'m, 'o, 'a> {
        IxfrWriter { message, apex, owner: Vec::with_capacity(MAX_NAME_LEN), owner_offset: 0, record: Vec::new() }
    }

    fn push(&mut self, record: &EncodedRecord<'_>) -> Result<(), NoRoom> {
        loop {
            let (owner_offset, apex) = self.encode(record);
            self.message.make_room(self.record.len())?;
            if self.message.at + self.record.len() <= self.message.out.len() {
                self.message.push_octets(&self.record);
                self.message.apex = apex;
                self.owner.clear();
                self.owner.extend_from_slice(record.owner.wire());
                self.owner_offset = owner_offset;
                return Ok(());
            }
            // RFC 5936 2.2.1: only the first message must have the question.
            if !self.message.has_only_question() {
                return Err(NoRoom::TooLarge);
            }
            self.message.omit_question();
        }
    }

    /// Encodes a record with compressed names. Returns the offset of its owner, and that of the apex after this record.
    fn encode(&mut self, record: &EncodedRecord<'_>) -> (usize, Option<usize>) {
        self.record.clear();
        let (start, owner) = (self.message.at, record.owner.wire());
        let is_repeated = owner == self.owner.as_slice() && self.owner_offset <= MAX_POINTER;
        let mut apex = self.message.apex;
        let owner_offset = if is_repeated {
            push_pointer(self.owner_offset, &mut self.record);
            self.owner_offset
        } else if let Some(apex) = apex.filter(|_| owner == self.apex.wire() && owner.len() > 1) {
            push_pointer(apex, &mut self.record);
            apex
        } else {
            apex = push_name(owner, start, (self.apex.wire(), apex), &mut self.record);
            start
        };
        self.record.extend_from_slice(&record.rtype.0.to_be_bytes());
        self.record.extend_from_slice(&Class::IN.0.to_be_bytes());
        self.record.extend_from_slice(&record.ttl.to_be_bytes());
        let rdata = self.record.len() + 2;
        self.record.extend_from_slice(&[0, 0]);
        self.push_rdata(record.rtype, record.rdata, (owner, owner_offset), apex);
        let len = (self.record.len() - rdata) as u16;
        self.record[rdata - 2..rdata].copy_from_slice(&len.to_be_bytes());
        (owner_offset, apex)
    }

    fn push_rdata(&mut self, rtype: Rtype, rdata: &[u8], (owner, owner_offset): (&[u8], usize), apex: Option<usize>) {
        let is_compressible = |form| matches!(form, Form::CompressibleName);
        if !rdata::fields_of(rtype).iter().any(|field| is_compressible(field.form)) {
            return self.record.extend_from_slice(rdata);
        }
        for (field, range) in rdata::split(rtype, rdata).flatten() {
            let octets = &rdata[range];
            if !is_compressible(field.form) {
                self.record.extend_from_slice(octets);
            } else if octets == owner && octets.len() > 1 && owner_offset <= MAX_POINTER {
                push_pointer(owner_offset, &mut self.record);
            } else {
                // The position does not matter: later names do not point into RDATA.
                push_name(octets, MAX_POINTER + 1, (self.apex.wire(), apex), &mut self.record);
            }
        }
    }
}

/// Appends a name for the message offset `at`, with a pointer in place of the apex if it is in the message. Returns the offset of the
/// apex after that. RFC 5936 3.4: only an apex in the same case is replaced.
fn push_name(name: &[u8], at: usize, (apex, offset): (&[u8], Option<usize>), out: &mut Vec<u8>) -> Option<usize> {
    let labels = name.len().checked_sub(apex.len()).filter(|&labels| {
        // The root label alone is shorter than a pointer; and the apex must start at a label.
        apex.len() > 1 && name[labels..] == *apex && is_below(name, apex)
    });
    match (labels, offset) {
        (Some(labels), Some(offset)) => {
            out.extend_from_slice(&name[..labels]);
            push_pointer(offset, out);
        }
        _ => out.extend_from_slice(name),
    }
    offset.or_else(|| labels.map(|labels| at + labels).filter(|&offset| offset <= MAX_POINTER))
}

fn is_below(name: &[u8], apex: &[u8]) -> bool {
    NameRef::from_valid_wire(name).is_at_or_below(NameRef::from_valid_wire(apex))
}

fn push_pointer(offset: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(0xc000 | offset as u16).to_be_bytes());
}
