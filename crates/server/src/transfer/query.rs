//! The messages that a secondary sends (SOA, IXFR, AXFR queries and NOTIFY), and whether a response belongs to one.

use std::sync::Arc;

use wire::message::{Opcode, RawRecord, RawRecords, Rcode, Section, header_rcode};
use wire::serial::of_soa;
use wire::tsig::{Mac, TsigError, TsigKey, TsigSigner, TsigVerifier};
use wire::{HEADER_LEN, Message, NameRef, Rtype};

/// A sent query, or NOTIFY request, that waits for its response.
#[derive(Clone, Debug)]
pub(super) struct OutgoingQuery {
    octets: Box<[u8]>,
    /// The end of the question.
    question_end: usize,
    has_opt: bool,
    mac: Option<Mac>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryKind<'a> {
    Soa,
    Axfr,
    /// Changes from this serial.
    Ixfr(u32),
    /// The zone has changed; with the RDATA of its SOA record.
    Notify(&'a [u8]),
}

/// How a query uses EDNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdnsUse {
    /// Not at all: the server does not know it.
    None,
    /// As the query needs it.
    Plain,
    /// Padded (RFC 9250 5.4), which is for encrypted transports only (RFC 7830 6).
    Padded,
}

/// Who sent a response to a signed query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authenticity {
    /// The server; or no signature is expected.
    Authentic,
    /// The server, which refuses the signature of the query: its error is signed (RFC 8945 5.2.3).
    SignedError(TsigError),
    /// Perhaps somebody else.
    Unverified(TsigError),
}

/// Why the answer to a SOA query is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UselessAnswer {
    /// It is an error.
    #[error("the primary answers {0}")]
    Rcode(Rcode),
    /// RFC 1034 4.3.5: an answer without authority says nothing about the zone.
    #[error("the primary answers without authority (AA): it does not serve the zone")]
    NotAuthoritative,
    /// It is malformed, or has other records.
    #[error("the answer of the primary has no SOA record of the zone")]
    NoSoa,
}

/// RFC 7314 2: an empty EXPIRE option.
const EXPIRE_OPTION: [u8; OPTION_HEAD_LEN] = [0, EXPIRE, 0, 0];
/// The length of an option's code and length.
const OPTION_HEAD_LEN: usize = 4;
/// The codes of the EXPIRE option and of the Padding option.
const EXPIRE: u8 = 9;
const PADDING: u8 = 12;
/// RFC 8467 4.1: padded queries have a multiple of this length.
const PADDING_BLOCK: usize = 128;

impl OutgoingQuery {
    pub(super) fn new(id: u16, apex: NameRef<'_>, kind: QueryKind<'_>, key: Option<&TsigKey>, now_s: u64) -> Self {
        Self::with_edns(id, apex, kind, key, now_s, EdnsUse::Plain)
    }

