//! The null primary: responds to SOA queries over UDP, TCP and TLS, and transfers encoded zones over TCP and TLS.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use netio::clock;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde::Serialize;
use wire::message::Rcode;
use wire::tsig::{TsigKey, TsigSigner, verify_query};
use wire::{HEADER_LEN, Name, NameRef, Rtype};

use super::encode::EncodedZone;
use crate::framing::{frame, split_message};

/// The zones of a primary, by name.
pub type EncodedZones = HashMap<Name, EncodedZone>;

/// What a primary has served.
#[derive(Debug, Default, Serialize)]
pub struct PrimaryCounters {
    /// Responses with the SOA record alone.
    #[serde(rename = "soa_answers")]
    pub soa_responses: AtomicU64,
    /// Zones transferred completely.
    pub zones: AtomicU64,
    /// Records in them.
    pub records: AtomicU64,
    /// Octets in them, without TSIG records.
    #[serde(rename = "bytes")]
    pub octets: AtomicU64,
    /// Queries that were refused: for unknown zones, for other types, or without a valid signature.
    pub refused: AtomicU64,
    /// Connections that were accepted.
    pub connections: AtomicU64,
}

/// A primary with bound sockets.
pub struct Primary {
    udp: UdpSocket,
    tcp: TcpListener,
    tls: Option<(TcpListener, Arc<ServerConfig>)>,
    responder: Arc<Responder>,
}

/// How often threads check whether to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Each connection has a thread; no secondary opens as many.
const MAX_CONNECTIONS: usize = 2000;
/// A connection without a query for this long is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The write buffer in octets, small enough for the processor cache.
const WRITE_LEN: usize = 256 << 10;

impl Primary {
    /// Binds UDP and TCP to one port; with port 0 the kernel chooses it. With a key, transfers must be signed.
    pub fn bind(address: SocketAddr, zones: EncodedZones, key: Option<Arc<TsigKey>>) -> io::Result<Primary> {
        let tcp = TcpListener::bind(address)?;
        let udp = UdpSocket::bind(tcp.local_addr()?)?;
        udp.set_read_timeout(Some(STOP_INTERVAL))?;
        tcp.set_nonblocking(true)?;
        let responder = Responder { zones, key, counters: Arc::default(), connections: AtomicUsize::new(0) };
        Ok(Primary { udp, tcp, tls: None, responder: Arc::new(responder) })
    }

    /// Also listens for TLS (RFC 9103); returns the bound address.
    pub fn bind_tls(&mut self, address: SocketAddr, config: Arc<ServerConfig>) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        self.tls = Some((listener, config));
        Ok(address)
    }

    /// The bound address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop`.
    pub fn run(self, stop: &Arc<AtomicBool>) -> io::Result<Arc<PrimaryCounters>> {
        thread::scope(|scope| {
            scope.spawn(|| self.serve_udp(stop));
            if let Some((listener, config)) = &self.tls {
                scope.spawn(|| self.accept(listener, Some(config), stop));
            }
            self.accept(&self.tcp, None, stop);
        });
        Ok(self.responder.counters.clone())
    }

    fn accept(&self, listener: &TcpListener, tls: Option<&Arc<ServerConfig>>, stop: &Arc<AtomicBool>) {
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => self.spawn(stream, tls.cloned(), stop),
                Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
                // The peer has gone, or descriptors are exhausted for now.
                Err(_) => thread::sleep(STOP_INTERVAL),
            }
        }
    }

    fn spawn(&self, stream: TcpStream, tls: Option<Arc<ServerConfig>>, stop: &Arc<AtomicBool>) {
        if self.responder.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            self.responder.connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.responder.counters.connections.fetch_add(1, Ordering::Relaxed);
        let (responder, stop) = (self.responder.clone(), stop.clone());
        // The thread ends with the process at the latest.
        thread::spawn(move || {
            // An error means that the secondary has disconnected.
            let _ = responder.serve(stream, tls, &stop);
            responder.connections.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn serve_udp(&self, stop: &AtomicBool) {
        let (mut query, mut response) = ([0; 4096], Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let Ok((len, peer)) = self.udp.recv_from(&mut query) else { continue };
            if let Some(Response::Message) = self.responder.respond(&query[..len], false, &mut response) {
                // If it cannot be sent, the client retries.
                let _ = self.udp.send_to(&response, peer);
            }
        }
    }
}

//----------- Responder --------------------------------------------------------

/// Responds to queries of any transport.
struct Responder {
    zones: EncodedZones,
    key: Option<Arc<TsigKey>>,
    counters: Arc<PrimaryCounters>,
    /// Open connections.
    connections: AtomicUsize,
}

/// The response to a query.
enum Response<'d> {
    /// The message in the output buffer.
    Message,
    /// A zone transfer, signed if the query was.
    Zone(&'d EncodedZone, Option<TsigSigner<&'d TsigKey>>),
}

impl Responder {
    /// Writes the response to `out`, unless it is a zone transfer; `None` if the message is not a query.
    fn respond(&self, query: &[u8], is_tcp: bool, out: &mut Vec<u8>) -> Option<Response<'_>> {
        let (name, qtype) = question(query)?;
        let now_s = clock::real().as_secs();
        let key_of = |name: NameRef<'_>| self.key.as_deref().filter(|key| key.name() == name);
        let signer = match verify_query(query, key_of, now_s) {
            Ok(signer) => signer,
            Err(refusal) => {
                self.refuse(query, refusal.rcode(), out);
                refusal.sign(out, 0, now_s).expect("refusals are short");
                return Some(Response::Message);
            }
        };
        let zone = self.zones.get(&name.to_owned()).filter(|_| query[2] & 0x78 == 0);
        match (zone, qtype) {
            (Some(_), Rtype::AXFR | Rtype::IXFR) if self.key.is_some() && signer.is_none() => {
                self.refuse(query, Rcode::REFUSED, out);
            }
            (Some(zone), Rtype::AXFR | Rtype::IXFR) if is_tcp => return Some(Response::Zone(zone, signer)),
            // RFC 5936 4.2: no AXFR over UDP. RFC 1995 2: the SOA record makes an IXFR client use TCP.
            (Some(zone), Rtype::SOA | Rtype::AXFR | Rtype::IXFR) => {
                self.counters.soa_responses.fetch_add(1, Ordering::Relaxed);
                out.clone_from(&zone.soa_response);
                out[..2].copy_from_slice(&query[..2]);
            }
            _ => self.refuse(query, Rcode::REFUSED, out),
        }
        if let Some(mut signer) = signer {
            signer.sign(out, 0, now_s).expect("one record is short");
        }
        Some(Response::Message)
    }

    /// Writes the question with an RCODE.
    fn refuse(&self, query: &[u8], rcode: Rcode, out: &mut Vec<u8>) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
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
        stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
        let Some(config) = tls else { return PrimaryConnection { stream, responder: self, out: Vec::new() }.run(stop) };
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        PrimaryConnection { stream: StreamOwned::new(tls, stream), responder: self, out: Vec::new() }.run(stop)
    }
}

