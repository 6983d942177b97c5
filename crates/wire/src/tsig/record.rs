//! The TSIG record (RFC 8945 4.2) at the end of a message: found, read and written.

use super::{MessageTooLong, TsigError};
use crate::message::{RawRecords, read_name};
use crate::{HEADER_LEN, MAX_NAME_LEN, NameRef, Rtype};

/// Octets of a record without its two names, its MAC and its other data.
const FIXED_LEN: usize = 10 + 16;
/// A TSIG record.
#[derive(Clone, Copy, Debug)]
pub struct Tsig<'m> {
    /// The name of the key, in lower case.
    pub owner: KeyName,
    /// The algorithm name, in its original case.
    pub algorithm: NameRef<'m>,
    /// The time signed, in seconds since 1970; 48 bits.
    pub time_s: u64,
    /// How many seconds the clocks may differ.
    pub fudge_s: u16,
    /// The MAC, possibly truncated; empty in BADKEY and BADSIG responses.
    pub mac: &'m [u8],
    /// The message ID that was signed.
    pub original_id: [u8; 2],
    /// The TSIG error code of a response.
    pub error: u16,
    /// Other data: the server's time in a BADTIME response.
    pub other: &'m [u8],
}

/// The name of a key, uncompressed and in lower case.
#[derive(Clone, Copy, Debug)]
pub struct KeyName {
    octets: [u8; MAX_NAME_LEN],
    len: u8,
}

impl KeyName {
    /// The wire form.
    pub fn wire(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    /// Reads the name at `at` and returns it with the offset of its end.
    fn read(message: &[u8], at: usize) -> Option<(KeyName, usize)> {
        let mut octets = [0; MAX_NAME_LEN];
        let (len, end) = read_name(message, at, &mut octets).ok()?;
        octets[..len].make_ascii_lowercase();
        Some((KeyName { octets, len: len as u8 }, end))
    }
}

impl From<NameRef<'_>> for KeyName {
    fn from(name: NameRef<'_>) -> KeyName {
        let mut owner = KeyName { octets: [0; MAX_NAME_LEN], len: name.wire().len() as u8 };
        let octets = &mut owner.octets[..name.wire().len()];
        octets.copy_from_slice(name.wire());
        octets.make_ascii_lowercase();
        owner
    }
}

/// The TSIG record of a message and its offset; `None` for an unsigned message.
/// RFC 8945 5.1, 5.2: a TSIG record that is not the last record, or not the only one, makes the message malformed.
pub fn find(message: &[u8]) -> Result<Option<(Tsig<'_>, usize)>, TsigError> {
    let header = message.first_chunk::<HEADER_LEN>().ok_or(TsigError::Malformed)?;
    if header[10..] == [0, 0] {
        return Ok(None);
    }
    let mut records = RawRecords::of(message).ok_or(TsigError::Malformed)?;
    match records.find(|(_, record)| record.rtype == Rtype::TSIG) {
        Some((_, record)) if records.left() == 0 && record.end == message.len() => {
            let tsig = Tsig::read(message, record.start).ok_or(TsigError::Malformed)?;
            Ok(Some((tsig, record.start)))
        }
        None if records.left() == 0 => Ok(None),
        _ => Err(TsigError::Malformed),
    }
}

#[allow(clippy::len_without_is_empty, reason = "a record is never empty")]
impl<'m> Tsig<'m> {
    /// Reads the complete record at `at`; `None` if it does not have the form of RFC 8945 4.2.
    fn read(message: &'m [u8], at: usize) -> Option<Tsig<'m>> {
        let (owner, at) = KeyName::read(message, at)?;
        let rdata = &message[at + 10..];
        let algorithm = NameRef::from_wire(rdata).ok()?;
        let (times, rest) = rdata[algorithm.wire().len()..].split_first_chunk::<8>()?;
        let (mac, rest) = split_sized(rest)?;
        let (codes, rest) = rest.split_first_chunk::<4>()?;
        let (other, rest) = split_sized(rest)?;
        // Class ANY and TTL 0, as the MAC covers them.
        let is_proper = message[at + 2..at + 8] == [0, 255, 0, 0, 0, 0];
        let [time @ .., fudge_high, fudge_low] = *times;
        (is_proper && rest.is_empty()).then(|| Tsig {
            owner,
            algorithm,
            time_s: time.iter().fold(0, |sum, octet| sum << 8 | u64::from(*octet)),
            fudge_s: u16::from_be_bytes([fudge_high, fudge_low]),
            mac,
            original_id: [codes[0], codes[1]],
            error: u16::from_be_bytes([codes[2], codes[3]]),
            other,
        })
    }

    /// The length of the record, in octets.
    pub fn len(&self) -> usize {
        self.owner.wire().len() + self.algorithm.wire().len() + FIXED_LEN + self.mac.len() + self.other.len()
    }

    /// The unsigned TSIG record of the error response to the query that has this one.
    pub fn error_response(&self, error: TsigError, other: &'m [u8], original_id: [u8; 2]) -> Tsig<'m> {
        Tsig { mac: &[], error: error.code(), other, original_id, ..*self }
    }

    /// Writes the record to `out`, which must hold [`Tsig::len`] octets.
    pub fn write(&self, out: &mut [u8]) {
        let rdata_len = self.len() - self.owner.wire().len() - 10;
        let mut at = 0;
        for part in [
            self.owner.wire(),
            &Rtype::TSIG.0.to_be_bytes(),
            &[0, 255, 0, 0, 0, 0],
            &(rdata_len as u16).to_be_bytes(),
            self.algorithm.wire(),
            &self.time_s.to_be_bytes()[2..],
            &self.fudge_s.to_be_bytes(),
            &(self.mac.len() as u16).to_be_bytes(),
            self.mac,
            &self.original_id,
            &self.error.to_be_bytes(),
            &(self.other.len() as u16).to_be_bytes(),
            self.other,
        ] {
            out[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
    }

    /// Appends the record to the message in `out[..len]` and increments ARCOUNT; returns the new length.
    pub fn append(&self, out: &mut [u8], len: usize) -> Result<usize, MessageTooLong> {
        self.write(out.get_mut(len..len + self.len()).ok_or(MessageTooLong)?);
        let additional = u16::from_be_bytes([out[10], out[11]]) + 1;
        out[10..HEADER_LEN].copy_from_slice(&additional.to_be_bytes());
        Ok(len + self.len())
    }
}

/// Splits off a field preceded by its 16-bit length.
fn split_sized(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = octets.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
}
