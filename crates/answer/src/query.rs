//! Parsing a query: header, question, and the OPT, TSIG and SOA records that a query may have.

use wire::message::{Opcode, RawRecord, Rcode};
use wire::name::skip_name;
use wire::{Class, HEADER_LEN, NameRef, Rtype, serial};

use crate::acl::Client;
use crate::cookie::CookieSecrets;
use crate::edns::QueryEdns;
use crate::qname::Qname;
use crate::request::{Request, Transport};

/// A parsed query. The name of its question is in a [`Qname`].
pub(crate) struct Query<'m> {
    pub(crate) request: &'m Request<'m>,
    pub(crate) header: Header,
    pub(crate) qtype: Rtype,
    pub(crate) qclass: Class,
    /// Where the question ends: the response starts with a copy of it. Equal to the end of the header where there is no
    /// question, as when a client fetches a cookie (RFC 7873 5.4).
    pub(crate) question_end: usize,
    pub(crate) edns: Option<QueryEdns<'m>>,
    /// The serial that the client of an IXFR query has (RFC 1995 3).
    pub(crate) client_serial: u32,
    /// The query has a TSIG record.
    pub(crate) is_signed: bool,
    /// The key that signed it, once it is verified.
    pub(crate) key: Option<VerifiedKey<'m>>,
}

/// The TSIG key of a query.
#[derive(Clone, Copy)]
pub(crate) struct VerifiedKey<'m> {
    pub(crate) name: NameRef<'m>,
    /// The length of the TSIG record of the response.
    pub(crate) record_len: u16,
}

/// More records than any NOTIFY message has: the SOA record with its signatures, OPT and TSIG.
const MAX_NOTIFY_RECORDS: usize = 16;

/// The parts of a query's header that its response repeats.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) id: [u8; 2],
    pub(crate) opcode: Opcode,
    /// The RD flag; clear for other opcodes than QUERY (RFC 8906 3.1.4: flags unknown for an opcode are clear).
    pub(crate) rd: bool,
}

/// More records than any query has beside the question: OPT, TSIG or SIG(0), and the SOA of an IXFR query.
const MAX_RECORDS: usize = 4;

impl Header {
    /// Reads the header; `None` if the message must not be answered.
    #[inline]
    pub(crate) fn read(message: &[u8]) -> Option<Header> {
        let header: &[u8; HEADER_LEN] = message.first_chunk()?;
        // RFC 1035 4.1.1: a response is never answered.
        if header[2] & 0x80 != 0 {
            return None;
        }
        let opcode = Opcode((header[2] >> 3) & 15);
        Some(Header { id: [header[0], header[1]], opcode, rd: opcode == Opcode::QUERY && header[2] & 1 != 0 })
    }
}

