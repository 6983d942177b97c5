//! Outgoing zone transfers (RFC 5936) as a state machine: whoever drives it gives a buffer and sends what is in it.

use wire::{HEADER_LEN, MAX_NAME_LEN, NameRef, Rtype};

use crate::rrset::{MessageOffsets, Names, RECORD_HEAD_LEN, Rrset};
use crate::tree::{Tree, TreeEntry};
use crate::zone::{OWNER_BUFFER_LEN, Zone};

/// A transfer of one version of a zone, which it holds to the end, whatever is published meanwhile.
pub struct AxfrStream {
    zone: Zone,
    id: [u8; 2],
    question: Box<[u8]>,
    /// Where each message has the apex in its case from the beginning, if it does: in the question.
    apex: Option<usize>,
    /// The OPT record of the first message, or nothing.
    opt: Box<[u8]>,
    state: State,
    /// How many records were written, for the log.
    records: u64,
}

/// What comes next.
enum State {
    /// The SOA record that begins the transfer (RFC 5936 2.2).
    FirstSoa,
    Names(Progress),
    Nsec3(Progress),
    /// The SOA record that ends it.
    LastSoa,
    Done,
}

/// How far a tree was written.
#[derive(Default)]
struct Progress {
    /// The owner that comes next; `None`: the first.
    key: Option<Vec<u8>>,
    /// Its parts that were written: an RRset and its signatures are two.
    parts: usize,
    /// The records of the next part that were written.
    records: usize,
}

/// Messages are filled up to this size, in octets: every owner in them is in the reach of pointers.
const MESSAGE_LEN: usize = 16_000;

/// The message is full.
struct Full;

impl AxfrStream {
    /// A transfer that answers the query with this id and question: name, type and class in wire form. `opt` is the OPT
    /// record in wire form for a client that sent one, else empty.
    pub fn new(zone: Zone, id: [u8; 2], question: &[u8], opt: &[u8]) -> AxfrStream {
        // RFC 5936 3.4: names are compressed in a case-preserving manner, and clients ask in any case.
        let is_exact = question.starts_with(zone.owner(&zone.apex_entry()).wire());
        let apex = is_exact.then_some(HEADER_LEN);
        AxfrStream { zone, id, question: question.into(), apex, opt: opt.into(), state: State::FirstSoa, records: 0 }
    }

    /// Writes the next message into `out`, which holds at least 65,535 octets, and returns its length, without the
    /// length prefix of TCP; `None` when all was written.
    pub fn next_message(&mut self, out: &mut [u8]) -> Option<usize> {
        if matches!(self.state, State::Done) {
            return None;
        }
        let start = HEADER_LEN + self.question.len();
        out[HEADER_LEN..start].copy_from_slice(&self.question);
        let mut writer = Writer { out, start, at: start, count: 0, apex: self.apex, zone: &self.zone };
        // A message that is full ends here; the state says where the next one goes on.
        let _ = fill(&mut self.state, &mut writer);
        let (len, count) = (writer.at, writer.count);
        // RFC 5936 2.2.5: OPT answers OPT, in the first message.
        let opt = std::mem::take(&mut self.opt);
        let has_opt = u8::from(!opt.is_empty());
        let header = [self.id[0], self.id[1], 0x84, 0, 0, 1, (count >> 8) as u8, count as u8, 0, 0, 0, has_opt];
        out[..HEADER_LEN].copy_from_slice(&header);
        out[len..len + opt.len()].copy_from_slice(&opt);
        self.records += u64::from(count);
        Some(len + opt.len())
    }

    /// The apex of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.zone.apex()
    }

    /// The serial of the version that is transferred.
    pub fn serial(&self) -> u32 {
        self.zone.serial()
    }

    /// How many records were written so far.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// Writes as much as goes into one message.
fn fill(state: &mut State, writer: &mut Writer<'_, '_>) -> Result<(), Full> {
    let zone = writer.zone;
    loop {
        match state {
            State::FirstSoa => {
                writer.push_soa()?;
                *state = State::Names(Progress::default());
            }
            State::Names(progress) => {
                writer.push_tree(&zone.names, progress)?;
                *state = State::Nsec3(Progress::default());
            }
            State::Nsec3(progress) => {
                writer.push_tree(zone.nsec3(), progress)?;
                *state = State::LastSoa;
            }
            State::LastSoa => {
                writer.push_soa()?;
                *state = State::Done;
            }
            State::Done => return Ok(()),
        }
    }
}

/// One message in the making.
struct Writer<'z, 'o> {
    out: &'o mut [u8],
    start: usize,
    at: usize,
    count: u16,
    /// Where the apex stands in its case, once it does.
    apex: Option<usize>,
    zone: &'z Zone,
}

