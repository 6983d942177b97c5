//! The messages of a transfer as a secondary sees them: the query, the end, the signatures.

use std::io;

use netio::clock;
use wire::serial::{is_later, of_soa};
use wire::tsig::{Fault, Verifier};
use wire::{HEADER_LEN, Name, Rtype};

use crate::records::records;
use crate::verify::rcode_name;

/// Why a transfer ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the answer is {0}")]
    Rcode(String),
    #[error("the answer is to another query")]
    Id,
    #[error("the transfer does not begin with a SOA record")]
    NoSoa,
    #[error("a message is broken")]
    Broken,
    #[error("message {number}: {fault}")]
    Signature { number: u64, fault: Fault },
}

/// The id of every query: there is one at a time on a connection.
const ID: [u8; 2] = [0x5a, 0x5a];

/// A query for a zone.
pub fn query(zone: &Name, serial: Option<u32>) -> Vec<u8> {
    let (qtype, authorities) = if serial.is_some() { (Rtype::IXFR, 1) } else { (Rtype::AXFR, 0) };
    let mut message = vec![ID[0], ID[1], 0, 0, 0, 1, 0, 0, 0, authorities, 0, 0];
    message.extend_from_slice(zone.wire());
    message.extend_from_slice(&qtype.0.to_be_bytes());
    message.extend_from_slice(&[0, 1]);
    if let Some(serial) = serial {
        // RFC 1995 3: a SOA record with the version that is known; of the rest nothing matters.
        message.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
        message.extend_from_slice(&serial.to_be_bytes());
        message.extend_from_slice(&[0; 16]);
    }
    message
}

/// Finds the end of a transfer.
#[derive(Default)]
pub struct Reception<'k> {
    /// The version that is known, in an IXFR.
    known: Option<u32>,
    /// What verifies the messages, if they are to be signed.
    signatures: Option<Verifier<'k>>,
    pub messages: u64,
    pub records: u64,
    pub octets: u64,
    pub largest: u64,
    /// The serial of the version that is transferred, from the first record.
    serial: Option<u32>,
    /// Whether the second record was a SOA record: differences come (RFC 1995 4).
    is_incremental: bool,
    /// SOA records with that serial.
    ends: u32,
}

