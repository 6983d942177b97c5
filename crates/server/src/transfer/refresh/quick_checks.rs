//! Checks soon after a NOTIFY whose version was not found. RFC 1996 leaves the time of the check to the secondary; but a primary may
//! announce a version before all its processes answer with it, and may refuse queries while it reloads.

use std::collections::HashMap;

use wire::serial::is_later;

/// The time until the first quick check; each further one waits twice as long.
const FIRST_S: u32 = 2;
/// The checks of 30 seconds. Then the timers of the SOA record apply again, so that a NOTIFY of a version that never comes costs little.
const MAX_QUICK_CHECKS: u8 = 4;

/// The zones with a NOTIFY that no check has confirmed yet. Zones without one have no entry.
#[derive(Default)]
pub(super) struct QuickChecks {
    zones: HashMap<u32, Announcement>,
}

struct Announcement {
    /// The latest serial of a NOTIFY, if one had any.
    serial: Option<u32>,
    checks: u8,
}

impl QuickChecks {
    /// A NOTIFY causes a check. It does not prolong the quick checks of one before it.
    pub(super) fn announced(&mut self, zone: u32, serial: Option<u32>) {
        let latest = &mut self.zones.entry(zone).or_insert(Announcement { serial, checks: 0 }).serial;
        if let Some(serial) = serial
            && latest.is_none_or(|latest| is_later(serial, latest))
        {
            *latest = Some(serial);
        }
    }

    /// A check has found this serial, or has failed (`None`): the seconds until the next quick check, if there is one.
    pub(super) fn next_s(&mut self, zone: u32, found: Option<u32>) -> Option<u32> {
        let announcement = self.zones.get_mut(&zone)?;
        let is_confirmed =
            found.is_some_and(|found| !announcement.serial.is_some_and(|serial| is_later(serial, found)));
        if is_confirmed || announcement.checks == MAX_QUICK_CHECKS {
            self.forget(zone);
            return None;
        }
        let wait_s = FIRST_S << announcement.checks;
        announcement.checks += 1;
        Some(wait_s)
    }

    /// The zone is removed, or its announced version was rejected.
    pub(super) fn forget(&mut self, zone: u32) {
        self.zones.remove(&zone);
        if self.zones.is_empty() {
            self.zones.shrink_to_fit(); // It may have held a million zones.
        }
    }
}
