//! Outgoing zone transfers (RFC 5936) as a state machine: whoever drives it gives a buffer and sends what is in it.

use wire::{HEADER_LEN, MAX_NAME_LEN, NameRef, Rtype};

use crate::key::{Key, write_labels};
use crate::rrset::{Names, Place, RECORD_HEAD_LEN, Rrset};
use crate::tree::{Entry, Tree};
use crate::zone::{Zone, owner_name};

/// A transfer of one version of a zone, which it holds to the end, whatever is published meanwhile.
pub struct Transfer {
    zone: Zone,
    id: [u8; 2],
    question: Box<[u8]>,
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
/// The apex stands in the question, which every message has (RFC 5936 2.2.1 allows it).
const APEX: usize = HEADER_LEN;

/// The message is full.
struct Full;

impl Transfer {
    /// A transfer that answers the query with this id and question: name, type and class in wire form.
    pub fn new(zone: Zone, id: [u8; 2], question: &[u8]) -> Transfer {
        Transfer { zone, id, question: question.into(), state: State::FirstSoa, records: 0 }
    }

    /// Writes the next message into `out`, which holds at least 65,535 octets, and returns its length, without the
    /// length prefix of TCP; `None` when all was written.
    pub fn next_message(&mut self, out: &mut [u8]) -> Option<usize> {
        if matches!(self.state, State::Done) {
            return None;
        }
        let start = HEADER_LEN + self.question.len();
        out[HEADER_LEN..start].copy_from_slice(&self.question);
        let mut writer = Writer { out, start, at: start, count: 0, zone: &self.zone };
        // A message that is full ends here; the state says where the next one goes on.
        let _ = fill(&mut self.state, &mut writer);
        let (len, count) = (writer.at, writer.count);
        let header = [self.id[0], self.id[1], 0x84, 0, 0, 1, (count >> 8) as u8, count as u8, 0, 0, 0, 0];
        out[..HEADER_LEN].copy_from_slice(&header);
        self.records += u64::from(count);
        Some(len)
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
    zone: &'z Zone,
}

impl<'z> Writer<'z, '_> {
    fn push_soa(&mut self) -> Result<(), Full> {
        let soa = self.zone.soa();
        self.make_room(soa.message_len())?;
        self.at = soa.write(Place { owner: APEX, apex: APEX }, soa.ttl, self.out, self.at);
        self.count += 1;
        Ok(())
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

    fn push_node(&mut self, entry: &Entry<'z>, progress: &mut Progress) -> Result<(), Full> {
        let mut owner = Owner { entry, offset: if entry.key_len() == 0 { Some(APEX) } else { None } };
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
        owner.write(self, |writer, offset| {
            let place = Place { owner: offset, apex: APEX };
            writer.at = rrset.write(place, rrset.ttl, writer.out, writer.at);
            writer.count += rrset.count as u16;
        });
        Ok(())
    }

    /// Writes a set that goes into no message of the usual size, record by record and without compression.
    fn push_large(
        &mut self,
        owner: &mut Owner<'_, '_>,
        rrset: &Rrset<'z>,
        progress: &mut Progress,
    ) -> Result<(), Full> {
        let name = owner_name(owner.entry, self.zone.apex());
        let names = Names { owner: name.as_ref(), apex: self.zone.apex() };
        let mut rdata = Vec::new();
        for stored in rrset.stored().skip(progress.records) {
            rdata.clear();
            rrset.append_rdata(&stored, names, &mut rdata);
            self.make_room(MAX_NAME_LEN + RECORD_HEAD_LEN + rdata.len())?;
            owner.write(self, |writer, offset| writer.push_record(offset, rrset.rtype, rrset.ttl, &rdata));
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
            owner.write(self, |writer, offset| writer.push_record(offset, Rtype::RRSIG, rrset.ttl, rdata));
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

/// The owner of a node and where it stands in the message at hand.
struct Owner<'e, 'z> {
    entry: &'e Entry<'z>,
    offset: Option<usize>,
}

impl Owner<'_, '_> {
    /// Lets `write` write records that begin with a pointer to this owner. The first ones in a message get its name
    /// instead, written out before the apex, in the place of the pointer.
    fn write(&mut self, writer: &mut Writer<'_, '_>, write: impl FnOnce(&mut Writer<'_, '_>, usize)) {
        if let Some(offset) = self.offset {
            return write(writer, offset);
        }
        let mut key = Key::new();
        self.entry.copy_key(&mut key);
        let mut name = [0; 2 * MAX_NAME_LEN];
        let mut len = write_labels(key.as_bytes(), &mut name);
        if writer.zone.apex().is_root() {
            len += 1;
        } else {
            name[len..len + 2].copy_from_slice(&(0xc000 | APEX as u16).to_be_bytes());
            len += 2;
        }
        let start = writer.at;
        writer.at += len - 2;
        write(writer, start);
        writer.out[start..start + len].copy_from_slice(&name[..len]);
        self.offset = Some(start);
    }
}
