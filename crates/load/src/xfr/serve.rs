//! The null primary: answers for SOA records over UDP, TCP and TLS, and sends zones over the latter two from rendered octets.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use netio::clock;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use wire::message::Rcode;
use wire::tsig::{Key, Signer, verify_query};
use wire::{HEADER_LEN, Name, NameRef, Rtype};

use super::render::Rendered;
use crate::stream::split_message;

/// The zones by their names in lower case.
pub type Zones = HashMap<Name, Rendered>;

/// What was served.
#[derive(Debug, Default)]
pub struct Served {
    /// Answers for SOA records.
    pub soa_answers: AtomicU64,
    /// Zones that were sent to their end.
    pub zones: AtomicU64,
    /// Records in them.
    pub records: AtomicU64,
    /// Octets in them, without signatures.
    pub octets: AtomicU64,
    /// Queries that were refused: for zones that are not there, of other types, or not signed as they must be.
    pub refused: AtomicU64,
    /// Connections that were accepted.
    pub connections: AtomicU64,
}

/// The primary on its sockets, before it serves.
pub struct Primary {
    udp: UdpSocket,
    tcp: TcpListener,
    tls: Option<(TcpListener, Arc<ServerConfig>)>,
    desk: Arc<Desk>,
}

/// How often threads look whether they are to stop.
const TICK: Duration = Duration::from_millis(100);
/// A thread serves a connection; more than any secondary opens.
const MAX_CONNECTIONS: usize = 2000;
/// How long a secondary may say nothing before its connection is closed.
const IDLE: Duration = Duration::from_secs(30);
/// Octets that are sent in one call: a copy that stays in the cache.
const CHUNK_LEN: usize = 256 << 10;

impl Primary {
    /// Binds UDP and TCP to one port; with port 0 the kernel chooses it. With a key, zones are for those who have it.
    pub fn bind(address: SocketAddr, zones: Zones, key: Option<Arc<Key>>) -> io::Result<Primary> {
        let tcp = TcpListener::bind(address)?;
        let udp = UdpSocket::bind(tcp.local_addr()?)?;
        udp.set_read_timeout(Some(TICK))?;
        tcp.set_nonblocking(true)?;
        let desk = Desk { zones, key, served: Arc::default(), connections: AtomicUsize::new(0) };
        Ok(Primary { udp, tcp, tls: None, desk: Arc::new(desk) })
    }

    /// Listens for TLS too (RFC 9103); returns where.
    pub fn bind_tls(&mut self, address: SocketAddr, config: Arc<ServerConfig>) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        self.tls = Some((listener, config));
        Ok(address)
    }

    /// Where it is bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop`.
    pub fn run(self, stop: &Arc<AtomicBool>) -> io::Result<Arc<Served>> {
        thread::scope(|scope| {
            scope.spawn(|| self.answer_datagrams(stop));
            if let Some((listener, config)) = &self.tls {
                scope.spawn(|| self.accept(listener, Some(config), stop));
            }
            self.accept(&self.tcp, None, stop);
        });
        Ok(self.desk.served.clone())
    }

    fn accept(&self, listener: &TcpListener, tls: Option<&Arc<ServerConfig>>, stop: &Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => self.begin(stream, tls.cloned(), stop),
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
                // The peer gave up meanwhile, or descriptors are short for a moment: the next one may do better.
                Err(_) => thread::sleep(TICK),
            }
        }
    }

    fn begin(&self, stream: TcpStream, tls: Option<Arc<ServerConfig>>, stop: &Arc<AtomicBool>) {
        if self.desk.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            self.desk.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.desk.served.connections.fetch_add(1, Ordering::Relaxed);
        let (desk, stop) = (self.desk.clone(), stop.clone());
        // Connections have threads of their own, which end with the process at the latest.
        thread::spawn(move || {
            // Whoever breaks off a transfer has reasons of their own.
            let _ = desk.serve(stream, tls, &stop);
            desk.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn answer_datagrams(&self, stop: &AtomicBool) {
        let (mut octets, mut answer) = ([0; 4096], Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let Ok((len, peer)) = self.udp.recv_from(&mut octets) else { continue };
            if let Some(Answer::Message) = self.desk.answer(&octets[..len], false, &mut answer) {
                // Lost as datagrams are.
                let _ = self.udp.send_to(&answer, peer);
            }
        }
    }
}

//----------- Desk -------------------------------------------------------------

/// Answers queries, however they came.
struct Desk {
    zones: Zones,
    key: Option<Arc<Key>>,
    served: Arc<Served>,
    /// How many there are at the moment.
    connections: AtomicUsize,
}

/// What a query gets.
enum Answer<'d> {
    /// The message that was written.
    Message,
    /// A zone, signed if the query was.
    Zone(&'d Rendered, Option<Signer<'d>>),
}

impl Desk {
    /// Writes the answer to a query, unless it is a zone; `None` for what is no query.
    fn answer(&self, query: &[u8], is_stream: bool, out: &mut Vec<u8>) -> Option<Answer<'_>> {
        let (name, qtype) = question(query)?;
        let now_s = clock::real().as_secs();
        let key_of = |name: NameRef<'_>| self.key.as_deref().filter(|key| key.name() == name);
        let signer = match verify_query(query, key_of, now_s) {
            Ok(signer) => signer,
            Err(refusal) => {
                self.refuse(query, refusal.rcode(), out);
                refusal.sign(out, 0, now_s).expect("refusals are short");
                return Some(Answer::Message);
            }
        };
        let zone = self.zones.get(&name.to_owned()).filter(|_| query[2] & 0x78 == 0);
        match (zone, qtype) {
            (Some(_), Rtype::AXFR | Rtype::IXFR) if self.key.is_some() && signer.is_none() => {
                self.refuse(query, Rcode::REFUSED, out);
            }
            (Some(zone), Rtype::AXFR | Rtype::IXFR) if is_stream => return Some(Answer::Zone(zone, signer)),
            // A transfer does not go over UDP (RFC 5936 4.2); an IXFR is answered by the SOA record, and comes over TCP (RFC 1995 2).
            (Some(zone), Rtype::SOA | Rtype::AXFR | Rtype::IXFR) => {
                self.served.soa_answers.fetch_add(1, Ordering::Relaxed);
                out.clone_from(&zone.soa_answer);
                out[..2].copy_from_slice(&query[..2]);
            }
            _ => self.refuse(query, Rcode::REFUSED, out),
        }
        if let Some(mut signer) = signer {
            signer.sign(out, 0, now_s).expect("one record is short");
        }
        Some(Answer::Message)
    }

    /// The question with an RCODE.
    fn refuse(&self, query: &[u8], rcode: Rcode, out: &mut Vec<u8>) {
        self.served.refused.fetch_add(1, Ordering::Relaxed);
        let name_len = NameRef::from_wire(&query[HEADER_LEN..]).map_or(0, |name| name.wire().len());
        out.clear();
        out.extend_from_slice(&query[..(HEADER_LEN + name_len + 4).min(query.len())]);
        out[2] |= 0x80;
        out[3] = rcode.0 as u8;
        out[6..HEADER_LEN].fill(0);
    }

    fn serve(&self, stream: TcpStream, tls: Option<Arc<ServerConfig>>, stop: &AtomicBool) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IDLE))?;
        let Some(config) = tls else { return Connection { stream, desk: self, chunk: Vec::new() }.run(stop) };
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Connection { stream: StreamOwned::new(tls, stream), desk: self, chunk: Vec::new() }.run(stop)
    }
}

