//! Whole servers in simulated time: a primary that clients update, a secondary that also serves transfers, and two edges that transfer from both,
//! one of which gets its zones from a catalog. The secondary and the other edge forward updates. Transfers, NOTIFY and most updates are
//! signed (TSIG). An operator adds and removes zones, edits a zone file and reloads. Only sockets, clocks and disks are simulated, and threads take turns instead of running at once. The network loses, repeats, reorders and resets; machines crash at any write and lose what was not synced.
//!
//! `make simulate SEEDS=1000` runs more seeds than `cargo test`.

mod client;
mod exchanges;
mod machine;
mod network;
mod operator;
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use wire::framing::{frame, split_message};
use wire::message::{Message, Rcode, Record};
use wire::serial::{is_later, of_soa};
use wire::{Name, Rtype};

use crate::clock;
use crate::simulated_disk::{Random, SimulatedDisk, SyncSite};
use crate::storage::StoreLimits;
use client::{Client, query};
use machine::{CLIENT, Machine, ReplyTo};
use network::{Arrival, Network, ProcessId, Sender, address};
use operator::Operator;

/// What time it is when a simulation starts: seconds since 1970.
const START: Duration = Duration::from_secs(1_700_000_000);
/// How long machines and the network fail, and how long they may take afterwards until all is equal, in simulated milliseconds: less than
/// REFRESH of a produced catalog (an hour), so that no lost NOTIFY leaves that to REFRESH, and more than the longest back-offs (17 minutes).
const FAULTS_MS: u64 = 60_000;
const RECOVERY_MS: u64 = 1_800_000;
/// The zones that all machines serve.
const ZONES: [&str; 3] = ["a.example.", "b.example.", "catalog.example."];
const PRIMARY: usize = 0;
const CATALOG_EDGE: usize = 2;
/// The machines that clients send their updates to: the primary, or secondaries that forward them, one of them to the other first.
const CLIENT_SERVERS: [usize; 6] = [PRIMARY, PRIMARY, PRIMARY, PRIMARY, 1, 3];

