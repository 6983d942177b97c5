//! The process of the daemon on a simulated machine: its own writer, transfer engine, storage and responder, which take turns in random
//! order.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::time::Instant;

use answer::{Request, Response, Transport};
use wire::Name;
use wire::framing::frame;
use zone::export::TextExport;

use super::exchanges::{Exchanges, SimulatedExchanges};
use super::machine::{Machine, ReplyTo, now};
use super::network::{Network, ProcessId, Sender, machine_at};
use crate::added_zones::{AddedZonesFile, Contents, Edit, RETRY, SaveQueue, Saver};
use crate::clock;
use crate::config::Config;
use crate::config::reader::ConfigReader;
use crate::control::ZoneFailure;
use crate::listen::{EventSinks, IncomingUpdate, LateReply, Responder, ZoneResponder};
use crate::log::Log;
use crate::persistence::{Persistence, journal_events};
use crate::report::Report;
use crate::simulated_disk::SimulatedDisk;
use crate::sources::Sources;
use crate::storage::{CommitLimits, Committer, NextStep, Recovery, Store};
use crate::tls::DaemonTls;
use crate::transfer::engine::{EngineLimits, RequestedTransfer, TransferEngine, TransferEvent, TransferIo};
use crate::transfer::link::ConnectionId;
use crate::transfer::network::{NetworkCommand, command_queue};
use crate::transfer::primary::{PeerConfig, PrimaryId};
use crate::writer::event_queue::{WriterEvent, WriterHandle};
use crate::writer::receive_memory::ReceiveMemory;
use crate::writer::received_zone::ZoneReceiver;
use crate::writer::{EditRequest, Writer, WriterSetup, queue, transfer_thread};
use crate::zones::work_pool::deferred::{self, DeferredJob};

/// The response to an update.
type LateAnswer = (ReplyTo, Vec<u8>);

/// A request to add or remove a zone.
pub struct SentEdit {
    pub to: ProcessId,
    /// Whether all that the process knew of added zones was on disk.
    pub is_all_saved: bool,
    pub failed: Receiver<Vec<ZoneFailure>>,
    pub is_saved: Receiver<Result<(), String>>,
}

/// What ends with the process.
pub struct Process {
    id: ProcessId,
    pub started_ms: u64,
    writer: Writer,
    handle: WriterHandle,
    committer: Committer<SimulatedDisk>,
    engine: TransferEngine<ZoneReceiver>,
    commands: Receiver<NetworkCommand>,
    responder: ZoneResponder,
    events: mpsc::Sender<WriterEvent>,
    memory: Arc<ReceiveMemory>,
    /// The streams to primaries: their numbers, and whether they are established.
    connections: Vec<(ConnectionId, u64, bool)>,
    exchanges: Exchanges,
    jobs: Vec<DeferredJob>,
    /// Added and removed zones.
    saves: SaveQueue<SimulatedDisk>,
    save_retry: Option<Instant>,
    /// Responses to updates.
    late: (mpsc::Sender<LateAnswer>, Receiver<LateAnswer>),
    output: Vec<u8>,
    /// Turns in which nothing happened.
    quiet_turns: u32,
    storage_wake: Option<Instant>,
    writer_wake: Option<Instant>,
}

/// The transfer engine's view of the network.
struct Io<'a> {
    process: ProcessId,
    network: &'a mut Network,
    connections: &'a mut Vec<(ConnectionId, u64, bool)>,
    events: &'a mpsc::Sender<WriterEvent>,
    memory: &'a Arc<ReceiveMemory>,
}

impl TransferIo for Io<'_> {
    type Sink = ZoneReceiver;

    fn send_probe(&mut self, primary: PrimaryId, config: &PeerConfig, datagram: &[u8]) {
        let from = Sender::Probe(self.process, primary);
        self.network.send_query(machine_at(config.address), from, datagram.to_vec());
    }

    fn send_notify(&mut self, target: &PeerConfig, datagram: &[u8]) {
        let from = Sender::Notify(self.process, target.address);
        self.network.send_query(machine_at(target.address), from, datagram.to_vec());
    }

    fn forget(&mut self, _: PrimaryId) {}

    fn connect(&mut self, id: ConnectionId, config: &PeerConfig) {
        let number = self.network.connect(self.process, id, machine_at(config.address));
        self.connections.push((id, number, false));
    }

    fn close(&mut self, id: ConnectionId) {
        if let Some(at) = self.connections.iter().position(|(known, ..)| *known == id) {
            let (_, number, _) = self.connections.remove(at);
            self.network.streams.remove(&number);
        }
    }

    fn new_sink(&mut self, transfer: RequestedTransfer<'_>) -> ZoneReceiver {
        transfer_thread::new_receiver(transfer, u64::MAX, self.memory)
    }

    fn event(&mut self, event: TransferEvent<ZoneReceiver>) {
        self.events.send(WriterEvent::Transfer(Box::new(event))).expect("the writer lives as long");
    }
}

