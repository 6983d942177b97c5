//! Outgoing AXFR (RFC 5936) as a state machine: the caller provides a buffer for each message and sends it.

use wire::{MAX_NAME_LEN, NameRef, Rtype};

use crate::canonical_key::{CanonicalKey, write_labels};
use crate::owner_case;
use crate::rrset::{MessageOffsets, PointerBases, Rrset};
use crate::transfer_message::{MessageWriter, NoRoom, TransferMessages};
use crate::tree::{TreeEntry, TreeRef};
use crate::zone::{Zone, ZoneVersion};

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
        let len =
            messages.write(out, |message| fill(state, &mut AxfrWriter { message, zone, key: CanonicalKey::new() }));
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

    /// The version that it keeps.
    pub fn version(&self) -> ZoneVersion {
        self.zone.version()
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
                writer.push_tree(zone.names(), position)?;
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
    key: CanonicalKey,
}

impl<'z> AxfrWriter<'z, '_, '_> {
    fn push_soa(&mut self) -> Result<(), NoRoom> {
        let soa = self.zone.soa();
        self.message.make_room(MAX_NAME_LEN + soa.message_len())?;
        AxfrOwner::new(&self.zone.apex_entry()).write(self, |writer, offsets| writer.write_rrset(&soa, offsets));
        Ok(())
    }

    #[inline(always)]
    fn write_rrset(&mut self, rrset: &Rrset<'_>, offsets: MessageOffsets) {
        let MessageWriter { out, at, count, .. } = &mut *self.message;
        *at = rrset.write(offsets, rrset.ttl, out, *at);
        *count += rrset.count as u16;
    }

    fn write_signatures(&mut self, rrset: &Rrset<'_>, offsets: MessageOffsets) {
        let MessageWriter { out, at, count, .. } = &mut *self.message;
        *at = rrset.signatures().write(offsets.owner, rrset.ttl, out, *at);
        *count += rrset.signatures().count as u16;
    }

    /// Writes an owner name at the end of the message, without counting it as written; the apex as a pointer if the message has it.
    /// Returns the length of the labels below the apex, and the total length.
    #[inline]
    fn write_owner(&mut self, entry: &TreeEntry<'z>) -> (usize, usize) {
        let MessageWriter { out, at, apex, .. } = &mut *self.message;
        let out = &mut out[*at..];
        let labels = match entry.write_single_label(out) {
            Some(labels) => labels,
            None => {
                entry.copy_key(&mut self.key);
                write_labels(self.key.as_bytes(), out)
            }
        };
        owner_case::apply(entry.value, &mut out[..labels]);
        let len = self.zone.write_apex(labels, *apex, &mut out[labels..]);
        (labels, labels + len)
    }

    fn make_room_for_record(&mut self, owner: &AxfrOwner<'_, 'z>, rdata_len: usize) -> Result<(), NoRoom> {
        let owner_len = || self.zone.owner(owner.entry).wire().len();
        self.message.make_room_for_record(owner_len, rdata_len)
    }

    fn push_tree(&mut self, tree: TreeRef<'z>, position: &mut TreePosition) -> Result<(), NoRoom> {
        let mut cursor = match &position.key {
            Some(key) => tree.seek(key),
            None => tree.front(),
        };
        if position.key.is_none() && cursor.next().is_none() {
            return Ok(());
        }
        while let Some((leaf, first)) = cursor.leaf() {
            for index in first..leaf.count() {
                let entry = leaf.read_entry(index);
                let pushed = self.push_node(&entry, position);
                if pushed.is_err() {
                    let key = position.key.get_or_insert_default();
                    key.clear();
                    entry.append_key(key);
                    return pushed;
                }
                (position.parts, position.records) = (0, 0);
            }
            if !cursor.next_leaf() {
                break;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn push_node(&mut self, entry: &TreeEntry<'z>, position: &mut TreePosition) -> Result<(), NoRoom> {
        let mut owner = AxfrOwner::new(entry);
        let (mut rrsets, mut index) = (self.zone.node(entry).rrsets(), 0);
        while let Some(rrset) = rrsets.read() {
            if position.parts <= 2 * index {
                // The SOA record is only the first and the last record of a transfer.
                if rrset.rtype != Rtype::SOA && rrset.count > 0 {
                    self.push_rrset(&mut owner, &rrset, position)?;
                }
                (position.parts, position.records) = (2 * index + 1, 0);
            }
            if position.parts <= 2 * index + 1 {
                if !rrset.signatures().is_empty() {
                    self.push_signatures(&mut owner, &rrset, position)?;
                }
                (position.parts, position.records) = (2 * index + 2, 0);
            }
            index += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn push_rrset(
        &mut self,
        owner: &mut AxfrOwner<'_, 'z>,
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
        owner: &mut AxfrOwner<'_, 'z>,
        rrset: &Rrset<'z>,
        position: &mut TreePosition,
    ) -> Result<(), NoRoom> {
        let [name, apex] = [owner.entry, &self.zone.apex_entry()].map(|entry| self.zone.owner(entry));
        let bases = PointerBases { owner: name.as_ref(), apex: apex.as_ref() };
        let mut rdata = Vec::new();
        for stored in rrset.stored().skip(position.records) {
            rdata.clear();
            rrset.append_rdata(&stored, bases, &mut rdata);
            self.make_room_for_record(owner, rdata.len())?;
            owner.write(self, |writer, offsets| {
                writer.message.push_record(offsets.owner, rrset.rtype, rrset.ttl, &rdata)
            });
            position.records += 1;
        }
        Ok(())
    }

    fn push_signatures(
        &mut self,
        owner: &mut AxfrOwner<'_, 'z>,
        rrset: &Rrset<'z>,
        position: &mut TreePosition,
    ) -> Result<(), NoRoom> {
        for rdata in rrset.signatures().rdatas().skip(position.records) {
            self.make_room_for_record(owner, rdata.len())?;
            // The only one, as of most sets, is copied without a detour.
            if rrset.signatures().count == 1 {
                owner.write(self, |writer, offsets| writer.write_signatures(rrset, offsets));
            } else {
                owner.write(self, |writer, offsets| {
                    writer.message.push_record(offsets.owner, Rtype::RRSIG, rrset.ttl, &rdata.parts.concat())
                });
            }
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

    /// Calls `write` to write records whose owner is a pointer. For the first records in a message, the owner name precedes them and
    /// the pointer of the first one is where the name ends, which is then restored.
    #[inline]
    fn write(
        &mut self,
        writer: &mut AxfrWriter<'z, '_, '_>,
        write: impl FnOnce(&mut AxfrWriter<'z, '_, '_>, MessageOffsets),
    ) {
        if let Some(offsets) = self.offsets {
            return write(writer, offsets);
        }
        let start = writer.message.at;
        let (labels, len) = writer.write_owner(self.entry);
        let message = &mut *writer.message;
        let apex = *message.apex.get_or_insert(start + labels);
        // The apex is written only once.
        let owner = if labels == 0 { apex } else { start };
        let offsets = MessageOffsets { owner, apex };
        let end = start + len;
        message.at = end - 2;
        let overwritten = [message.out[end - 2], message.out[end - 1]];
        write(writer, offsets);
        writer.message.out[end - 2..end].copy_from_slice(&overwritten);
        self.offsets = Some(offsets);
    }
}