impl<'k> Reception<'k> {
    /// For an AXFR, or an IXFR from the version that is known; with what verifies the messages, if they are to be signed.
    pub fn new(known: Option<u32>, signatures: Option<Verifier<'k>>) -> Reception<'k> {
        Reception { known, signatures, ..Reception::default() }
    }

    /// Takes a message; returns whether it is the last one.
    pub fn take(&mut self, message: &[u8]) -> Result<bool, TransferError> {
        if message.len() < HEADER_LEN || message[2] & 0x80 == 0 {
            return Err(TransferError::Broken);
        }
        if message[..2] != ID {
            return Err(TransferError::Id);
        }
        self.messages += 1;
        self.verify(message)?;
        if message[3] & 0x0f != 0 {
            return Err(TransferError::Rcode(rcode_name(message[3] & 0x0f)));
        }
        self.octets += message.len() as u64;
        self.largest = self.largest.max(message.len() as u64);
        let mut count = 0;
        for record in records(message).take_while(|record| record.section == 0) {
            count += 1;
            self.records += 1;
            let soa =
                (record.rtype == Rtype::SOA).then(|| of_soa(record.rdata).ok_or(TransferError::Broken)).transpose()?;
            self.take_record(soa)?;
        }
        if count != u16::from_be_bytes([message[6], message[7]]) {
            return Err(TransferError::Broken);
        }
        let is_over = self.is_over();
        if let Some(signatures) = self.signatures.as_ref().filter(|_| is_over) {
            signatures.finish().map_err(|fault| self.unsigned(fault))?;
        }
        Ok(is_over)
    }

    /// RFC 8945 5.3.1. An error is told by its code where it is not signed: by servers that know nothing of the key.
    fn verify(&mut self, message: &[u8]) -> Result<(), TransferError> {
        let Some(signatures) = &mut self.signatures else { return Ok(()) };
        match signatures.take(message, clock::real().as_secs()) {
            Err(Fault::Unsigned) if message[3] & 0x0f != 0 => Ok(()),
            Err(fault) => Err(self.unsigned(fault)),
            Ok(()) => Ok(()),
        }
    }

    fn unsigned(&self, fault: Fault) -> TransferError {
        TransferError::Signature { number: self.messages, fault }
    }

    /// Takes a record, with its serial if it is a SOA record.
    fn take_record(&mut self, soa: Option<u32>) -> Result<(), TransferError> {
        let Some(serial) = self.serial else {
            self.serial = Some(soa.ok_or(TransferError::NoSoa)?);
            self.ends = 1;
            return Ok(());
        };
        if self.records == 2 {
            self.is_incremental = soa.is_some_and(|soa| soa != serial);
        }
        self.ends += u32::from(soa == Some(serial));
        Ok(())
    }

    /// RFC 5936 2.2: the SOA record comes again. RFC 1995 4: with differences it also begins the last additions.
    /// RFC 1995 2: to whoever has this version or a newer one it comes alone.
    fn is_over(&self) -> bool {
        let is_news = |known: u32| self.serial.is_some_and(|serial| is_later(serial, known));
        self.ends == if self.is_incremental { 3 } else { 2 }
            || self.records == 1 && self.known.is_some_and(|known| !is_news(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with SOA records of these serials, and other records for `None`.
    fn message(records: &[Option<u32>]) -> Vec<u8> {
        let mut message = vec![ID[0], ID[1], 0x84, 0, 0, 0, 0, records.len() as u8, 0, 0, 0, 0];
        for serial in records {
            match serial {
                Some(serial) => {
                    message.extend_from_slice(&[0, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
                    message.extend_from_slice(&serial.to_be_bytes());
                    message.extend_from_slice(&[0; 16]);
                }
                None => message.extend_from_slice(&[1, b'a', 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4]),
            }
        }
        message
    }

    /// After which record a transfer is over, each in a message of its own.
    fn end(known: Option<u32>, records: &[Option<u32>]) -> Option<usize> {
        let mut reception = Reception { known, ..Reception::default() };
        records.iter().position(|record| reception.take(&message(&[*record])).expect("well-formed"))
    }

    #[test]
    fn the_end_is_found_in_every_form() {
        assert_eq!(end(None, &[Some(5), None, None, Some(5)]), Some(3));
        assert_eq!(end(None, &[Some(5), Some(5)]), Some(1), "a zone of a SOA record alone");
        let increments = [Some(5), Some(3), None, Some(4), None, Some(4), None, Some(5), None, Some(5)];
        assert_eq!(end(Some(3), &increments), Some(9));
        assert_eq!(end(Some(3), &[Some(5), None, Some(5)]), Some(2), "AXFR in reply to IXFR");
        assert_eq!(end(Some(5), &[Some(5)]), Some(0), "up to date");
        assert_eq!(end(Some(6), &[Some(5)]), Some(0), "a server that is behind");
        assert_eq!(end(Some(u32::MAX), &[Some(5), None]), None, "serials wrap around (RFC 1982)");
    }

    #[test]
    fn what_is_no_transfer_is_told() {
        let fault = |message: &[u8]| Reception::default().take(message).expect_err("wrong").to_string();
        let mut refused = message(&[]);
        refused[3] = 5;
        assert_eq!(fault(&refused), "the answer is REFUSED");
        assert_eq!(fault(&message(&[None])), "the transfer does not begin with a SOA record");
        let whole = message(&[Some(1), None]);
        assert_eq!(fault(&whole[..whole.len() - 1]), "a message is broken");
        assert_eq!(fault(&[0x80; 12]), "the answer is to another query");
    }
}