impl<'m> Query<'m> {
    /// A query with this header and nothing else.
    #[inline]
    pub(crate) fn new(request: &'m Request<'m>, header: Header) -> Query<'m> {
        Query {
            request,
            header,
            qtype: Rtype(0),
            qclass: Class::IN,
            question_end: HEADER_LEN,
            edns: None,
            client_serial: 0,
            is_signed: false,
            key: None,
        }
    }

    /// What is left of a malformed query for its response: the header, and the OPT record as far as it was read.
    pub(crate) fn malformed(self) -> Query<'m> {
        Query { edns: self.edns, ..Query::new(self.request, self.header) }
    }

    /// Reads the rest of the message. The name of the question goes to `qname`, or is there already and ends at `name_end`.
    /// Fails with the response code.
    #[inline]
    pub(crate) fn read(&mut self, qname: &mut Qname, name_end: Option<usize>) -> Result<(), Rcode> {
        match self.header.opcode {
            Opcode::QUERY => self.read_sections(qname, name_end).ok_or(Rcode::FORMERR),
            // Read by `read_notify` and `read_update`.
            Opcode::NOTIFY | Opcode::UPDATE => Err(Rcode::NOTIMP),
            _ => Err(self.read_unknown(qname, name_end)),
        }
    }

    /// Reads a message with an unknown opcode for its OPT record, which OPT answers (RFC 6891 6.1.1). Returns the response code, malformed
    /// or not: the opcode may have other sections.
    #[cold]
    fn read_unknown(&mut self, qname: &mut Qname, name_end: Option<usize>) -> Rcode {
        self.read_sections(qname, name_end);
        Rcode::NOTIMP
    }

    // Nearly every query comes through here: inlined even though a rare caller shares it.
    #[inline(always)]
    fn read_sections(&mut self, qname: &mut Qname, name_end: Option<usize>) -> Option<()> {
        let [questions, answers, authorities, additionals] = self.section_counts();
        match questions {
            // RFC 9619: a query has one question.
            1 if answers == 0 => self.read_question(qname, name_end)?,
            0 if answers == 0 => {}
            _ => return None,
        }
        // RFC 1995 3: an IXFR query has the client's SOA record in the authority section; no other query has records there.
        if authorities != usize::from(self.qtype == Rtype::IXFR) || authorities + additionals > MAX_RECORDS {
            return None;
        }
        self.read_records(self.question_end, authorities, additionals)?;
        let fetches_cookie = self.edns.is_some_and(|edns| edns.cookie.is_some());
        (self.has_question() || fetches_cookie).then_some(())
    }

    /// Reads a NOTIFY message: a question for the SOA record of a zone, and the serial that its answer section may announce
    /// (RFC 1996 3.7). `None` if it is malformed.
    #[cold]
    pub(crate) fn read_notify(&mut self, qname: &mut Qname) -> Option<Option<u32>> {
        let message = self.request.message;
        let [questions, answers, authorities, additionals] = self.section_counts();
        if questions != 1 || answers + authorities + additionals > MAX_NOTIFY_RECORDS {
            return None;
        }
        self.read_question(qname, None)?;
        if self.qtype != Rtype::SOA {
            return None;
        }
        let (mut at, mut announced, mut owner) = (self.question_end, None, Qname::new());
        for index in 0..answers + authorities {
            let record = RawRecord::read(message, at)?;
            if index < answers && record.rtype == Rtype::SOA {
                owner.read_compressed(message, at)?;
                let serial = serial::of_soa(record.rdata)?;
                announced = announced.or((owner.wire() == qname.wire()).then_some(serial));
            }
            at = record.end;
        }
        self.read_records(at, 0, additionals)?;
        Some(announced)
    }

    /// Reads an UPDATE message: the zone and the additional section (RFC 2136 2). The other sections are parsed when it is applied.
    /// `None` if it is malformed.
    #[cold]
    pub(crate) fn read_update(&mut self, qname: &mut Qname) -> Option<()> {
        let message = self.request.message;
        let [zones, prerequisites, updates, additionals] = self.section_counts();
        if zones != 1 {
            return None;
        }
        self.read_question(qname, None)?;
        // RFC 2136 3.1.1: one zone, named by its SOA record.
        if self.qtype != Rtype::SOA {
            return None;
        }
        let mut at = self.question_end;
        // Bounded by the message: a record has at least 11 octets.
        for _ in 0..prerequisites + updates {
            at = RawRecord::read(message, at)?.end;
        }
        self.read_records(at, 0, additionals)
    }

    /// How many records each section has, by the header.
    #[inline]
    fn section_counts(&self) -> [usize; 4] {
        let message = self.request.message;
        [4, 6, 8, 10].map(|at| usize::from(u16::from_be_bytes([message[at], message[at + 1]])))
    }

    #[inline]
    fn read_question(&mut self, qname: &mut Qname, name_end: Option<usize>) -> Option<()> {
        let message = self.request.message;
        let name_end = match name_end {
            Some(end) => end,
            None => qname.read_question(message, HEADER_LEN)?,
        };
        let fixed: &[u8; 4] = message.get(name_end..)?.first_chunk()?;
        self.qtype = Rtype(u16::from_be_bytes([fixed[0], fixed[1]]));
        self.qclass = Class(u16::from_be_bytes([fixed[2], fixed[3]]));
        self.question_end = name_end + 4;
        Some(())
    }

    /// Reads the authority section, which starts at `at`, and the additional section.
    fn read_records(&mut self, mut at: usize, authorities: usize, additionals: usize) -> Option<()> {
        let message = self.request.message;
        for index in 0..authorities + additionals {
            let record = RawRecord::read(message, at)?;
            at = record.end;
            // RFC 8945 5.1, RFC 2931 3: TSIG and SIG(0) are the last record.
            if self.is_signed {
                return None;
            }
            match record.rtype {
                Rtype::SOA if index < authorities => self.client_serial = serial::of_soa(record.rdata)?,
                _ if index < authorities => return None,
                Rtype::OPT => {
                    // RFC 6891 6.1.1: at most one, owned by the root.
                    if self.edns.is_some() || !record.is_root() {
                        return None;
                    }
                    // Kept if its options are malformed, too: RFC 6891 6.1.1, 7: OPT answers OPT.
                    let edns = self.edns.insert(QueryEdns::new(record.class.0, record.ttl));
                    if self.request.transport.is_encrypted() {
                        // RFC 9539 3.5, RFC 9250 5.4: all responses are padded. RFC 7830 4 permits it for queries that are not.
                        (edns.has_options, edns.wants_padding) = (true, true);
                    }
                    edns.read_options(record.rdata)?;
                }
                Rtype::TSIG => {
                    // RFC 8945 4.2: class ANY, and all fields present.
                    if record.class != Class::ANY || skip_tsig(record.rdata) != Some(record.rdata.len()) {
                        return None;
                    }
                    self.is_signed = true;
                }
                _ => {}
            }
        }
        (at == message.len()).then_some(())
    }

    /// The last `len` octets of the question's name, in the case of the query.
    #[inline]
    pub(crate) fn name_suffix(&self, len: usize) -> &'m [u8] {
        let end = self.question_end.saturating_sub(4);
        &self.request.message[end - len..end]
    }

    /// Who sent it.
    pub(crate) fn client(&self) -> Client<'m> {
        let tls = match self.request.transport {
            Transport::Tls { client_names, .. } | Transport::Quic { client_names } => Some(client_names),
            Transport::Udp | Transport::Tcp { .. } => None,
        };
        Client { address: self.request.peer, key: self.key.map(|key| key.name), tls }
    }

    /// Whether it has a server cookie made with one of these secrets for its client (RFC 7873 5.2.4, 5.2.5).
    pub(crate) fn has_valid_cookie(&self, secrets: &CookieSecrets) -> bool {
        let Request { peer, now_s, .. } = *self.request;
        let cookie = self.edns.and_then(|edns| edns.cookie);
        cookie.is_some_and(|(client, server)| secrets.is_valid(&client, server, peer, now_s))
    }

    /// Whether it has another version of EDNS than 0 (RFC 6891 6.1.3).
    #[inline]
    pub(crate) fn has_bad_version(&self) -> bool {
        self.edns.is_some_and(|edns| edns.version > 0)
    }

    /// Whether there is a question.
    #[inline]
    pub(crate) fn has_question(&self) -> bool {
        self.question_end > HEADER_LEN
    }
}

/// Where TSIG RDATA ends (RFC 8945 4.2): algorithm, time, fudge, MAC, original id, error, other data.
fn skip_tsig(rdata: &[u8]) -> Option<usize> {
    let skip_sized = |at: usize| {
        let len: &[u8; 2] = rdata.get(at..)?.first_chunk()?;
        Some(at + 2 + usize::from(u16::from_be_bytes(*len)))
    };
    let mac_end = skip_sized(skip_name(rdata, 0)? + 8)?;
    skip_sized(mac_end + 4)
}
