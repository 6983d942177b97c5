//! TLS over a non-blocking byte stream, for both sides. Each call does a bounded amount of work.
//!
//! Only whole records are given to `rustls`, and what they contain is taken out at once. So incomplete input is here, where its
//! memory is counted.

use std::io::{self, ErrorKind, Read, Write};

use rustls::{Connection, ContentType};

use super::error_text::describe;

/// RFC 8446 5.1, 5.2: the header and the largest payload of a record.
const HEADER_LEN: usize = 5;
const MAX_PAYLOAD: usize = (1 << 14) + 256;
const MAX_RECORD: usize = HEADER_LEN + MAX_PAYLOAD;

/// The least length of the buffers of [`TlsStream::receive`]: a record, and something to read.
pub const MIN_BUFFER: usize = 2 * MAX_RECORD;

/// The memory of an established session that waits, in octets: 7.7 KiB with `rustls` 0.23, half of it an empty buffer.
pub const SESSION_MEMORY: usize = 8 << 10;

/// Encrypted octets that may wait for the socket.
const WAITING_OUTPUT: usize = 64 << 10;
/// Estimate of what a session needs during its handshake, in octets: messages, keys, the certificate chain.
const HANDSHAKE_MEMORY: usize = 16 << 10;

/// One side of a TLS connection; the caller has the socket.
pub struct TlsStream {
    session: Box<Connection>,
    /// The start of a record.
    partial: Vec<u8>,
    /// The peer has sent close_notify.
    is_closed: bool,
}

impl TlsStream {
    pub(super) fn new(mut session: Connection) -> TlsStream {
        session.set_buffer_limit(Some(WAITING_OUTPUT));
        TlsStream { session: Box::new(session), partial: Vec::new(), is_closed: false }
    }

    pub(super) fn session(&self) -> &Connection {
        &self.session
    }

    /// Whether the handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether encrypted octets wait until the socket can be written to.
    pub fn has_output(&self) -> bool {
        self.session.wants_write()
    }

    /// Whether there is more than an established session that waits.
    pub fn is_active(&self) -> bool {
        self.is_handshaking() || self.has_output() || !self.partial.is_empty()
    }

    /// The memory of its buffers besides [`SESSION_MEMORY`], in octets; an upper bound for output.
    pub fn memory(&self) -> usize {
        let output = if self.has_output() { WAITING_OUTPUT } else { 0 };
        let handshake = if self.is_handshaking() { HANDSHAKE_MEMORY } else { 0 };
        self.partial.capacity() + output + handshake
    }

    /// Reads once from the socket and decrypts into `out`; continues the handshake. Returns the number of octets, `None` for
    /// none yet. The end of the stream is an error, as is every alert.
    ///
    /// # Panics
    /// If a buffer is shorter than [`MIN_BUFFER`], or `out` shorter than `records`, which is for encrypted octets.
    pub fn receive(
        &mut self,
        socket: &mut (impl Read + Write),
        records: &mut [u8],
        out: &mut [u8],
    ) -> io::Result<Option<usize>> {
        assert!(records.len() >= MIN_BUFFER && out.len() >= records.len(), "the buffers are too short");
        let partial_len = self.partial.len();
        records[..partial_len].copy_from_slice(&self.partial);
        let received = match socket.read(&mut records[partial_len..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if is_transient(&error) => return Ok(None),
            result => result?,
        };
        let received = &records[..partial_len + received];
        let (whole, rest) = received.split_at(whole_records(received));
        self.partial = rest.to_vec();
        let decrypted = self.decrypt(whole, out);
        // Before an error is returned, so that the peer gets the alert.
        let flushed = self.flush(socket);
        match decrypted? {
            0 if self.is_closed => Err(ErrorKind::UnexpectedEof.into()),
            0 => flushed.map(|_| None),
            len => flushed.map(|_| Some(len)),
        }
    }

    /// Encrypts and sends; returns how many octets are accepted, some of which may wait ([`TlsStream::has_output`]).
    pub fn send(&mut self, socket: &mut impl Write, octets: &[u8]) -> io::Result<usize> {
        let mut accepted = 0;
        loop {
            self.flush(socket)?;
            if self.has_output() || accepted == octets.len() {
                return Ok(accepted);
            }
            accepted += self.session.writer().write(&octets[accepted..])?;
        }
    }

    /// Sends what waits, until the socket would block; returns how many octets it accepted.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        let mut sent = 0;
        while self.session.wants_write() {
            match self.session.write_tls(socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// RFC 8446 6.1: sends close_notify to the peer, if that is possible without waiting.
    pub fn close_notify(&mut self, socket: &mut impl Write) {
        self.session.send_close_notify();
        // An error means that the peer has closed the connection already.
        _ = self.flush(socket);
    }

    /// Decrypts whole records; returns the length of their content.
    fn decrypt(&mut self, mut records: &[u8], out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while !records.is_empty() && !self.is_closed {
            self.session.read_tls(&mut records)?;
            let state = self.session.process_new_packets();
            let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, describe(&error)))?;
            let len = state.plaintext_bytes_to_read();
            // `out` is as long as the records, and content is shorter.
            self.session.reader().read_exact(&mut out[filled..filled + len])?;
            filled += len;
            self.is_closed = state.peer_has_closed();
        }
        Ok(filled)
    }
}

/// The length of the whole records at the start of `octets`. What is no record counts as whole: `rustls` refuses it at once.
fn whole_records(octets: &[u8]) -> usize {
    let mut whole = 0;
    while let Some((&[content_type, _, _, high, low], payload)) = octets[whole..].split_first_chunk() {
        let len = usize::from(u16::from_be_bytes([high, low]));
        if len > MAX_PAYLOAD || matches!(ContentType::from(content_type), ContentType::Unknown(_)) {
            return octets.len();
        }
        if payload.len() < len {
            break;
        }
        whole += HEADER_LEN + len;
    }
    whole
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
