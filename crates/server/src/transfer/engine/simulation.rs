//! The engine against simulated primaries, network and writer, in simulated time.

mod clock_tests;
mod faults;
mod lost_transfers;
mod notify_beside_refreshes;
mod notify_tests;
mod sink;
mod slow_primaries;
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use wire::framing::{frame, split_message};
use wire::message::{Flags, Opcode, Record};
use wire::serial::{is_later, of_soa};
use wire::{Class, Message, Name, Rtype};

use super::super::primary::{PeerConfig, SecondaryLimits, SizeLimits};
use super::super::soa_timers::SoaTimers;
use super::*;
use crate::simulated_arrivals::Arrivals;
use faults::Fault;
use sink::Sink;

const TIMERS: SoaTimers = SoaTimers { refresh_s: 600, retry_s: 60, expire_s: 5000 };
/// Messages of a transfer without an end, to be received in minutes.
const ENDLESS_MESSAGES: usize = 2000;
/// When 1970 began, in the simulation's milliseconds, does not matter; this is a Tuesday.
const START_S: u32 = 1_000_000;

enum Arrival {
    Datagram(PrimaryId, Vec<u8>),
    Established(ConnectionId),
    Octets(ConnectionId, Vec<u8>),
    Closed(ConnectionId),
    NotifyAnswer(SocketAddr, Vec<u8>),
    Published(ZoneId, u32),
}

/// The network and the writer.
struct World {
    now: Now,
    /// By how much the clock was set.
    clock_step_s: i64,
    random: Rng,
    arrivals: Arrivals<Arrival>,
    /// By the last octet of the address.
    faults: BTreeMap<u8, Fault>,
    serials: BTreeMap<(u8, String), u32>,
    connections: BTreeMap<ConnectionId, SimulatedConnection>,
    /// The serial of each zone that the writer serves.
    served: BTreeMap<ZoneId, u32>,
    expired: BTreeMap<ZoneId, u32>,
    /// The times of each zone that were reported last.
    refreshed: BTreeMap<ZoneId, StoredTimers>,
    failures: Vec<String>,
    /// Why checks found no serial, and which primaries could not be reached.
    check_failures: Vec<String>,
    opened: usize,
    /// Probes over UDP.
    probes: usize,
    /// Queries for whole zones.
    whole_transfers: usize,
    /// The serials of the NOTIFY messages that were read from streams.
    notified: Vec<u32>,
}

struct SimulatedConnection {
    primary: u8,
    answered: u32,
    /// When the last octet sent so far arrives: a stream keeps its order.
    last_ms: u64,
}

fn host(config: &PeerConfig) -> u8 {
    match config.address.ip() {
        IpAddr::V4(ip) => ip.octets()[3],
        IpAddr::V6(_) => 0,
    }
}

impl World {
    fn new(seed: u64) -> World {
        World {
            now: Now { s: START_S, ms: 0 },
            clock_step_s: 0,
            random: Rng::with_seed(seed),
            arrivals: Arrivals::default(),
            faults: BTreeMap::new(),
            serials: BTreeMap::new(),
            connections: BTreeMap::new(),
            served: BTreeMap::new(),
            expired: BTreeMap::new(),
            refreshed: BTreeMap::new(),
            failures: Vec::new(),
            check_failures: Vec::new(),
            opened: 0,
            probes: 0,
            whole_transfers: 0,
            notified: Vec::new(),
        }
    }

    fn set_time(&mut self, ms: u64) {
        let s = i64::from(START_S) + (ms / 1000) as i64 + self.clock_step_s;
        self.now = Now { s: s as u32, ms };
    }

    fn latency_ms(&mut self) -> u64 {
        self.random.u32(1..=30).into()
    }

    fn fault(&self, primary: u8) -> Fault {
        self.faults.get(&primary).copied().unwrap_or(Fault::None)
    }

    fn is_lost(&mut self, primary: u8) -> bool {
        let loss = match self.fault(primary) {
            Fault::Dead | Fault::Off | Fault::Silent | Fault::NoUdp => 100,
            Fault::Lossy => 75,
            _ => 2,
        };
        self.random.u32(1..=100) <= loss
    }

