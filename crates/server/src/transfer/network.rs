//! The transfer thread: an epoll loop that carries out what the engine asks, with real sockets and clocks.
//!
//! Commands come in through a bounded queue, results go out through a callback. The thread never waits for the writer.

pub mod byte_stream;
mod sockets;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SendError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use netio::clock;
use netio::clock_changes::ClockChanges;
use netio::epoll::{Event, Events, Interest, Waker};
use netio::is_not_ready;
use netio::udp_client::ReceivedDatagram;

use super::Now;
use super::engine::{EngineLimits, RequestedTransfer, TransferCommand, TransferEngine, TransferEvent};
use super::link::ConnectionId;
use super::notify_sender::NotifyCounters;
use super::primary::PrimaryId;
use super::refresh::RefreshStatus;
use super::session::TransferSink;
use crate::zone_id::ZoneId;
use byte_stream::{Connector, ResponsePart};
use sockets::{Token, TransferSockets};

/// Commands that may wait. The memory for them is in use from the start.
const QUEUE: usize = 4 * COMMANDS_PER_TURN;
/// Commands carried out before the network has its turn again.
const COMMANDS_PER_TURN: usize = 1024;
/// Descriptors whose readiness one wait reports.
const EVENTS: usize = 256;
/// Reads from one socket per turn, so that no primary keeps the thread busy.
const READS_PER_TURN: usize = 4;
const READ_LEN: usize = 128 << 10;
/// The longest wait, so that where the kernel does not report it, a resumed machine does not serve expired zones for long: the time of a
/// suspend does not count for a wait.
const MAX_WAIT_MS: u64 = 60_000;

pub(crate) enum NetworkCommand {
    /// For the engine.
    Engine(TransferCommand),
    /// Asks for the refresh state of a zone.
    Status(ZoneId, SyncSender<Option<RefreshStatus>>),
    /// Asks what happened to NOTIFY messages.
    NotifyCounters(SyncSender<NotifyCounters>),
    /// Ends the thread.
    Stop,
}

/// Sends commands to the transfer thread.
#[derive(Clone)]
pub struct TransferHandle {
    commands: SyncSender<NetworkCommand>,
    waker: Arc<Waker>,
}

/// The thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the transfer thread has ended")]
pub struct ThreadEnded;

impl TransferHandle {
    /// Sends a command; waits while the queue is full, which the thread never is for long.
    pub fn send(&self, command: TransferCommand) -> Result<(), ThreadEnded> {
        self.put(NetworkCommand::Engine(command))
    }

    /// As [`TransferHandle::send`], for one of many commands: the thread need not look for it before [`TransferHandle::wake`].
    pub fn send_later(&self, command: TransferCommand) -> Result<(), ThreadEnded> {
        self.queue(NetworkCommand::Engine(command))
    }

    /// Has the thread look for commands.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// The refresh state of a zone; `None` if it is not a secondary.
    pub fn status(&self, zone: ZoneId) -> Result<Option<RefreshStatus>, ThreadEnded> {
        let (sender, receiver) = sync_channel(1);
        self.put(NetworkCommand::Status(zone, sender))?;
        receiver.recv().map_err(|_| ThreadEnded)
    }

    /// What happened to NOTIFY messages since the start.
    pub fn notify_counters(&self) -> Result<NotifyCounters, ThreadEnded> {
        let (sender, receiver) = sync_channel(1);
        self.put(NetworkCommand::NotifyCounters(sender))?;
        receiver.recv().map_err(|_| ThreadEnded)
    }

    /// Ends the thread; transfers in progress are given up.
    pub fn stop(&self) {
        _ = self.put(NetworkCommand::Stop); // Fails if it has ended.
    }

    fn put(&self, command: NetworkCommand) -> Result<(), ThreadEnded> {
        let result = self.queue(command);
        self.waker.wake();
        result
    }

    /// Waits while the queue is full, for a thread that may not know yet that it is.
    fn queue(&self, command: NetworkCommand) -> Result<(), ThreadEnded> {
        match self.commands.try_send(command) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(command)) => {
                self.waker.wake();
                self.commands.send(command).map_err(|SendError(_)| ThreadEnded)
            }
            Err(TrySendError::Disconnected(_)) => Err(ThreadEnded),
        }
    }
}

/// The queue of a transfer thread.
pub(crate) fn command_queue() -> io::Result<(TransferHandle, Receiver<NetworkCommand>)> {
    let (commands, receiver) = sync_channel(QUEUE);
    Ok((TransferHandle { commands, waker: Arc::new(Waker::new()?) }, receiver))
}

