//! What the null primary responds to a query, over any transport.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use netio::clock;
use serde::Serialize;
use wire::framing::{frame, split_message};
use wire::message::{RawRecord, RawRecords, Rcode, Section};
use wire::serial::{is_later, of_soa};
use wire::tsig::{TsigKey, TsigSigner, verify_query};
use wire::{HEADER_LEN, Name, NameRef, Rtype};

use super::encode::{EncodedZone, EncodedZones};
use crate::stream_server::StreamResponder;

/// What a primary has served.
#[derive(Debug, Default, Serialize)]
pub struct PrimaryCounters {
    /// Responses with the SOA record alone.
    #[serde(rename = "soa_answers")]
    pub soa_responses: AtomicU64,
    /// Zones transferred completely.
    pub zones: AtomicU64,
    /// Incremental transfers (RFC 1995).
    pub incremental: AtomicU64,
    /// Records in whole and incremental transfers.
    pub records: AtomicU64,
    /// Octets in them, without TSIG records.
    #[serde(rename = "bytes")]
    pub octets: AtomicU64,
    /// Queries that were refused: for unknown zones, for other types, or without a valid signature.
    pub refused: AtomicU64,
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Changes of zones.
    pub changes: AtomicU64,
    /// NOTIFY messages, with repetitions.
    pub notifies: AtomicU64,
    /// Notifications that were acknowledged.
    pub notifies_acknowledged: AtomicU64,
    /// Notifications that were not, after all attempts.
    pub notifies_failed: AtomicU64,
}

/// A zone and its current version.
pub struct ServedZone {
    encoded: EncodedZone,
    version: AtomicU32,
}

impl ServedZone {
    /// Makes the next version.
    pub fn change(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }
}

/// Responds to queries of any transport; all threads share it.
pub struct Responder {
    zones: HashMap<Name, Arc<ServedZone>>,
    key: Option<Arc<TsigKey>>,
    pub counters: Arc<PrimaryCounters>,
}

/// The response to a query.
pub enum Response {
    /// The message in the output buffer.
    Message,
    /// A zone transfer, signed if the query was.
    Transfer(Transfer),
}

impl Responder {
    pub fn new(zones: EncodedZones, key: Option<Arc<TsigKey>>) -> Responder {
        let served = |encoded| Arc::new(ServedZone { encoded, version: AtomicU32::new(0) });
        let zones = zones.into_iter().map(|(name, encoded)| (name, served(encoded))).collect();
        Responder { zones, key, counters: Arc::default() }
    }

    /// The zones, sorted by name.
    pub fn zones_by_name(&self) -> Vec<(&Name, &Arc<ServedZone>)> {
        let mut zones: Vec<_> = self.zones.iter().collect();
        zones.sort_by_cached_key(|(name, _)| name.to_string());
        zones
    }

