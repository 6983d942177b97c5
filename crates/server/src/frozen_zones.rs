//! The names of frozen zones, in a file of the state-dir: they stay frozen when zonda is restarted.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use tracing::error;
use wire::Name;

use crate::replace_file::replace_in;
use crate::state_dir::FROZEN_ZONES;
use crate::storage::disk::{Disk, read_all};
use crate::write_help::write_help;

/// Has the file written by a thread of its own: its disk may hang, and everything else goes on.
#[derive(Clone)]
pub struct FrozenZones(Sender<StoreRequest>);

/// Who waits until the names are stored, if anybody. Receives an empty message, or why they are not.
type StoreRequest = Option<SyncSender<Result<(), String>>>;

impl FrozenZones {
    /// Starts the thread, which writes the names that `names` returns at that moment. If it returns none, the server is about to end, and the
    /// file stays as it is.
    pub fn start(
        state_dir: impl Disk,
        names: impl Fn() -> Option<Vec<Name>> + Send + 'static,
    ) -> io::Result<FrozenZones> {
        let (sender, requests) = channel();
        let store = move || store_as_requested(&state_dir, names, &requests);
        thread::Builder::new().name("frozen-zones".into()).spawn(store)?;
        Ok(FrozenZones(sender))
    }

    /// Stores them soon: a frozen zone was removed, and another one of its name must not be frozen after a restart.
    pub fn store_soon(&self) {
        // Fails only if the thread has panicked.
        _ = self.0.send(None);
    }

    /// Stores them and waits for that, but no longer than `max_wait`.
    pub fn store(&self, max_wait: Duration) -> Result<(), String> {
        let (sender, stored) = sync_channel(1);
        _ = self.0.send(Some(sender));
        match stored.recv_timeout(max_wait) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(format!(
                "`{FROZEN_ZONES}` in the state-dir is not written: its disk has not answered for {} s",
                max_wait.as_secs()
            )),
            Err(RecvTimeoutError::Disconnected) => Err("the thread that stores frozen zones has ended".into()),
        }
    }
}

/// Writes the file once for all requests that wait.
fn store_as_requested(state_dir: &impl Disk, names: impl Fn() -> Option<Vec<Name>>, requests: &Receiver<StoreRequest>) {
    while let Ok(first) = requests.recv() {
        let waiting: Vec<_> = [first].into_iter().chain(requests.try_iter()).flatten().collect();
        let result = names().map_or(Ok(()), |names| write(state_dir, &names));
        let result = result.map_err(|error| {
            let help = write_help(&error, "the state-dir");
            error!(
                help,
                "`{FROZEN_ZONES}` in the state-dir cannot be written: {error}; a restart will not know which zones are frozen now"
            );
            format!("`{FROZEN_ZONES}` in the state-dir cannot be written: {error}; {help}")
        });
        // A client that has left gets no reply.
        waiting.into_iter().for_each(|reply| _ = reply.send(result.clone()));
    }
}

fn write(state_dir: &impl Disk, names: &[Name]) -> io::Result<()> {
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    replace_in(state_dir, FROZEN_ZONES, text.as_bytes())
}

/// The names in the file; none if there is no file. Lines that are not names are skipped.
pub fn read(state_dir: &impl Disk) -> io::Result<HashSet<Name>> {
    let text = match state_dir.open(FROZEN_ZONES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashSet::new()),
        file => read_all(&file?)?,
    };
    // Damage of one line loses that line, not the start of the daemon.
    Ok(String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| line.parse::<Name>().ok())
        .map(|name| name.to_lowercase())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated_disk::{Random, SimulatedDisk, SyncSite};

    fn names(count: u64) -> Vec<Name> {
        (0..count).map(|number| format!("zone{number}.example.").parse().expect("a name")).collect()
    }

    /// A disk that hangs: here, the names are not there in time.
    #[test]
    fn nobody_waits_longer_than_wanted() {
        let disk = SimulatedDisk::default();
        let (release, released) = sync_channel::<()>(0);
        let slow_names = move || {
            _ = released.recv();
            Some(names(1))
        };
        let frozen = FrozenZones::start(disk.clone(), slow_names).expect("a thread");
        let late = frozen.store(Duration::from_millis(20)).expect_err("it hangs");
        assert!(late.contains("has not answered"), "{late}");
        drop(release);
        assert_eq!(frozen.store(Duration::from_secs(60)), Ok(()));
        assert_eq!(read(&disk).expect("a file"), HashSet::from_iter(names(1)));
    }

    /// Writes more names at each start, on a machine that loses power; syncs at the site `ignored` do nothing.
    fn run(seed: u64, ignored: Option<SyncSite>) -> Result<Vec<SyncSite>, String> {
        let (disk, mut random) = (SimulatedDisk::default(), Random::new(seed));
        disk.ignore(ignored);
        let mut stored = 0;
        for count in 1..20 {
            disk.crash_in(Some(1 + random.below(12)));
            let is_stored = write(&disk, &names(count)).is_ok();
            disk.crash_in(None);
            disk.lose_power(&mut random);
            let found = read(&disk).map_err(|error| error.to_string())?.len() as u64;
            let possible = if is_stored { count..=count } else { stored..=count };
            if !possible.contains(&found) || found != stored && found != count {
                return Err(format!("{found} names instead of {possible:?}"));
            }
            stored = found;
        }
        Ok(disk.sites().into_keys().collect())
    }

    #[test]
    fn no_sync_can_be_left_out() {
        let run_checked = |seed| run(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let mut sites: Vec<SyncSite> = (0..100).flat_map(run_checked).collect();
        sites.sort_unstable();
        sites.dedup();
        assert_eq!(sites.len(), 2, "{sites:?}");
        for site in sites {
            assert!((0..100).any(|seed| run(seed, Some(site)).is_err()), "nothing depends on the sync at {site:?}");
        }
    }
}
