//! The messages of outgoing transfers: header, question, answer section and OPT record (RFC 5936 2.2). For `axfr` and `ixfr`.

use wire::message::Rcode;
use wire::{HEADER_LEN, MAX_NAME_LEN, NameRef, Rtype};

use crate::stage::RECORD_HEAD_LEN;

/// What all messages of a transfer have in common.
pub(crate) struct TransferMessages {
    id: [u8; 2],
    question: Box<[u8]>,
    /// The message offset of the question, if it has the apex in its original case.
    apex: Option<usize>,
    /// The OPT record of the first message, or empty.
    opt: Box<[u8]>,
    /// How many records were written.
    records: u64,
    has_failed: bool,
}

/// Writes the answer section of one message.
pub(crate) struct MessageWriter<'o> {
    /// The room for the message: it does not become longer.
    pub(crate) out: &'o mut [u8],
    /// Where the answer section starts.
    start: usize,
    pub(crate) at: usize,
    pub(crate) count: u16,
    /// The offset of the apex in its original case, once it is in the message.
    pub(crate) apex: Option<usize>,
    /// The target size.
    target: usize,
}

/// Why a record was not written.
#[derive(Debug)]
pub(crate) enum NoRoom {
    /// It goes into the next message.
    Full,
    /// It fits in no message.
    TooLarge,
}

/// The target size of messages, in octets: below the greatest compression offset, so that every owner can be pointed to.
const MESSAGE_LEN: usize = 16_000;

impl TransferMessages {
    /// Responses to the query with this ID and question (name, type and class in wire form), about a zone with this `apex`, in its
    /// original case. `opt` is the OPT record in wire form, empty for a client without EDNS.
    pub(crate) fn new(id: [u8; 2], question: &[u8], opt: &[u8], apex: NameRef<'_>) -> TransferMessages {
        // RFC 5936 3.4: compression preserves case, and the question may have another case than the apex.
        let apex = question.starts_with(apex.wire()).then_some(HEADER_LEN);
        TransferMessages { id, question: question.into(), apex, opt: opt.into(), records: 0, has_failed: false }
    }

    /// Writes the next message and returns its length; `fill` writes the answer section. If a record fits in no message, this one
    /// reports SERVFAIL and is the last.
    pub(crate) fn write(
        &mut self,
        out: &mut [u8],
        fill: impl FnOnce(&mut MessageWriter<'_>) -> Result<(), NoRoom>,
    ) -> usize {
        // RFC 5936 2.2.5: the first message has the OPT record.
        let opt = std::mem::take(&mut self.opt);
        let room = out.len() - opt.len();
        let start = HEADER_LEN + self.question.len();
        out[HEADER_LEN..start].copy_from_slice(&self.question);
        let target = MESSAGE_LEN.min(room);
        let mut writer = MessageWriter { out: &mut out[..room], start, at: start, count: 0, apex: self.apex, target };
        let filled = fill(&mut writer);
        let (len, count, has_question) = (writer.at, writer.count, writer.start > HEADER_LEN);
        self.has_failed = matches!(filled, Err(NoRoom::TooLarge));
        let rcode = if self.has_failed { Rcode::SERVFAIL } else { Rcode::NOERROR };
        let has_opt = u8::from(!opt.is_empty());
        let [id_high, id_low] = self.id;
        let [count_high, count_low] = count.to_be_bytes();
        let header =
            [id_high, id_low, 0x84, rcode.0 as u8, 0, has_question.into(), count_high, count_low, 0, 0, 0, has_opt];
        out[..HEADER_LEN].copy_from_slice(&header);
        out[len..len + opt.len()].copy_from_slice(&opt);
        self.records += u64::from(count);
        len + opt.len()
    }

    /// Whether the last message reports a failure.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The number of records written so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }
}

impl MessageWriter<'_> {
    /// Whether a message, empty so far, would have room for this many octets within its target size.
    pub(crate) fn may_hold(&self, len: usize) -> bool {
        self.start + len <= self.target
    }

    /// Makes room for this many octets: [`NoRoom::Full`] unless the message is empty or its target size allows them.
    pub(crate) fn make_room(&mut self, len: usize) -> Result<(), NoRoom> {
        if self.at + len > self.target && self.at > self.start { Err(NoRoom::Full) } else { Ok(()) }
    }

    /// Makes room for a record of any size: one that fits in no message with the question goes into one without
    /// (RFC 5936 2.2.1 requires the question in the first message only).
    pub(crate) fn make_room_for_record(
        &mut self,
        owner_len: impl FnOnce() -> usize,
        rdata_len: usize,
    ) -> Result<(), NoRoom> {
        let len = MAX_NAME_LEN + RECORD_HEAD_LEN + rdata_len;
        self.make_room(len)?;
        if self.at + len <= self.out.len() {
            return Ok(());
        }
        // The head of a record includes two octets of a pointer, which the owner replaces.
        if HEADER_LEN + owner_len() + RECORD_HEAD_LEN - 2 + rdata_len > self.out.len() {
            return Err(NoRoom::TooLarge);
        }
        self.omit_question();
        Ok(())
    }

    /// Leaves out the question of a message that is empty so far.
    pub(crate) fn omit_question(&mut self) {
        (self.start, self.at, self.apex) = (HEADER_LEN, HEADER_LEN, None);
    }

    /// Whether the message has a question and no record yet.
    pub(crate) fn has_only_question(&self) -> bool {
        self.at == self.start && self.start > HEADER_LEN
    }

    /// Writes a record with a pointer to its owner.
    pub(crate) fn push_record(&mut self, owner: usize, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        let record = &mut self.out[self.at..self.at + RECORD_HEAD_LEN + rdata.len()];
        record[..2].copy_from_slice(&(0xc000 | owner as u16).to_be_bytes());
        record[2..4].copy_from_slice(&rtype.0.to_be_bytes());
        record[4..6].copy_from_slice(&[0, 1]);
        record[6..10].copy_from_slice(&ttl.to_be_bytes());
        record[10..12].copy_from_slice(&(rdata.len() as u16).to_be_bytes());
        record[12..].copy_from_slice(rdata);
        self.at += record.len();
        self.count += 1;
    }

    /// Appends a record in wire form.
    pub(crate) fn push_octets(&mut self, record: &[u8]) {
        self.out[self.at..self.at + record.len()].copy_from_slice(record);
        self.at += record.len();
        self.count += 1;
    }
}
