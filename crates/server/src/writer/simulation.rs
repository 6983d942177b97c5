//! Whole servers in simulated time: a primary that clients update, a secondary that also serves transfers, and two edges that transfer from both,
//! one of which gets its zones from a catalog. The secondary and the other edge forward updates. Transfers, NOTIFY and most updates are
//! signed (TSIG). An operator adds and removes zones, edits a zone file and two more catalogs, and reloads. Only sockets, clocks and disks are simulated, and threads take turns instead of running at once. The network loses, repeats, reorders and resets; machines crash at any write and lose what was not synced. Each has a clock of its own, which
//! is set forward and back. Some runs go on with a primary that is dead until all zones have expired, others with a secondary that becomes the
//! primary of a zone.
//!
//! `make simulate SEEDS=3000` runs more seeds than `cargo test`.

mod checks;
mod client;
mod configs;
mod exchanges;
mod handover;
mod lists;
mod machine;
mod network;
mod operator;
mod outage;
mod process;
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use wire::framing::{frame, split_message};

use crate::clock;
use crate::simulated_disk::{Random, SimulatedDisk, SyncSite};
use crate::storage::StoreLimits;
use client::Client;
use configs::{CONFIGS, KEYS};
use machine::{CLIENT, Machine, ReplyTo, WallClock};
use network::{Arrival, Network, ProcessId, Sender, address};
use operator::Operator;
use process::Process;

/// What time it is when a simulation starts: seconds since 1970.
const START: Duration = Duration::from_secs(1_700_000_000);
/// How long machines and the network fail, and how long they may take afterwards until all is equal, in simulated milliseconds: less than
/// REFRESH of a produced catalog, so that no lost NOTIFY leaves that to REFRESH, and more than the longest back-offs (17 minutes).
const FAULTS_MS: u64 = 60_000;
const RECOVERY_MS: u64 = 1_800_000;
const CATALOG_REFRESH_MS: u64 = 3_600_000;
/// The zones that all machines serve.
const ZONES: [&str; 3] = ["a.example.", "b.example.", "catalog.example."];
/// The number of the last one.
const CATALOG: usize = 2;
const PRIMARY: usize = 0;
const CATALOG_EDGE: usize = 2;
/// The machines that clients send their updates to: the primary, or secondaries that forward them, one of them to the other first.
const CLIENT_SERVERS: [usize; 6] = [PRIMARY, PRIMARY, PRIMARY, PRIMARY, 1, 3];

/// REFRESH and EXPIRE of all but the catalog.
const REFRESH_MS: u64 = 60_000;
const EXPIRE_MS: u64 = 600_000;
const ZONE_TEXT: &str = "$TTL 60\n@ SOA ns hostmaster 1 60 10 600 5\n@ NS ns\nns A 192.0.2.1\n";
/// How much the clocks of two machines may differ without harm: with the age of an update, less than the fudge of TSIG.
const MAX_CLOCK_DIFFERENCE_S: i64 = 280;
/// A clock that is set wrong is wrong by up to so much: years.
const MAX_WRONG_CLOCK_S: i64 = 100_000_000;

/// What a run did, to see that it tests something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    acknowledged: u32,
    crashes: u32,
    power_failures: u32,
    /// Reloads that were reported, and zones added or removed by command.
    reloads: u32,
    edits: u32,
    /// Clocks that were set wrong by more than TSIG allows.
    wrong_clocks: u32,
    /// Changes of the primary of a zone.
    handovers: u32,
    /// Zones of secondaries that were seen expired at the end of an outage.
    expired: u32,
    /// The longest time until all was equal after the faults, in simulated milliseconds.
    recovery_ms: u64,
}

struct World {
    base: Instant,
    network: Network,
    machines: Vec<Machine>,
    clients: Vec<Client>,
    operator: Operator,
    /// The last serial of each zone that was seen at a process; at the primary, at any.
    serials: BTreeMap<(ProcessId, usize), u32>,
    /// The primary of each zone.
    primaries: [usize; 3],
    /// Since when the primary is dead for longer than EXPIRE.
    outage_since_ms: Option<u64>,
    /// Syncs that do nothing.
    ignored: Option<SyncSite>,
    /// Disks that are full, until when.
    full_until_ms: Vec<u64>,
    next_fault_ms: u64,
    next_check_ms: u64,
    counts: Counts,
}

