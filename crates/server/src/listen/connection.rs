//! A turn of a connection: reading, cutting the stream into messages (RFC 1035 4.2.2), answering, writing.

use super::Answer;
use super::connection_pool::Work;
use super::counters::Counters;
use answer::{Ask, Reply, Transport};
use netio::stream::Interest;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use zone::transfer::Transfer;

/// How much a turn reads at most, in octets.
pub(super) const READ_LEN: usize = 64 << 10;
/// How much a turn writes at most, in octets: three messages of the greatest length.
const WRITE_LEN: usize = 3 * (PREFIX_LEN + MESSAGE_MAX);
/// The longest message over TCP, in octets, and the length that precedes it.
const MESSAGE_MAX: usize = u16::MAX as usize;
const PREFIX_LEN: usize = 2;
/// The least room made for the rest of a message, in octets. More comes as it arrives: the length is only a claim.
const PART_LEN: usize = 512;

/// What answers on the connections of a thread, and the buffer that it writes to, shared by all.
pub(super) struct Desk<A> {
    answer: A,
    output: Output,
    counters: Arc<Counters>,
    transport: Transport,
    now_s: u32,
}

/// What a turn came to.
pub(super) enum Turn {
    /// Nothing complete was received or sent.
    Waiting,
    /// Something was, and the connection goes on as before.
    Active,
    /// It was at rest and is now in the middle of something.
    Begun(Box<Work>),
    /// It was in the middle of something and now rests.
    Finished,
}

impl<A: Answer> Desk<A> {
    pub(super) fn new(answer: A, counters: Arc<Counters>, idle_timeout: Duration) -> Desk<A> {
        // RFC 7828 3.1: in units of 100 milliseconds.
        let idle_ds = u16::try_from(idle_timeout.as_millis() / 100).unwrap_or(u16::MAX);
        Desk { answer, output: Output::new(), counters, transport: Transport::Tcp { idle_ds }, now_s: 0 }
    }

    /// Prepares for a round of turns.
    pub(super) fn begin(&mut self, now: Duration) {
        self.answer.refresh();
        self.now_s = now.as_secs() as u32;
    }

    /// Closes a round of turns.
    pub(super) fn end(&mut self) {
        self.counters.take_over(self.answer.counters());
    }

    /// A turn of a connection that holds nothing: reads into `input`. Any error ends the connection.
    pub(super) fn turn_at_rest(&mut self, stream: &TcpStream, peer: IpAddr, input: &mut [u8]) -> io::Result<Turn> {
        let Some(len) = receive(stream, input)? else { return Ok(Turn::Waiting) };
        self.output.clear();
        let (used, transfer) = self.answer_messages(peer, &input[..len]);
        let output = self.output.send(stream)?;
        if used == len && output.is_empty() && transfer.is_none() {
            return Ok(Turn::Active);
        }
        let (input, output) = (input[used..len].to_vec(), output.to_vec());
        Ok(Turn::Begun(Box::new(Work { input, output, transfer, interest: Interest::Readable })))
    }

    /// A turn of a connection that holds something. Any error ends the connection.
    pub(super) fn turn_at_work(&mut self, stream: &TcpStream, peer: IpAddr, work: &mut Work) -> io::Result<Turn> {
        let mut active = !work.output.is_empty();
        if !work.flush(stream)? {
            return Ok(Turn::Waiting);
        }
        self.output.clear();
        if let Some(transfer) = &mut work.transfer {
            if self.stream_transfer(transfer) {
                log(peer, transfer, "zone transferred");
                work.transfer = None;
            }
        } else {
            if !work.holds_message() {
                work.receive_part(stream)?;
            }
            let (used, transfer) = self.answer_messages(peer, &work.input);
            active |= used > 0;
            release(&mut work.input, used);
            work.transfer = transfer;
        }
        active |= self.output.filled > 0;
        work.output.extend_from_slice(self.output.send(stream)?);
        let finished = work.input.is_empty() && !work.can_go_on();
        Ok(if finished {
            Turn::Finished
        } else if active {
            Turn::Active
        } else {
            Turn::Waiting
        })
    }

    /// Answers the whole messages in `input` as long as there is room for answers and no transfer begins.
    /// Returns how many octets of it are done, and the transfer.
    fn answer_messages(&mut self, peer: IpAddr, input: &[u8]) -> (usize, Option<Box<Transfer>>) {
        let mut used = 0;
        while let Some(message) = first_message(&input[used..])
            && self.output.has_room()
        {
            used += PREFIX_LEN + message.len();
            self.counters.queries.add(1);
            self.counters.query_octets.add(message.len());
            let ask = Ask { message, peer, transport: self.transport, now_s: self.now_s };
            match self.answer.answer(ask, self.output.room()) {
                Reply::Send(len) => {
                    self.output.take(len);
                    self.counters.answered(len);
                }
                Reply::Drop => self.counters.dropped.add(1),
                Reply::Transfer(transfer) => {
                    self.counters.transfers.add(1);
                    return (used, Some(transfer));
                }
            }
        }
        (used, None)
    }

