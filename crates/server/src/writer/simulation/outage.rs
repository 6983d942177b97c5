//! A primary that is dead for longer than EXPIRE, and comes back with its disk or with another one.

use super::machine::WallClock;
use super::*;

/// How long a zone is not asked for at a start: it is read from the disk.
const START_MS: u64 = 10_000;
/// How exactly zones expire: seconds are rounded, and a turn may come late.
const SLACK_MS: u64 = 5000;
/// How long timers may take to be stored after the clock was set: a crash before that leaves those of the former clock.
const STORE_TIMERS_MS: u64 = 60_000;

impl World {
    /// All secondaries have every zone until EXPIRE, and none afterwards.
    pub(super) fn outage(&mut self) -> Result<(), String> {
        // Everything was confirmed once more.
        self.run_until(self.network.now_ms + 2 * REFRESH_MS, Phase::Recovery)?;
        let died_ms = self.network.now_ms;
        self.outage_since_ms = Some(died_ms);
        self.crash(PRIMARY, true);
        self.machines[PRIMARY].wakes_at_ms = u64::MAX;
        let end_ms = died_ms + EXPIRE_MS + START_MS + SLACK_MS + self.network.random.below(EXPIRE_MS);
        self.run_until(end_ms, Phase::Outage)?;
        // All machines run: a clock that is set right meanwhile would count as time.
        self.run_until(end_ms + START_MS, Phase::Recovery)?;
        self.count_expired()?;
        self.outage_since_ms = None;
        // A produced catalog has the time as its serial: without its disk, a primary whose clock was ahead has none that is later.
        if self.counts.wrong_clocks == 0 && self.network.random.one_in(2) {
            self.lose_disk_of_primary();
        }
        self.machines[PRIMARY].wakes_at_ms = self.network.now_ms;
        Ok(())
    }

    /// Serials and acknowledged updates begin anew.
    fn lose_disk_of_primary(&mut self) {
        let primary = &mut self.machines[PRIMARY];
        (primary.disk, primary.state_dir) = (new_disk(self.ignored), new_disk(self.ignored));
        self.serials.clear();
        for (number, client) in self.clients.iter_mut().enumerate() {
            *client = Client::new(number, ZONES[number % 2], CLIENT_SERVERS[number]);
        }
        self.operator.disk_was_lost();
    }

    /// A fault of a secondary, none of which may change when zones expire.
    pub(super) fn disturb_secondaries(&mut self) {
        let now_ms = self.network.now_ms;
        let random = &mut self.network.random;
        let number = 1 + random.below(self.machines.len() as u64 - 1) as usize;
        self.next_fault_ms = now_ms + random.below(60_000);
        let is_running = self.machines[number].process.is_some();
        let has_stored = now_ms > self.machines[number].clock.set_ms + STORE_TIMERS_MS;
        match random.below(3) {
            0 if is_running && has_stored => {
                let loses_power = random.one_in(2);
                self.crash(number, loses_power);
            }
            // While it is down, the step would count as time.
            1 if is_running => {
                let step_s = random.below(2 * MAX_WRONG_CLOCK_S as u64) as i64 - MAX_WRONG_CLOCK_S;
                let (set_ms, right_at_ms) = (now_ms, u64::MAX - 1);
                self.machines[number].clock = WallClock { step_s, set_ms, right_at_ms };
                self.machines[number].wakes_at_ms = now_ms;
            }
            _ => {
                let other = 1 + random.below(self.machines.len() as u64 - 1) as usize;
                let until_ms = now_ms + random.below(100_000);
                self.network.cut([number, other], until_ms);
            }
        }
    }

    /// Whether a secondary may or must have expired zones now.
    pub(super) fn check_expiry(&mut self, number: usize, zone: &str, is_expired: bool) -> Result<(), String> {
        let now_ms = self.network.now_ms;
        let (Some(died_ms), Some(process)) = (self.outage_since_ms, &self.machines[number].process) else {
            return match is_expired && self.counts.wrong_clocks == 0 && self.counts.expired == 0 {
                true => Err(format!("{zone} at machine {number} has expired too early")),
                false => Ok(()),
            };
        };
        // Each was confirmed within REFRESH, with an answer that took a moment.
        let first_ms = died_ms + EXPIRE_MS - REFRESH_MS - SLACK_MS;
        let last_ms = died_ms + EXPIRE_MS + SLACK_MS;
        if is_expired && now_ms < first_ms {
            return Err(format!("{zone} at machine {number} has expired {} ms too early", first_ms - now_ms));
        }
        if !is_expired && now_ms > last_ms && now_ms > process.started_ms + START_MS {
            return Err(format!("{zone} at machine {number} should have expired {} ms ago", now_ms - last_ms));
        }
        Ok(())
    }

    fn count_expired(&mut self) -> Result<(), String> {
        for number in PRIMARY + 1..self.machines.len() {
            for zone in &ZONES[..2] {
                self.counts.expired += u32::from(self.is_expired(number, zone) == Some(true));
            }
        }
        match self.counts.expired {
            0 => Err("no zone has expired".into()),
            _ => Ok(()),
        }
    }
}
