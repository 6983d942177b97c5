//! One TCP connection and all that it holds: reading its stream, having messages answered in order, writing.
//!
//! An idle connection is 32 octets and nothing else. One in the middle of something has [`ActiveState`] besides.

use super::Responder;
use super::tcp_responder::{PREFIX_LEN, TcpResponder, first_message};
use netio::epoll::Interest;
use netio::tcp;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use zone::axfr::AxfrStream;

/// How much a turn reads at most, in octets.
pub(super) const READ_LEN: usize = 64 << 10;
/// The least room made for the rest of a message, in octets. More comes as it arrives: the length is only a claim.
const PART_LEN: usize = 512;
/// How much memory the kernel may have for what an idle connection wrote, in octets: answers that are on their way.
const IN_FLIGHT: usize = 16 << 10;
/// How much a client may send while its answers wait, in octets: what the kernel takes in before anything is read.
const UNREAD: usize = 64 << 10;

/// One connection.
pub(super) struct TcpConnection {
    stream: TcpStream,
    /// When it last made progress, in milliseconds of the thread's clock, which may wrap.
    pub(super) since_ms: u32,
    /// IPv4 addresses are mapped; they cannot be mistaken, as IPv6 sockets here have IPv6 peers only.
    peer: [u8; 16],
    active: Option<Box<ActiveState>>,
}

/// What a connection holds while it is in the middle of something.
#[derive(Default)]
struct ActiveState {
    /// Received and not answered yet: at most one read.
    input: Buffer,
    /// Answers that the kernel would not take yet.
    output: Buffer,
    transfer: Option<Box<AxfrStream>>,
    /// The kernel's memory for what was written, when it was last asked; 0 for what an idle connection may have, too.
    kernel: usize,
    /// The client has closed its half, everything is answered, and only the kernel still holds some of it.
    closing: bool,
}

impl TcpConnection {
    pub(super) fn new(stream: TcpStream, peer: IpAddr, now_ms: u32) -> TcpConnection {
        let peer = match peer {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        TcpConnection { stream, since_ms: now_ms, peer, active: None }
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn peer(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.peer)).to_canonical()
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// The transfer under way.
    pub(super) fn transfer(&self) -> Option<&AxfrStream> {
        self.active.as_ref()?.transfer.as_deref()
    }

    /// The memory that it holds here and in the kernel, in octets.
    pub(super) fn held(&self) -> usize {
        self.active.as_ref().map_or(0, |active| active.held())
    }

    /// What the connection waits for; [`Interest::Nothing`] when it is only there for the kernel's sake.
    pub(super) fn interest(&self) -> Interest {
        match &self.active {
            Some(active) if active.closing => Interest::Nothing,
            Some(active) if active.can_go_on() => Interest::Writable,
            _ => Interest::Readable,
        }
    }

    /// One turn: reads once (into `input` where no message has begun), answers, writes once. Returns whether it made progress: whether
    /// something was answered or taken by the kernel. Any error ends the connection.
    pub(super) fn turn<R: Responder>(&mut self, responder: &mut TcpResponder<R>, input: &mut [u8]) -> io::Result<bool> {
        responder.output.clear();
        let result = match self.active.take_if(|active| !active.is_idle()) {
            None => self.idle_turn(responder, input),
            Some(mut active) => {
                let result = self.active_turn(responder, &mut active);
                self.active = Some(active);
                result
            }
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.begin_close(error),
            Err(error) => Err(error),
            Ok(progress) => {
                self.settle(responder);
                Ok(progress)
            }
        }
    }

    fn idle_turn<R: Responder>(&mut self, responder: &mut TcpResponder<R>, input: &mut [u8]) -> io::Result<bool> {
        let Some(len) = receive(&self.stream, input)? else { return Ok(false) };
        let (used, transfer) = responder.answer_messages(self.peer(), &input[..len]);
        let answers = responder.output.filled();
        let sent = send(&self.stream, answers)?;
        if used < len || sent < answers.len() || transfer.is_some() {
            let active = self.active.get_or_insert_default();
            (active.input, active.output) = (Buffer::from(&input[used..len]), Buffer::from(&answers[sent..]));
            active.transfer = transfer;
        }
        Ok(!answers.is_empty())
    }

    fn active_turn<R: Responder>(&self, responder: &mut TcpResponder<R>, active: &mut ActiveState) -> io::Result<bool> {
        let flushed = active.flush(&self.stream)?;
        if !active.output.is_empty() {
            return Ok(flushed > 0);
        }
        if let Some(transfer) = &mut active.transfer {
            if responder.stream_transfer(transfer) {
                responder.log_transfer(self.peer(), transfer, "zone transferred");
                active.transfer = None;
            }
        } else {
            if !active.holds_message() {
                active.receive_part(&self.stream)?;
            }
            let (used, transfer) = responder.answer_messages(self.peer(), active.input.octets());
            active.input.consume(used);
            active.transfer = transfer;
        }
        let answers = responder.output.filled();
        let sent = send(&self.stream, answers)?;
        active.output = Buffer::from(&answers[sent..]);
        Ok(flushed > 0 || !answers.is_empty())
    }

    /// Counts the kernel's memory if it may be much, and lets go of what is not needed any more.
    fn settle<R>(&mut self, responder: &mut TcpResponder<R>) {
        let picked = responder.samples.pick(responder.output.filled().len());
        if picked || self.active.as_ref().is_some_and(|active| active.kernel > 0 || !active.output.is_empty()) {
            self.count_kernel();
        } else {
            self.active.take_if(|active| active.holds_nothing());
        }
    }

    /// Asks the kernel how much it holds; a connection that waited for nothing else becomes idle. A transfer is left out: what the
    /// kernel holds of it grows with the distance of its client, and transfers are limited in number.
    pub(super) fn count_kernel(&mut self) {
        if self.transfer().is_some() {
            return;
        }
        let memory = Some(self.send_memory()).filter(|memory| *memory > IN_FLIGHT);
        match &mut self.active {
            Some(active) => active.kernel = memory.unwrap_or(0),
            None => self.active = memory.map(|kernel| Box::new(ActiveState { kernel, ..ActiveState::default() })),
        }
        self.active.take_if(|active| active.holds_nothing());
    }

    fn send_memory(&self) -> usize {
        // It fails for no open connection; and what cannot be counted must not end one.
        tcp::send_memory(&self.stream).unwrap_or(0)
    }

    /// The client sends no more. Closing takes the connection out of all limits while the kernel still delivers what it has; if
    /// that is much, the connection stays until it is given up.
    fn begin_close(&mut self, end: io::Error) -> io::Result<bool> {
        if self.is_active() {
            self.count_kernel();
        }
        let Some(active) = self.active.as_mut().filter(|active| active.kernel > 0) else { return Err(end) };
        active.closing = true;
        active.input = Buffer::default();
        self.stream.shutdown(Shutdown::Write).map(|()| false)
    }

    /// Closes a connection whose time is over: by RST if the client has not taken everything, so that the kernel lets go of it.
    pub(super) fn give_up(self) {
        let unsent = self.active.as_ref().is_some_and(|active| active.can_go_on());
        if unsent || self.send_memory() > 0 {
            // What cannot be reset is closed.
            let _ = tcp::reset(self.stream);
        }
    }
}

impl ActiveState {
    fn held(&self) -> usize {
        let unread = if self.output.is_empty() { 0 } else { UNREAD };
        self.input.memory() + self.output.memory() + self.kernel + unread
    }