    /// As [`OutgoingQuery::new`], with another use of EDNS.
    pub(super) fn with_edns(
        id: u16,
        apex: NameRef<'_>,
        kind: QueryKind<'_>,
        key: Option<&TsigKey>,
        now_s: u64,
        edns: EdnsUse,
    ) -> Self {
        let (qtype, opcode, answers, authorities) = match kind {
            QueryKind::Soa => (Rtype::SOA, 0, 0, 0),
            QueryKind::Axfr => (Rtype::AXFR, 0, 0, 0),
            QueryKind::Ixfr(_) => (Rtype::IXFR, 0, 0, 1),
            // RFC 1996 3.7: AA, and the SOA record as a hint.
            QueryKind::Notify(_) => (Rtype::SOA, Opcode::NOTIFY.0 << 3 | 4, 1, 0),
        };
        let options = if matches!(kind, QueryKind::Notify(_)) { &[][..] } else { &EXPIRE_OPTION };
        let has_opt = edns == EdnsUse::Padded || (edns == EdnsUse::Plain && !options.is_empty());
        let additionals = u8::from(has_opt);
        let [id_high, id_low] = id.to_be_bytes();
        let mut octets = vec![id_high, id_low, opcode, 0, 0, 1, 0, answers, 0, authorities, 0, additionals];
        octets.extend_from_slice(apex.wire());
        octets.extend_from_slice(&qtype.0.to_be_bytes());
        octets.extend_from_slice(&[0, 1]);
        let question_end = octets.len();
        match kind {
            QueryKind::Notify(soa) => push_soa(&mut octets, soa),
            // RFC 1995 3: of the client's SOA record, only the serial matters.
            QueryKind::Ixfr(serial) => push_soa(&mut octets, &[&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat()),
            QueryKind::Soa | QueryKind::Axfr => (),
        }
        let signer = key.map(TsigSigner::for_query);
        let padded_with = (edns == EdnsUse::Padded).then(|| signer.as_ref().map_or(0, TsigSigner::record_len));
        if has_opt {
            push_opt(&mut octets, options, padded_with);
        }
        let sign = |mut signer: TsigSigner<_>| signer.sign(&mut octets, 0, now_s).expect("a query is far below 64 KiB");
        let mac = signer.map(sign);
        OutgoingQuery { octets: octets.into(), question_end, has_opt, mac }
    }

    /// The message.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Whether a message is a response to this query: ID, QR, opcode and question. An error, or a later message of a transfer,
    /// may lack the question (RFC 5936 2.2.1).
    pub(super) fn is_answered_by(&self, response: &[u8]) -> bool {
        let Some(header) = response.first_chunk::<HEADER_LEN>() else { return false };
        let question = &self.octets[HEADER_LEN..self.question_end];
        let has_question = match [header[4], header[5]] {
            [0, 0] => true,
            [0, 1] => {
                response[HEADER_LEN..].get(..question.len()).is_some_and(|octets| octets.eq_ignore_ascii_case(question))
            }
            _ => false,
        };
        header[..2] == self.octets[..2]
            && header[2] & 0x80 != 0
            && (header[2] ^ self.octets[2]) & 0x78 == 0
            && has_question
    }

    /// Whether this response says that its server does not know EDNS: FORMERR without OPT (RFC 6891 7).
    pub(super) fn edns_is_unknown(&self, response: &[u8]) -> bool {
        let has_opt = || Message::parse(response).is_ok_and(|message| message.edns.is_some());
        self.has_opt && header_rcode(response) == Rcode::FORMERR && !has_opt()
    }

    /// Verifies the one response to a query. RFC 8945 5.4: an unverified datagram is no answer, as a signed one may still come.
    pub(super) fn authenticity(&self, key: Option<&TsigKey>, response: &[u8], now_s: u64) -> Authenticity {
        let (Some(key), Some(mac)) = (key, &self.mac) else { return Authenticity::Authentic };
        // An error without a MAC was not verified.
        let has_mac =
            || wire::tsig::find(response).is_ok_and(|found| found.is_some_and(|(tsig, _)| !tsig.mac.is_empty()));
        match TsigVerifier::new(key, mac).verify(response, now_s) {
            Ok(()) => Authenticity::Authentic,
            Err(error @ TsigError::FromPeer(_)) if has_mac() => Authenticity::SignedError(error),
            Err(error) => Authenticity::Unverified(error),
        }
    }

    /// The verifier of all responses to a signed query.
    pub(super) fn verifier(&self, key: Option<&Arc<TsigKey>>) -> Option<TsigVerifier<Arc<TsigKey>>> {
        Some(TsigVerifier::new(key?.clone(), self.mac.as_ref()?))
    }
}

/// Appends a SOA record whose owner is the name in the question.
fn push_soa(octets: &mut Vec<u8>, rdata: &[u8]) {
    octets.extend_from_slice(&[0xc0, HEADER_LEN as u8, 0, 6, 0, 1, 0, 0, 0, 0]);
    octets.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    octets.extend_from_slice(rdata);
}

/// Appends an OPT record (RFC 6891 6.1.2) with UDP payload size 1232 and an option; padded, if a length is given, together with a
/// signature of this length.
fn push_opt(octets: &mut Vec<u8>, option: &[u8], padded_with: Option<usize>) {
    octets.extend_from_slice(&[0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0]);
    let padding = padded_with.map(|signature_len| {
        let len = octets.len() + 2 + option.len() + OPTION_HEAD_LEN + signature_len;
        len.next_multiple_of(PADDING_BLOCK) - len
    });
    let len = option.len() + padding.map_or(0, |padding| OPTION_HEAD_LEN + padding);
    octets.extend_from_slice(&(len as u16).to_be_bytes());
    octets.extend_from_slice(option);
    if let Some(padding) = padding {
        octets.extend_from_slice(&[0, PADDING, 0, padding as u8]);
        octets.resize(octets.len() + padding, 0);
    }
}

/// Whether TC is set.
pub(super) fn is_truncated(message: &[u8]) -> bool {
    message.get(2).is_some_and(|octet| octet & 2 != 0)
}

/// The serial in the response to a SOA query, and its EXPIRE option.
pub(super) fn soa_answer(response: &[u8], apex: NameRef<'_>) -> Result<(u32, Option<u32>), UselessAnswer> {
    let rcode = header_rcode(response);
    if rcode != Rcode::NOERROR {
        return Err(UselessAnswer::Rcode(rcode));
    }
    let message = Message::parse(response).map_err(|_| UselessAnswer::NoSoa)?;
    if !message.flags.authoritative {
        return Err(UselessAnswer::NotAuthoritative);
    }
    let is_soa = |record: &&wire::message::Record| record.rtype == Rtype::SOA && record.owner.as_ref() == apex;
    let serial = message.answer.iter().find(is_soa).and_then(|record| of_soa(&record.rdata));
    let option = message.edns.iter().flat_map(|edns| &edns.options).find(|option| option.code == u16::from(EXPIRE));
    let expire_s = option.and_then(|option| option.data.first_chunk()).map(|octets| u32::from_be_bytes(*octets));
    Ok((serial.ok_or(UselessAnswer::NoSoa)?, expire_s))
}

/// The EXPIRE option of a message of any length (RFC 7314), without reading its other records.
pub(super) fn expire_option(message: &[u8]) -> Option<u32> {
    let is_opt =
        |(section, record): &(Section, RawRecord<'_>)| *section == Section::Additional && record.rtype == Rtype::OPT;
    RawRecords::of(message)?.find(is_opt).and_then(|(_, opt)| option_of(opt.rdata))
}

fn option_of(mut rdata: &[u8]) -> Option<u32> {
    while let Some(([code_high, code, len_high, len], rest)) = rdata.split_first_chunk() {
        let (data, after) = rest.split_at_checked(usize::from(u16::from_be_bytes([*len_high, *len])))?;
        if (*code_high, *code) == (0, EXPIRE) {
            return data.first_chunk().map(|octets| u32::from_be_bytes(*octets));
        }
        rdata = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::message::{Edns, EdnsOption, Flags, Record};
    use wire::{Class, Name};

    fn apex() -> Name {
        "example.org".parse().expect("a literal")
    }

    fn soa(owner: &str) -> Record {
        let rdata = [&[0, 0][..], &7u32.to_be_bytes(), &[0; 16]].concat();
        Record { owner: owner.parse().expect("a literal"), rtype: Rtype::SOA, class: Class::IN, ttl: 1, rdata }
    }

    #[test]
    fn queries_are_well_formed() {
        let soa_rdata = soa("example.org").rdata;
        for (kind, qtype) in [
            (QueryKind::Soa, Rtype::SOA),
            (QueryKind::Axfr, Rtype::AXFR),
            (QueryKind::Ixfr(7), Rtype::IXFR),
            (QueryKind::Notify(&soa_rdata), Rtype::SOA),
        ] {
            let query = OutgoingQuery::new(0x1234, apex().as_ref(), kind, None, 0);
            let message = Message::parse(query.octets()).expect("well-formed");
            assert_eq!((message.id, message.questions[0].qtype, message.flags.response), (0x1234, qtype, false));
            let records = message.authority.iter().chain(&message.answer);
            let serials: Vec<_> = records.map(|record| of_soa(&record.rdata)).collect();
            let has_soa = matches!(kind, QueryKind::Ixfr(_) | QueryKind::Notify(_));
            assert_eq!(serials, if has_soa { vec![Some(7)] } else { vec![] }, "rfc_1995_3, rfc_1996_3_7");
            let is_notify = matches!(kind, QueryKind::Notify(_));
            assert_eq!((message.opcode == Opcode::NOTIFY, message.flags.authoritative), (is_notify, is_notify));
            assert_eq!(message.edns.map(|edns| edns.options[0].code), (!is_notify).then_some(9), "rfc_7314");
        }
    }

    #[test]
    fn rfc_9250_5_4_queries_over_encrypted_transports_are_padded() {
        let (soa_rdata, apex) = (soa("example.org").rdata, apex());
        let key = TsigKey::new("hmac-sha256", apex.as_ref(), &[7; 32]).expect("a key");
        for kind in [QueryKind::Soa, QueryKind::Axfr, QueryKind::Ixfr(7), QueryKind::Notify(&soa_rdata)] {
            for key in [None, Some(&key)] {
                let query = OutgoingQuery::with_edns(1, apex.as_ref(), kind, key, 0, EdnsUse::Padded);
                assert_eq!(query.octets().len() % 128, 0, "rfc_8467_4_1");
                let message = Message::parse(query.octets()).expect("well-formed");
                let options = message.edns.expect("an OPT record").options;
                assert_eq!(options.last().map(|option| option.code), Some(12));
                let plain = OutgoingQuery::new(1, apex.as_ref(), kind, key, 0);
                let edns = Message::parse(plain.octets()).expect("well-formed").edns;
                assert!(edns.is_none_or(|edns| edns.options.iter().all(|option| option.code != 12)), "rfc_7830_6");
            }
        }
    }

    #[test]
    fn only_the_response_to_the_query_is_taken() {
        let query = OutgoingQuery::new(5, apex().as_ref(), QueryKind::Soa, None, 0);
        let mut message = Message::parse(query.octets()).expect("well-formed");
        assert!(!query.is_answered_by(query.octets()), "a query");
        message.flags = Flags { response: true, authoritative: true, ..Flags::default() };
        message.answer = vec![soa("EXAMPLE.org")];
        message.edns = Some(Edns {
            options: vec![
                EdnsOption { code: 3, data: vec![1] },
                EdnsOption { code: 9, data: 77u32.to_be_bytes().to_vec() },
            ],
            ..Edns::default()
        });
        let response = message.to_wire();
        assert!(query.is_answered_by(&response));
        assert_eq!(soa_answer(&response, apex().as_ref()), Ok((7, Some(77))));
        assert_eq!(expire_option(&response), Some(77));
        assert!((0..response.len()).all(|len| expire_option(&response[..len]).is_none()));
        assert!(!query.is_answered_by(&Message { id: 6, ..message.clone() }.to_wire()));
        assert!(!query.is_answered_by(&Message { opcode: Opcode::NOTIFY, ..message.clone() }.to_wire()));
        let mut other = message.clone();
        other.questions[0].name = "example.net".parse().expect("a literal");
        assert!(!query.is_answered_by(&other.to_wire()));
        assert!(query.is_answered_by(&Message { questions: vec![], ..message.clone() }.to_wire()));
        let lame = Message { flags: Flags { authoritative: false, ..message.flags }, ..message.clone() };
        assert_eq!(soa_answer(&lame.to_wire(), apex().as_ref()), Err(UselessAnswer::NotAuthoritative));
        let foreign = Message { answer: vec![soa("org")], ..message.clone() };
        assert_eq!(soa_answer(&foreign.to_wire(), apex().as_ref()), Err(UselessAnswer::NoSoa));
        let refused = Message { rcode: Rcode::REFUSED, ..message };
        assert_eq!(soa_answer(&refused.to_wire(), apex().as_ref()), Err(UselessAnswer::Rcode(Rcode::REFUSED)));
    }
}
