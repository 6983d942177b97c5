//! NSEC3 records (RFC 5155 3.2) whose RDATA is stored as the next hashed owner name and the number of the rest, which is interned:
//! parameters and types are the same for most names of a zone. The rest is a length and RDATA without the hash.

use wire::{Rtype, rdata};

use super::LENGTH_LEN;
use crate::intern::Interner;

/// The position of the salt length in NSEC3 RDATA.
const SALT_LEN_AT: usize = 4;

/// Splits a rest where the hash was, which follows the salt and the length of the hash; `None` if it is too short.
fn split(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let salt_len = usize::from(*rest.get(LENGTH_LEN + SALT_LEN_AT)?);
    rest.split_at_checked(LENGTH_LEN + SALT_LEN_AT + 1 + salt_len + 1)
}

/// The parts of the RDATA with this rest.
pub(super) fn parts<'z>(rest: &'z [u8], hash: &'z [u8]) -> [&'z [u8]; 3] {
    let (start, types) = split(rest).unwrap_or((rest, &[]));
    [&start[LENGTH_LEN..], hash, types]
}

/// Whether octets from outside are the rest of NSEC3 RDATA.
pub(super) fn is_rest(rest: &[u8]) -> bool {
    let Some((start, types)) = split(rest) else { return false };
    let hash_len = usize::from(start[start.len() - 1]);
    // Any hash of this length does.
    let rdata = [&start[LENGTH_LEN..], &vec![0; hash_len], types].concat();
    let has_length = start[..LENGTH_LEN] == (rdata.len() as u16).to_be_bytes();
    has_length && hash_len > 0 && rdata::can_be_served(Rtype::NSEC3, &rdata)
}

/// Finds interned rests; remembers the last one, which most records of a zone have.
#[derive(Default)]
pub(super) struct Nsec3Rests {
    rest: Vec<u8>,
    last: Vec<u8>,
    number: Option<u32>,
}

impl Nsec3Rests {
    /// Removes all but the hash from `data`, a single NSEC3 RDATA after its length, and returns the number of the rest; leaves it as it
    /// is and returns `None` if the rest is not interned.
    pub(super) fn split_off(&mut self, interner: &Interner<'_>, data: &mut Vec<u8>) -> Option<u32> {
        let (start, after) = split(data)?;
        // A set without data has no record.
        let hash_len = usize::from(*start.last().filter(|len| **len > 0)?);
        let types = after.get(hash_len..)?;
        self.rest.clear();
        self.rest.extend_from_slice(start);
        self.rest.extend_from_slice(types);
        if self.number.is_none() || self.rest != self.last {
            self.number = interner.shared_part(&self.rest);
            std::mem::swap(&mut self.rest, &mut self.last);
        }
        let hash = start.len()..start.len() + hash_len;
        if self.number.is_some() {
            data.truncate(hash.end);
            data.drain(..hash.start);
        }
        self.number
    }
}
