//! Outgoing AXFR (RFC 5936) as a state machine: the caller provides a buffer for each message and sends it.

use wire::message::Rcode;
use wire::{HEADER_LEN, MAX_NAME_LEN, NameRef, Rtype};

use crate::rrset::{MessageOffsets, PointerBases, RECORD_HEAD_LEN, Rrset};
use crate::tree::{Tree, TreeEntry};
use crate::zone::{OWNER_BUFFER_LEN, Zone};

/// The messages of one zone transfer. It keeps its version of the zone until the end, even if a newer one is published.
pub struct AxfrStream {
    zone: Zone,
    id: [u8; 2],
    question: Box<[u8]>,
    /// The message offset of the question, if it has the apex in its original case.
    apex: Option<usize>,
    /// The OPT record of the first message, or empty.
    opt: Box<[u8]>,
    state: AxfrState,
    /// How many records were written.
    records: u64,
    has_failed: bool,
}

/// What is written next.
enum AxfrState {
    /// The first SOA record (RFC 5936 2.2).
    FirstSoa,
    Names(TreePosition),
    Nsec3(TreePosition),
    /// The closing SOA record.
    LastSoa,
    Done,
}

/// The position in a tree.
#[derive(Default)]
struct TreePosition {
    /// The key of the next owner; `None` for the first.
    key: Option<Vec<u8>>,
    /// How many of its parts were written: an RRset and its RRSIG records are two parts.
    parts: usize,
    /// How many records of the next part were written.
    records: usize,
}

/// The target size of messages, in octets: below the greatest compression offset, so that every owner can be pointed to.
const MESSAGE_LEN: usize = 16_000;

/// Why a record was not written.
enum NoRoom {
    /// It goes into the next message.
    Full,
    /// It fits in no message.
    TooLarge,
}

/// The maximum length of a message over TCP (RFC 1035 4.2.2).
const MAX_MESSAGE_LEN: usize = u16::MAX as usize;

impl AxfrStream {
    /// The response to the query with this ID and question (name, type and class in wire form). `opt` is the OPT record in wire form,
    /// empty for a client without EDNS.
    pub fn new(zone: Zone, id: [u8; 2], question: &[u8], opt: &[u8]) -> AxfrStream {
        // RFC 5936 3.4: compression preserves case, and the question may have another case than the apex.
        let is_exact = question.starts_with(zone.owner(&zone.apex_entry()).wire());
        let apex = is_exact.then_some(HEADER_LEN);
        AxfrStream {
            zone,
            id,
            question: question.into(),
            apex,
            opt: opt.into(),
            state: AxfrState::FirstSoa,
            records: 0,
            has_failed: false,
        }
    }

    /// Writes the next message, without the TCP length prefix, into `out`, which must hold 65,535 octets. Returns its length; `None`
    /// after the last message. A record that fits in no message ends the transfer with a SERVFAIL message.
    pub fn next_message(&mut self, out: &mut [u8]) -> Option<usize> {
        if matches!(self.state, AxfrState::Done) {
            return None;
        }
        let start = HEADER_LEN + self.question.len();
        out[HEADER_LEN..start].copy_from_slice(&self.question);
        let mut writer = MessageWriter { out, start, at: start, count: 0, apex: self.apex, zone: &self.zone };
        // A full message ends here; the next one continues from `state`.
        let filled = fill(&mut self.state, &mut writer);
        let (len, count, has_question) = (writer.at, writer.count, writer.start > HEADER_LEN);
        self.has_failed = matches!(filled, Err(NoRoom::TooLarge));
        let mut rcode = Rcode::NOERROR;
        if self.has_failed {
            (self.state, rcode) = (AxfrState::Done, Rcode::SERVFAIL);
        }
        // RFC 5936 2.2.5: the first message has the OPT record.
        let opt = std::mem::take(&mut self.opt);
        let has_opt = u8::from(!opt.is_empty());
        let [id_high, id_low] = self.id;
        let [count_high, count_low] = count.to_be_bytes();
        let header =
            [id_high, id_low, 0x84, rcode.0 as u8, 0, has_question.into(), count_high, count_low, 0, 0, 0, has_opt];
        out[..HEADER_LEN].copy_from_slice(&header);
        out[len..len + opt.len()].copy_from_slice(&opt);
        self.records += u64::from(count);
        Some(len + opt.len())
    }

