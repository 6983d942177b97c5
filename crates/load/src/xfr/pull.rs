//! The null secondary: asks for zones by AXFR (RFC 5936) or IXFR (RFC 1995), finds the end, counts, and forgets.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netio::clock;
use rustls::StreamOwned;
use wire::Name;
use wire::tsig::{Key, Mac, Signer, Verifier};

use super::reception::{Reception, TransferError, query};
use crate::stream::split_message;
use crate::tls::Tls;

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
    /// How connections are encrypted (RFC 9103), if they are.
    pub tls: Option<Tls>,
    /// What queries and answers are signed with (RFC 8945), if they are.
    pub key: Option<Arc<Key>>,
}

/// How many failures are told.
const MAX_FAILURES: usize = 10;
/// Octets that are read in one call.
const READ_LEN: usize = 512 << 10;
/// The same beneath TLS, which itself reads no more than 4 KiB at a time.
const TLS_READ_LEN: usize = 128 << 10;

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

/// One thread with its connection, which is kept from zone to zone (RFC 7766 6.2.1).
struct Secondary<'p> {
    plan: &'p Pull,
    stream: Option<Box<dyn Stream>>,
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
        let mac = self.ask(zone).map_err(|error| (0, error.into()))?;
        let signatures = self.plan.key.as_deref().zip(mac).map(|(key, mac)| Verifier::new(key, &mac));
        let mut reception = Reception::new(self.plan.serial, signatures);
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

    /// Asks for a zone; returns the MAC of the query if it is signed.
    fn ask(&mut self, zone: &Name) -> io::Result<Option<Mac>> {
        let mut query = query(zone, self.plan.serial);
        let sign = |key| Signer::of_query(key).sign(&mut query, 0, clock::real().as_secs());
        let mac = self.plan.key.as_deref().map(sign).transpose().expect("queries are short");
        if self.stream.is_none() {
            self.stream = Some(self.plan.connect()?);
            self.pulled.connections += 1;
        }
        let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        self.stream.as_mut().expect("just opened").write_all(&framed)?;
        Ok(mac)
    }
}

//----------- Stream -----------------------------------------------------------

/// A connection to a primary.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// What TLS reads from.
struct Buffered(BufReader<TcpStream>);

impl Read for Buffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Buffered {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

impl Pull {
    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect_timeout(&self.server, self.timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.timeout))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let buffered = Buffered(BufReader::with_capacity(TLS_READ_LEN, stream));
        Ok(Box::new(StreamOwned::new(tls.begin().map_err(io::Error::other)?, buffered)))
    }
}
