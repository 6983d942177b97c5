//! Receives the messages of a transfer: encodes the query, verifies signatures, finds the end.

use std::io;

use netio::clock;
use wire::message::{RawRecords, Rcode, Section, header_rcode};
use wire::serial::{is_later, of_soa};
use wire::tsig::{TsigError, TsigKey, TsigVerifier};
use wire::{HEADER_LEN, Name, Rtype};

/// Why a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the response is {0}")]
    Rcode(Rcode),
    #[error("the response has the id of another query")]
    Id,
    #[error("the transfer does not begin with a SOA record")]
    NoSoa,
    #[error("a message is malformed")]
    Malformed,
    #[error("message {number}: {fault}")]
    Tsig { number: u64, fault: TsigError },
}

/// The id of every query; a connection has only one at a time.
const ID: [u8; 2] = [0x5a, 0x5a];

/// An AXFR query, or an IXFR query from `serial`.
pub fn query(zone: &Name, serial: Option<u32>) -> Vec<u8> {
    let (qtype, authority_count) = if serial.is_some() { (Rtype::IXFR, 1) } else { (Rtype::AXFR, 0) };
    let header = [ID[0], ID[1], 0, 0, 0, 1, 0, 0, 0, authority_count, 0, 0];
    // RFC 1995 3: a SOA record of the client's version, of which only the serial matters.
    let soa =
        |serial: u32| [&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0], &serial.to_be_bytes()[..], &[0; 16]].concat();
    let soa = serial.map(soa).unwrap_or_default();
    [&header, zone.wire(), &qtype.0.to_be_bytes(), &[0, 1], &soa].concat()
}

/// The state of a transfer, which knows when it is complete.
#[derive(Default)]
pub struct TransferReceiver<'k> {
    /// The serial of the client's version, in an IXFR.
    client_serial: Option<u32>,
    /// Set if messages must be signed.
    tsig: Option<TsigVerifier<&'k TsigKey>>,
    pub messages: u64,
    pub records: u64,
    pub octets: u64,
    pub largest: u64,
    /// The serial of the server's version, from the first record.
    server_serial: Option<u32>,
    /// Whether the second record is a SOA record with another serial: an incremental IXFR response (RFC 1995 4).
    is_incremental: bool,
    /// SOA records with the server's serial.
    soa_count: u32,
}