impl<'z> Writer<'z, '_> {
    fn push_soa(&mut self) -> Result<(), Full> {
        let soa = self.zone.soa();
        self.make_room(MAX_NAME_LEN + soa.message_len())?;
        Owner::new(&self.zone.apex_entry()).write(self, |writer, place| writer.write_rrset(&soa, place));
        Ok(())
    }

    fn write_rrset(&mut self, rrset: &Rrset<'_>, place: MessageOffsets) {
        self.at = rrset.write(place, rrset.ttl, self.out, self.at);
        self.count += rrset.count as u16;
    }

    fn make_room(&self, len: usize) -> Result<(), Full> {
        if self.at + len > MESSAGE_LEN && self.at > self.start { Err(Full) } else { Ok(()) }
    }

    fn push_tree(&mut self, tree: &'z Tree, progress: &mut Progress) -> Result<(), Full> {
        let mut cursor = match &progress.key {
            Some(key) => tree.seek(key),
            None => {
                let mut cursor = tree.front();
                cursor.next();
                cursor
            }
        };
        while let Some(entry) = cursor.entry() {
            let pushed = self.push_node(&entry, progress);
            if pushed.is_err() {
                let key = progress.key.get_or_insert_default();
                key.clear();
                entry.append_key(key);
                return pushed;
            }
            (progress.parts, progress.records) = (0, 0);
            cursor.next();
        }
        Ok(())
    }

    fn push_node(&mut self, entry: &TreeEntry<'z>, progress: &mut Progress) -> Result<(), Full> {
        let mut owner = Owner::new(entry);
        for (index, rrset) in self.zone.node(entry).rrsets().enumerate() {
            if progress.parts <= 2 * index {
                // The SOA record stands at both ends of the transfer and nowhere else.
                if rrset.rtype != Rtype::SOA && rrset.count > 0 {
                    self.push_rrset(&mut owner, &rrset, progress)?;
                }
                (progress.parts, progress.records) = (2 * index + 1, 0);
            }
            if progress.parts <= 2 * index + 1 {
                self.push_signatures(&mut owner, &rrset, progress)?;
                (progress.parts, progress.records) = (2 * index + 2, 0);
            }
        }
        Ok(())
    }

    fn push_rrset(
        &mut self,
        owner: &mut Owner<'_, '_>,
        rrset: &Rrset<'z>,
        progress: &mut Progress,
    ) -> Result<(), Full> {
        if self.start + MAX_NAME_LEN + rrset.message_len() > MESSAGE_LEN {
            return self.push_large(owner, rrset, progress);
        }
        self.make_room(MAX_NAME_LEN + rrset.message_len())?;
        owner.write(self, |writer, place| writer.write_rrset(rrset, place));
        Ok(())
    }

    /// Writes a set that goes into no message of the usual size, record by record and without compression.
    fn push_large(
        &mut self,
        owner: &mut Owner<'_, '_>,
        rrset: &Rrset<'z>,
        progress: &mut Progress,
    ) -> Result<(), Full> {
        let [name, apex] = [owner.entry, &self.zone.apex_entry()].map(|entry| self.zone.owner(entry));
        let names = Names { owner: name.as_ref(), apex: apex.as_ref() };
        let mut rdata = Vec::new();
        for stored in rrset.stored().skip(progress.records) {
            rdata.clear();
            rrset.append_rdata(&stored, names, &mut rdata);
            self.make_room(MAX_NAME_LEN + RECORD_HEAD_LEN + rdata.len())?;
            owner.write(self, |writer, place| writer.push_record(place.owner, rrset.rtype, rrset.ttl, &rdata));
            progress.records += 1;
        }
        Ok(())
    }

    fn push_signatures(
        &mut self,
        owner: &mut Owner<'_, '_>,
        rrset: &Rrset<'z>,
        progress: &mut Progress,
    ) -> Result<(), Full> {
        for rdata in rrset.signatures().rdatas().skip(progress.records) {
            self.make_room(MAX_NAME_LEN + RECORD_HEAD_LEN + rdata.len())?;
            owner.write(self, |writer, place| writer.push_record(place.owner, Rtype::RRSIG, rrset.ttl, rdata));
            progress.records += 1;
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

/// The owner of a node and where it and the apex stand in the message at hand.
struct Owner<'e, 'z> {
    entry: &'e TreeEntry<'z>,
    place: Option<MessageOffsets>,
}

impl<'e, 'z> Owner<'e, 'z> {
    fn new(entry: &'e TreeEntry<'z>) -> Owner<'e, 'z> {
        Owner { entry, place: None }
    }

    /// Lets `write` write records that begin with a pointer to this owner. The first ones in a message get its name
    /// instead, written out before the apex, in the place of the pointer.
    fn write(&mut self, writer: &mut Writer<'_, '_>, write: impl FnOnce(&mut Writer<'_, '_>, MessageOffsets)) {
        if let Some(place) = self.place {
            return write(writer, place);
        }
        let mut name = [0; OWNER_BUFFER_LEN];
        let (labels, len) = writer.zone.write_owner(self.entry, writer.apex, &mut name);
        let start = writer.at;
        let apex = *writer.apex.get_or_insert(start + labels);
        // The apex itself is never written twice.
        let owner = if labels == 0 { apex } else { start };
        let place = MessageOffsets { owner, apex };
        writer.at += len - 2;
        write(writer, place);
        writer.out[start..start + len].copy_from_slice(&name[..len]);
        self.place = Some(place);
    }
}
