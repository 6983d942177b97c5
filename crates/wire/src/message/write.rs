//! Writing messages.

use super::{DNSSEC_OK, Edns, Message, Question, Rcode, Record};
use crate::{Class, Name, Rtype};

impl Message {
    /// A query of class IN with ID 0, no flags and no EDNS.
    pub fn query(name: Name, qtype: Rtype) -> Message {
        Message { questions: vec![Question { name, qtype, qclass: Class::IN }], ..Message::default() }
    }

    /// The same message with EDNS.
    pub fn with_edns(self, edns: Edns) -> Message {
        Message { edns: Some(edns), ..self }
    }

    /// The wire form, without name compression. Bits that exceed their field are lost, such as the upper RCODE bits without EDNS.
    ///
    /// # Panics
    /// If a section has more than 65,535 records, or a record or option more than 65,535 octets of data.
    pub fn to_wire(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_u16(&mut out, self.id);
        push_u16(&mut out, self.flags.bits() | u16::from(self.opcode.0 & 0xf) << 11 | self.rcode.0 & 0xf);
        let additional = self.additional.len() + usize::from(self.edns.is_some());
        for count in [self.questions.len(), self.answer.len(), self.authority.len(), additional] {
            push_len(&mut out, count);
        }
        for question in &self.questions {
            out.extend_from_slice(question.name.wire());
            push_u16(&mut out, question.qtype.0);
            push_u16(&mut out, question.qclass.0);
        }
        // OPT precedes other additional records, as TSIG must be the last record (RFC 8945 5.1).
        let opt = self.edns.as_ref().map(|edns| edns.to_record(self.rcode));
        for record in self.answer.iter().chain(&self.authority).chain(&opt).chain(&self.additional) {
            record.write(&mut out);
        }
        out
    }
}

impl Edns {
    fn to_record(&self, rcode: Rcode) -> Record {
        let mut rdata = Vec::new();
        for option in &self.options {
            push_u16(&mut rdata, option.code);
            push_len(&mut rdata, option.data.len());
            rdata.extend_from_slice(&option.data);
        }
        let [high, low] = (u16::from(self.dnssec_ok) << 15 | self.reserved & !DNSSEC_OK).to_be_bytes();
        let ttl = u32::from_be_bytes([(rcode.0 >> 4) as u8, self.version, high, low]);
        Record { owner: Name::root(), rtype: Rtype::OPT, class: Class(self.payload), ttl, rdata }
    }
}

impl Record {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.owner.wire());
        push_u16(out, self.rtype.0);
        push_u16(out, self.class.0);
        out.extend_from_slice(&self.ttl.to_be_bytes());
        push_len(out, self.rdata.len());
        out.extend_from_slice(&self.rdata);
    }
}

fn push_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn push_len(out: &mut Vec<u8>, len: usize) {
    push_u16(out, u16::try_from(len).expect("counts and lengths in a message have 16 bits"));
}