    /// Whether the last message reports a failure.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The apex of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.zone.apex()
    }

    /// The serial of the transferred version.
    pub fn serial(&self) -> u32 {
        self.zone.serial()
    }

    /// The number of records written so far.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// Fills one message.
fn fill(state: &mut AxfrState, writer: &mut MessageWriter<'_, '_>) -> Result<(), NoRoom> {
    let zone = writer.zone;
    loop {
        match state {
            AxfrState::FirstSoa => {
                writer.push_soa()?;
                *state = AxfrState::Names(TreePosition::default());
            }
            AxfrState::Names(position) => {
                writer.push_tree(&zone.names, position)?;
                *state = AxfrState::Nsec3(TreePosition::default());
            }
            AxfrState::Nsec3(position) => {
                writer.push_tree(zone.nsec3(), position)?;
                *state = AxfrState::LastSoa;
            }
            AxfrState::LastSoa => {
                writer.push_soa()?;
                *state = AxfrState::Done;
            }
            AxfrState::Done => return Ok(()),
        }
    }
}

/// Writes one message.
struct MessageWriter<'z, 'o> {
    out: &'o mut [u8],
    start: usize,
    at: usize,
    count: u16,
    /// The offset of the apex in its original case, once it is in the message.
    apex: Option<usize>,
    zone: &'z Zone,
}

impl<'z> MessageWriter<'z, '_> {
    fn push_soa(&mut self) -> Result<(), NoRoom> {
        let soa = self.zone.soa();
        self.make_room(MAX_NAME_LEN + soa.message_len())?;
        AxfrOwner::new(&self.zone.apex_entry()).write(self, |writer, offsets| writer.write_rrset(&soa, offsets));
        Ok(())
    }

    fn write_rrset(&mut self, rrset: &Rrset<'_>, offsets: MessageOffsets) {
        self.at = rrset.write(offsets, rrset.ttl, self.out, self.at);
        self.count += rrset.count as u16;
    }

    fn make_room(&self, len: usize) -> Result<(), NoRoom> {
        if self.at + len > MESSAGE_LEN && self.at > self.start { Err(NoRoom::Full) } else { Ok(()) }
    }

    /// Makes room for a record of any size: one that fits in no message with the question goes into one without
    /// (RFC 5936 2.2.1 requires the question in the first message only).
    fn make_room_for_record(&mut self, owner: &AxfrOwner<'_, '_>, rdata: &[u8]) -> Result<(), NoRoom> {
        let len = MAX_NAME_LEN + RECORD_HEAD_LEN + rdata.len();
        self.make_room(len)?;
        if self.at + len <= MAX_MESSAGE_LEN {
            return Ok(());
        }
        let owner_len = self.zone.owner(owner.entry).wire().len();
        // The head of a record includes two octets of a pointer, which the owner replaces.
        if HEADER_LEN + owner_len + RECORD_HEAD_LEN - 2 + rdata.len() > MAX_MESSAGE_LEN {
            return Err(NoRoom::TooLarge);
        }
        (self.start, self.at, self.apex) = (HEADER_LEN, HEADER_LEN, None);
        Ok(())
    }

    fn push_tree(&mut self, tree: &'z Tree, position: &mut TreePosition) -> Result<(), NoRoom> {
        let mut cursor = match &position.key {
            Some(key) => tree.seek(key),
            None => {
                let mut cursor = tree.front();
                cursor.next();
                cursor
            }
        };
        while let Some(entry) = cursor.entry() {
            let pushed = self.push_node(&entry, position);
            if pushed.is_err() {
                let key = position.key.get_or_insert_default();
                key.clear();
                entry.append_key(key);
                return pushed;
            }
            (position.parts, position.records) = (0, 0);
            cursor.next();
        }
        Ok(())
    }

    fn push_node(&mut self, entry: &TreeEntry<'z>, position: &mut TreePosition) -> Result<(), NoRoom> {
        let mut owner = AxfrOwner::new(entry);
        for (index, rrset) in self.zone.node(entry).rrsets().enumerate() {
            if position.parts <= 2 * index {
                // The SOA record is only the first and the last record of a transfer.
                if rrset.rtype != Rtype::SOA && rrset.count > 0 {
                    self.push_rrset(&mut owner, &rrset, position)?;
                }
                (position.parts, position.records) = (2 * index + 1, 0);
            }
            if position.parts <= 2 * index + 1 {
                self.push_signatures(&mut owner, &rrset, position)?;
                (position.parts, position.records) = (2 * index + 2, 0);
            }
        }
        Ok(())
    }

    fn push_rrset(
        &mut self,
        owner: &mut AxfrOwner<'_, '_>,
        rrset: &Rrset<'z>,
        position: &mut TreePosition,
    ) -> Result<(), NoRoom> {
        if self.start + MAX_NAME_LEN + rrset.message_len() > MESSAGE_LEN {
            return self.push_large(owner, rrset, position);
        }
        self.make_room(MAX_NAME_LEN + rrset.message_len())?;
        owner.write(self, |writer, offsets| writer.write_rrset(rrset, offsets));
        Ok(())
    }

    /// Writes a set that exceeds the target size of a message record by record, without compression.
    fn push_large(
        &mut self,
        owner: &mut AxfrOwner<'_, '_>,
        rrset: &Rrset<'z>,
        position: &mut TreePosition,
    ) -> Result<(), NoRoom> {
        let [name, apex] = [owner.entry, &self.zone.apex_entry()].map(|entry| self.zone.owner(entry));
        let bases = PointerBases { owner: name.as_ref(), apex: apex.as_ref() };
        let mut rdata = Vec::new();
        for stored in rrset.stored().skip(position.records) {
            rdata.clear();
            rrset.append_rdata(&stored, bases, &mut rdata);
            self.make_room_for_record(owner, &rdata)?;
            owner.write(self, |writer, offsets| writer.push_record(offsets.owner, rrset.rtype, rrset.ttl, &rdata));
            position.records += 1;
        }
        Ok(())
    }

    fn push_signatures(
        &mut self,
        owner: &mut AxfrOwner<'_, '_>,
        rrset: &Rrset<'z>,
        position: &mut TreePosition,
    ) -> Result<(), NoRoom> {
        for rdata in rrset.signatures().rdatas().skip(position.records) {
            self.make_room_for_record(owner, rdata)?;
            owner.write(self, |writer, offsets| writer.push_record(offsets.owner, Rtype::RRSIG, rrset.ttl, rdata));
            position.records += 1;
        }
        Ok(())
    }

    fn push_record(&mut self, owner: usize, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        let record = &mut self.out[self.at..self.at + RECORD_HEAD_LEN + rdata.len()];
        record[..2].copy_from_slice(&(0xc000 | owner as u16).to_be_bytes());
        record[2..4].copy_from_slice(&rtype.0.to_be_bytes());
        record[4..6].copy_from_slice(&[0, 1]);
        record[6..10].copy_from_slice(&ttl.to_be_bytes());
        record[10..12].copy_from_slice(&(rdata.len() as u16).to_be_bytes());
        record[12..].copy_from_slice(rdata);
        self.at += record.len();
        self.count += 1;
    }
}

