//! The null secondary: asks for zones by AXFR (RFC 5936) or IXFR (RFC 1995), finds the end, counts, and forgets.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use wire::serial::is_later;
use wire::{HEADER_LEN, Name, Rtype};

use crate::records::records;
use crate::stream::split_message;
use crate::verify::rcode_name;

/// What transfers came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pulled {
    /// Zones that were transferred to their end.
    pub zones: u64,
    /// Zones that were not.
    pub failed: u64,
    /// Why some of them were not, for people.
    pub failures: Vec<String>,
    /// Records, the SOA records at both ends included.
    pub records: u64,
    /// Octets of messages, without their lengths.
    pub octets: u64,
    /// Messages.
    pub messages: u64,
    /// Octets of the largest one.
    pub largest_message: u64,
    /// Connections that were opened.
    pub connections: u64,
    /// From the first query to the first octet of an answer, in seconds.
    pub first_byte_s: f64,
}

/// Which zones are asked for, and how.
#[derive(Clone, Debug)]
pub struct Pull {
    /// The primary.
    pub server: SocketAddr,
    /// The zones.
    pub zones: Vec<Name>,
    /// Ask for what changed since this serial (IXFR); `None` for everything (AXFR).
    pub serial: Option<u32>,
    /// How many zones are under way at a time, each on a connection and a thread of its own.
    pub parallel: usize,
    /// How long nothing may come.
    pub timeout: Duration,
}

/// How many failures are told.
const MAX_FAILURES: usize = 10;
/// Octets that are read in one call.
const READ_LEN: usize = 512 << 10;

impl Pull {
    /// Transfers all zones; those that fail are counted and do not stop the others.
    pub fn run(&self, stop: &AtomicBool) -> Pulled {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..self.parallel.max(1)).map(|_| scope.spawn(|| self.work(&next, stop))).collect();
            let mut total = Pulled::default();
            for thread in threads {
                total.add(thread.join().expect("secondaries do not panic"));
            }
            total
        })
    }

    fn work(&self, next: &AtomicUsize, stop: &AtomicBool) -> Pulled {
        let mut secondary =
            Secondary { plan: self, stream: None, buffer: vec![0; READ_LEN], pulled: Pulled::default() };
        while let Some(zone) = self.zones.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            secondary.pull(zone);
        }
        secondary.pulled
    }
}

impl Pulled {
    fn add(&mut self, other: Pulled) {
        self.zones += other.zones;
        self.failed += other.failed;
        self.records += other.records;
        self.octets += other.octets;
        self.messages += other.messages;
        self.largest_message = self.largest_message.max(other.largest_message);
        self.connections += other.connections;
        self.first_byte_s = match self.first_byte_s {
            0.0 => other.first_byte_s,
            mine => mine.min(other.first_byte_s),
        };
        self.failures.extend(other.failures);
        self.failures.truncate(MAX_FAILURES);
    }
}

/// Why a transfer ended before its end.
#[derive(Debug, thiserror::Error)]
enum TransferError {
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
}

/// One thread with its connection, which is kept from zone to zone (RFC 7766 6.2.1).
struct Secondary<'p> {
    plan: &'p Pull,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    pulled: Pulled,
}