    /// Whether something can be done without reading further.
    fn can_go_on(&self) -> bool {
        !self.output.is_empty() || self.transfer.is_some() || self.holds_message()
    }

    /// Whether nothing is under way but what the kernel has.
    fn is_idle(&self) -> bool {
        self.input.is_empty() && !self.can_go_on()
    }

    fn holds_nothing(&self) -> bool {
        self.kernel == 0 && self.is_idle()
    }

    fn holds_message(&self) -> bool {
        first_message(self.input.octets()).is_some()
    }

    /// Writes what waits; returns how much the kernel took.
    fn flush(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let sent = send(stream, self.output.octets())?;
        self.output.consume(sent);
        Ok(sent)
    }

    /// Reads more of the message that has begun, and nothing after it.
    fn receive_part(&mut self, stream: &TcpStream) -> io::Result<()> {
        let input = self.input.octets();
        let whole = match input.first_chunk() {
            Some(prefix) => PREFIX_LEN + usize::from(u16::from_be_bytes(*prefix)),
            None => PREFIX_LEN,
        };
        let room = (whole - input.len()).min(input.len().max(PART_LEN));
        self.input.fill(room, |room| receive(stream, room))
    }
}

/// Octets that are taken from the front.
#[derive(Default)]
struct Buffer {
    octets: Vec<u8>,
    start: usize,
}

impl From<&[u8]> for Buffer {
    fn from(octets: &[u8]) -> Buffer {
        Buffer { octets: octets.to_vec(), start: 0 }
    }
}

impl Buffer {
    fn octets(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    fn is_empty(&self) -> bool {
        self.octets().is_empty()
    }

    fn memory(&self) -> usize {
        self.octets.capacity()
    }

    /// Takes `len` octets from the front. When half are gone the rest moves to memory of its own size: all moves together copy
    /// no more octets than there were.
    fn consume(&mut self, len: usize) {
        self.start += len;
        if self.start * 2 >= self.octets.len() {
            *self = Buffer::from(self.octets());
        }
    }

    /// Appends what `receive` puts into `room` octets.
    fn fill(&mut self, room: usize, receive: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>) -> io::Result<()> {
        let len = self.octets.len();
        self.octets.resize(len + room, 0);
        let received = receive(&mut self.octets[len..]);
        self.octets.truncate(len + received.as_ref().map_or(0, |received| received.unwrap_or(0)));
        received.map(drop)
    }
}

/// Reads what is there; `None` when nothing is. The peer's end is an error: it comes after all that was received.
fn receive(mut stream: &TcpStream, octets: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(octets) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if passes(&error) => Ok(None),
        result => result.map(Some),
    }
}

/// Writes what the kernel takes; returns how much that was.
fn send(mut stream: &TcpStream, octets: &[u8]) -> io::Result<usize> {
    if octets.is_empty() {
        return Ok(0);
    }
    match stream.write(octets) {
        Err(error) if passes(&error) => Ok(0),
        result => result,
    }
}

fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Leaves the connection with `len` octets of input, idle for 0; returns that this was progress.
    pub(in crate::listen) fn hold(connection: &mut TcpConnection, len: usize) -> bool {
        let input = Buffer::from(&vec![0xff; len][..]);
        connection.active = (len > 0).then(|| Box::new(ActiveState { input, ..ActiveState::default() }));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_from_a_buffer_copies_each_octet_at_most_once() {
        let all: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let mut buffer = Buffer::from(&all[..]);
        let (mut copied, mut taken) = (0, 0);
        while !buffer.is_empty() {
            assert_eq!(buffer.octets(), &all[taken..]);
            let before = buffer.octets.as_ptr();
            buffer.consume(1000);
            taken += 1000;
            if buffer.octets.as_ptr() != before {
                copied += buffer.octets.len();
            }
            assert!(buffer.memory() <= 2 * (all.len() - taken), "{} for {}", buffer.memory(), all.len() - taken);
        }
        assert!(copied <= all.len(), "{copied}");
    }
}