/// The name and the type of a query with one question.
fn question(query: &[u8]) -> Option<(NameRef<'_>, Rtype)> {
    let question = query.get(HEADER_LEN..).filter(|_| query[2] & 0x80 == 0 && query[4..6] == [0, 1])?;
    let name = NameRef::from_wire(question).ok()?;
    let [type_high, type_low, ..] = *question.get(name.wire().len()..)?.first_chunk::<4>()?;
    Some((name, Rtype(u16::from_be_bytes([type_high, type_low]))))
}

//----------- Connection -------------------------------------------------------

struct Connection<'d, S> {
    stream: S,
    desk: &'d Desk,
    chunk: Vec<u8>,
}

impl<S: Read + Write> Connection<'_, S> {
    fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let (mut buffer, mut held) = (vec![0; 4096], 0);
        while !stop.load(Ordering::Relaxed) {
            let len = held + self.stream.read(&mut buffer[held..])?;
            if len == held {
                break;
            }
            held = len;
            while let Some((query, behind)) = split_message(&buffer[..held]) {
                let left = behind.len();
                let query = query.to_vec();
                self.answer(&query)?;
                buffer.copy_within(held - left..held, 0);
                held = left;
            }
            if held == buffer.len() {
                break; // No query is as long.
            }
        }
        Ok(())
    }

    fn answer(&mut self, query: &[u8]) -> io::Result<()> {
        let mut answer = Vec::new();
        match self.desk.answer(query, true, &mut answer) {
            Some(Answer::Zone(zone, signer)) => self.send_zone(query, zone, signer),
            Some(Answer::Message) => {
                self.stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat())
            }
            None => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Sends a copy of the rendered messages with the id and the type of the query in each; signed, if the query was
    /// (RFC 8945 5.3.1). An IXFR may be answered by the whole zone (RFC 1995 4).
    fn send_zone(&mut self, query: &[u8], zone: &Rendered, mut signer: Option<Signer<'_>>) -> io::Result<()> {
        let name_len = NameRef::from_wire(&query[HEADER_LEN..]).map_or(0, |name| name.wire().len());
        let qtype_at = HEADER_LEN + name_len;
        let mut rest = &zone.stream[..];
        while let Some((message, behind)) = split_message(rest) {
            let start = self.chunk.len() + 2;
            self.chunk.extend_from_slice(&rest[..message.len() + 2]);
            self.chunk[start..start + 2].copy_from_slice(&query[..2]);
            self.chunk[start + qtype_at..start + qtype_at + 2].copy_from_slice(&query[qtype_at..qtype_at + 2]);
            if let Some(signer) = &mut signer {
                signer.sign(&mut self.chunk, start, clock::real().as_secs()).map_err(io::Error::other)?;
                let len = (self.chunk.len() - start) as u16;
                self.chunk[start - 2..start].copy_from_slice(&len.to_be_bytes());
            }
            rest = behind;
            if rest.is_empty() || self.chunk.len() >= CHUNK_LEN {
                self.stream.write_all(&self.chunk)?;
                self.chunk.clear();
            }
        }
        let served = &self.desk.served;
        served.zones.fetch_add(1, Ordering::Relaxed);
        served.records.fetch_add(zone.records, Ordering::Relaxed);
        served.octets.fetch_add(zone.stream.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
