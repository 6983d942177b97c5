//! TLS over a non-blocking byte stream, for both sides. Each call does a bounded amount of work.
//!
//! `rustls` does the handshake. A server then continues with a [`RecordLayer`] of its own, which takes little memory. Only whole
//! records are given to either, and what they contain is taken out at once. So incomplete input is here, where its memory is counted.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::sync::Arc;

use netio::is_not_ready;
use rustls::pki_types::CertificateDer;
use rustls::{Connection, ContentType, HandshakeKind, IoState};

use super::error_text::describe;
use super::record_layer::{HEADER_LEN, MAX_PAYLOAD, RecordLayer, payload_len};
use super::traffic_secrets::TrafficSecrets;

const MAX_RECORD: usize = HEADER_LEN + MAX_PAYLOAD;

/// The least length of the buffers of [`TlsStream::receive`]: a record, and something to read.
pub const MIN_BUFFER: usize = 2 * MAX_RECORD;

/// The memory of an established session of a server that waits, in octets, as the allocator counts it.
pub const SESSION_MEMORY: usize = 512;

/// Encrypted octets that may wait for the socket.
const WAITING_OUTPUT: usize = 64 << 10;
/// Estimate of what a session needs during its handshake besides long messages, in octets: 8 KiB of `rustls`, messages, keys, the
/// certificate chain.
const HANDSHAKE_MEMORY: usize = 24 << 10;

/// One side of a TLS connection; the caller has the socket.
pub struct TlsStream {
    session: Session,
    /// The start of a record.
    partial: Vec<u8>,
    /// Encrypted octets that the socket has not accepted.
    output: Vec<u8>,
    /// The certificate chain of the client of a server, until it is taken.
    client: Option<Box<[CertificateDer<'static>]>>,
    /// The peer has sent close_notify, and `rustls` received it.
    is_closed: bool,
    /// Octets given to `rustls` in the handshake. It keeps an incomplete message whole, up to 64 KiB.
    handshake_input: u32,
    /// See [`TlsStream::has_responded`].
    has_responded: bool,
    /// See [`TlsStream::is_resumed`].
    is_resumed: bool,
}

#[expect(clippy::large_enum_variant, reason = "most sessions are of the largest variant, for hours")]
enum Session {
    /// A client, or the handshake of a server, which then has the secrets to continue with.
    Rustls(Box<Connection>, Option<Arc<TrafficSecrets>>),
    Records(RecordLayer),
    /// After a handshake whose secrets cannot be used, which is a mistake of this program.
    Failed,
}

impl TlsStream {
    /// A client.
    pub(super) fn client(mut session: Connection) -> TlsStream {
        session.set_buffer_limit(Some(WAITING_OUTPUT));
        TlsStream::new(Session::Rustls(Box::new(session), None))
    }

    /// A server, whose session puts its secrets into `secrets`.
    pub(super) fn server(session: Connection, secrets: Arc<TrafficSecrets>) -> TlsStream {
        TlsStream::new(Session::Rustls(Box::new(session), Some(secrets)))
    }

    fn new(session: Session) -> TlsStream {
        TlsStream {
            session,
            partial: Vec::new(),
            output: Vec::new(),
            client: None,
            is_closed: false,
            handshake_input: 0,
            has_responded: false,
            is_resumed: false,
        }
    }

    /// The session of a client.
    pub(super) fn session(&self) -> Option<&Connection> {
        match &self.session {
            Session::Rustls(session, _) => Some(session),
            Session::Records(_) | Session::Failed => None,
        }
    }

    /// The certificate chain of the client of a server, once after the handshake, if it has one. Of a resumed session it is that of the first
    /// one.
    pub fn take_client(&mut self) -> Option<Box<[CertificateDer<'static>]>> {
        self.client.take()
    }

    /// Whether the handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        self.session().is_some_and(|session| session.is_handshaking())
    }

    /// Whether a server has sent its part of the handshake, the costly one, and the client's end of it is awaited.
    pub fn awaits_finished(&self) -> bool {
        // A HelloRetryRequest completes no key exchange.
        self.session()
            .is_some_and(|session| session.is_handshaking() && session.negotiated_key_exchange_group().is_some())
    }

    /// Whether this is a server whose handshake is complete and resumed an earlier session.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Whether the last call of [`TlsStream::receive`] continued the handshake with output.
    pub fn has_responded(&self) -> bool {
        self.has_responded
    }