    /// Writes as many messages of a transfer as there is room for; tells whether that were all.
    fn stream_transfer(&mut self, transfer: &mut Transfer) -> bool {
        while self.output.has_room() {
            let Some(len) = transfer.next_message(self.output.room()) else { return true };
            self.output.take(len);
            self.counters.transfer_octets.add(len);
        }
        false
    }
}

impl Work {
    /// Whether something can be done without reading further.
    pub(super) fn can_go_on(&self) -> bool {
        !self.output.is_empty() || self.transfer.is_some() || self.holds_message()
    }

    fn holds_message(&self) -> bool {
        first_message(&self.input).is_some()
    }

    /// Writes what waits to be written; tells whether that was all.
    fn flush(&mut self, stream: &TcpStream) -> io::Result<bool> {
        if !self.output.is_empty() {
            let sent = send(stream, &self.output)?;
            release(&mut self.output, sent);
        }
        Ok(self.output.is_empty())
    }

    /// Reads more of the message that has begun, and nothing behind it.
    fn receive_part(&mut self, stream: &TcpStream) -> io::Result<()> {
        let have = self.input.len();
        let whole = match self.input.first_chunk() {
            Some(prefix) => PREFIX_LEN + usize::from(u16::from_be_bytes(*prefix)),
            None => PREFIX_LEN,
        };
        let room = (whole - have).min(have.max(PART_LEN));
        self.input.resize(have + room, 0);
        let received = receive(stream, &mut self.input[have..])?.unwrap_or(0);
        self.input.truncate(have + received);
        Ok(())
    }
}

/// Logs the end of a transfer. Only those that a zone's `allow-transfer` names can cause this.
pub(super) fn log(peer: IpAddr, transfer: &Transfer, end: &str) {
    tracing::info!(zone = %transfer.apex(), serial = transfer.serial(), records = transfer.records(), %peer, "{end}");
}

/// Answers of a turn, one behind the other, each with its length before it.
struct Output {
    octets: Box<[u8]>,
    filled: usize,
}

impl Output {
    fn new() -> Output {
        Output { octets: vec![0; WRITE_LEN].into(), filled: 0 }
    }

    fn clear(&mut self) {
        self.filled = 0;
    }

    fn has_room(&self) -> bool {
        self.octets.len() - self.filled >= PREFIX_LEN + MESSAGE_MAX
    }

    /// Where the next message is written to; only when there is room.
    fn room(&mut self) -> &mut [u8] {
        &mut self.octets[self.filled + PREFIX_LEN..][..MESSAGE_MAX]
    }

    /// Takes the first `len` octets of the room as a message.
    fn take(&mut self, len: usize) {
        let prefix = u16::try_from(len).expect("the room is no larger");
        self.octets[self.filled..][..PREFIX_LEN].copy_from_slice(&prefix.to_be_bytes());
        self.filled += PREFIX_LEN + len;
    }

    /// Sends all of it; returns what the kernel would not take.
    fn send(&self, stream: &TcpStream) -> io::Result<&[u8]> {
        let octets = &self.octets[..self.filled];
        Ok(if octets.is_empty() { octets } else { &octets[send(stream, octets)?..] })
    }
}

/// The message at the front of `stream`, if all of it is there.
fn first_message(stream: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = stream.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*prefix)))
}

/// Takes `len` octets away at the front, and the memory that the rest does not need.
fn release(octets: &mut Vec<u8>, len: usize) {
    if len > 0 {
        *octets = octets.split_off(len);
    }
}

/// Reads what is there; `None` when nothing is. The peer's end is an error: it comes behind all that was received.
fn receive(mut stream: &TcpStream, octets: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(octets) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if passes(&error) => Ok(None),
        result => result.map(Some),
    }
}

/// Writes what the kernel takes; returns how much that was.
fn send(mut stream: &TcpStream, octets: &[u8]) -> io::Result<usize> {
    match stream.write(octets) {
        Err(error) if passes(&error) => Ok(0),
        result => result,
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_from_the_stream_only_when_whole() {
        let stream = [0, 3, 1, 2, 3, 0, 0, 0, 2, 9];
        assert_eq!(first_message(&stream), Some(&[1, 2, 3][..]));
        assert_eq!(first_message(&stream[5..]), Some(&[][..]));
        assert_eq!(first_message(&stream[7..]), None);
        assert_eq!((first_message(&stream[..1]), first_message(&[])), (None, None));
    }

    #[test]
    fn output_has_room_for_messages_of_the_greatest_length() {
        let mut output = Output::new();
        let mut count = 0;
        while output.has_room() {
            assert_eq!(output.room().len(), MESSAGE_MAX);
            output.take(MESSAGE_MAX);
            count += 1;
        }
        assert_eq!(count, WRITE_LEN / (PREFIX_LEN + MESSAGE_MAX));
    }
}
