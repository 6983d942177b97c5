//! Parsing messages.

use super::{
    DNSSEC_OK, Edns, EdnsOption, Flags, Message, MessageError, Opcode, Question, Rcode, Record, append_rdata, read_name,
};
use crate::{Class, MAX_NAME_LEN, Name, Rtype, rdata};

impl Message {
    /// Parses a message, which must take all of `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Message, MessageError> {
        let mut parser = MessageParser { bytes, at: 0 };
        let (id, bits) = (parser.u16()?, parser.u16()?);
        let [questions, answers, authorities, additionals] =
            [parser.u16()?, parser.u16()?, parser.u16()?, parser.u16()?];
        let mut message = Message {
            id,
            opcode: Opcode((bits >> 11) as u8 & 0xf),
            flags: Flags::from_bits(bits),
            rcode: Rcode(bits & 0xf),
            questions: (0..questions).map(|_| parser.question()).collect::<Result<_, _>>()?,
            answer: parser.section(answers)?,
            authority: parser.section(authorities)?,
            additional: parser.section(additionals)?,
            edns: None,
        };
        if parser.at != bytes.len() {
            return Err(MessageError::Trailing);
        }
        message.take_opt()?;
        Ok(message)
    }

    /// Moves the OPT record from the additional section to `edns` (RFC 6891 6.1.1: at most one, owned by the root).
    fn take_opt(&mut self) -> Result<(), MessageError> {
        if self.answer.iter().chain(&self.authority).any(|record| record.rtype == Rtype::OPT) {
            return Err(MessageError::Opt);
        }
        let Some(at) = self.additional.iter().position(|record| record.rtype == Rtype::OPT) else {
            return Ok(());
        };
        let opt = self.additional.remove(at);
        if !opt.owner.as_ref().is_root() || self.additional.iter().any(|record| record.rtype == Rtype::OPT) {
            return Err(MessageError::Opt);
        }
        // RFC 6891 6.1.3: the TTL field holds EXTENDED-RCODE, VERSION, DO and Z.
        let [upper_rcode, version, flags @ ..] = opt.ttl.to_be_bytes();
        let flags = u16::from_be_bytes(flags);
        self.rcode.0 |= u16::from(upper_rcode) << 4;
        self.edns = Some(Edns {
            payload: opt.class.0,
            version,
            dnssec_ok: flags & DNSSEC_OK != 0,
            reserved: flags & !DNSSEC_OK,
            options: options(&opt.rdata).map_err(|_| MessageError::Opt)?,
        });
        Ok(())
    }
}

fn options(rdata: &[u8]) -> Result<Vec<EdnsOption>, MessageError> {
    let mut parser = MessageParser { bytes: rdata, at: 0 };
    let mut options = Vec::new();
    while parser.at < rdata.len() {
        let (code, len) = (parser.u16()?, parser.u16()?);
        options.push(EdnsOption { code, data: parser.take(len.into())?.to_vec() });
    }
    Ok(options)
}

/// Parses a message from start to end; pointers in names refer to earlier offsets.
struct MessageParser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> MessageParser<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], MessageError> {
        let taken = self.bytes.get(self.at..self.at + len).ok_or(MessageError::Short)?;
        self.at += len;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, MessageError> {
        self.take(2).map(|octets| u16::from_be_bytes([octets[0], octets[1]]))
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    fn question(&mut self) -> Result<Question, MessageError> {
        Ok(Question { name: self.name()?, qtype: Rtype(self.u16()?), qclass: Class(self.u16()?) })
    }

    fn section(&mut self, count: u16) -> Result<Vec<Record>, MessageError> {
        (0..count).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> Result<Record, MessageError> {
        let (owner, rtype, class) = (self.name()?, Rtype(self.u16()?), Class(self.u16()?));
        let (ttl, len) = (self.u32()?, self.u16()?);
        let rdata = self.rdata(rtype, class, len.into())?;
        Ok(Record { owner, rtype, class, ttl, rdata })
    }

    /// RDATA of `len` octets, with its names decompressed.
    fn rdata(&mut self, rtype: Rtype, class: Class, len: usize) -> Result<Vec<u8>, MessageError> {
        let start = self.at;
        let plain = self.take(len)?;
        // RFC 2136 2.4, 2.5: records of an update that only name a type have empty RDATA.
        let is_bare = len == 0 && matches!(class, Class::ANY | Class::NONE);
        if is_bare || !rdata::may_be_compressed(rtype) {
            return Ok(plain.to_vec());
        }
        let mut rdata = Vec::new();
        append_rdata(self.bytes, start..self.at, rtype, &mut rdata)?;
        Ok(rdata)
    }

    /// A decompressed name.
    fn name(&mut self) -> Result<Name, MessageError> {
        let mut wire = [0; MAX_NAME_LEN];
        let (len, end) = read_name(self.bytes, self.at, &mut wire)?;
        self.at = end;
        Ok(Name::from_wire(&wire[..len]).expect("labels and length were checked while reading"))
    }
}
