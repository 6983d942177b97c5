//! Reading a query: header, one question, OPT. Whatever else it holds is judged here.

use wire::name::skip_name;
use wire::{Class, HEADER_LEN, Rtype, serial};

use crate::cookie::ClientCookie;
use crate::qname::Qname;

/// A query that can be answered.
pub(crate) struct Query<'m> {
    pub(crate) header: Header,
    pub(crate) qtype: Rtype,
    pub(crate) qclass: Class,
    /// Where the question ends: header and question are copied as they came. Right behind the header where there is none,
    /// which is how a client fetches a cookie (RFC 7873 5.4).
    pub(crate) question_end: usize,
    pub(crate) edns: Option<Edns<'m>>,
    /// The version that the client of an IXFR query has (RFC 1995 3).
    pub(crate) client_serial: u32,
    /// The query is signed with a key; this server has none.
    pub(crate) is_signed: bool,
}

/// The header of a query.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) id: [u8; 2],
    pub(crate) opcode: u8,
    pub(crate) rd: bool,
}

/// What a client says in its OPT record (RFC 6891).
#[derive(Clone, Copy, Default)]
pub(crate) struct Edns<'m> {
    pub(crate) payload: u16,
    pub(crate) version: u8,
    pub(crate) dnssec_ok: bool,
    pub(crate) wants_nsid: bool,
    pub(crate) wants_zone_version: bool,
    pub(crate) wants_keepalive: bool,
    pub(crate) wants_expire: bool,
    /// The client cookie, and the server cookie if it has one (RFC 7873 4).
    pub(crate) cookie: Option<(ClientCookie, &'m [u8])>,
}

/// A message that is not answered in the ordinary way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Malformed (RFC 8906 3.1.3): FORMERR.
    Malformed,
    /// An operation that is unknown here: NOTIMP (RFC 8906 3.1.4).
    Unknown,
    /// NOTIFY or UPDATE, for zones that take none: NOTAUTH (RFC 1996 3.11, RFC 2136 3.1.2).
    NotAuthoritative,
}

pub(crate) const OPT_NSID: u16 = 3;
pub(crate) const OPT_EXPIRE: u16 = 9;
pub(crate) const OPT_COOKIE: u16 = 10;
pub(crate) const OPT_KEEPALIVE: u16 = 11;
pub(crate) const OPT_ERROR: u16 = 15;
pub(crate) const OPT_ZONE_VERSION: u16 = 19;

const OPCODE_QUERY: u8 = 0;
const OPCODE_NOTIFY: u8 = 4;
const OPCODE_UPDATE: u8 = 5;

/// More records beside the question than any client sends: OPT, TSIG or SIG(0), and the SOA of an IXFR query.
const MAX_RECORDS: usize = 4;

impl Header {
    /// The header as far as an answer needs it; `None` where there is nothing to answer.
    #[inline]
    pub(crate) fn read(message: &[u8]) -> Option<Header> {
        let header: &[u8; HEADER_LEN] = message.first_chunk()?;
        // RFC 1035 4.1.1: an answer is never answered.
        if header[2] & 0x80 != 0 {
            return None;
        }
        Some(Header { id: [header[0], header[1]], opcode: header[2] >> 3 & 15, rd: header[2] & 1 != 0 })
    }
}

/// Reads `message`; the name of its question goes to `qname`.
#[inline]
pub(crate) fn read<'m>(message: &'m [u8], header: Header, qname: &mut Qname) -> Result<Query<'m>, Refusal> {
    match header.opcode {
        OPCODE_QUERY => {}
        OPCODE_NOTIFY | OPCODE_UPDATE => return Err(Refusal::NotAuthoritative),
        _ => return Err(Refusal::Unknown),
    }
    let count = |at: usize| usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    let (answers, authorities, additionals) = (count(6), count(8), count(10));
    let mut query = Query {
        header,
        qtype: Rtype(0),
        qclass: Class::IN,
        question_end: HEADER_LEN,
        edns: None,
        client_serial: 0,
        is_signed: false,
    };
    match count(4) {
        // RFC 9619: a query has one question.
        1 if answers == 0 => query.read_question(message, qname).ok_or(Refusal::Malformed)?,
        0 if answers == 0 => {}
        _ => return Err(Refusal::Malformed),
    }
    // RFC 1995 3: the SOA record of the client stands in the authority section of an IXFR query, and in no other.
    if authorities != usize::from(query.qtype == Rtype::IXFR) || authorities + additionals > MAX_RECORDS {
        return Err(Refusal::Malformed);
    }
    read_records(message, authorities, additionals, &mut query)?;
    let fetches_cookie = query.edns.is_some_and(|edns| edns.cookie.is_some());
    if query.has_question() || fetches_cookie { Ok(query) } else { Err(Refusal::Malformed) }
}

impl Query<'_> {
    #[inline]
    fn read_question(&mut self, message: &[u8], qname: &mut Qname) -> Option<()> {
        let name_end = qname.read_question(message, HEADER_LEN)?;
        let fixed: &[u8; 4] = message.get(name_end..)?.first_chunk()?;
        self.qtype = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
        self.qclass = Class(u16::from_be_bytes([fixed[2], fixed[3]]));
        self.question_end = name_end + 4;
        Some(())
    }

    /// The last `len` octets of the name asked for, as it stands in the query.
    #[inline]
    pub(crate) fn name_suffix<'m>(&self, message: &'m [u8], len: usize) -> &'m [u8] {
        let end = self.question_end.saturating_sub(4);
        &message[end - len..end]
    }

    /// Whether there is a question.
    #[inline]
    pub(crate) fn has_question(&self) -> bool {
        self.question_end > HEADER_LEN
    }

    /// RFC 6891 6.1.3: the client speaks another version of EDNS than 0.
    #[inline]
    pub(crate) fn has_bad_version(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version > 0)
    }
}