const ZONE_TEXT: &str = "$TTL 60\n@ SOA ns hostmaster 1 60 10 3600 5\n@ NS ns\nns A 192.0.2.1\n";
/// Before the configuration of each machine.
const KEYS: &str = r#"
[[key]]
name = "transfer."
algorithm = "hmac-sha256"
secret = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
[[key]]
name = "update."
algorithm = "hmac-sha256"
secret = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
"#;
const PRIMARY_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
max-journal-bytes = 700
file = "FOLDER/{name}.zone"
allow-update = [{ key = "update." }, { address = "10.0.0.99", names = ["client2.a.example", "client3.b.example"] }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.2", key = "transfer." }, { address = "10.0.0.4", key = "transfer." }]
catalog-member = "catalog.example."
[template.catalog]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.2", key = "transfer." }]
[[zone]]
name = "a.example"
[[zone]]
name = "b.example"
[[zone]]
name = "catalog.example"
template = "catalog"
catalog = "produce"
"#;
const MIDDLE_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
max-journal-bytes = 2000
forward-updates = true
primaries = [{ address = "10.0.0.1", key = "transfer." }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
notify = [{ address = "10.0.0.3", key = "transfer." }, { address = "10.0.0.4", key = "transfer." }]
[[zone]]
name = "a.example"
[[zone]]
name = "b.example"
[[zone]]
name = "catalog.example"
"#;
const CATALOG_EDGE_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
primaries = [{ address = "10.0.0.2", key = "transfer." }, { address = "10.0.0.1", key = "transfer." }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
[[zone]]
name = "catalog.example"
catalog = "consume"
"#;
const EDGE_CONFIG: &str = r#"
[server]
state-dir = "FOLDER"
[template.default]
forward-updates = true
primaries = [{ address = "10.0.0.2", key = "transfer." }, { address = "10.0.0.1", key = "transfer." }]
allow-transfer = [{ key = "transfer." }, "10.0.0.99"]
[[zone]]
name = "a.example"
[[zone]]
name = "b.example"
[[zone]]
name = "catalog.example"
"#;
const CONFIGS: [&str; 4] = [PRIMARY_CONFIG, MIDDLE_CONFIG, CATALOG_EDGE_CONFIG, EDGE_CONFIG];

/// What a run did, to see that it tests something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    acknowledged: u32,
    crashes: u32,
    power_failures: u32,
    /// Reloads that were reported, and zones added or removed by command.
    reloads: u32,
    edits: u32,
    /// When all was equal, in simulated milliseconds.
    ended_ms: u64,
}

/// Owner, type, TTL and RDATA.
type ZoneRecord = (Name, Rtype, u32, Vec<u8>);

struct World {
    base: Instant,
    network: Network,
    machines: Vec<Machine>,
    clients: Vec<Client>,
    operator: Operator,
    /// The last serial of each zone that was seen at a process; at the primary, at any.
    serials: BTreeMap<(ProcessId, usize), u32>,
    /// Disks that are full, until when.
    full_until_ms: Vec<u64>,
    next_fault_ms: u64,
    next_check_ms: u64,
    counts: Counts,
}

impl World {
    fn new(seed: u64, folder: &Path, ignored: Option<SyncSite>) -> World {
        let mut random = Random::new(seed);
        let machines = CONFIGS.iter().enumerate().map(|(number, text)| {
            let limits = StoreLimits {
                segment_len: 600 + random.below(8000) as u32,
                min_changes_len: 300 + random.below(1000),
                image_share: 2,
                inline_image_len: if random.one_in(2) { 100 } else { 4000 },
                history_total: 3000,
            };
            let config = folder.join(format!("{number}.toml"));
            let text = config_text(text, folder);
            std::fs::write(&config, text).expect("space");
            let disk = SimulatedDisk::default();
            disk.ignore(ignored);
            Machine { number, disk, limits, config, starts: 0, process: None, wakes_at_ms: 0 }
        });
        let machines: Vec<Machine> = machines.collect();
        let clients = CLIENT_SERVERS.into_iter().enumerate();
        let clients = clients.map(|(number, server)| Client::new(number, ZONES[number % 2], server)).collect();
        let operator = Operator::new(folder, config_text(PRIMARY_CONFIG, folder));
        World {
            operator,
            base: Instant::now(),
            full_until_ms: vec![0; machines.len()],
            network: Network::new(Random::new(random.below(u64::MAX))),
            machines,
            clients,
            serials: BTreeMap::new(),
            next_fault_ms: 0,
            next_check_ms: 0,
            counts: Counts::default(),
        }
    }

    /// Runs until all is equal after the faults have ended; says what is wrong otherwise.
    fn run(&mut self) -> Result<Counts, String> {
        self.run_until(FAULTS_MS, true)?;
        self.end_faults();
        let mut end_ms = FAULTS_MS;
        let mut difference = Some(String::new());
        while difference.is_some() && end_ms < FAULTS_MS + RECOVERY_MS {
            end_ms += 2000;
            self.run_until(end_ms, false)?;
            difference = self.difference();
        }
        self.counts.ended_ms = end_ms;
        (self.counts.reloads, self.counts.edits) = self.operator.counts;
        difference.map_or(Ok(self.counts), Err)
    }

    fn set_time(&mut self, ms: u64) {
        self.network.now_ms = ms;
        let since = Duration::from_millis(ms);
        clock::simulated::set(Some((self.base + since, START + since)));
    }

    fn run_until(&mut self, end_ms: u64, has_faults: bool) -> Result<(), String> {
        loop {
            let machines = self.machines.iter().map(|machine| machine.wakes_at_ms);
            let clients = self.clients.iter().filter_map(|client| client.next_ms(has_faults));
            let operator = has_faults.then_some(self.operator.next_ms);
            let times =
                machines.chain(clients).chain(operator).chain(self.network.next_ms()).chain([self.next_check_ms]);
            let next = times.min().unwrap_or(u64::MAX).max(self.network.now_ms);
            if next > end_ms {
                self.set_time(end_ms);
                return Ok(());
            }
            self.set_time(next);
            if has_faults && next >= self.next_fault_ms {
                self.fail_something();
            }
            while let Some(arrival) = self.network.arrive() {
                self.deliver(arrival)?;
            }
            for number in 0..self.clients.len() {
                if self.clients[number].next_ms(has_faults).is_some_and(|due| due <= next) {
                    self.clients[number].send(&mut self.network);
                }
            }
            if has_faults && self.operator.next_ms <= next {
                self.operator.act(&mut self.machines, &mut self.network);
                self.machines.iter_mut().for_each(|machine| machine.wakes_at_ms = machine.woken_at(next));
            }
            for number in 0..self.machines.len() {
                if self.machines[number].wakes_at_ms <= next {
                    self.run_machine(number)?;
                }
            }
            if self.next_check_ms <= next {
                self.check_answers()?;
                self.next_check_ms = next + 20 + self.network.random.below(300);
            }
        }
    }

    //----------- machines ---------------------------------------------------------

    fn run_machine(&mut self, number: usize) -> Result<(), String> {
        let (network, machine) = (&mut self.network, &mut self.machines[number]);
        if self.full_until_ms[number] <= network.now_ms {
            machine.disk.set_full(false);
        }
        match &mut machine.process {
            Some(process) => machine.wakes_at_ms = process.turn(network, &machine.disk, self.base),
            None => {
                let seed = network.random.below(u64::MAX);
                machine.start(seed)?;
                machine.wakes_at_ms = network.now_ms + 1;
            }
        }
        if self.machines[number].disk.has_crashed() {
            let loses_power = !self.network.random.one_in(4);
            self.crash(number, loses_power);
        }
        Ok(())
    }

    fn crash(&mut self, number: usize, loses_power: bool) {
        let machine = &mut self.machines[number];
        machine.crash(&mut self.network.random, loses_power);
        self.network.machine_died(number);
        // Longer than a datagram can be on its way.
        machine.wakes_at_ms = self.network.now_ms + 1000 + self.network.random.below(5000);
        self.counts.crashes += 1;
        self.counts.power_failures += u32::from(loses_power);
    }

    fn fail_something(&mut self) {
        let random = &mut self.network.random;
        let number = random.below(self.machines.len() as u64) as usize;
        let (now_ms, disk) = (self.network.now_ms, &self.machines[number].disk);
        match random.below(10) {
            0..4 => disk.crash_in(Some(1 + random.below(60))),
            4 => disk.fail_next_sync(),
            5 => {
                disk.set_full(true);
                self.full_until_ms[number] = now_ms + random.below(5000);
            }
            6 if self.machines[number].process.is_some() => self.crash(number, false),
            _ => {
                let (other, until_ms) = (random.below(4) as usize, now_ms + random.below(20_000));
                self.network.cut([number, other], until_ms);
            }
        }
        self.next_fault_ms = now_ms + self.network.random.below(6000);
    }

    fn end_faults(&mut self) {
        self.network.heal();
        for machine in &mut self.machines {
            machine.disk.crash_in(None);
            machine.disk.set_full(false);
            machine.wakes_at_ms = machine.wakes_at_ms.min(self.network.now_ms + 1000);
        }
    }

    //----------- the network ------------------------------------------------------

    fn deliver(&mut self, arrival: Arrival) -> Result<(), String> {
        match arrival {
            Arrival::Query { to, from, octets } => self.deliver_query(to, from, &octets),
            Arrival::Answer { to: Sender::Client(client), octets } => {
                let now_ms = self.network.now_ms;
                if self.clients[client].answered(&octets, now_ms, &mut self.network.random)? {
                    self.counts.acknowledged += 1;
                }
            }
            Arrival::Answer { to, octets } => {
                let (Sender::Probe(id, _) | Sender::Notify(id, _)) = to else { return Ok(()) };
                self.at_process(id, |process, network| process.answer_arrived(to, &octets, network));
            }
            Arrival::Connect(number) => {
                let Some(server) = self.network.streams.get(&number).map(|stream| stream.server) else { return Ok(()) };
                let machine = &self.machines[server];
                let process = machine.process.as_ref().map(|_| machine.id());
                self.network.accept(number, process);
            }
            Arrival::Established(number) => {
                self.at_client(number, |process, connection, network| process.established(connection, network));
            }
            Arrival::ToClient(number, octets) => {
                self.at_client(number, |process, connection, network| {
                    process.stream_received(connection, &octets, network);
                });
            }
            Arrival::ToServer(number, octets) => self.deliver_to_server(number, &octets),
            Arrival::Closed(number) => {
                self.at_client(number, |process, connection, network| process.stream_closed(connection, network));
                self.network.streams.remove(&number);
            }
        }
        Ok(())
    }

    fn at_process(&mut self, id: ProcessId, act: impl FnOnce(&mut machine::Process, &mut Network)) {
        let machine = &mut self.machines[id.0];
        if machine.id() == id
            && let Some(process) = &mut machine.process
        {
            act(process, &mut self.network);
            process.wake();
            machine.wakes_at_ms = self.network.now_ms;
        }
    }

    fn at_client(
        &mut self,
        stream: u64,
        act: impl FnOnce(&mut machine::Process, crate::transfer::link::ConnectionId, &mut Network),
    ) {
        let Some(stream) = self.network.streams.get(&stream) else { return };
        let (client, connection) = (stream.client, stream.connection);
        self.at_process(client, |process, network| act(process, connection, network));
    }

    fn deliver_query(&mut self, to: usize, from: Sender, octets: &[u8]) {
        let (peer, client) = match from {
            Sender::Client(client) => (CLIENT.into(), client),
            Sender::Probe((machine, _), _) | Sender::Notify((machine, _), _) => (address(machine), 0),
        };
        let id = self.machines[to].id();
        self.at_process(id, |process, network| {
            for answer in process.answer(octets, peer, false, ReplyTo::Client(client)) {
                network.send_answer(to, from, answer);
            }
        });
    }

    fn deliver_to_server(&mut self, number: u64, octets: &[u8]) {
        let Some(stream) = self.network.streams.get_mut(&number) else { return };
        let (Some(id), client) = (stream.accepted_by, stream.client.0) else { return };
        stream.input.extend_from_slice(octets);
        while let Some(stream) = self.network.streams.get_mut(&number)
            && let Some((message, rest)) = split_message(&stream.input)
        {
            let (message, rest) = (message.to_vec(), rest.to_vec());
            stream.input = rest;
            self.at_process(id, |process, network| {
                for answer in process.answer(&message, address(client), true, ReplyTo::Stream(number)) {
                    network.send(number, &frame(&answer), true);
                }
            });
        }
    }

    //----------- what must hold ---------------------------------------------------

    /// Asks a machine without a network.
    fn ask(&mut self, number: usize, name: &str, rtype: Rtype) -> Option<Vec<Message>> {
        let process = self.machines[number].process.as_mut()?;
        let is_stream = rtype == Rtype::AXFR;
        let answers = process.answer(&query(name, rtype), IpAddr::from(CLIENT), is_stream, ReplyTo::Client(0));
        Some(answers.iter().map(|octets| Message::parse(octets).expect("a well-formed answer")).collect())
    }

    /// The serials of each process never go back, and the primary has all that it acknowledged.
    fn check_answers(&mut self) -> Result<(), String> {
        for number in 0..self.machines.len() {
            for (zone, name) in ZONES.iter().enumerate() {
                let Some(answers) = self.ask(number, name, Rtype::SOA) else { continue };
                let Some(record) = answers.first().and_then(|answer| answer.answer.first()) else { continue };
                let serial = of_soa(&record.rdata).ok_or("no SOA record")?;
                // A secondary serves a version before it is on disk; it may have to transfer it again.
                let id = if number == PRIMARY { (PRIMARY, 0) } else { self.machines[number].id() };
                if let Some(last) = self.serials.insert((id, zone), serial)
                    && is_later(last, serial)
                {
                    return Err(format!("{name} at machine {number}: serial {serial} after {last}"));
                }
            }
        }
        for number in 0..self.clients.len() {
            let (owner, acknowledged) = (self.clients[number].owner(), self.clients[number].acknowledged);
            let Some(answers) = self.ask(PRIMARY, &owner, Rtype::TXT) else { continue };
            let Some(answer) = answers.first().filter(|answer| answer.rcode != Rcode::SERVFAIL) else { continue };
            let value = answer.answer.first().map_or(0, |record| client::value_of(&record.rdata));
            if value < acknowledged {
                return Err(format!("update {acknowledged} of {owner} is lost: {value}"));
            }
        }
        Ok(())
    }

    /// Where a machine differs from the primary, or does not have the last update of a client.
    fn difference(&mut self) -> Option<String> {
        if let Some(client) = self.clients.iter().find(|client| client.is_waiting()) {
            return Some(format!("an update of {} is not answered", client.owner()));
        }
        self.operator.take_reports();
        if self.operator.is_waiting() {
            return Some("a reload is not reported".into());
        }
        for (zone, text) in self.operator.expected() {
            for number in [PRIMARY, CATALOG_EDGE] {
                let found = self.records(number, zone);
                let has_text = |records: &Vec<ZoneRecord>| {
                    let text = text.as_deref().unwrap_or_default().as_bytes();
                    records.iter().any(|record| text.is_empty() || record.3.ends_with(text))
                };
                if found.as_ref().map(has_text) != text.as_ref().map(|_| true) {
                    return Some(format!("{zone} at machine {number}: expected {text:?}, found {found:?}"));
                }
            }
        }
        for zone in ZONES {
            let Some(expected) = self.records(PRIMARY, zone) else {
                return Some(format!("the primary does not serve {zone}"));
            };
            for number in PRIMARY + 1..self.machines.len() {
                let found = self.records(number, zone);
                if found.as_ref() != Some(&expected) {
                    let [found, expected] = [found.unwrap_or_default(), expected].map(|records| {
                        records.iter().find_map(|record| of_soa(&record.3).filter(|_| record.1 == Rtype::SOA))
                    });
                    return Some(format!("{zone} at machine {number}: serial {found:?} instead of {expected:?}"));
                }
            }
        }
        None
    }

    /// All records of a zone.
    fn records(&mut self, number: usize, zone: &str) -> Option<Vec<ZoneRecord>> {
        let answers = self.ask(number, zone, Rtype::AXFR)?;
        let record = |Record { owner, rtype, ttl, rdata, .. }: Record| (owner, rtype, ttl, rdata);
        let mut records: Vec<_> = answers.into_iter().flat_map(|answer| answer.answer).map(record).collect();
        records.sort_by(|a, b| (a.0.to_string(), a.1.0, &a.3).cmp(&(b.0.to_string(), b.1.0, &b.3)));
        (!records.is_empty()).then_some(records)
    }
}

/// The configuration of a machine.
fn config_text(text: &str, folder: &Path) -> String {
    [KEYS, text].concat().replace("FOLDER", &folder.display().to_string())
}

/// Runs a seed; syncs at the site `ignored` do nothing. Returns what happened and where the disks were synced, or what is wrong.
fn run(seed: u64, ignored: Option<SyncSite>) -> Result<(Counts, Vec<SyncSite>), String> {
    let folder = tempfile::tempdir().expect("a folder");
    for zone in ["a.example", "b.example", "d.example"] {
        std::fs::write(folder.path().join(format!("{zone}.zone")), ZONE_TEXT).expect("space");
    }
    let mut world = World::new(seed, folder.path(), ignored);
    let result = world.run();
    let sites = world.machines.iter().flat_map(|machine| machine.disk.sites().into_keys()).collect();
    // The processes end without their threads.
    let mut random = Random::new(seed);
    world.machines.iter_mut().for_each(|machine| machine.crash(&mut random, false));
    clock::simulated::set(None);
    result.map(|counts| (counts, sites))
}
