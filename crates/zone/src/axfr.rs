//! Outgoing AXFR (RFC 5936) as a state machine: the caller provides a buffer for each message and sends it.

use wire::{MAX_NAME_LEN, NameRef, Rtype};

use crate::owner_case::OWNER_BUFFER_LEN;
use crate::rrset::{MessageOffsets, PointerBases, Rrset};
use crate::transfer_message::{MessageWriter, NoRoom, TransferMessages};
use crate::tree::{Tree, TreeEntry};
use crate::zone::Zone;

/// The messages of one zone transfer. It keeps its version of the zone until the end, even if a newer one is published.
pub struct AxfrStream {
    zone: Zone,
    messages: TransferMessages,
    state: AxfrState,
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

impl AxfrStream {
    /// The response to the query with this ID and question (name, type and class in wire form). `opt` is the OPT record in wire form,
    /// empty for a client without EDNS.
    pub fn new(zone: Zone, id: [u8; 2], question: &[u8], opt: &[u8]) -> AxfrStream {
        let messages = TransferMessages::new(id, question, opt, zone.owner(&zone.apex_entry()).as_ref());
        AxfrStream { zone, messages, state: AxfrState::FirstSoa }
    }

    /// Writes the next message, without the TCP length prefix, into `out`, which must hold at least 20,000 octets. The message takes
    /// at most `out.len()` octets: a caller that signs messages leaves out the octets of the TSIG record. Returns its length; `None`
    /// after the last message. A record that fits in no message ends the transfer with a SERVFAIL message.
    pub fn next_message(&mut self, out: &mut [u8]) -> Option<usize> {
        if matches!(self.state, AxfrState::Done) {
            return None;
        }
        let AxfrStream { zone, messages, state } = self;
        // A full message ends here; the next one continues from `state`.
        let len = messages.write(out, |message| fill(state, &mut AxfrWriter { message, zone }));
        if self.messages.has_failed() {
            self.state = AxfrState::Done;
        }
        Some(len)
    }

    /// Whether the last message reports a failure.
    pub fn has_failed(&self) -> bool {
        self.messages.has_failed()
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
        self.messages.records()
    }
}

/// Fills one message.
fn fill(state: &mut AxfrState, writer: &mut AxfrWriter<'_, '_, '_>) -> Result<(), NoRoom> {
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

/// Writes the nodes of a zone into one message.
struct AxfrWriter<'z, 'w, 'o> {
    message: &'w mut MessageWriter<'o>,
    zone: &'z Zone,
}

impl<'z> AxfrWriter<'z, '_, '_> {
    fn push_soa(&mut self) -> Result<(), NoRoom> {
        let soa = self.zone.soa();
        self.message.make_room(MAX_NAME_LEN + soa.message_len())?;
        AxfrOwner::new(&self.zone.apex_entry()).write(self, |writer, offsets| writer.write_rrset(&soa, offsets));
        Ok(())
    }

    fn write_rrset(&mut self, rrset: &Rrset<'_>, offsets: MessageOffsets) {
        let MessageWriter { out, at, count, .. } = &mut *self.message;
        *at = rrset.write(offsets, rrset.ttl, out, *at);
        *count += rrset.count as u16;
    }

    fn make_room_for_record(&mut self, owner: &AxfrOwner<'_, '_>, rdata: &[u8]) -> Result<(), NoRoom> {
        let owner_len = || self.zone.owner(owner.entry).wire().len();
        self.message.make_room_for_record(owner_len, rdata.len())
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
        if !self.message.may_hold(MAX_NAME_LEN + rrset.message_len()) {
            return self.push_large(owner, rrset, position);
        }
        self.message.make_room(MAX_NAME_LEN + rrset.message_len())?;
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
            owner.write(self, |writer, offsets| {
                writer.message.push_record(offsets.owner, rrset.rtype, rrset.ttl, &rdata)
            });
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
            owner.write(self, |writer, offsets| {
                writer.message.push_record(offsets.owner, Rtype::RRSIG, rrset.ttl, rdata)
            });
            position.records += 1;
        }
        Ok(())
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
        writer: &mut AxfrWriter<'_, '_, '_>,
        write: impl FnOnce(&mut AxfrWriter<'_, '_, '_>, MessageOffsets),
    ) {
        if let Some(offsets) = self.offsets {
            return write(writer, offsets);
        }
        let mut name = [0; OWNER_BUFFER_LEN];
        let message = &mut *writer.message;
        let (labels, len) = writer.zone.write_owner(self.entry, message.apex, &mut name);
        let start = message.at;
        let apex = *message.apex.get_or_insert(start + labels);
        // The apex is written only once.
        let owner = if labels == 0 { apex } else { start };
        let offsets = MessageOffsets { owner, apex };
        message.at += len - 2;
        write(writer, offsets);
        writer.message.out[start..start + len].copy_from_slice(&name[..len]);
        self.offsets = Some(offsets);
    }
}