impl Secondary<'_> {
    fn pull(&mut self, zone: &Name) {
        let was_kept = self.stream.is_some();
        let mut result = self.transfer(zone);
        // The server may have closed a connection that was kept, as it may at any time (RFC 7766 6.2.3).
        if was_kept && matches!(&result, Err((0, TransferError::Io(_)))) {
            self.stream = None;
            result = self.transfer(zone);
        }
        match result {
            Ok(()) => self.pulled.zones += 1,
            Err((_, error)) => {
                self.stream = None;
                self.pulled.failed += 1;
                if self.pulled.failures.len() < MAX_FAILURES {
                    self.pulled.failures.push(format!("{zone}: {error}"));
                }
            }
        }
    }

    /// Transfers a zone; an error comes with how many messages came before it.
    fn transfer(&mut self, zone: &Name) -> Result<(), (u64, TransferError)> {
        let began = Instant::now();
        self.ask(zone).map_err(|error| (0, error.into()))?;
        let mut reception = Reception { known: self.plan.serial, ..Reception::default() };
        let (mut held, mut is_first) = (0, true);
        loop {
            let at_error = |error: TransferError| (reception.messages, error);
            let stream = self.stream.as_mut().expect("`ask` opened it");
            let len = match stream.read(&mut self.buffer[held..]) {
                Ok(0) => return Err(at_error(io::Error::from(ErrorKind::UnexpectedEof).into())),
                Ok(len) => held + len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(at_error(error.into())),
            };
            if std::mem::take(&mut is_first) && self.pulled.first_byte_s == 0.0 {
                self.pulled.first_byte_s = began.elapsed().as_secs_f64();
            }
            let mut rest = &self.buffer[..len];
            let mut is_done = false;
            while let Some((message, behind)) = split_message(rest) {
                rest = behind;
                is_done = reception.take(message).map_err(|error| (reception.messages, error))?;
            }
            held = rest.len();
            self.buffer.copy_within(len - held..len, 0);
            if is_done {
                self.pulled.records += reception.records;
                self.pulled.octets += reception.octets;
                self.pulled.messages += reception.messages;
                self.pulled.largest_message = self.pulled.largest_message.max(reception.largest);
                return Ok(());
            }
        }
    }

    fn ask(&mut self, zone: &Name) -> io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect_timeout(&self.plan.server, self.plan.timeout)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(self.plan.timeout))?;
            self.stream = Some(stream);
            self.pulled.connections += 1;
        }
        let query = query(zone, self.plan.serial);
        self.stream.as_mut().expect("just opened").write_all(&query)
    }
}

/// The id of every query: there is one at a time on a connection.
const ID: [u8; 2] = [0x5a, 0x5a];

/// A query for a zone behind its length.
fn query(zone: &Name, serial: Option<u32>) -> Vec<u8> {
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
    [&(message.len() as u16).to_be_bytes()[..], &message].concat()
}

/// Finds the end of a transfer.
#[derive(Debug, Default)]
struct Reception {
    /// The version that is known, in an IXFR.
    known: Option<u32>,
    messages: u64,
    records: u64,
    octets: u64,
    largest: u64,
    /// The serial of the version that is transferred, from the first record.
    serial: Option<u32>,
    /// Whether the second record was a SOA record: differences come (RFC 1995 4).
    is_incremental: bool,
    /// SOA records with that serial.
    ends: u32,
}

impl Reception {
    /// Takes a message; returns whether it is the last one.
    fn take(&mut self, message: &[u8]) -> Result<bool, TransferError> {
        if message.len() < HEADER_LEN || message[2] & 0x80 == 0 {
            return Err(TransferError::Broken);
        }
        if message[..2] != ID {
            return Err(TransferError::Id);
        }
        if message[3] & 0x0f != 0 {
            return Err(TransferError::Rcode(rcode_name(message[3] & 0x0f)));
        }
        self.messages += 1;
        self.octets += message.len() as u64;
        self.largest = self.largest.max(message.len() as u64);
        let mut count = 0;
        for record in records(message).take_while(|record| record.section == 0) {
            count += 1;
            self.records += 1;
            let soa = (record.rtype == Rtype::SOA).then(|| soa_serial(record.rdata)).transpose()?;
            self.take_record(soa)?;
        }
        if count != u16::from_be_bytes([message[6], message[7]]) {
            return Err(TransferError::Broken);
        }
        Ok(self.is_over())
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

/// The serial stands 20 octets before the end of the RDATA (RFC 1035 3.3.13).
fn soa_serial(rdata: &[u8]) -> Result<u32, TransferError> {
    let numbers = rdata.last_chunk::<20>().ok_or(TransferError::Broken)?;
    Ok(u32::from_be_bytes(*numbers.first_chunk().expect("twenty octets")))
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