    /// The messages that answer a query, by the fault of the primary.
    fn answer(&mut self, primary: u8, query: &[u8], is_stream: bool) -> Vec<Vec<u8>> {
        let fault = self.fault(primary);
        let query = Message::parse(query).expect("the engine sends well-formed messages");
        let question = query.questions[0].clone();
        if query.opcode == Opcode::NOTIFY {
            self.notified.extend(query.answer.first().and_then(|record| of_soa(&record.rdata)));
            let flags = Flags { response: true, ..query.flags };
            return vec![Message { flags, ..query }.to_wire()];
        }
        let flags = Flags { response: true, authoritative: true, ..Flags::default() };
        let empty = Message { id: query.id, flags, questions: query.questions.clone(), ..Message::default() };
        if fault == Fault::NoEdns && query.edns.is_some() {
            return vec![Message { rcode: Rcode::FORMERR, ..empty }.to_wire()];
        }
        let serial = self.serials.get(&(primary, question.name.to_string())).copied();
        let refuses = fault == Fault::Refusing || (fault == Fault::RefusesUdp && !is_stream);
        let Some(mut serial) = serial.filter(|_| !refuses) else {
            return vec![Message { rcode: Rcode::REFUSED, ..empty }.to_wire()];
        };
        if matches!(fault, Fault::NoIxfr | Fault::OlderWithoutIxfr) && question.qtype == Rtype::IXFR {
            return vec![Message { rcode: Rcode::NOTIMP, ..empty }.to_wire()];
        }
        self.whole_transfers += usize::from(question.qtype == Rtype::AXFR);
        let has_older_transfers = matches!(fault, Fault::OlderTransfers | Fault::OlderWithoutIxfr);
        if fault == Fault::Older || (has_older_transfers && question.qtype != Rtype::SOA) {
            serial = serial.wrapping_sub(5);
        }
        let owner = if fault == Fault::OtherZone { Name::root() } else { question.name };
        let rdata = [&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat();
        let soa = Record { owner, rtype: Rtype::SOA, class: Class::IN, ttl: 1, rdata };
        let other = Record { rtype: Rtype::TXT, rdata: vec![1, b'x'], ..soa.clone() };
        let client = query.authority.first().and_then(|record| of_soa(&record.rdata));
        let with = |answer: Vec<Record>| Message { answer, ..empty.clone() }.to_wire();
        let mut messages = match question.qtype {
            Rtype::SOA => {
                let truncated = Flags { truncated: fault == Fault::Truncates && !is_stream, ..flags };
                vec![Message { flags: truncated, answer: vec![soa], ..empty.clone() }.to_wire()]
            }
            Rtype::IXFR if client.is_some_and(|client| !is_later(serial, client)) => vec![with(vec![soa])],
            _ => {
                let middle = if fault == Fault::Endless { ENDLESS_MESSAGES } else { 1 };
                let middle = std::iter::repeat_n(with(vec![other.clone()]), middle);
                [with(vec![soa.clone(), other])].into_iter().chain(middle).chain([with(vec![soa])]).collect()
            }
        };
        if fault == Fault::Garbage {
            for octet in messages.iter_mut().flat_map(|message| message.iter_mut().skip(2)) {
                *octet = self.random.u8(..);
            }
        }
        messages
    }

    /// A primary reads a query from a stream.
    fn stream_query(&mut self, id: ConnectionId, query: &[u8]) {
        let Some(connection) = self.connections.get(&id) else { return };
        let (primary, answered, mut at_ms) = (connection.primary, connection.answered, connection.last_ms);
        let fault = self.fault(primary);
        if matches!(fault, Fault::Dead | Fault::Silent) || (fault == Fault::OnePerConnection && answered > 0) {
            return;
        }
        let messages = self.answer(primary, query, true);
        let mut octets: Vec<u8> = messages.iter().flat_map(|message| frame(message)).collect();
        let stops = fault == Fault::StopsMidway && answered > 0;
        if stops {
            octets.truncate(octets.len() / 2);
        }
        at_ms = at_ms.max(self.now.ms + self.latency_ms());
        if fault == Fault::SlowTransfers {
            at_ms += 15_000;
        }
        let (chunk, pause_ms) = match fault {
            Fault::Trickle => (1, 1000),
            Fault::Endless => (600, 1000),
            _ => (1 + octets.len() / 2, 1),
        };
        for chunk in octets.chunks(chunk) {
            self.arrivals.schedule(at_ms, Arrival::Octets(id, chunk.to_vec()));
            at_ms += pause_ms;
        }
        if stops || fault == Fault::OnePerConnection {
            self.arrivals.schedule(at_ms, Arrival::Closed(id));
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            (connection.answered, connection.last_ms) = (answered + 1, at_ms);
        }
    }
}

impl TransferIo for World {
    type Sink = Sink;

    fn send_probe(&mut self, primary: PrimaryId, config: &PeerConfig, datagram: &[u8]) {
        let from = host(config);
        self.probes += 1;
        if self.is_lost(from) {
            return;
        }
        for answer in self.answer(from, datagram, false) {
            let at_ms = self.now.ms + self.latency_ms();
            self.arrivals.schedule(at_ms, Arrival::Datagram(primary, answer));
        }
    }

