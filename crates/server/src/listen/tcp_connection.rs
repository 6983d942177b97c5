//! A TCP connection, or TLS over one: reads messages, has them answered in order, writes the responses or a transfer.
//!
//! An idle TCP connection takes 32 octets, 40 with its slot in the pool. [`ActiveState`] is allocated while a message is
//! incomplete or output waits.

mod active_state;

use self::active_state::{ActiveState, receive};
use super::RECEIVE_BUFFER;
use super::Responder;
use super::buffer::Buffer;
use super::outgoing_transfer::OutgoingTransfer;
use super::proxy::{self, ProxyError, ProxyHeader};
use super::stream_responder::{Client, Encryption, StreamResponder};
use super::tls_connection::TlsConnection;
use crate::tls::TlsStream;
use netio::epoll::Interest;
use netio::{is_not_ready, tcp};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use wire::framing::frame;

/// Maximum octets read in a turn.
pub(super) const READ_LEN: usize = 64 << 10;
/// Kernel memory that an idle connection may have for responses in flight, in octets.
const IN_FLIGHT: usize = 16 << 10;
/// Kernel memory of responses in flight with which a connection may be closed, in octets: that of a usual response. Nothing counts it any more.
const ORPHANED: usize = 4 << 10;
/// Kernel memory of what a client has sent to a connection that is not read, because its output waits or it has sent close_notify: the limit,
/// twice the `receive_buffer` of the listener (socket(7)).
const UNREAD: usize = 2 * RECEIVE_BUFFER as usize;

/// One connection.
pub(super) struct TcpConnection {
    stream: TcpStream,
    /// When it last made progress, in milliseconds of the thread's clock, which wraps.
    pub(super) last_progress_ms: u32,
    /// IPv4 addresses are mapped, which is unambiguous: IPv6 sockets here have IPv6 peers only.
    peer: [u8; 16],
    /// Nothing if it is an idle TCP connection.
    state: Option<Box<State>>,
}

const _: () = assert!(size_of::<TcpConnection>() <= 32);

/// What only some connections have, behind one pointer.
#[derive(Default)]
struct State {
    tls: Option<TlsConnection>,
    active: Option<Box<ActiveState>>,
}

impl TcpConnection {
    pub(super) fn new(stream: TcpStream, peer: IpAddr, now_ms: u32) -> TcpConnection {
        TcpConnection { stream, last_progress_ms: now_ms, peer: peer_octets(peer), state: None }
    }

    /// Has [`TcpConnection::receive_proxy_header`] called before anything else.
    pub(super) fn await_proxy_header(&mut self) {
        self.activate().awaits_proxy_header = true;
    }

    pub(super) fn awaits_proxy_header(&self) -> bool {
        self.active().is_some_and(|active| active.awaits_proxy_header)
    }

    /// Makes it a TLS connection, of which nothing has been read.
    pub(super) fn start_tls(&mut self, tls: TlsConnection) {
        self.state.get_or_insert_default().tls = Some(tls);
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls().is_some_and(TlsConnection::is_handshaking)
    }

    /// Whether its handshake is complete and resumed an earlier session.
    pub(super) fn is_resumed(&self) -> bool {
        self.tls_stream().is_some_and(TlsStream::is_resumed)
    }

    /// Whether its handshake needs nothing but the client's end of it.
    pub(super) fn awaits_finished(&self) -> bool {
        self.tls_stream().is_some_and(TlsStream::awaits_finished)
    }

    fn tls(&self) -> Option<&TlsConnection> {
        self.state.as_ref()?.tls.as_ref()
    }

    fn tls_stream(&self) -> Option<&TlsStream> {
        self.tls()?.stream()
    }

    fn active(&self) -> Option<&ActiveState> {
        self.state.as_ref()?.active.as_deref()
    }

    /// The state of an active connection, which it becomes if it is idle.
    fn activate(&mut self) -> &mut ActiveState {
        self.state.get_or_insert_default().active.get_or_insert_default()
    }

