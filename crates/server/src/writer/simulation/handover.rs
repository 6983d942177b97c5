//! A secondary becomes the primary of a zone, and its primary a secondary of it; in some runs both change back.

use super::configs::{HANDED_OVER, handed_over};
use super::*;

/// The zone, by its number.
const ZONE: usize = 0;
/// The machine that takes the zone over.
const MIDDLE: usize = 1;
/// How long both may take for the new configuration, with a restart.
const RECONFIGURE_MS: u64 = 20_000;

impl World {
    /// All machines are equal before; then machines fail again while clients update the zone at its new primary.
    pub(super) fn hand_over(&mut self) -> Result<(), String> {
        let has_file = self.network.random.one_in(2);
        self.change_primary(MIDDLE, has_file)?;
        self.recover()?;
        if self.network.random.one_in(2) {
            // An old file is there, which would win over what a primary has sent.
            self.change_primary(PRIMARY, true)?;
            self.recover()?;
        }
        Ok(())
    }

    /// Makes a machine the primary, as the manual says: its file is the exported zone. Without that at first, the file appears later, when
    /// it is old, and must not win over updates.
    fn change_primary(&mut self, new: usize, has_file: bool) -> Result<(), String> {
        let text = self.machines[new].process.as_ref().and_then(|process| process.export(ZONES[ZONE]));
        let text = text.ok_or("the next primary does not serve the zone")?;
        let folder = self.machines[new].config.parent().expect("a file").to_owned();
        let folder = if new == PRIMARY { folder } else { folder.join(HANDED_OVER) };
        fs::create_dir_all(&folder).expect("space");
        let write_file = || replace_text(&folder, "a.example", &text);
        if has_file {
            write_file();
        }
        for number in [PRIMARY, MIDDLE] {
            let text = if new == PRIMARY { CONFIGS[number].to_owned() } else { handed_over(number) };
            self.reconfigure(number, &text, has_file);
        }
        self.run_until(self.network.now_ms + RECONFIGURE_MS, Phase::Recovery)?;
        self.primaries[ZONE] = new;
        for (number, client) in self.clients.iter_mut().enumerate().filter(|(number, _)| number % 2 == ZONE) {
            client.server = if new == PRIMARY { CLIENT_SERVERS[number] } else { new };
        }
        self.counts.handovers += 1;
        self.run_until(self.network.now_ms + FAULTS_MS / 2, Phase::Faults)?;
        if !has_file {
            write_file();
        }
        self.run_until(self.network.now_ms + FAULTS_MS / 2, Phase::Faults)
    }

    /// Has a machine take a configuration, by a reload or a restart.
    fn reconfigure(&mut self, number: usize, text: &str, may_lose_power: bool) {
        let folder = self.machines[number].config.parent().expect("a file").to_owned();
        let text = config_text(text, &folder);
        fs::write(&self.machines[number].config, &text).expect("space");
        if number == PRIMARY {
            self.operator.config_was_changed(text);
        }
        match self.network.random.below(3) {
            0 => self.crash(number, may_lose_power),
            _ => {
                self.operator.reload(&mut self.machines[number]);
                self.machines[number].wakes_at_ms = self.network.now_ms;
            }
        }
    }
}