    fn send_notify(&mut self, target: &PeerConfig, datagram: &[u8]) {
        let mut answer = Message::parse(datagram).expect("well-formed");
        assert_eq!((answer.opcode, target.tls), (Opcode::NOTIFY, 0));
        answer.flags.response = true;
        if !self.is_lost(host(target)) {
            let at_ms = self.now.ms + self.latency_ms();
            self.arrivals.schedule(at_ms, Arrival::NotifyAnswer(target.address, answer.to_wire()));
        }
    }

    fn forget(&mut self, _: PrimaryId) {}

    fn connect(&mut self, id: ConnectionId, config: &PeerConfig) {
        let primary = host(config);
        let at_ms = self.now.ms + self.latency_ms();
        self.opened += 1;
        self.connections.insert(id, SimulatedConnection { primary, answered: 0, last_ms: at_ms });
        match self.fault(primary) {
            Fault::Off | Fault::NoTcp => (),
            Fault::Dead if self.opened.is_multiple_of(2) => (),
            Fault::Dead => self.arrivals.schedule(at_ms, Arrival::Closed(id)),
            _ => self.arrivals.schedule(at_ms, Arrival::Established(id)),
        }
    }

    fn close(&mut self, id: ConnectionId) {
        assert!(self.connections.remove(&id).is_some(), "closed twice");
    }

    fn new_sink(&mut self, transfer: RequestedTransfer<'_>) -> Sink {
        Sink::new(transfer)
    }

    fn event(&mut self, event: TransferEvent<Sink>) {
        match event {
            TransferEvent::Received { zone, sink, .. } => {
                let serial = sink.serial.expect("it is complete");
                let is_newer = self.served.get(&zone).is_none_or(|served| is_later(serial, *served));
                assert!(is_newer || sink.not_before.is_none(), "serials never go back");
                let at_ms = self.now.ms + self.latency_ms();
                self.arrivals.schedule(at_ms, Arrival::Published(zone, serial));
            }
            TransferEvent::Failed { report, .. } => {
                self.failures.push(report.failure.expect("it failed").to_string());
            }
            TransferEvent::Expired { zone } => _ = self.expired.insert(zone, self.now.s),
            TransferEvent::Refreshed { zone, timers } => {
                self.expired.remove(&zone);
                self.refreshed.insert(zone, timers);
            }
            TransferEvent::CheckFailed { details, .. } => self.check_failures.extend(details),
            TransferEvent::Unreachable { primary, reason } => self.check_failures.push(format!("{primary} {reason}")),
            TransferEvent::Timers(zones) => self.refreshed.extend(zones),
        }
    }
}

struct Simulation {
    engine: TransferEngine<Sink>,
    world: World,
    zones: Vec<(ZoneId, Name, Vec<PeerConfig>)>,
    steps: u64,
}

impl Simulation {
    /// Zones whose primaries are `hosts[index % len]`, all without a version.
    fn new(zones: u32, hosts: &[&[u8]], seed: u64) -> Simulation {
        Simulation::with_limits(zones, hosts, seed, EngineLimits::default())
    }

    fn with_limits(zones: u32, hosts: &[&[u8]], seed: u64, limits: EngineLimits) -> Simulation {
        let mut simulation = Simulation {
            engine: TransferEngine::new(limits, seed),
            world: World::new(seed ^ 0x5eed),
            zones: Vec::new(),
            steps: 0,
        };
        for index in 0..zones {
            let zone = ZoneId { index, generation: index };
            let apex: Name = format!("zone{index}.example").parse().expect("a name");
            let hosts = hosts[index as usize % hosts.len()];
            let primaries: Vec<PeerConfig> =
                hosts.iter().map(|host| PeerConfig::plain(([192, 0, 2, *host], 53).into())).collect();
            for host in hosts {
                simulation.world.serials.insert((*host, apex.to_string()), 100);
            }
            let (limits, version) = (SecondaryLimits::default(), None);
            let primaries_of = primaries.clone().into();
            let add = TransferCommand::Add { zone, apex: apex.clone(), primaries: primaries_of, limits, version };
            simulation.engine.command(add, simulation.world.now);
            simulation.zones.push((zone, apex, primaries));
        }
        simulation
    }

    /// Runs until this time.
    fn run_until(&mut self, end_ms: u64) {
        loop {
            self.engine.step(self.world.now, &mut self.world);
            self.steps += 1;
            self.read_streams();
            let arrival = self.world.arrivals.next_ms();
            let next = self.engine.next_time(self.world.now).into_iter().chain(arrival).min();
            let next = next.unwrap_or(u64::MAX).max(self.world.now.ms);
            if next > end_ms {
                return self.world.set_time(end_ms);
            }
            self.world.set_time(next);
            self.deliver();
        }
    }

