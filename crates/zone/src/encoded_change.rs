//! Changes in the form of IXFR (RFC 1995 4): what producers append to the journal, and what incremental transfers send.
//!
//! A change is a sequence of uncompressed records: the old SOA, the removed records, the new SOA, the added records. Each is the owner,
//! type, class, TTL, RDLENGTH and RDATA as in a message (RFC 1035 4.1.3).

use std::fmt;
use std::sync::Arc;

use wire::name::NameError;
use wire::rdata::{self, RdataError};
use wire::serial::{is_later, of_soa};
use wire::{Class, NameRef, Rtype};

/// The change from one version of a zone to a later one. A clone shares the octets.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedChange {
    bytes: Arc<[u8]>,
    /// Where the new SOA record starts.
    new_soa: usize,
    from_serial: u32,
    to_serial: u32,
}

/// A record of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedRecord<'c> {
    /// The owner, in its original case.
    pub owner: NameRef<'c>,
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl: u32,
    /// The RDATA in uncompressed wire form.
    pub rdata: &'c [u8],
}

/// Why octets are not a change. Offsets count from the first octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodedChangeError {
    /// The octets end inside a record.
    #[error("the record at offset {0} is cut off")]
    Short(usize),
    /// The owner of a record is not a name.
    #[error("the owner of the record at offset {0}: {1}")]
    Owner(usize, NameError),
    /// A record of another zone.
    #[error("the owner of the record at offset {0} is outside the zone")]
    OutOfZone(usize),
    /// A record of another class than IN.
    #[error("the record at offset {0} is not of class IN")]
    Class(usize),
    /// A record of a type that cannot be in a zone.
    #[error("the record at offset {0} has type {1}, which cannot be in a zone")]
    Rtype(usize, Rtype),
    /// RDATA that is malformed for its type.
    #[error("the RDATA of the {1} record at offset {0}: {2}")]
    Rdata(usize, Rtype, RdataError),
    /// The first record is not a SOA record.
    #[error("the change does not start with a SOA record")]
    NoOldSoa,
    /// There is no second SOA record.
    #[error("the change has no SOA record of the new version")]
    NoNewSoa,
    /// A third SOA record, or one below the apex.
    #[error("the SOA record at offset {0} is one too many, or not at the apex")]
    ExtraSoa(usize),
}

impl EncodedChange {
    /// Checks octets that were stored or received.
    pub fn from_bytes(bytes: Arc<[u8]>) -> Result<EncodedChange, EncodedChangeError> {
        let mut reader = RecordReader { bytes: &bytes, at: 0 };
        let old_soa = reader.checked_next()?.filter(|record| record.rtype == Rtype::SOA);
        let old_soa = old_soa.ok_or(EncodedChangeError::NoOldSoa)?;
        let mut new_soa: Option<(usize, EncodedRecord<'_>)> = None;
        loop {
            let at = reader.at;
            let Some(record) = reader.checked_next()? else { break };
            if !record.owner.is_at_or_below(old_soa.owner) {
                return Err(EncodedChangeError::OutOfZone(at));
            }
            if record.rtype == Rtype::SOA {
                if new_soa.is_some() || record.owner.wire().len() != old_soa.owner.wire().len() {
                    return Err(EncodedChangeError::ExtraSoa(at));
                }
                new_soa = Some((at, record));
            }
        }
        let (new_soa, record) = new_soa.ok_or(EncodedChangeError::NoNewSoa)?;
        let [from_serial, to_serial] = [old_soa, record].map(|soa| of_soa(soa.rdata).expect("SOA RDATA was checked"));
        Ok(EncodedChange { new_soa, from_serial, to_serial, bytes })
    }

    /// The change with these records; the new SOA record starts at `new_soa`.
    pub(crate) fn from_parts(bytes: Vec<u8>, new_soa: usize, [from_serial, to_serial]: [u32; 2]) -> EncodedChange {
        let change = EncodedChange { bytes: bytes.into(), new_soa, from_serial, to_serial };
        debug_assert_eq!(EncodedChange::from_bytes(change.bytes.clone()).as_ref(), Ok(&change));
        change
    }

    /// The apex of the zone.
    pub fn apex(&self) -> NameRef<'_> {
        self.old_soa().owner
    }

    /// The serial of the version that it changes.
    pub fn from_serial(&self) -> u32 {
        self.from_serial
    }

    /// The serial of the version that it leads to.
    pub fn to_serial(&self) -> u32 {
        self.to_serial
    }

    /// Whether the serial increases (RFC 1982): only then can an incremental transfer contain the change.
    pub fn increases_serial(&self) -> bool {
        is_later(self.to_serial, self.from_serial)
    }