/// The QNAME and QTYPE of a query with one question.
fn question(query: &[u8]) -> Option<(NameRef<'_>, Rtype)> {
    let question = query.get(HEADER_LEN..).filter(|_| query[2] & 0x80 == 0 && query[4..6] == [0, 1])?;
    let name = NameRef::from_wire(question).ok()?;
    let [type_high, type_low, ..] = *question.get(name.wire().len()..)?.first_chunk::<4>()?;
    Some((name, Rtype(u16::from_be_bytes([type_high, type_low]))))
}

//----------- PrimaryConnection ------------------------------------------------

struct PrimaryConnection<'d, S> {
    stream: S,
    responder: &'d Responder,
    out: Vec<u8>,
}

impl<S: Read + Write> PrimaryConnection<'_, S> {
    fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let (mut buffer, mut buffered) = (vec![0; 4096], 0);
        while !stop.load(Ordering::Relaxed) {
            let len = buffered + self.stream.read(&mut buffer[buffered..])?;
            if len == buffered {
                break;
            }
            buffered = len;
            while let Some((query, after)) = split_message(&buffer[..buffered]) {
                let left = after.len();
                let query = query.to_vec();
                self.respond(&query)?;
                buffer.copy_within(buffered - left..buffered, 0);
                buffered = left;
            }
            if buffered == buffer.len() {
                break; // Too long for a query.
            }
        }
        Ok(())
    }

    fn respond(&mut self, query: &[u8]) -> io::Result<()> {
        let mut message = Vec::new();
        match self.responder.respond(query, true, &mut message) {
            Some(Response::Zone(zone, signer)) => self.send_zone(query, zone, signer),
            Some(Response::Message) => self.stream.write_all(&frame(&message)),
            None => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Sends the encoded messages with the query's id and QTYPE, each signed if the query was (RFC 8945 5.3.1). The
    /// whole zone is a valid response to an IXFR (RFC 1995 4).
    fn send_zone(
        &mut self,
        query: &[u8],
        zone: &EncodedZone,
        mut signer: Option<TsigSigner<&TsigKey>>,
    ) -> io::Result<()> {
        let name_len = NameRef::from_wire(&query[HEADER_LEN..]).map_or(0, |name| name.wire().len());
        let qtype_at = HEADER_LEN + name_len;
        let mut rest = &zone.stream[..];
        while let Some((message, after)) = split_message(rest) {
            let start = self.out.len() + 2;
            self.out.extend_from_slice(&rest[..message.len() + 2]);
            self.out[start..start + 2].copy_from_slice(&query[..2]);
            self.out[start + qtype_at..start + qtype_at + 2].copy_from_slice(&query[qtype_at..qtype_at + 2]);
            if let Some(signer) = &mut signer {
                signer.sign(&mut self.out, start, clock::real().as_secs()).map_err(io::Error::other)?;
                let len = (self.out.len() - start) as u16;
                self.out[start - 2..start].copy_from_slice(&len.to_be_bytes());
            }
            rest = after;
            if rest.is_empty() || self.out.len() >= WRITE_LEN {
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
        }
        let counters = &self.responder.counters;
        counters.zones.fetch_add(1, Ordering::Relaxed);
        counters.records.fetch_add(zone.records, Ordering::Relaxed);
        counters.octets.fetch_add(zone.stream.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