impl<'k> TransferReceiver<'k> {
    /// A receiver for an AXFR, or for an IXFR from `client_serial`; with `tsig`, messages must be signed.
    pub fn new(client_serial: Option<u32>, tsig: Option<TsigVerifier<&'k TsigKey>>) -> TransferReceiver<'k> {
        TransferReceiver { client_serial, tsig, ..TransferReceiver::default() }
    }

    /// Receives a message; returns whether it is the last one.
    pub fn receive(&mut self, message: &[u8]) -> Result<bool, TransferError> {
        if message.len() < HEADER_LEN || message[2] & 0x80 == 0 {
            return Err(TransferError::Malformed);
        }
        if message[..2] != ID {
            return Err(TransferError::Id);
        }
        self.messages += 1;
        self.verify(message)?;
        let rcode = header_rcode(message);
        if rcode != Rcode::NOERROR {
            return Err(TransferError::Rcode(rcode));
        }
        self.octets += message.len() as u64;
        self.largest = self.largest.max(message.len() as u64);
        let mut count = 0;
        let mut records = RawRecords::of(message).ok_or(TransferError::Malformed)?;
        while let Some((Section::Answer, record)) = records.next() {
            count += 1;
            self.records += 1;
            let is_soa = record.rtype == Rtype::SOA;
            let serial = is_soa.then(|| of_soa(record.rdata).ok_or(TransferError::Malformed)).transpose()?;
            self.receive_record(serial)?;
        }
        if count != u16::from_be_bytes([message[6], message[7]]) {
            return Err(TransferError::Malformed);
        }
        let is_complete = self.is_complete();
        if let Some(tsig) = self.tsig.as_ref().filter(|_| is_complete) {
            tsig.finish().map_err(|fault| self.tsig_error(fault))?;
        }
        Ok(is_complete)
    }

    /// RFC 8945 5.3.1. An unsigned error response, as of a server without the key, is accepted to report its RCODE.
    fn verify(&mut self, message: &[u8]) -> Result<(), TransferError> {
        let Some(tsig) = &mut self.tsig else { return Ok(()) };
        match tsig.verify(message, clock::real().as_secs()) {
            Err(TsigError::Unsigned) if header_rcode(message) != Rcode::NOERROR => Ok(()),
            Err(fault) => Err(self.tsig_error(fault)),
            Ok(()) => Ok(()),
        }
    }

    fn tsig_error(&self, fault: TsigError) -> TransferError {
        TransferError::Tsig { number: self.messages, fault }
    }

    /// Receives a record; `soa_serial` is set if it is a SOA record.
    fn receive_record(&mut self, soa_serial: Option<u32>) -> Result<(), TransferError> {
        let Some(server_serial) = self.server_serial else {
            self.server_serial = Some(soa_serial.ok_or(TransferError::NoSoa)?);
            self.soa_count = 1;
            return Ok(());
        };
        if self.records == 2 {
            self.is_incremental = soa_serial.is_some_and(|serial| serial != server_serial);
        }
        self.soa_count += u32::from(soa_serial == Some(server_serial));
        Ok(())
    }

    /// RFC 5936 2.2: the SOA record is repeated at the end. RFC 1995 4: in an incremental response, it also begins the
    /// last added records. RFC 1995 2: it is the only record if the client's version is current.
    fn is_complete(&self) -> bool {
        let is_newer = |client: u32| self.server_serial.is_some_and(|server| is_later(server, client));
        self.soa_count == if self.is_incremental { 3 } else { 2 }
            || self.records == 1 && self.client_serial.is_some_and(|client| !is_newer(client))
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

    /// The index of the record after which a transfer is complete; each record is in its own message.
    fn end(client_serial: Option<u32>, records: &[Option<u32>]) -> Option<usize> {
        let mut receiver = TransferReceiver { client_serial, ..TransferReceiver::default() };
        records.iter().position(|record| receiver.receive(&message(&[*record])).expect("well-formed"))
    }

    #[test]
    fn the_end_of_every_form_of_transfer_is_found() {
        assert_eq!(end(None, &[Some(5), None, None, Some(5)]), Some(3));
        assert_eq!(end(None, &[Some(5), Some(5)]), Some(1), "a zone with only a SOA record");
        let increments = [Some(5), Some(3), None, Some(4), None, Some(4), None, Some(5), None, Some(5)];
        assert_eq!(end(Some(3), &increments), Some(9));
        assert_eq!(end(Some(3), &[Some(5), None, Some(5)]), Some(2), "an AXFR-style response to IXFR");
        assert_eq!(end(Some(5), &[Some(5)]), Some(0), "up to date");
        assert_eq!(end(Some(6), &[Some(5)]), Some(0), "the server has an older version");
        assert_eq!(end(Some(u32::MAX), &[Some(5), None]), None, "serials wrap around (RFC 1982)");
    }

    #[test]
    fn malformed_transfers_are_errors() {
        let error = |message: &[u8]| TransferReceiver::default().receive(message).expect_err("wrong").to_string();
        let mut refused = message(&[]);
        refused[3] = 5;
        assert_eq!(error(&refused), "the response is REFUSED");
        assert_eq!(error(&message(&[None])), "the transfer does not begin with a SOA record");
        let whole = message(&[Some(1), None]);
        assert_eq!(error(&whole[..whole.len() - 1]), "a message is malformed");
        assert_eq!(error(&[0x80; 12]), "the response has the id of another query");
    }
}