    /// Whether encrypted octets wait until the socket can be written to.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty() || self.session().is_some_and(|session| session.wants_write())
    }

    /// RFC 8446 6.1: whether the peer has sent close_notify, after which nothing is received.
    pub fn is_closed(&self) -> bool {
        self.is_closed || matches!(&self.session, Session::Records(layer) if layer.is_closed())
    }

    /// Whether there is more than an established session that waits.
    pub fn is_active(&self) -> bool {
        self.is_handshaking() || self.has_output() || !self.partial.is_empty()
    }

    /// The memory of its buffers besides [`SESSION_MEMORY`], in octets.
    pub fn memory(&self) -> usize {
        // The buffer of `rustls` doubles when it grows.
        let input = 2 * self.handshake_input as usize;
        let handshake = if self.is_handshaking() { HANDSHAKE_MEMORY + input } else { 0 };
        self.partial.capacity() + self.output.capacity() + handshake
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
        if self.is_closed() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.has_responded = false;
        let partial_len = self.partial.len();
        records[..partial_len].copy_from_slice(&self.partial);
        let received = match socket.read(&mut records[partial_len..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if is_not_ready(&error) => return Ok(None),
            result => result?,
        };
        let received = &mut records[..partial_len + received];
        let (whole, rest) = received.split_at_mut(whole_records(received));
        self.partial = rest.to_vec();
        let decrypted = self.decrypt(whole, out);
        // Before an error is returned, so that the peer gets the alert.
        let flushed = self.flush(socket);
        match decrypted? {
            0 if self.is_closed() => Err(ErrorKind::UnexpectedEof.into()),
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
            let len = (octets.len() - accepted).min(WAITING_OUTPUT);
            accepted += self.encrypt(&octets[accepted..accepted + len])?;
        }
    }

    /// Sends what waits, until the socket would block; returns how many octets it accepted.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        self.collect_output();
        let mut sent = 0;
        while sent < self.output.len() {
            match socket.write(&self.output[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => sent += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if sent > 0 {
            self.output = self.output[sent..].to_vec();
        }
        Ok(sent)
    }

    /// RFC 8446 6.1: sends close_notify to the peer, if that is possible without waiting.
    pub fn close_notify(&mut self, socket: &mut impl Write) {
        match &mut self.session {
            Session::Rustls(session, _) => session.send_close_notify(),
            Session::Records(records) => records.seal_close_notify(&mut self.output),
            Session::Failed => {}
        }
        // An error means that the peer has closed the connection already.
        _ = self.flush(socket);
    }

    /// Returns how many octets are accepted.
    fn encrypt(&mut self, octets: &[u8]) -> io::Result<usize> {
        match &mut self.session {
            Session::Rustls(session, _) => session.writer().write(octets),
            Session::Records(records) => {
                records.seal(octets, &mut self.output);
                Ok(octets.len())
            }
            Session::Failed => Err(failed()),
        }
    }

    /// Moves what `rustls` wants to send to the output.
    fn collect_output(&mut self) {
        let Session::Rustls(session, _) = &mut self.session else { return };
        while session.wants_write() {
            session.write_tls(&mut self.output).expect("a vector takes everything");
        }
    }

    /// Decrypts whole records; returns the length of their content.
    fn decrypt(&mut self, records: &mut [u8], out: &mut [u8]) -> io::Result<usize> {
        let mut used = 0;
        let mut filled = 0;
        // `rustls` gets single records, so that the one after the handshake is not its own any more.
        while used < records.len() && !self.is_closed {
            let Session::Rustls(session, _) = &mut self.session else { break };
            let len = first_record_len(&records[used..]);
            if session.is_handshaking() {
                self.handshake_input = self.handshake_input.saturating_add(len as u32);
            }
            let state = process(session, &records[used..used + len])?;
            self.has_responded |= session.wants_write();
            used += len;
            let len = state.plaintext_bytes_to_read();
            // `out` is as long as the records, and content is shorter.
            session.reader().read_exact(&mut out[filled..filled + len])?;
            filled += len;
            self.is_closed = state.peer_has_closed();
            self.hand_over()?;
        }
        let Session::Records(layer) = &mut self.session else { return Ok(filled) };
        match layer.open(&mut records[used..], &mut out[filled..]) {
            Ok(len) => Ok(filled + len),
            Err(error) => {
                layer.seal_alert(error, &mut self.output);
                Err(io::Error::new(ErrorKind::InvalidData, error))
            }
        }
    }

    /// After the handshake of a server: continues with a record layer, and frees what `rustls` has.
    fn hand_over(&mut self) -> io::Result<()> {
        if !matches!(&self.session, Session::Rustls(session, Some(_)) if !session.is_handshaking()) {
            return Ok(());
        }
        self.collect_output();
        let Session::Rustls(session, Some(secrets)) = mem::replace(&mut self.session, Session::Failed) else {
            return Ok(());
        };
        self.is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        self.client = session.peer_certificates().filter(|chain| !chain.is_empty()).map(Box::from);
        let extracted = session.dangerous_extract_secrets().map_err(io::Error::other)?;
        self.session = Session::Records(secrets.record_layer(&extracted).ok_or_else(failed)?);
        Ok(())
    }
}

/// Gives `rustls` a record.
fn process(session: &mut Connection, mut record: &[u8]) -> io::Result<IoState> {
    // 0 after close_notify, when the rest is ignored.
    while !record.is_empty() && session.read_tls(&mut record)? > 0 {}
    session.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, describe(&error)))
}

fn failed() -> io::Error {
    io::Error::other("TLS: the secrets of the handshake cannot be used")
}

/// The length of the first of some whole records; what is no record is one.
fn first_record_len(records: &[u8]) -> usize {
    (HEADER_LEN + records.first_chunk().map_or(0, payload_len)).min(records.len())
}

/// The length of the whole records at the start of `octets`. What is no record counts as whole: `rustls` refuses it at once.
fn whole_records(octets: &[u8]) -> usize {
    let mut whole = 0;
    while let Some((header, payload)) = octets[whole..].split_first_chunk() {
        let len = payload_len(header);
        if len > MAX_PAYLOAD || matches!(ContentType::from(header[0]), ContentType::Unknown(_)) {
            return octets.len();
        }
        if payload.len() < len {
            break;
        }
        whole += HEADER_LEN + len;
    }
    whole
}