/// What happens at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Machines, disks, clocks and the network fail; clients and the operator change zones.
    Faults,
    /// The primary is dead, and the secondaries have faults.
    Outage,
    /// Nothing fails, and nothing changes but what is not acknowledged.
    Recovery,
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
            fs::write(&config, text).expect("space");
            let [disk, state_dir] = [new_disk(ignored), new_disk(ignored)];
            Machine {
                number,
                disk,
                state_dir,
                limits,
                config,
                starts: 0,
                process: None,
                wakes_at_ms: 0,
                clock: WallClock::default(),
            }
        });
        let machines: Vec<Machine> = machines.collect();
        let clients = CLIENT_SERVERS.into_iter().enumerate();
        let clients = clients.map(|(number, server)| Client::new(number, ZONES[number % 2], server)).collect();
        let operator = Operator::new(folder, config_text(CONFIGS[PRIMARY], folder));
        World {
            operator,
            primaries: [PRIMARY; 3],
            outage_since_ms: None,
            ignored,
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
        self.run_until(FAULTS_MS, Phase::Faults)?;
        self.recover()?;
        match self.network.random.below(3) {
            0 => {
                self.outage()?;
                self.recover()?;
            }
            1 => self.hand_over()?,
            _ => (),
        }
        (self.counts.reloads, self.counts.edits) = self.operator.counts;
        Ok(self.counts)
    }

    /// Ends all faults, and waits until all is equal.
    fn recover(&mut self) -> Result<(), String> {
        self.end_faults();
        let begin_ms = self.network.now_ms;
        let mut end_ms = begin_ms;
        loop {
            end_ms += 2000;
            self.run_until(end_ms, Phase::Recovery)?;
            let Some(difference) = self.difference() else { break };
            // NOTIFY messages with a wrong time were refused.
            let refresh_ms = if self.counts.wrong_clocks > 0 { CATALOG_REFRESH_MS } else { 0 };
            if end_ms >= begin_ms + RECOVERY_MS + refresh_ms {
                return Err(difference);
            }
        }
        self.counts.recovery_ms = self.counts.recovery_ms.max(end_ms - begin_ms);
        Ok(())
    }

    fn set_time(&mut self, ms: u64) {
        self.network.now_ms = ms;
        self.set_clocks(0);
    }

    /// Sets the clocks of this thread to those of a machine whose wall clock is wrong by so much.
    fn set_clocks(&self, step_s: i64) {
        let since = Duration::from_millis(self.network.now_ms);
        let real = Duration::from_secs(START.as_secs().saturating_add_signed(step_s)) + since;
        clock::simulated::set(Some((self.base + since, real)));
    }

    fn run_until(&mut self, end_ms: u64, phase: Phase) -> Result<(), String> {
        let has_faults = phase == Phase::Faults;
        loop {
            let machines = self.machines.iter().map(|machine| machine.wakes_at_ms);
            let clients = self.clients.iter().filter_map(|client| client.next_ms(has_faults));
            let operator = (has_faults || self.operator.must_edit()).then_some(self.operator.next_ms);
            let times =
                machines.chain(clients).chain(operator).chain(self.network.next_ms()).chain([self.next_check_ms]);
            let next = times.min().unwrap_or(u64::MAX).max(self.network.now_ms);
            if next > end_ms {
                self.set_time(end_ms);
                return Ok(());
            }
            self.set_time(next);
            if phase != Phase::Recovery && next >= self.next_fault_ms {
                self.fail_something(phase);
            }
            while let Some(arrival) = self.network.arrive() {
                self.deliver(arrival)?;
            }
            for number in 0..self.clients.len() {
                if self.clients[number].next_ms(has_faults).is_some_and(|due| due <= next) {
                    self.clients[number].send(&mut self.network);
                }
            }
            self.operator.take_edit()?;
            if operator.is_some_and(|due| due <= next) {
                self.set_clocks(self.machines[PRIMARY].clock.step_s);
                self.operator.act(&mut self.machines, &mut self.network, has_faults);
                self.set_clocks(0);
                self.machines.iter_mut().for_each(|machine| machine.wakes_at_ms = machine.woken_at(next));
            }
            for number in 0..self.machines.len() {
                if self.machines[number].wakes_at_ms <= next {
                    self.run_machine(number)?;
                }
            }
            if self.next_check_ms <= next {
                self.check_answers()?;
                let pause_ms = if phase == Phase::Outage { 3000 } else { 300 };
                self.next_check_ms = next + 20 + self.network.random.below(pause_ms);
            }
        }
    }

    //----------- machines ---------------------------------------------------------

    fn run_machine(&mut self, number: usize) -> Result<(), String> {
        let now_ms = self.network.now_ms;
        let step_s = self.machines[number].clock.read(now_ms);
        self.set_clocks(step_s);
        let (network, machine) = (&mut self.network, &mut self.machines[number]);
        if self.full_until_ms[number] <= network.now_ms {
            machine.set_full(false);
        }
        match &mut machine.process {
            Some(process) => {
                machine.wakes_at_ms = process.turn(network, [&machine.disk, &machine.state_dir], self.base)
            }
            None => {
                let seed = network.random.below(u64::MAX);
                machine.start(seed, now_ms)?;
                machine.wakes_at_ms = network.now_ms + 1;
            }
        }
        if self.machines[number].has_crashed() {
            let loses_power = !self.network.random.one_in(4);
            self.crash(number, loses_power);
        }
        self.set_clocks(0);
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

    fn fail_something(&mut self, phase: Phase) {
        if phase == Phase::Outage {
            return self.disturb_secondaries();
        }
        let random = &mut self.network.random;
        let number = random.below(self.machines.len() as u64) as usize;
        let (now_ms, disks) = (self.network.now_ms, self.machines[number].disks());
        // Zones are rarely added.
        let disk = disks[usize::from(number == PRIMARY && random.one_in(2))];
        match random.below(12) {
            0..4 => disk.crash_in(Some(1 + random.below(60))),
            4 => disk.fail_next_sync(),
            5 => {
                self.machines[number].set_full(true);
                self.full_until_ms[number] = now_ms + random.below(5000);
            }
            6 if self.machines[number].process.is_some() => self.crash(number, false),
            7 => self.set_clock_of(number),
            _ => {
                let (other, until_ms) = (random.below(4) as usize, now_ms + random.below(20_000));
                self.network.cut([number, other], until_ms);
            }
        }
        self.next_fault_ms = now_ms + self.network.random.below(6000);
    }

    /// Sets the clock of a machine: mostly right, for TSIG, or wrong for some time.
    fn set_clock_of(&mut self, number: usize) {
        let (random, now_ms) = (&mut self.network.random, self.network.now_ms);
        let is_wrong = random.one_in(4);
        let bound_s = if is_wrong { MAX_WRONG_CLOCK_S } else { MAX_CLOCK_DIFFERENCE_S / 2 };
        let step_s = random.below(2 * bound_s as u64) as i64 - bound_s;
        let right_at_ms = if is_wrong { now_ms + random.below(20_000) } else { u64::MAX };
        let machine = &mut self.machines[number];
        machine.clock = WallClock { step_s, set_ms: now_ms, right_at_ms };
        // A descriptor wakes the transfer thread.
        machine.wakes_at_ms = machine.woken_at(now_ms);
        self.counts.wrong_clocks += u32::from(is_wrong);
    }

    fn end_faults(&mut self) {
        self.network.heal();
        for machine in &mut self.machines {
            machine.disks().into_iter().for_each(|disk| disk.crash_in(None));
            machine.set_full(false);
            machine.clock.set_right(self.network.now_ms);
            machine.wakes_at_ms = machine.wakes_at_ms.min(self.network.now_ms + 1000);
        }
    }

    //----------- the network ------------------------------------------------------

    fn deliver(&mut self, arrival: Arrival) -> Result<(), String> {
        match arrival {
            Arrival::Query { to, from, octets } => self.deliver_query(to, from, &octets),
            Arrival::Answer { to: Sender::Client(client), octets } => {
                let now_ms = self.network.now_ms;
                let had_wrong_clocks = self.counts.wrong_clocks > 0;
                if self.clients[client].answered(&octets, now_ms, &mut self.network.random, had_wrong_clocks)? {
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

    fn at_process(&mut self, id: ProcessId, act: impl FnOnce(&mut Process, &mut Network)) {
        let machine = &self.machines[id.0];
        if machine.id() == id && machine.process.is_some() {
            let step_s = machine.clock.step_s;
            self.set_clocks(step_s);
            let machine = &mut self.machines[id.0];
            let Some(process) = &mut machine.process else { return };
            act(process, &mut self.network);
            process.wake();
            machine.wakes_at_ms = self.network.now_ms;
            self.set_clocks(0);
        }
    }

    fn at_client(
        &mut self,
        stream: u64,
        act: impl FnOnce(&mut Process, crate::transfer::link::ConnectionId, &mut Network),
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
}

/// A disk on which syncs at this site do nothing.
fn new_disk(ignored: Option<SyncSite>) -> SimulatedDisk {
    let disk = SimulatedDisk::default();
    disk.ignore(ignored);
    disk
}

/// A zone with this serial.
fn zone_text(serial: u32) -> String {
    ZONE_TEXT.replace(" 1 60 ", &format!(" {serial} 60 "))
}

/// Writes a zone file as editors do: it is never read in the middle.
fn replace_text(folder: &Path, zone: &str, text: &str) {
    let (path, new) = (folder.join(format!("{zone}.zone")), folder.join("new"));
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).expect("space");
}

/// The configuration of a machine.
fn config_text(text: &str, folder: &Path) -> String {
    [KEYS, text].concat().replace("FOLDER", &folder.display().to_string())
}

/// Runs a seed; syncs at the site `ignored` do nothing. Returns what happened and where the disks were synced, or what is wrong.
fn run(seed: u64, ignored: Option<SyncSite>) -> Result<(Counts, Vec<SyncSite>), String> {
    let folder = tempfile::tempdir().expect("a folder");
    for zone in ["a.example", "b.example", "d.example"].iter().chain(&lists::MEMBERS) {
        replace_text(folder.path(), zone, ZONE_TEXT);
    }
    let mut world = World::new(seed, folder.path(), ignored);
    let result = world.run();
    let disks = world.machines.iter().flat_map(Machine::disks);
    let sites = disks.flat_map(|disk| disk.sites().into_keys()).collect();
    // The processes end without their threads.
    let mut random = Random::new(seed);
    world.machines.iter_mut().for_each(|machine| machine.crash(&mut random, false));
    clock::simulated::set(None);
    result.map(|counts| (counts, sites))
}
