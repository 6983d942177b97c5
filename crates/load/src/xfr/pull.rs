//! The null secondary: transfers zones by AXFR (RFC 5936) or IXFR (RFC 1995), counts, and discards them.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use netio::clock;
use rustls::StreamOwned;
use serde::Serialize;
use wire::Name;
use wire::framing::{frame, split_message};
use wire::tsig::{Mac, TsigKey, TsigSigner, TsigVerifier};

use super::receiver::{TransferError, TransferReceiver, query};
use crate::tls::TlsConfig;

/// Which zones are transferred, and how.
#[derive(Clone, Debug)]
pub struct PullConfig {
    /// The primary.
    pub server: SocketAddr,
    /// The zones.
    pub zones: Vec<Name>,
    /// The serial to send an IXFR from; `None` for AXFR.
    pub serial: Option<u32>,
    /// The number of concurrent transfers, each on its own thread and connection.
    pub parallel: usize,
    /// The time-out of connecting and of each read.
    pub timeout: Duration,
    /// Set for TLS (RFC 9103).
    pub tls: Option<TlsConfig>,
    /// The TSIG key (RFC 8945), if messages are signed.
    pub key: Option<Arc<TsigKey>>,
}

/// The result of transfers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PullResult {
    /// Zones transferred completely.
    pub zones: u64,
    /// Zones that failed.
    pub failed: u64,
    /// The first errors.
    pub failures: Vec<String>,
    /// Records, with both SOA records of each zone.
    pub records: u64,
    /// The size of all messages, without their length prefixes.
    #[serde(rename = "bytes")]
    pub octets: u64,
    /// Messages.
    pub messages: u64,
    /// The size of the largest message.
    pub largest_message: u64,
    /// Connections opened.
    pub connections: u64,
    /// The shortest time from a query to the first octet of its response, over all connections, in seconds.
    pub first_byte_s: f64,
}

/// How many errors are kept.
const MAX_FAILURES: usize = 10;
/// The read buffer in octets.
const READ_LEN: usize = 512 << 10;
/// The read buffer below TLS, which itself reads at most 4 KiB at a time.
const TLS_READ_LEN: usize = 128 << 10;

impl PullConfig {
    /// Transfers all zones. A failed transfer is counted and does not stop the others.
    pub fn run(&self, stop: &AtomicBool) -> PullResult {
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let threads: Vec<_> =
                (0..self.parallel.max(1)).map(|_| scope.spawn(|| self.run_thread(&next, stop))).collect();
            let mut total = PullResult::default();
            for thread in threads {
                total.add(thread.join().expect("secondaries do not panic"));
            }
            total
        })
    }

    fn run_thread(&self, next: &AtomicUsize, stop: &AtomicBool) -> PullResult {
        let mut secondary =
            Secondary { config: self, stream: None, buffer: vec![0; READ_LEN], result: PullResult::default() };
        while let Some(zone) = self.zones.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            secondary.pull(zone);
        }
        secondary.result
    }
}

impl PullResult {
    fn add(&mut self, other: PullResult) {
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

/// A thread with its connection, which is reused for all its zones (RFC 7766 6.2.1).
struct Secondary<'p> {
    config: &'p PullConfig,
    stream: Option<Box<dyn ReadWrite>>,
    buffer: Vec<u8>,
    result: PullResult,
}

impl Secondary<'_> {
    fn pull(&mut self, zone: &Name) {
        let is_reused = self.stream.is_some();
        let mut transferred = self.transfer(zone);
        // The server may close an idle connection at any time (RFC 7766 6.2.3).
        if is_reused && matches!(&transferred, Err((0, TransferError::Io(_)))) {
            self.stream = None;
            transferred = self.transfer(zone);
        }
        match transferred {
            Ok(()) => self.result.zones += 1,
            Err((_, error)) => {
                self.stream = None;
                self.result.failed += 1;
                if self.result.failures.len() < MAX_FAILURES {
                    self.result.failures.push(format!("{zone}: {error}"));
                }
            }
        }
    }

    /// Transfers a zone. An error comes with the number of messages received before it.
    fn transfer(&mut self, zone: &Name) -> Result<(), (u64, TransferError)> {
        let began = Instant::now();
        let mac = self.send_query(zone).map_err(|error| (0, error.into()))?;
        let verifier = self.config.key.as_deref().zip(mac).map(|(key, mac)| TsigVerifier::new(key, &mac));
        let mut receiver = TransferReceiver::new(self.config.serial, verifier);
        let (mut buffered, mut is_first) = (0, true);
        loop {
            let with_count = |error: TransferError| (receiver.messages, error);
            let stream = self.stream.as_mut().expect("`send_query` opened it");
            let len = match stream.read(&mut self.buffer[buffered..]) {
                Ok(0) => return Err(with_count(io::Error::from(ErrorKind::UnexpectedEof).into())),
                Ok(len) => buffered + len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(with_count(error.into())),
            };
            if std::mem::take(&mut is_first) && self.result.first_byte_s == 0.0 {
                self.result.first_byte_s = began.elapsed().as_secs_f64();
            }
            let mut rest = &self.buffer[..len];
            let mut is_complete = false;
            while let Some((message, after)) = split_message(rest) {
                rest = after;
                is_complete = receiver.receive(message).map_err(|error| (receiver.messages, error))?;
            }
            buffered = rest.len();
            self.buffer.copy_within(len - buffered..len, 0);
            if is_complete {
                self.result.records += receiver.records;
                self.result.octets += receiver.octets;
                self.result.messages += receiver.messages;
                self.result.largest_message = self.result.largest_message.max(receiver.largest);
                return Ok(());
            }
        }
    }

    /// Sends the query for a zone; returns its MAC if it is signed.
    fn send_query(&mut self, zone: &Name) -> io::Result<Option<Mac>> {
        let mut query = query(zone, self.config.serial);
        let sign = |key| TsigSigner::for_query(key).sign(&mut query, 0, clock::real().as_secs());
        let mac = self.config.key.as_deref().map(sign).transpose().expect("queries are short");
        if self.stream.is_none() {
            self.stream = Some(self.config.connect()?);
            self.result.connections += 1;
        }
        self.stream.as_mut().expect("just opened").write_all(&frame(&query))?;
        Ok(mac)
    }
}

//----------- connecting -------------------------------------------------------

/// A connection to a primary.
trait ReadWrite: Read + Write {}

impl<S: Read + Write> ReadWrite for S {}

/// A TCP stream with a read buffer, for TLS to read from.
struct BufferedTcp(BufReader<TcpStream>);

impl Read for BufferedTcp {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for BufferedTcp {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

impl PullConfig {
    fn connect(&self) -> io::Result<Box<dyn ReadWrite>> {
        let stream = TcpStream::connect_timeout(&self.server, self.timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(self.timeout))?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let buffered = BufferedTcp(BufReader::with_capacity(TLS_READ_LEN, stream));
        Ok(Box::new(StreamOwned::new(tls.new_session().map_err(io::Error::other)?, buffered)))
    }
}