    /// The octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The SOA record of the old version.
    pub fn old_soa(&self) -> EncodedRecord<'_> {
        self.part(0, self.new_soa).next().expect("a change starts with a SOA record")
    }

    /// The SOA record of the new version.
    pub fn new_soa(&self) -> EncodedRecord<'_> {
        self.part(self.new_soa, self.bytes.len()).next().expect("the second part starts with a SOA record")
    }

    /// The removed records, without the SOA record.
    pub fn removed(&self) -> EncodedRecords<'_> {
        let mut records = self.part(0, self.new_soa);
        records.next();
        records
    }

    /// The added records, without the SOA record.
    pub fn added(&self) -> EncodedRecords<'_> {
        let mut records = self.part(self.new_soa, self.bytes.len());
        records.next();
        records
    }

    /// All records in order, with both SOA records.
    pub fn records(&self) -> EncodedRecords<'_> {
        self.part(0, self.bytes.len())
    }

    /// The removed records, with the old SOA record.
    pub(crate) fn with_old_soa(&self) -> EncodedRecords<'_> {
        self.part(0, self.new_soa)
    }

    /// The added records, with the new SOA record.
    pub(crate) fn with_new_soa(&self) -> EncodedRecords<'_> {
        self.part(self.new_soa, self.bytes.len())
    }

    fn part(&self, start: usize, end: usize) -> EncodedRecords<'_> {
        EncodedRecords(RecordReader { bytes: &self.bytes[..end], at: start })
    }
}

/// The serials and the numbers of records: the octets would fill a log.
impl fmt::Debug for EncodedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (removed, added) = (self.removed().count(), self.added().count());
        write!(f, "EncodedChange({} to {}: {removed} removed, {added} added)", self.from_serial, self.to_serial)
    }
}

impl<'c> EncodedRecord<'c> {
    /// The record at `offset` of encoded records, and the offset of the next one; `None` at the end.
    pub(crate) fn at(bytes: &'c [u8], offset: usize) -> Option<(EncodedRecord<'c>, usize)> {
        let mut records = EncodedRecords(RecordReader { bytes, at: offset });
        records.next().map(|record| (record, records.0.at))
    }

    /// Appends the record in wire form.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        append_record(out, self.owner, self.rtype, self.ttl, self.rdata);
    }
}

/// Appends a record of class IN in wire form.
pub(crate) fn append_record(out: &mut Vec<u8>, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) {
    out.extend_from_slice(owner.wire());
    out.extend_from_slice(&rtype.0.to_be_bytes());
    out.extend_from_slice(&Class::IN.0.to_be_bytes());
    out.extend_from_slice(&ttl.to_be_bytes());
    out.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    out.extend_from_slice(rdata);
}

//----------- reading ----------------------------------------------------------

/// The records of a change.
#[derive(Clone, Debug)]
pub struct EncodedRecords<'c>(RecordReader<'c>);

impl<'c> EncodedRecords<'c> {
    /// The octets of each record.
    pub(crate) fn for_each_bytes(mut self, mut visit: impl FnMut(&'c [u8])) {
        loop {
            let start = self.0.at;
            if self.next().is_none() {
                return;
            }
            visit(&self.0.bytes[start..self.0.at]);
        }
    }
}

impl<'c> Iterator for EncodedRecords<'c> {
    type Item = EncodedRecord<'c>;

    fn next(&mut self) -> Option<EncodedRecord<'c>> {
        self.0.next().expect("the records were checked when the change was made").map(|(record, _)| record)
    }
}

/// Reads records one after the other.
#[derive(Clone, Debug)]
struct RecordReader<'c> {
    bytes: &'c [u8],
    at: usize,
}

impl<'c> RecordReader<'c> {
    /// The next record and its class.
    fn next(&mut self) -> Result<Option<(EncodedRecord<'c>, Class)>, EncodedChangeError> {
        let start = self.at;
        let rest = &self.bytes[start..];
        if rest.is_empty() {
            return Ok(None);
        }
        let owner = NameRef::from_wire(rest).map_err(|error| EncodedChangeError::Owner(start, error))?;
        let rest = &rest[owner.wire().len()..];
        let (fixed, rest) = rest.split_first_chunk::<10>().ok_or(EncodedChangeError::Short(start))?;
        let [t0, t1, c0, c1, ttl @ .., l0, l1] = *fixed;
        let rdata = rest.get(..u16::from_be_bytes([l0, l1]).into()).ok_or(EncodedChangeError::Short(start))?;
        self.at += owner.wire().len() + fixed.len() + rdata.len();
        let rtype = Rtype(u16::from_be_bytes([t0, t1]));
        let record = EncodedRecord { owner, rtype, ttl: u32::from_be_bytes(ttl), rdata };
        Ok(Some((record, Class(u16::from_be_bytes([c0, c1])))))
    }

    /// The next record, if a zone can have it.
    fn checked_next(&mut self) -> Result<Option<EncodedRecord<'c>>, EncodedChangeError> {
        let start = self.at;
        let Some((record, class)) = self.next()? else { return Ok(None) };
        if class != Class::IN {
            return Err(EncodedChangeError::Class(start));
        }
        if record.rtype.is_reserved_for_messages() {
            return Err(EncodedChangeError::Rtype(start, record.rtype));
        }
        match rdata::check(record.rtype, record.rdata) {
            // Zones may have records that break a rule of their RFC; they are reported when they are loaded.
            Ok(()) | Err(RdataError::Form(..)) => Ok(Some(record)),
            Err(error) => Err(EncodedChangeError::Rdata(start, record.rtype, error)),
        }
    }
}