fn read_records<'m>(
    message: &'m [u8],
    authorities: usize,
    additionals: usize,
    query: &mut Query<'m>,
) -> Result<(), Refusal> {
    let mut at = query.question_end;
    for index in 0..authorities + additionals {
        let record = Record::read(message, at).ok_or(Refusal::Malformed)?;
        at = record.end;
        // RFC 8945 5.1, RFC 2931 3: what signs a message is its last record.
        if query.is_signed {
            return Err(Refusal::Malformed);
        }
        match record.rtype {
            Rtype::SOA if index < authorities => {
                query.client_serial = serial::of_soa(record.rdata).ok_or(Refusal::Malformed)?;
            }
            _ if index < authorities => return Err(Refusal::Malformed),
            Rtype::OPT => {
                // RFC 6891 6.1.1: at most one, owned by the root.
                if query.edns.is_some() || !record.is_root {
                    return Err(Refusal::Malformed);
                }
                query.edns = Some(Edns::read(&record).ok_or(Refusal::Malformed)?);
            }
            Rtype::TSIG => {
                // RFC 8945 4.2: of class ANY and with all its fields.
                if record.class != Class::ANY.0 || skip_tsig(record.rdata) != Some(record.rdata.len()) {
                    return Err(Refusal::Malformed);
                }
                query.is_signed = true;
            }
            _ => {}
        }
    }
    if at == message.len() { Ok(()) } else { Err(Refusal::Malformed) }
}

/// A record beside the question.
struct Record<'m> {
    is_root: bool,
    rtype: Rtype,
    class: u16,
    ttl: u32,
    rdata: &'m [u8],
    end: usize,
}

impl<'m> Record<'m> {
    fn read(message: &'m [u8], start: usize) -> Option<Record<'m>> {
        let name_end = skip_name(message, start)?;
        let fixed: &[u8; 10] = message.get(name_end..)?.first_chunk()?;
        let len = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let rdata = message.get(name_end + 10..name_end + 10 + len)?;
        Some(Record {
            is_root: name_end == start + 1,
            rtype: Rtype(u16::from_be_bytes([fixed[0], fixed[1]])),
            class: u16::from_be_bytes([fixed[2], fixed[3]]),
            ttl: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            rdata,
            end: name_end + 10 + len,
        })
    }
}

/// Where TSIG data ends (RFC 8945 4.2): algorithm, time, fudge, MAC, original id, error, other data.
fn skip_tsig(rdata: &[u8]) -> Option<usize> {
    let skip_sized = |at: usize| {
        let len: &[u8; 2] = rdata.get(at..)?.first_chunk()?;
        Some(at + 2 + usize::from(u16::from_be_bytes(*len)))
    };
    let mac_end = skip_sized(skip_name(rdata, 0)? + 8)?;
    skip_sized(mac_end + 4)
}

impl<'m> Edns<'m> {
    /// `None` where the options do not fill the RDATA, or one that must have a form has another.
    fn read(record: &Record<'m>) -> Option<Edns<'m>> {
        let mut edns = Edns {
            payload: record.class,
            version: (record.ttl >> 16) as u8,
            dnssec_ok: record.ttl & 0x8000 != 0,
            ..Edns::default()
        };
        // RFC 6891 6.1.3: BADVERS, whatever options another version has, and in what form.
        let mut rest = if edns.version == 0 { record.rdata } else { &[] };
        while !rest.is_empty() {
            let (fixed, more) = rest.split_first_chunk::<4>()?;
            let code = u16::from_be_bytes([fixed[0], fixed[1]]);
            let (data, more) = more.split_at_checked(usize::from(u16::from_be_bytes([fixed[2], fixed[3]])))?;
            edns.read_option(code, data)?;
            rest = more;
        }
        Some(edns)
    }

    fn read_option(&mut self, code: u16, data: &'m [u8]) -> Option<()> {
        match code {
            OPT_NSID => self.wants_nsid = true,
            // RFC 7314 3.1: empty in a query; what else it has is of no interest.
            OPT_EXPIRE => self.wants_expire = true,
            // RFC 7873 5.2: the first cookie counts. 5.2.2: 8 octets of the client, and of the server 8 to 32 or none.
            OPT_COOKIE if self.cookie.is_none() => {
                let (client, server) = data.split_first_chunk::<8>()?;
                if !(server.is_empty() || (8..=32).contains(&server.len())) {
                    return None;
                }
                self.cookie = Some((*client, server));
            }
            OPT_KEEPALIVE => self.wants_keepalive = true,
            // RFC 9660 3.1: empty in a query.
            OPT_ZONE_VERSION if data.is_empty() => self.wants_zone_version = true,
            OPT_ZONE_VERSION => return None,
            // RFC 6891 6.1.2: options that are not known are ignored.
            _ => {}
        }
        Some(())
    }
}