/// The state of the transfer thread.
pub struct TransferNetwork<T> {
    engine: TransferEngine<T>,
    sockets: TransferSockets<T>,
    commands: Receiver<NetworkCommand>,
    waker: Arc<Waker>,
    clock_changes: Option<ClockChanges>,
    buffer: Box<[u8]>,
}

impl<T: TransferSink + Send + 'static> TransferNetwork<T> {
    /// The thread's state and the handle to it. `make_sink` makes the receiver of a transfer; `on_event` must not
    /// block.
    pub fn new(
        limits: EngineLimits,
        seed: u64,
        connector: Box<dyn Connector>,
        make_sink: impl FnMut(RequestedTransfer<'_>) -> T + Send + 'static,
        on_event: impl FnMut(TransferEvent<T>) + Send + 'static,
    ) -> io::Result<(TransferNetwork<T>, TransferHandle)> {
        let (handle, commands) = command_queue()?;
        let waker = handle.waker.clone();
        let sockets = TransferSockets::new(connector, Box::new(make_sink), Box::new(on_event))?;
        sockets.poll.add(&*waker, Token::Waker.to_u64(), Interest::Readable)?;
        let clock_changes = ClockChanges::new().ok();
        if let Some(changes) = &clock_changes {
            sockets.poll.add(changes, Token::ClockChanges.to_u64(), Interest::Readable)?;
        }
        let engine = TransferEngine::new(limits, seed);
        let buffer = vec![0; READ_LEN].into();
        Ok((TransferNetwork { engine, sockets, commands, waker, clock_changes, buffer }, handle))
    }

    /// Runs until [`TransferHandle::stop`].
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while self.run_commands() {
            let now = now();
            self.engine.step(now, &mut self.sockets);
            self.sockets.flush();
            let has_ended = self.report_failed(now) | self.write(now);
            let next_ms = if has_ended { Some(now.ms) } else { self.engine.next_time(now) };
            let timeout_ms = next_ms.map_or(MAX_WAIT_MS, |at_ms| at_ms.saturating_sub(now.ms).min(MAX_WAIT_MS));
            let timeout = self.until_stream_due(Duration::from_millis(timeout_ms));
            self.sockets.poll.wait(&mut events, timeout)?;
            (0..events.len()).for_each(|index| self.handle(events.at(index)));
            self.run_due_streams();
        }
        Ok(())
    }

    /// Carries out commands; returns whether to go on.
    fn run_commands(&mut self) -> bool {
        self.waker.clear();
        for _ in 0..COMMANDS_PER_TURN {
            match self.commands.try_recv() {
                Ok(NetworkCommand::Engine(command)) => self.engine.command(command, now()),
                // They fail if the client has gone.
                Ok(NetworkCommand::Status(zone, reply)) => _ = reply.try_send(self.engine.status(zone)),
                Ok(NetworkCommand::NotifyCounters(reply)) => _ = reply.try_send(self.engine.notify_counters()),
                Ok(NetworkCommand::Stop) => return false,
                Err(_) => return true,
            }
        }
        self.waker.wake(); // There may be more.
        true
    }

    fn handle(&mut self, event: Event) {
        match Token::from_u64(event.token) {
            Token::Waker => (),
            // The engine finds out by itself what is due now.
            Token::ClockChanges => _ = self.clock_changes.as_ref().map(ClockChanges::clear),
            Token::Connection(id) => self.stream_ready(id, event.readable),
            Token::Probes(primary) => self.probes_ready(primary),
            Token::Notify(number) => self.notify_ready(number),
        }
    }

    fn probes_ready(&mut self, primary: PrimaryId) {
        let (sockets, engine, now) = (&mut self.sockets, &mut self.engine, now());
        let Some(socket) = sockets.probes.get(&primary) else { return };
        for _ in 0..READS_PER_TURN {
            let take = |datagram: ReceivedDatagram<'_>| engine.probe_received(primary, datagram.bytes, now);
            match sockets.received.receive_or_refused(socket, take) {
                Ok(1..) => (),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    return engine.probes_refused(primary, now);
                }
                // Another error, such as an unreachable network, ends in a timeout.
                Ok(0) | Err(_) => return,
            }
        }
    }

    fn notify_ready(&mut self, number: u64) {
        let Some(socket) = self.sockets.notify_by_number(number) else { return };
        let now = now();
        for _ in 0..EVENTS {
            // Errors are those of earlier messages, or that nothing is there.
            let Ok((len, from)) = socket.recv_from(&mut self.buffer) else { return };
            self.engine.notify_answered(from, &self.buffer[..len], now);
        }
    }

    //---------- Streams

    /// How long to wait at most, so that no stream waits too long.
    fn until_stream_due(&mut self, most: Duration) -> Duration {
        let until = self.sockets.streams.values_mut().filter_map(|stream| stream.stream.until_due());
        until.chain([most]).min().unwrap_or(most)
    }

    fn run_due_streams(&mut self) {
        let streams = self.sockets.streams.iter_mut();
        let due = streams.filter_map(|(id, stream)| stream.stream.until_due()?.is_zero().then_some(*id));
        due.collect::<Vec<ConnectionId>>().into_iter().for_each(|id| self.stream_ready(id, true));
    }

    fn stream_ready(&mut self, id: ConnectionId, is_readable: bool) {
        let Some(stream) = self.sockets.streams.get_mut(&id) else { return };
        if !stream.is_established {
            match stream.stream.establish() {
                Ok(false) => return,
                Ok(true) => {
                    stream.is_established = true;
                    self.engine.connected(id);
                }
                Err(error) => return self.stream_ended(id, error.to_string()),
            }
        }
        if is_readable {
            self.read(id);
            self.pass_on_parts(id);
        }
    }

    /// Passes on what is known of responses besides their complete messages.
    fn pass_on_parts(&mut self, id: ConnectionId) {
        let Some(stream) = self.sockets.streams.get_mut(&id) else { return };
        for (exchange, part) in stream.stream.parts() {
            match part {
                ResponsePart::Octets(octets) => self.engine.part_arrived(id, exchange, octets, now()),
                // RFC 9250 4.3.3: before all the expected responses.
                ResponsePart::End if self.engine.awaits(id, exchange) => {
                    stream.stream.refuse("the primary ended the stream of a response before its end");
                }
                ResponsePart::End => {}
            }
        }
    }

    fn read(&mut self, id: ConnectionId) {
        for _ in 0..READS_PER_TURN {
            // The engine may have closed it meanwhile.
            let Some(stream) = self.sockets.streams.get_mut(&id) else { return };
            match stream.stream.read(&mut self.buffer) {
                Ok(0) => return self.stream_ended(id, "end of file".into()),
                Ok(len) => {
                    self.engine.received(id, &self.buffer[..len], now(), &mut self.sockets);
                    if len < self.buffer.len() {
                        return;
                    }
                }
                Err(error) if is_not_ready(&error) => return,
                Err(error) => return self.stream_ended(id, error.to_string()),
            }
        }
    }

    /// Writes what the sessions have to send, and adapts what is waited for. Returns whether a connection ended.
    fn write(&mut self, now: Now) -> bool {
        let ids: Vec<ConnectionId> = self.sockets.streams.keys().copied().collect();
        let mut has_ended = false;
        for id in ids {
            if let Err(error) = self.write_stream(id) {
                self.sockets.streams.remove(&id);
                self.engine.closed(id, error.to_string(), now, &mut self.sockets);
                has_ended = true;
            }
        }
        has_ended
    }

    fn write_stream(&mut self, id: ConnectionId) -> io::Result<()> {
        let Some(stream) = self.sockets.streams.get_mut(&id) else { return Ok(()) };
        for cancelled in self.engine.take_cancelled(id) {
            stream.stream.cancel(cancelled);
        }
        if stream.is_established {
            stream.stream.flush()?;
        }
        while stream.is_established {
            let output = self.engine.output(id);
            if output.is_empty() {
                break;
            }
            match stream.stream.write(output) {
                Ok(len) => self.engine.sent(id, len),
                Err(error) if is_not_ready(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let interest = stream.stream.interest(!self.engine.output(id).is_empty());
        if interest != stream.interest {
            self.sockets.poll.modify(stream.stream.socket(), Token::Connection(id).to_u64(), interest)?;
            stream.interest = interest;
        }
        Ok(())
    }

    fn stream_ended(&mut self, id: ConnectionId, reason: String) {
        self.sockets.streams.remove(&id);
        self.engine.closed(id, reason, now(), &mut self.sockets);
    }

    /// Reports connections that failed at once; returns whether there were any.
    fn report_failed(&mut self, now: Now) -> bool {
        let failed = std::mem::take(&mut self.sockets.failed);
        let has_failed = !failed.is_empty();
        for (id, reason) in failed {
            self.engine.closed(id, reason, now, &mut self.sockets);
        }
        has_failed
    }
}

/// RFC 1034 4.3.5: a zone is refreshed and expires after the same time whether the machine is suspended or not.
fn now() -> Now {
    Now { s: clock::real().as_secs() as u32, ms: clock::boot().as_millis() as u64 }
}
