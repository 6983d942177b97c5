//! Reads the records of a received message, with names decompressed, without allocating for each. For `transfer_receiver`.

use wire::message::{MessageError, append_rdata, read_name};
use wire::rdata::may_be_compressed;
use wire::{Class, HEADER_LEN, MAX_NAME_LEN, NameRef, Rtype};

/// Reads a message from its start to its end.
pub(crate) struct MessageReader<'m> {
    message: &'m [u8],
    at: usize,
    /// Where the name is that was read into the buffer last.
    owner_at: usize,
}

/// The octets of a name and of RDATA, reused from record to record.
pub(crate) struct RecordBuffer {
    owner: [u8; MAX_NAME_LEN],
    owner_len: usize,
    pub(crate) rdata: Vec<u8>,
}

/// The fixed fields of a record.
#[derive(Clone, Copy)]
pub(crate) struct RecordHead<'m> {
    pub(crate) rtype: Rtype,
    pub(crate) class: Class,
    pub(crate) ttl: u32,
    /// The RDATA, unless it may have compressed names: then it is in the buffer. Most of a signed zone need not be copied.
    plain: Option<&'m [u8]>,
}

impl<'r> RecordHead<'r> {
    /// The RDATA, with its names decompressed.
    #[inline]
    pub(crate) fn rdata(&self, buffer: &'r RecordBuffer) -> &'r [u8] {
        self.plain.unwrap_or(&buffer.rdata)
    }
}

impl RecordBuffer {
    pub(crate) fn new() -> RecordBuffer {
        RecordBuffer { owner: [0; MAX_NAME_LEN], owner_len: 1, rdata: Vec::new() }
    }

    /// The owner of the last record, or the name of the question.
    pub(crate) fn owner(&self) -> NameRef<'_> {
        NameRef::from_valid_wire(&self.owner[..self.owner_len])
    }
}

impl<'m> MessageReader<'m> {
    /// Reads what follows the header.
    pub(crate) fn new(message: &'m [u8]) -> MessageReader<'m> {
        MessageReader { message, at: HEADER_LEN, owner_at: usize::MAX }
    }

    /// Reads the name, type and class of a question.
    pub(crate) fn question(&mut self, buffer: &mut RecordBuffer) -> Result<(Rtype, Class), MessageError> {
        self.owner(buffer)?;
        let [t0, t1, c0, c1] = self.fixed()?;
        Ok((Rtype(u16::from_be_bytes([t0, t1])), Class(u16::from_be_bytes([c0, c1]))))
    }

    /// Reads a record.
    pub(crate) fn record(&mut self, buffer: &mut RecordBuffer) -> Result<RecordHead<'m>, MessageError> {
        self.owner(buffer)?;
        let [t0, t1, c0, c1, ttl @ .., l0, l1] = self.fixed::<10>()?;
        let rtype = Rtype(u16::from_be_bytes([t0, t1]));
        let len = usize::from(u16::from_be_bytes([l0, l1]));
        let plain = self.message.get(self.at..self.at + len).ok_or(MessageError::Short)?;
        let is_plain = !may_be_compressed(rtype);
        if !is_plain {
            buffer.rdata.clear();
            append_rdata(self.message, self.at..self.at + len, rtype, &mut buffer.rdata)?;
        }
        self.at += len;
        let class = Class(u16::from_be_bytes([c0, c1]));
        Ok(RecordHead { rtype, class, ttl: u32::from_be_bytes(ttl), plain: is_plain.then_some(plain) })
    }

    fn fixed<const LEN: usize>(&mut self) -> Result<[u8; LEN], MessageError> {
        let octets = self.message.get(self.at..).and_then(|rest| rest.first_chunk()).ok_or(MessageError::Short)?;
        self.at += LEN;
        Ok(*octets)
    }

    fn owner(&mut self, buffer: &mut RecordBuffer) -> Result<(), MessageError> {
        let start = self.at;
        // Most owners are those of the record before, as a pointer.
        let pointer = match self.message.get(start..start + 2) {
            Some(&[high @ 0xc0..=0xff, low]) => usize::from(u16::from_be_bytes([high & 0x3f, low])),
            _ => start,
        };
        if pointer == self.owner_at {
            self.at += 2;
            return Ok(());
        }
        (buffer.owner_len, self.at) = read_name(self.message, start, &mut buffer.owner)?;
        self.owner_at = pointer;
        Ok(())
    }
}
