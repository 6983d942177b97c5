//! A simulated machine: its disks, its clock, and the process of the daemon.

use std::path::PathBuf;

use super::network::{Network, ProcessId};
use super::process::Process;
use crate::clock;
use crate::simulated_disk::{Random, SimulatedDisk};
use crate::storage::StoreLimits;
use crate::transfer::Now;
use crate::zones::work_pool::deferred;

/// The address of all clients.
pub const CLIENT: [u8; 4] = [10, 0, 0, 99];

pub struct Machine {
    pub number: usize,
    /// The folder of the journal, and the state-dir itself.
    pub disk: SimulatedDisk,
    pub state_dir: SimulatedDisk,
    pub limits: StoreLimits,
    pub config: PathBuf,
    pub starts: u64,
    pub process: Option<Process>,
    /// When it has its next turn, or is started again.
    pub wakes_at_ms: u64,
    pub clock: WallClock,
}

/// The wall clock of a machine.
#[derive(Clone, Copy)]
pub struct WallClock {
    /// By how much it is ahead of the time of the simulation.
    pub step_s: i64,
    /// When it was set last.
    pub set_ms: u64,
    /// When somebody notices that it is wrong.
    pub right_at_ms: u64,
}

impl Default for WallClock {
    fn default() -> WallClock {
        WallClock { step_s: 0, set_ms: 0, right_at_ms: u64::MAX }
    }
}

impl WallClock {
    /// By how much it is ahead now.
    pub fn read(&mut self, now_ms: u64) -> i64 {
        if self.right_at_ms <= now_ms {
            self.set_right(now_ms);
        }
        self.step_s
    }

    /// Ends what was wrong for TSIG.
    pub fn set_right(&mut self, now_ms: u64) {
        if self.right_at_ms != u64::MAX {
            *self = WallClock { set_ms: now_ms, ..WallClock::default() };
        }
    }
}

/// Where the response to an update goes.
#[derive(Clone, Copy, Debug)]
pub enum ReplyTo {
    Client(usize),
    Stream(u64),
}

pub fn now(network: &Network) -> Now {
    Now { s: clock::real_s(), ms: network.now_ms }
}

impl Machine {
    /// Starts the daemon from what the disk has, unless the machine crashes meanwhile.
    pub fn start(&mut self, seed: u64, now_ms: u64) -> Result<(), String> {
        self.starts += 1;
        self.process = Process::start(self, seed, now_ms)?;
        Ok(())
    }

    /// When it has its next turn if somebody asks something of it now.
    pub fn woken_at(&self, now_ms: u64) -> u64 {
        if self.process.is_some() { now_ms } else { self.wakes_at_ms }
    }

    pub fn id(&self) -> ProcessId {
        (self.number, self.starts)
    }

    /// The power fails, or only the process ends.
    pub fn crash(&mut self, random: &mut Random, loses_power: bool) {
        deferred::collect(&mut Vec::new(), || self.process = None);
        for disk in self.disks() {
            if loses_power {
                disk.lose_power(random);
            }
            disk.crash_in(None);
        }
    }

    pub fn disks(&self) -> [&SimulatedDisk; 2] {
        [&self.disk, &self.state_dir]
    }

    pub fn set_full(&self, is_full: bool) {
        self.disks().into_iter().for_each(|disk| disk.set_full(is_full));
    }

    pub fn has_crashed(&self) -> bool {
        self.disks().into_iter().any(SimulatedDisk::has_crashed)
    }
}