    /// The primaries read what the engine writes.
    fn read_streams(&mut self) {
        let ids: Vec<ConnectionId> = self.world.connections.keys().copied().collect();
        for id in ids {
            if !self.engine.connection_is_established(id) {
                continue;
            }
            let octets = self.engine.output(id).to_vec();
            self.engine.sent(id, octets.len());
            let mut rest = &octets[..];
            while let Some((query, after)) = split_message(rest) {
                self.world.stream_query(id, query);
                rest = after;
            }
        }
    }

    fn deliver(&mut self) {
        let now = self.world.now;
        while let Some(arrival) = self.world.arrivals.take_due(now.ms) {
            match arrival {
                Arrival::Datagram(primary, octets) => self.engine.probe_received(primary, &octets, now),
                Arrival::NotifyAnswer(from, octets) => self.engine.notify_answered(from, &octets, now),
                Arrival::Published(zone, serial) => {
                    self.world.served.insert(zone, serial);
                    self.world.expired.remove(&zone);
                    let published = TransferCommand::Published { zone, serial, timers: TIMERS, expire_s: None };
                    self.engine.command(published, now);
                }
                Arrival::Established(id) if self.world.connections.contains_key(&id) => self.engine.connected(id),
                Arrival::Octets(id, octets) if self.world.connections.contains_key(&id) => {
                    self.engine.received(id, &octets, now, &mut self.world);
                }
                Arrival::Closed(id) if self.world.connections.remove(&id).is_some() => {
                    self.engine.closed(id, "reset".into(), now, &mut self.world);
                }
                _ => (), // Of a connection that the engine has closed.
            }
        }
    }

    /// A zone changes at its primaries, the second of which follows only if `all`; each sends NOTIFY, which may be lost.
    fn change(&mut self, number: usize, all: bool) {
        let (zone, apex, primaries) = self.zones[number].clone();
        for config in &primaries[..if all { primaries.len() } else { 1 }] {
            let serial = self.world.serials.get_mut(&(host(config), apex.to_string())).expect("it has the zone");
            *serial = serial.wrapping_add(1);
            let serial = Some(*serial);
            if !self.world.is_lost(host(config)) {
                let from = config.address.ip();
                self.engine.command(TransferCommand::NotifyReceived { zone, serial, from }, self.world.now);
            }
        }
    }

    /// A zone gets other limits; it keeps its primaries.
    fn reconfigure(&mut self, number: usize, max_records: u32) {
        let (zone, _, primaries) = self.zones[number].clone();
        let size = SizeLimits { max_records, ..SizeLimits::default() };
        let limits = SecondaryLimits {
            size,
            command: (max_records % 2 == 1).then_some(max_records.into()),
            ..SecondaryLimits::default()
        };
        let command = TransferCommand::Reconfigure { zone, primaries: primaries.into(), limits };
        self.engine.command(command, self.world.now);
    }

    /// All zones change at all their primaries, which send no NOTIFY.
    fn raise_serials(&mut self) {
        self.world.serials.values_mut().for_each(|serial| *serial += 1);
    }

    /// A command checks all zones.
    fn refresh_all(&mut self) {
        for (zone, ..) in &self.zones {
            self.engine.command(TransferCommand::Refresh(*zone), self.world.now);
        }
    }

    /// The primaries of a zone get these TLS settings.
    fn use_tls(&mut self, number: usize, tls: u32) {
        let (zone, _, primaries) = self.zones[number].clone();
        let primaries: Vec<PeerConfig> = primaries.into_iter().map(|primary| PeerConfig { tls, ..primary }).collect();
        let limits = SecondaryLimits::default();
        let command = TransferCommand::Reconfigure { zone, primaries: primaries.into(), limits };
        self.engine.command(command, self.world.now);
    }

    /// Sends a target NOTIFY about a version of a zone.
    fn send_notify(&mut self, number: usize, serial: u32, target: PeerConfig) {
        let (zone, apex, _) = self.zones[number].clone();
        let (soa, targets) = ([&[0, 0][..], &serial.to_be_bytes(), &[0; 16]].concat().into(), [target].into());
        self.engine.command(TransferCommand::SendNotify { zone, apex, soa, targets }, self.world.now);
    }

    /// Fails if a zone is not current.
    #[track_caller]
    fn assert_current(&self, why: &str) {
        assert_eq!(self.outdated(), [] as [usize; 0], "{why}");
    }

    /// The zones that are not served with the highest serial of their primaries.
    fn outdated(&self) -> Vec<usize> {
        let is_outdated = |(zone, apex, primaries): &(ZoneId, Name, Vec<PeerConfig>)| {
            let serials = primaries.iter().map(|config| self.world.serials[&(host(config), apex.to_string())]);
            let is_expired = self.world.expired.contains_key(zone);
            is_expired || self.world.served.get(zone).copied() != serials.max()
        };
        (0..self.zones.len()).filter(|number| is_outdated(&self.zones[*number])).collect()
    }
}
