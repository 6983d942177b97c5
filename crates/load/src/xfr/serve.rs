//! The null primary: answers for SOA records over UDP and TCP, and sends zones over TCP from rendered octets.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

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
    /// Octets in them.
    pub octets: AtomicU64,
    /// Queries that were refused: for zones that are not there, or of other types.
    pub refused: AtomicU64,
    /// Connections that were accepted.
    pub connections: AtomicU64,
}

/// The primary on its sockets, before it serves.
pub struct Primary {
    udp: UdpSocket,
    tcp: TcpListener,
    zones: Arc<Zones>,
    served: Arc<Served>,
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
    /// Binds UDP and TCP to one port; with port 0 the kernel chooses it.
    pub fn bind(address: SocketAddr, zones: Zones) -> io::Result<Primary> {
        let tcp = TcpListener::bind(address)?;
        let udp = UdpSocket::bind(tcp.local_addr()?)?;
        udp.set_read_timeout(Some(TICK))?;
        tcp.set_nonblocking(true)?;
        Ok(Primary { udp, tcp, zones: Arc::new(zones), served: Arc::default() })
    }

    /// Where it is bound.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop`.
    pub fn run(self, stop: &Arc<AtomicBool>) -> io::Result<Arc<Served>> {
        let served = self.served.clone();
        let connections = Arc::new(AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| self.answer_datagrams(stop));
            while !stop.load(Ordering::Relaxed) {
                match self.tcp.accept() {
                    Ok((stream, _)) => self.begin(stream, &connections, stop),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
                    // The peer gave up meanwhile, or descriptors are short for a moment: the next one may do better.
                    Err(_) => thread::sleep(TICK),
                }
            }
        });
        Ok(served)
    }

    fn begin(&self, stream: TcpStream, connections: &Arc<AtomicUsize>, stop: &Arc<AtomicBool>) {
        if connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.served.connections.fetch_add(1, Ordering::Relaxed);
        let (zones, served, connections, stop) =
            (self.zones.clone(), self.served.clone(), connections.clone(), stop.clone());
        // Connections have threads of their own, which end with the process at the latest.
        thread::spawn(move || {
            // Whoever breaks off a transfer has reasons of their own.
            let _ = Connection { stream, zones: &zones, served: &served, chunk: Vec::new() }.run(&stop);
            connections.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn answer_datagrams(&self, stop: &AtomicBool) {
        let (mut octets, mut answer) = ([0; 4096], Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let Ok((len, peer)) = self.udp.recv_from(&mut octets) else { continue };
            let reply = reply(&octets[..len], &self.zones);
            // A transfer does not go over UDP (RFC 5936 4.2); an IXFR is answered by the SOA record, and comes over TCP (RFC 1995 2).
            match reply {
                Some(Reply::Soa(zone) | Reply::Transfer(zone)) => {
                    answer.clone_from(&zone.soa_answer);
                    self.served.soa_answers.fetch_add(1, Ordering::Relaxed);
                }
                Some(Reply::Refused) => {
                    refuse(&octets[..len], &mut answer);
                    self.served.refused.fetch_add(1, Ordering::Relaxed);
                }
                None => continue,
            }
            answer[..2].copy_from_slice(&octets[..2]);
            // Lost as datagrams are.
            let _ = self.udp.send_to(&answer, peer);
        }
    }
}

/// What a query gets.
enum Reply<'z> {
    Soa(&'z Rendered),
    Transfer(&'z Rendered),
    Refused,
}

/// `None` for what is no query.
fn reply<'z>(query: &[u8], zones: &'z Zones) -> Option<Reply<'z>> {
    let question = query.get(HEADER_LEN..).filter(|_| query[2] & 0x80 == 0 && query[4..6] == [0, 1])?;
    let name = NameRef::from_wire(question).ok()?;
    let qtype = Rtype(u16::from_be_bytes(*question.get(name.wire().len()..)?.first_chunk()?));
    let zone = zones.get(&name.to_owned()).filter(|_| query[2] & 0x78 == 0);
    Some(match (zone, qtype) {
        (Some(zone), Rtype::SOA) => Reply::Soa(zone),
        (Some(zone), Rtype::AXFR | Rtype::IXFR) => Reply::Transfer(zone),
        _ => Reply::Refused,
    })
}

/// The question with REFUSED.
fn refuse(query: &[u8], answer: &mut Vec<u8>) {
    let name_len = NameRef::from_wire(&query[HEADER_LEN..]).map_or(0, |name| name.wire().len());
    answer.clear();
    answer.extend_from_slice(&query[..(HEADER_LEN + name_len + 4).min(query.len())]);
    answer[2] |= 0x80;
    answer[3] = 5;
    answer[6..HEADER_LEN].fill(0);
}

struct Connection<'s> {
    stream: TcpStream,
    zones: &'s Zones,
    served: &'s Served,
    chunk: Vec<u8>,
}

impl Connection<'_> {
    fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_nodelay(true)?;
        self.stream.set_read_timeout(Some(IDLE))?;
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
        match reply(query, self.zones) {
            Some(Reply::Transfer(zone)) => return self.send_zone(query, zone),
            Some(Reply::Soa(zone)) => {
                answer.clone_from(&zone.soa_answer);
                self.served.soa_answers.fetch_add(1, Ordering::Relaxed);
            }
            Some(Reply::Refused) => {
                refuse(query, &mut answer);
                self.served.refused.fetch_add(1, Ordering::Relaxed);
            }
            None => return Err(ErrorKind::InvalidData.into()),
        }
        answer[..2].copy_from_slice(&query[..2]);
        self.stream.write_all(&[&(answer.len() as u16).to_be_bytes()[..], &answer].concat())
    }

    /// Sends a copy of the rendered messages with the id and the type of the query in each. An IXFR may be answered by the
    /// whole zone (RFC 1995 4).
    fn send_zone(&mut self, query: &[u8], zone: &Rendered) -> io::Result<()> {
        let name_len = NameRef::from_wire(&query[HEADER_LEN..]).map_or(0, |name| name.wire().len());
        let qtype_at = HEADER_LEN + name_len;
        let mut rest = &zone.stream[..];
        while let Some((message, behind)) = split_message(rest) {
            let start = self.chunk.len() + 2;
            self.chunk.extend_from_slice(&rest[..message.len() + 2]);
            self.chunk[start..start + 2].copy_from_slice(&query[..2]);
            self.chunk[start + qtype_at..start + qtype_at + 2].copy_from_slice(&query[qtype_at..qtype_at + 2]);
            rest = behind;
            if rest.is_empty() || self.chunk.len() >= CHUNK_LEN {
                self.stream.write_all(&self.chunk)?;
                self.chunk.clear();
            }
        }
        self.served.zones.fetch_add(1, Ordering::Relaxed);
        self.served.records.fetch_add(zone.records, Ordering::Relaxed);
        self.served.octets.fetch_add(zone.stream.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