    /// Writes the response to `out`, unless it is a zone transfer; `None` if the message is not a query.
    pub fn respond(&self, query: &[u8], is_stream: bool, out: &mut Vec<u8>) -> Option<Response> {
        let (name, qtype) = question(query)?;
        let now_s = clock::real().as_secs();
        let key_of = |name: NameRef<'_>| self.key.clone().filter(|key| key.name() == name);
        let signer = match verify_query(query, key_of, now_s) {
            Ok(signer) => signer,
            Err(refusal) => {
                self.refuse(query, refusal.rcode(), out);
                refusal.sign(out, 0, now_s).expect("refusals are short");
                return Some(Response::Message);
            }
        };
        let zone = self.zones.get(&name.to_owned()).filter(|_| query[2] & 0x78 == 0);
        let version = zone.map_or(0, |zone| zone.version.load(Ordering::Relaxed));
        match (zone, qtype) {
            (Some(_), Rtype::AXFR | Rtype::IXFR) if self.key.is_some() && signer.is_none() => {
                self.refuse(query, Rcode::REFUSED, out);
            }
            (Some(zone), Rtype::AXFR | Rtype::IXFR) if is_stream && needs_transfer(query, qtype, zone, version) => {
                return Some(Response::Transfer(Transfer::new(query, (name, qtype), zone, version, signer)));
            }
            // RFC 5936 4.2: no AXFR over UDP. RFC 1995 2: the SOA record makes an IXFR client use TCP. RFC 1995 4: it is also the
            // response to a client that has the current version.
            (Some(zone), Rtype::SOA | Rtype::AXFR | Rtype::IXFR) => {
                self.counters.soa_responses.fetch_add(1, Ordering::Relaxed);
                zone.encoded.write_soa_response(version, out);
                set_question(out, head(query, name));
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
}

/// The QNAME and QTYPE of a query with one question.
fn question(query: &[u8]) -> Option<(NameRef<'_>, Rtype)> {
    let question = query.get(HEADER_LEN..).filter(|_| query[2] & 0x80 == 0 && query[4..6] == [0, 1])?;
    let name = NameRef::from_wire(question).ok()?;
    let [type_high, type_low, ..] = *question.get(name.wire().len()..)?.first_chunk::<4>()?;
    Some((name, Rtype(u16::from_be_bytes([type_high, type_low]))))
}

/// Header, QNAME and QTYPE of a query.
fn head<'q>(query: &'q [u8], name: NameRef<'_>) -> &'q [u8] {
    &query[..HEADER_LEN + name.wire().len() + 2]
}

/// Sets the ID and the question of an encoded response. RFC 5936 2.2.1, 2.2.2: both are those of the query, also the case of
/// the name, which some clients check.
fn set_question(response: &mut [u8], query_head: &[u8]) {
    response[..2].copy_from_slice(&query_head[..2]);
    response[HEADER_LEN..query_head.len()].copy_from_slice(&query_head[HEADER_LEN..]);
}

/// RFC 1995 3: the serial of an IXFR client, in the authority section of its query.
fn client_serial(query: &[u8]) -> Option<u32> {
    let is_soa =
        |(section, record): &(Section, RawRecord<'_>)| *section == Section::Authority && record.rtype == Rtype::SOA;
    let (_, soa) = RawRecords::of(query)?.find(is_soa)?;
    of_soa(soa.rdata)
}

/// Whether an AXFR or IXFR client does not have the current version.
fn needs_transfer(query: &[u8], qtype: Rtype, zone: &ServedZone, version: u32) -> bool {
    let client_serial = client_serial(query).filter(|_| qtype == Rtype::IXFR);
    client_serial.is_none_or(|serial| is_later(zone.encoded.serial_of(version), serial))
}

//----------- Transfer ---------------------------------------------------------

/// A transfer that is being sent: encoded messages with the query's ID and question, each signed if the query was (RFC 8945 5.3.1).
pub struct Transfer {
    content: TransferContent,
    /// Where the next message is.
    at: usize,
    /// See [`head`].
    query_head: Vec<u8>,
    signer: Option<TsigSigner<Arc<TsigKey>>>,
}

enum TransferContent {
    /// A version of a whole zone, which is also a valid response to an IXFR (RFC 1995 4).
    Zone { zone: Arc<ServedZone>, version: u32 },
    /// The differences for an IXFR, with the number of their records.
    Differences { stream: Vec<u8>, records: u64 },
}

impl Transfer {
    fn new(
        query: &[u8],
        (name, qtype): (NameRef<'_>, Rtype),
        zone: &Arc<ServedZone>,
        version: u32,
        signer: Option<TsigSigner<Arc<TsigKey>>>,
    ) -> Transfer {
        let client_serial = client_serial(query).filter(|_| qtype == Rtype::IXFR);
        let content = match client_serial.and_then(|serial| zone.encoded.differences(serial, version)) {
            Some((stream, records)) => TransferContent::Differences { stream, records },
            None => TransferContent::Zone { zone: zone.clone(), version },
        };
        Transfer { content, at: 0, query_head: head(query, name).into(), signer }
    }

    fn stream(&self) -> &[u8] {
        match &self.content {
            TransferContent::Zone { zone, .. } => &zone.encoded.stream,
            TransferContent::Differences { stream, .. } => stream,
        }
    }

    /// Appends the next message with its length; returns whether it is the last one.
    fn push_message(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        let rest = &self.stream()[self.at..];
        let (message, after) = split_message(rest).ok_or(ErrorKind::UnexpectedEof)?;
        let (len, is_last, copied) = (message.len() + 2, after.is_empty(), out.len());
        out.extend_from_slice(&rest[..len]);
        if let TransferContent::Zone { zone, version } = &self.content {
            zone.encoded.set_version(*version, self.at, &mut out[copied..]);
        }
        self.at += len;
        let start = copied + 2;
        set_question(&mut out[start..], &self.query_head);
        if let Some(signer) = &mut self.signer {
            signer.sign(out, start, clock::real().as_secs()).map_err(io::Error::other)?;
            let len = (out.len() - start) as u16;
            out[copied..start].copy_from_slice(&len.to_be_bytes());
        }
        Ok(is_last)
    }

    fn count(&self, counters: &PrimaryCounters) {
        let (transfers, records) = match &self.content {
            TransferContent::Zone { zone, .. } => (&counters.zones, zone.encoded.records),
            TransferContent::Differences { records, .. } => (&counters.incremental, *records),
        };
        transfers.fetch_add(1, Ordering::Relaxed);
        counters.records.fetch_add(records, Ordering::Relaxed);
        counters.octets.fetch_add(self.stream().len() as u64, Ordering::Relaxed);
    }
}

impl StreamResponder for Arc<Responder> {
    type Rest = Transfer;

    fn respond(&mut self, query: &[u8], _: bool, out: &mut Vec<u8>) -> io::Result<Option<Transfer>> {
        let mut message = Vec::new();
        match Responder::respond(self, query, true, &mut message) {
            Some(Response::Transfer(transfer)) => Ok(Some(transfer)),
            Some(Response::Message) => {
                out.extend(frame(&message));
                Ok(None)
            }
            None => Err(ErrorKind::InvalidData.into()),
        }
    }

    fn resume(&mut self, transfer: &mut Transfer, out: &mut Vec<u8>) -> io::Result<bool> {
        let is_last = transfer.push_message(out)?;
        if is_last {
            transfer.count(&self.counters);
        }
        Ok(is_last)
    }
}
