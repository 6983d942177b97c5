//! What an active connection has besides its socket: the buffers of incomplete messages and of responses that wait, and a transfer.

use crate::listen::buffer::Buffer;
use crate::listen::outgoing_transfer::OutgoingTransfer;
use netio::is_not_ready;
use std::io::{self, Read};
use std::net::TcpStream;
use wire::framing::{missing_len, split_message};

/// Initial buffer for the rest of a message, in octets. It grows as data arrives: the length prefix may be a lie.
const PART_LEN: usize = 512;

/// The buffers and the transfer of a connection that is not idle.
#[derive(Default)]
pub(super) struct ActiveState {
    /// Received and not yet answered: at most one read.
    pub(super) input: Buffer,
    /// Responses that the kernel has not accepted yet.
    pub(super) output: Buffer,
    pub(super) transfer: Option<Box<OutgoingTransfer>>,
    /// Kernel memory for sent data when it was last measured; 0 if it is little.
    pub(super) kernel_memory: usize,
    /// The client has closed its half, everything is answered, and only TLS and the kernel still hold data.
    pub(super) closing: bool,
    /// The client has closed its half, and waits for a response that another thread sends later.
    pub(super) awaits_response: bool,
    /// A proxy has opened it, and has not said for whom; `input` has the start of its header.
    pub(super) awaits_proxy_header: bool,
}

impl ActiveState {
    pub(super) fn memory(&self) -> usize {
        self.input.memory() + self.output.memory() + self.kernel_memory
    }

    /// Whether there is work without reading from the socket.
    pub(super) fn has_work(&self) -> bool {
        !self.output.is_empty() || self.transfer.is_some() || self.has_message()
    }

    /// Whether nothing remains but data in the kernel.
    pub(super) fn is_idle(&self) -> bool {
        self.input.is_empty() && !self.has_work()
    }

    pub(super) fn is_empty(&self) -> bool {
        let waits = self.closing || self.awaits_response || self.awaits_proxy_header;
        self.kernel_memory == 0 && self.is_idle() && !waits
    }

    pub(super) fn has_message(&self) -> bool {
        split_message(self.input.octets()).is_some()
    }

    /// Reads more of an incomplete message, and nothing after it.
    pub(super) fn receive_part(&mut self, stream: &TcpStream) -> io::Result<()> {
        let input = self.input.octets();
        let room = missing_len(input).min(input.len().max(PART_LEN));
        self.input.fill(room, |room| receive(stream, room))
    }
}

/// Reads what has arrived; `None` if nothing has. The end of the stream is an error.
pub(super) fn receive(mut stream: &TcpStream, octets: &mut [u8]) -> io::Result<Option<usize>> {
    match stream.read(octets) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if is_not_ready(&error) => Ok(None),
        result => result.map(Some),
    }
}