    /// Takes the state of an active connection if `condition` holds for it.
    fn take_active(&mut self, condition: impl FnOnce(&ActiveState) -> bool) -> Option<Box<ActiveState>> {
        let state = self.state.as_mut()?;
        let active = state.active.take_if(|active| condition(active));
        self.state.take_if(|state| state.tls.is_none() && state.active.is_none());
        active
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) fn peer(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.peer)).to_canonical()
    }

    pub(super) fn is_active(&self) -> bool {
        self.active().is_some() || self.tls().is_some_and(TlsConnection::is_active)
    }

    pub(super) fn set_peer(&mut self, peer: IpAddr) {
        self.peer = peer_octets(peer);
    }

    /// The transfer in progress.
    pub(super) fn transfer(&self) -> Option<&OutgoingTransfer> {
        self.active()?.transfer.as_deref()
    }

    /// Its memory besides the slot, including the kernel's, in octets.
    pub(super) fn memory(&self) -> usize {
        let tls = self.tls_stream().map_or(0, TlsStream::memory);
        let unread = if self.has_output() || self.ignores_input() { UNREAD } else { 0 };
        tls + unread + self.active().map_or(0, |active| active.memory())
    }

    fn has_output(&self) -> bool {
        self.has_tls_output() || self.active().is_some_and(|active| !active.output.is_empty())
    }

    /// Whether it stays open, and its client may send what is not read: after close_notify, which is not the end of TCP.
    fn ignores_input(&self) -> bool {
        self.has_tls_ended() && self.active().is_some_and(|active| active.closing || active.awaits_response)
    }

    fn has_tls_output(&self) -> bool {
        self.tls_stream().is_some_and(TlsStream::has_output)
    }

    fn has_tls_ended(&self) -> bool {
        self.tls_stream().is_some_and(TlsStream::is_closed)
    }

    fn client(&mut self) -> Client<'_> {
        let peer = self.peer();
        let encryption = tls_of(&mut self.state).map_or(Encryption::Nothing, |tls| Encryption::Tls(tls.client_names()));
        Client { peer, encryption }
    }

    /// What to poll for; [`Interest::Nothing`] if it only waits for the kernel to deliver.
    pub(super) fn interest(&self) -> Interest {
        match self.active() {
            _ if self.has_tls_output() => Interest::Writable,
            Some(active) if active.closing => Interest::Nothing,
            Some(active) if active.has_work() => Interest::Writable,
            Some(active) if active.awaits_response => Interest::Nothing,
            // RFC 8446 6.1: the next turn ends it; no octet may ever follow.
            _ if self.has_tls_ended() => Interest::Writable,
            _ => Interest::Readable,
        }
    }

    /// One turn: one read (into `input` if no message has begun), answers, one write. Returns whether it made progress, that is,
    /// whether something was answered or accepted by the kernel. Any error ends the connection.
    pub(super) fn turn<R: Responder>(
        &mut self,
        responder: &mut StreamResponder<R>,
        input: &mut [u8],
    ) -> io::Result<bool> {
        responder.output.clear();
        responder.begin_turn();
        let flushed = self.flush_tls()?;
        if self.has_tls_output() {
            return Ok(flushed);
        }
        if self.active().is_some_and(|active| active.closing) {
            return self.shut_down().map(|()| flushed);
        }
        let result = match self.take_active(|active| !active.is_idle()) {
            None => self.idle_turn(responder, input),
            Some(mut active) => {
                let result = self.active_turn(responder, &mut active, input);
                self.state.get_or_insert_default().active = Some(active);
                result
            }
        };
        match result {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                if responder.late.current_waits() {
                    self.await_response();
                    return Ok(flushed);
                }
                self.begin_close(error)
            }
            Err(error) => Err(error),
            Ok(progress) => {
                self.finish_turn(responder);
                Ok(progress || flushed)
            }
        }
    }

    /// A turn of its handshake. What arrives after it, is kept for the thread that answers it. Returns whether it made progress:
    /// output was produced, or accepted by the kernel, or the handshake is complete.
    pub(super) fn handshake_turn(&mut self, input: &mut [u8]) -> io::Result<bool> {
        // What arrived before a reset can still be read, and would be answered at the cost of a signature.
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        let flushed = self.flush_tls()?;
        let received = self.receive(input)?;
        if let Some(octets) = received.filter(|octets| !octets.is_empty()) {
            self.activate().input = Buffer::from(octets);
        }
        let has_responded = self.tls_stream().is_some_and(TlsStream::has_responded);
        Ok(flushed || has_responded || !self.is_handshaking())
    }

    /// Reads what has arrived of the PROXY header, and nothing after it; returns it once it is complete.
    pub(super) fn receive_proxy_header(&mut self) -> io::Result<Option<ProxyHeader>> {
        let input = &mut self.state.get_or_insert_default().active.get_or_insert_default().input;
        loop {
            let missing = proxy::missing(input.octets())?;
            if missing == 0 {
                break;
            }
            let before = input.octets().len();
            input.fill(missing, |room| receive(&self.stream, room))?;
            if input.octets().len() == before {
                return Ok(None);
            }
        }
        let header = proxy::parse(input.octets())?;
        self.take_active(|_| true);
        Ok(Some(header))
    }

    fn idle_turn<R: Responder>(&mut self, responder: &mut StreamResponder<R>, input: &mut [u8]) -> io::Result<bool> {
        let Some(input) = self.receive(input)? else { return Ok(false) };
        let (used, transfer) = self.answer_messages(responder, input)?;
        let answers = responder.output.filled();
        let sent = self.send(answers)?;
        if used < input.len() || sent < answers.len() || transfer.is_some() {
            let active = self.activate();
            (active.input, active.output) = (Buffer::from(&input[used..]), Buffer::from(&answers[sent..]));
            active.transfer = transfer;
        }
        Ok(!answers.is_empty())
    }

    fn active_turn<R: Responder>(
        &mut self,
        responder: &mut StreamResponder<R>,
        active: &mut ActiveState,
        input: &mut [u8],
    ) -> io::Result<bool> {
        if active.transfer.as_ref().is_some_and(|transfer| responder.is_overdue(transfer)) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let flushed = self.send(active.output.octets())?;
        active.output.consume(flushed);
        if !active.output.is_empty() || self.has_tls_output() {
            return Ok(flushed > 0);
        }
        if let Some(transfer) = &mut active.transfer {
            responder.charge_transfer(flushed);
            if responder.stream_transfer(self.peer(), transfer) {
                active.transfer = None;
            }
        } else {
            if !active.has_message() {
                self.receive_part(active, input)?;
            }
            let (used, transfer) = self.answer_messages(responder, active.input.octets())?;
            active.input.consume(used);
            active.transfer = transfer;
        }
        let answers = responder.output.filled();
        let sent = self.send(answers)?;
        active.output = Buffer::from(&answers[sent..]);
        Ok(flushed > 0 || !answers.is_empty())
    }

    /// Answers the complete messages in `input`. A PROXY header is refused as soon as it can be told from a message, which begins the same
    /// for up to 11 octets: no proxy must wait for the rest of 3338 octets.
    fn answer_messages<R: Responder>(
        &mut self,
        responder: &mut StreamResponder<R>,
        input: &[u8],
    ) -> io::Result<(usize, Option<Box<OutgoingTransfer>>)> {
        let (used, transfer) =
            if proxy::is_header(input) { (0, None) } else { responder.answer_messages(self.client(), input) };
        if proxy::is_header(&input[used..]) {
            return Err(ProxyError::Unexpected.into());
        }
        Ok((used, transfer))
    }

    //---------- The socket, or TLS over it

    /// Reads once into `input`, a half of which TLS needs for itself; returns what was received.
    fn receive<'i>(&mut self, input: &'i mut [u8]) -> io::Result<Option<&'i [u8]>> {
        match tls_of(&mut self.state) {
            None => Ok(receive(&self.stream, input)?.map(|len| &input[..len])),
            Some(tls) => tls.receive(&self.stream, input),
        }
    }

    /// Reads more of an incomplete message; with TLS what follows it, too, as that is decrypted already.
    fn receive_part(&mut self, active: &mut ActiveState, input: &mut [u8]) -> io::Result<()> {
        match tls_of(&mut self.state) {
            None => active.receive_part(&self.stream),
            Some(tls) => {
                let received = tls.receive(&self.stream, input)?;
                active.input.extend(received.unwrap_or_default());
                Ok(())
            }
        }
    }

    /// Writes what the kernel accepts, with TLS up to a buffer more; returns how many octets.
    fn send(&mut self, octets: &[u8]) -> io::Result<usize> {
        match tls_of(&mut self.state) {
            None => send(&self.stream, octets),
            // Nothing is sent before the handshake.
            Some(tls) => tls.stream_mut().map_or(Ok(0), |tls| tls.send(&mut &self.stream, octets)),
        }
    }

    /// Writes encrypted octets that wait; returns whether the kernel accepted any.
    fn flush_tls(&mut self) -> io::Result<bool> {
        tls_stream_of(&mut self.state).map_or(Ok(false), |tls| tls.flush(&mut &self.stream).map(|sent| sent > 0))
    }

    /// Measures the kernel's memory if it may be much; frees the state of an idle connection.
    fn finish_turn<R>(&mut self, responder: &mut StreamResponder<R>) {
        let picked = responder.memory_sampler.pick(responder.output.filled().len());
        if picked || self.active().is_some_and(|active| active.kernel_memory > 0 || !active.output.is_empty()) {
            self.measure_kernel_memory();
        } else {
            self.take_active(|active| active.is_empty());
        }
    }

    /// Measures the kernel's memory; a connection that has nothing else becomes idle. Transfers are exempt: their kernel memory
    /// depends on the round-trip time, and their number is limited.
    pub(super) fn measure_kernel_memory(&mut self) {
        if self.transfer().is_some() {
            return;
        }
        let memory = Some(self.send_memory()).filter(|memory| *memory > IN_FLIGHT);
        if memory.is_some() || self.active().is_some() {
            self.activate().kernel_memory = memory.unwrap_or(0);
        }
        self.take_active(|active| active.is_empty());
    }

    fn send_memory(&self) -> usize {
        // This does not fail for an open connection; if it did, that would be no reason to close it.
        tcp::send_memory(&self.stream).unwrap_or(0)
    }

    /// The client has closed its half after a message whose response comes later.
    #[cold]
    fn await_response(&mut self) {
        let active = self.activate();
        (active.awaits_response, active.input) = (true, Buffer::default());
    }

    /// Queues a response to an earlier message. Output that waits ends with a complete message.
    #[cold]
    pub(super) fn queue_response(&mut self, response: &[u8]) {
        let active = self.activate();
        active.awaits_response = false;
        active.output.extend(&frame(response));
    }

    /// The client has closed its half. A closed connection escapes all limits while the kernel still delivers its data; if that
    /// is more than a response, the connection stays, closed for writing, until its timeout.
    fn begin_close(&mut self, end: io::Error) -> io::Result<bool> {
        let kernel_memory = self.send_memory();
        if kernel_memory <= ORPHANED {
            return Err(end);
        }
        let active = self.activate();
        (active.kernel_memory, active.closing, active.input) = (kernel_memory, true, Buffer::default());
        if let Some(tls) = tls_stream_of(&mut self.state) {
            tls.close_notify(&mut &self.stream);
        }
        self.shut_down().map(|()| false)
    }

    /// Closes this half of a closing connection, once close_notify is written (RFC 8446 6.1).
    fn shut_down(&self) -> io::Result<()> {
        if self.has_tls_output() { Ok(()) } else { self.stream.shutdown(Shutdown::Write) }
    }

    /// Closes a connection, by RST if the client has not received everything, so that the kernel frees its memory.
    pub(super) fn abort(self) {
        let unsent = self.active().is_some_and(|active| active.has_work());
        if unsent || self.has_tls_output() || self.send_memory() > 0 {
            // If that fails, the socket is closed.
            let _ = tcp::reset(self.stream);
        } else {
            self.close();
        }
    }

    /// Closes a connection whose client has broken the protocol: by RST if more than a response is not delivered.
    pub(super) fn refuse(self) {
        if self.send_memory() > ORPHANED { self.abort() } else { self.close() }
    }

    /// Closes a connection; the kernel still delivers what it has. RFC 7858 3.4: with close_notify, unless an alert has
    /// ended it.
    pub(super) fn close(mut self) {
        if let Some(tls) = tls_stream_of(&mut self.state) {
            tls.close_notify(&mut &self.stream);
        }
    }
}

/// Borrows nothing else of a connection.
fn tls_of(state: &mut Option<Box<State>>) -> Option<&mut TlsConnection> {
    state.as_mut()?.tls.as_mut()
}

fn tls_stream_of(state: &mut Option<Box<State>>) -> Option<&mut TlsStream> {
    tls_of(state)?.stream_mut()
}

fn peer_octets(peer: IpAddr) -> [u8; 16] {
    match peer {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Writes what the kernel accepts; returns how many octets.
fn send(mut stream: &TcpStream, octets: &[u8]) -> io::Result<usize> {
    if octets.is_empty() {
        return Ok(0);
    }
    match stream.write(octets) {
        Err(error) if is_not_ready(&error) => Ok(0),
        result => result,
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Leaves the connection with `len` octets of input, or idle for 0; returns `true` for progress.
    pub(in crate::listen) fn set_input(connection: &mut TcpConnection, len: usize) -> bool {
        if len > 0 {
            connection.activate().input = Buffer::from(&vec![0xff; len][..]);
        } else {
            connection.take_active(|_| true);
        }
        true
    }
}