/// Calls a method of the engine with its view of the network.
macro_rules! with_io {
    ($process:expr, $network:expr, |$engine:ident, $io:ident| $call:expr) => {{
        let Process { id, engine: $engine, connections, events, memory, .. } = $process;
        let $io = &mut Io { process: *id, network: $network, connections, events, memory };
        $call
    }};
}

/// The journal on the disk; `None` if the machine crashes meanwhile.
fn open_store(machine: &Machine) -> Result<Option<(Store<SimulatedDisk>, Recovery)>, String> {
    let (store, recovery) = match Store::open(machine.disk.clone(), machine.limits) {
        Ok(opened) => opened,
        Err(_) if machine.disk.has_crashed() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    match recovery.damages.first() {
        Some(damage) => Err(format!("a crash of machine {} is reported as damage: {damage}", machine.number)),
        None => Ok(Some((store, recovery))),
    }
}

/// The zones that were added by command; `None` if the machine crashes meanwhile.
fn open_added_zones(machine: &Machine) -> Result<Option<(AddedZonesFile<SimulatedDisk>, Contents)>, String> {
    let (file, added) = match AddedZonesFile::open(machine.state_dir.clone()) {
        Ok(opened) => opened,
        Err(_) if machine.has_crashed() => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    match added.is_damaged {
        true => Err(format!("a crash of machine {} has damaged the added zones", machine.number)),
        false => Ok(Some((file, added))),
    }
}

fn read_config(path: &Path) -> Config {
    let mut reader = ConfigReader::default();
    reader.read_file(path);
    reader.finish().expect("the configuration has no mistakes")
}

impl Process {
    /// Starts the daemon from what the disk has; `None` if the machine crashes meanwhile.
    pub fn start(machine: &Machine, seed: u64, now_ms: u64) -> Result<Option<Process>, String> {
        let mut jobs = Vec::new();
        let started = deferred::collect(&mut jobs, || Process::open(machine, seed, now_ms))?;
        Ok(started.map(|process| Process { jobs, ..process }))
    }

    fn open(machine: &Machine, seed: u64, started_ms: u64) -> Result<Option<Process>, String> {
        let Some((store, recovery)) = open_store(machine)? else { return Ok(None) };
        let (handle, queue) = queue(4);
        let (journal_sender, events) = (queue.journal_sender(), queue.sender.clone());
        let limits = CommitLimits { compaction_step: 1000, ..CommitLimits::default() };
        let (committer, storage) = Committer::new(store, limits, journal_events(journal_sender.clone()));
        let journal = Box::new(Persistence::new(storage, recovery, journal_sender));
        let config = read_config(&machine.config);
        let tls = DaemonTls::start(&config.server).expect("no TLS is configured");
        let (transfers, commands) = command_queue().expect("a descriptor");
        let sources = Sources { file: Some(machine.config.clone()), ..Sources::default() };
        let setup = WriterSetup { config, sources, log: Log::detached(), tls, queue, journal };
        let (exchanges, forwarded) = mpsc::channel();
        let exchanges = Box::new(SimulatedExchanges(exchanges));
        let mut writer = Writer::with_network(setup, transfers, exchanges).expect("random numbers");
        let Some((file, added)) = open_added_zones(machine)? else { return Ok(None) };
        let (saver, saves) = Saver::new(file);
        writer.use_added_zones(saver, added);
        let (notify, update) = (handle.clone(), handle.clone());
        let sinks = EventSinks {
            notify: Arc::new(move |message| notify.notify_received(message)),
            update: Arc::new(move |message| update.update_received(message)),
        };
        let responder = ZoneResponder::new(writer.subscribe(), sinks);
        Ok(Some(Process {
            id: machine.id(),
            started_ms,
            writer,
            handle,
            committer,
            engine: TransferEngine::new(EngineLimits::default(), seed),
            commands,
            responder,
            events,
            memory: ReceiveMemory::new(|| Ok(u64::MAX)),
            connections: Vec::new(),
            exchanges: Exchanges::new(machine.id(), forwarded),
            jobs: Vec::new(),
            save_retry: saves.has_unsaved().then(|| clock::now() + RETRY),
            saves,
            late: mpsc::channel(),
            output: vec![0; 65_535],
            quiet_turns: 0,
            storage_wake: None,
            writer_wake: None,
        }))
    }

    /// Lets the threads of the daemon do some work each, in random order. Returns when the next turn is.
    pub fn turn(&mut self, network: &mut Network, disks: [&SimulatedDisk; 2], base: Instant) -> u64 {
        let (mut is_busy, mut is_complete) = (false, true);
        let first = network.random.below(6);
        for actor in (first..6).chain(0..first) {
            if network.random.one_in(6) {
                is_complete = false;
                continue;
            }
            is_busy |= self.run(actor, network);
            self.send_late(network);
            if disks.into_iter().any(SimulatedDisk::has_crashed) {
                return network.now_ms;
            }
        }
        self.responder.refresh();
        self.quiet_turns = if is_busy { 0 } else { self.quiet_turns + u32::from(is_complete) };
        if self.quiet_turns < 2 || !self.jobs.is_empty() {
            return network.now_ms + network.random.below(4);
        }
        self.quiet_turns = 0;
        self.next_ms(network, base)
    }

    fn next_ms(&self, network: &Network, base: Instant) -> u64 {
        let ms = |time: Instant| time.saturating_duration_since(base).as_micros().div_ceil(1000) as u64;
        let wakes =
            [self.writer_wake, self.storage_wake, self.save_retry, self.exchanges.due()].into_iter().flatten().map(ms);
        let next = wakes.chain(self.engine.next_time(now(network))).min();
        next.unwrap_or(u64::MAX).max(network.now_ms + 1)
    }

    /// Something has arrived.
    pub fn wake(&mut self) {
        self.quiet_turns = 0;
    }

    //----------- the threads of the daemon ----------------------------------------

    /// Lets one thread do some work; the jobs that it has for pools wait. Returns whether there was any.
    fn run(&mut self, actor: u64, network: &mut Network) -> bool {
        if actor == 5 {
            return self.run_job(network);
        }
        let mut jobs = std::mem::take(&mut self.jobs);
        let is_busy = deferred::collect(&mut jobs, || match actor {
            0 => self.run_writer(network),
            1 => self.run_transfers(network),
            2 => self.run_storage(),
            3 => self.exchanges.step(network),
            _ => self.run_saver(),
        });
        self.jobs = jobs;
        is_busy
    }

    fn run_writer(&mut self, network: &mut Network) -> bool {
        let handled = self.writer.handle_waiting(1 + network.random.below(30) as usize);
        self.writer_wake = self.writer.turn(clock::now());
        handled > 0
    }

    /// Requests a reload; false if too many wait.
    pub fn request_reload(&mut self, reply: SyncSender<Report>) -> bool {
        self.quiet_turns = 0;
        self.handle.request_reload(Some(reply)).is_ok()
    }

    /// The text of a zone that is served.
    pub fn export(&self, zone: &str) -> Option<String> {
        let name: Name = zone.parse().expect("a name");
        let served = self.writer.occasional_reader().current();
        let mut export = TextExport::new(served.zones.get(name.wire())?.zone()?.clone());
        let mut text = String::new();
        while export.next_chunk(&mut text) {}
        Some(text)
    }

    /// Adds or removes a zone.
    pub fn request_edit(&mut self, edit: Edit) -> SentEdit {
        let ((failures, failed), (saved, is_saved)) = (sync_channel(1), sync_channel(1));
        self.handle.request_edits(EditRequest { edits: vec![edit], failures, saved });
        self.quiet_turns = 0;
        SentEdit { to: self.id, is_all_saved: !self.saves.has_unsaved(), failed, is_saved }
    }

    fn run_transfers(&mut self, network: &mut Network) -> bool {
        let (mut count, now) = (0, now(network));
        for _ in 0..=network.random.below(20) {
            let Ok(command) = self.commands.try_recv() else { break };
            if let NetworkCommand::Engine(command) = command {
                self.engine.command(command, now);
            }
            count += 1;
        }
        with_io!(self, network, |engine, io| engine.step(now, io));
        for at in 0..self.connections.len() {
            let (id, number, is_established) = self.connections[at];
            let octets = if is_established { self.engine.output(id).to_vec() } else { Vec::new() };
            if !octets.is_empty() {
                self.engine.sent(id, octets.len());
                network.send(number, &octets, false);
                count += 1;
            }
        }
        count > 0
    }

    fn run_storage(&mut self) -> bool {
        let next = self.committer.step(clock::now());
        self.storage_wake = match next {
            NextStep::At(time) | NextStep::RetryAt(time) => Some(time),
            NextStep::Now | NextStep::WhenQueued => None,
        };
        next == NextStep::Now
    }

    fn run_saver(&mut self) -> bool {
        let tries_again = self.save_retry.is_some_and(|time| time <= clock::now());
        let is_busy = self.saves.step(tries_again);
        if is_busy {
            self.save_retry = self.saves.has_unsaved().then(|| clock::now() + RETRY);
        }
        is_busy
    }

    /// Runs one of the jobs of the pools.
    fn run_job(&mut self, network: &mut Network) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        let job = self.jobs.swap_remove(network.random.below(self.jobs.len() as u64) as usize);
        deferred::collect(&mut self.jobs, job);
        true
    }

    fn send_late(&mut self, network: &mut Network) {
        for (to, octets) in self.late.1.try_iter() {
            match to {
                ReplyTo::Client(client) => network.send_answer(self.id.0, Sender::Client(client), octets),
                ReplyTo::Stream(number) if network.is_accepted_by(number, self.id) => {
                    network.send(number, &frame(&octets), true);
                }
                ReplyTo::Stream(_) => (),
            }
        }
    }

    //----------- what arrives -----------------------------------------------------

    pub fn answer_arrived(&mut self, to: Sender, octets: &[u8], network: &mut Network) {
        let now = now(network);
        match to {
            Sender::Probe(_, primary) => self.engine.probe_received(primary, octets, now),
            Sender::Notify(_, target) => self.engine.notify_answered(target, octets, now),
            Sender::Client(_) => unreachable!("clients are no machines"),
        }
    }

    pub fn established(&mut self, id: ConnectionId, network: &mut Network) {
        if Exchanges::has(id) {
            self.exchanges.established(id, network);
        } else if let Some(connection) = self.connections.iter_mut().find(|(known, ..)| *known == id) {
            connection.2 = true;
            self.engine.connected(id);
        }
    }

    pub fn stream_received(&mut self, id: ConnectionId, octets: &[u8], network: &mut Network) {
        let now = now(network);
        if Exchanges::has(id) {
            self.exchanges.received(id, octets, network);
        } else if self.connections.iter().any(|(known, ..)| *known == id) {
            with_io!(self, network, |engine, io| engine.received(id, octets, now, io));
        }
    }

    pub fn stream_closed(&mut self, id: ConnectionId, network: &mut Network) {
        self.exchanges.closed(id, network);
        let (now, before) = (now(network), self.connections.len());
        self.connections.retain(|(known, ..)| *known != id);
        if self.connections.len() < before {
            with_io!(self, network, |engine, io| engine.closed(id, "end of file".into(), now, io));
        }
    }

    /// Answers a message; a transfer has several responses. `reply_to` is who gets the response to an update.
    pub fn answer(&mut self, message: &[u8], peer: IpAddr, is_stream: bool, reply_to: ReplyTo) -> Vec<Vec<u8>> {
        self.responder.refresh();
        let transport = if is_stream { Transport::Tcp { idle_ds: 100 } } else { Transport::Udp };
        let request = Request { message, peer, transport, now_s: clock::real_s() };
        match self.responder.answer(request, &mut self.output) {
            Response::Send(len) => vec![self.output[..len].to_vec()],
            Response::Drop => Vec::new(),
            Response::Stream(mut stream) => {
                let mut messages = Vec::new();
                while let Some(len) = stream.next_message(&mut self.output, clock::real_s()) {
                    messages.push(self.output[..len].to_vec());
                }
                messages
            }
            Response::Notify(pending) => {
                let len = pending.finish(&mut self.output, |notify| self.handle.notify_received(notify));
                vec![self.output[..len].to_vec()]
            }
            Response::Update(pending) => {
                let late = self.late.0.clone();
                let send = move |octets| _ = late.send((reply_to, octets));
                let from = match reply_to {
                    ReplyTo::Client(client) => Some(SocketAddr::new(peer, client as u16)),
                    ReplyTo::Stream(_) => None,
                };
                let reply = LateReply::new(pending.response, from, send);
                let incoming = Box::new(IncomingUpdate { update: pending.update, reply });
                if let Err(rejected) = self.handle.update_received(incoming) {
                    rejected.reply.send(wire::message::Rcode::SERVFAIL);
                }
                Vec::new()
            }
        }
    }
}