/// The owner of a node, with the offsets of owner and apex in the current message.
struct AxfrOwner<'e, 'z> {
    entry: &'e TreeEntry<'z>,
    offsets: Option<MessageOffsets>,
}

impl<'e, 'z> AxfrOwner<'e, 'z> {
    fn new(entry: &'e TreeEntry<'z>) -> AxfrOwner<'e, 'z> {
        AxfrOwner { entry, offsets: None }
    }

    /// Calls `write` to write records whose owner is a pointer. For the first records in a message, it then replaces the pointer of
    /// the first one by the owner name.
    fn write(
        &mut self,
        writer: &mut MessageWriter<'_, '_>,
        write: impl FnOnce(&mut MessageWriter<'_, '_>, MessageOffsets),
    ) {
        if let Some(offsets) = self.offsets {
            return write(writer, offsets);
        }
        let mut name = [0; OWNER_BUFFER_LEN];
        let (labels, len) = writer.zone.write_owner(self.entry, writer.apex, &mut name);
        let start = writer.at;
        let apex = *writer.apex.get_or_insert(start + labels);
        // The apex is written only once.
        let owner = if labels == 0 { apex } else { start };
        let offsets = MessageOffsets { owner, apex };
        writer.at += len - 2;
        write(writer, offsets);
        writer.out[start..start + len].copy_from_slice(&name[..len]);
        self.offsets = Some(offsets);
    }
}
