//! When the zones of a restart are checked: soon, but not all at once.

/// The last second that checks of restored zones were put into.
#[derive(Default)]
pub(super) struct RestoredChecks {
    pub(super) second: u32,
    checks: u32,
}

/// Checks of restored zones per second. A million zones take 17 minutes, and a percent of a core here and at their primary.
const PER_SECOND: u32 = 1000;

impl RestoredChecks {
    /// The second for the check of one more restored zone.
    pub(super) fn next_s(&mut self, now_s: u32) -> u32 {
        if self.second < now_s {
            (self.second, self.checks) = (now_s, 0);
        } else if self.checks == PER_SECOND {
            (self.second, self.checks) = (self.second.saturating_add(1), 0);
        }
        self.checks += 1;
        self.second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restored_zones_are_checked_soon_but_not_all_at_once() {
        let mut checks = RestoredChecks::default();
        let seconds: Vec<u32> = (0..2500).map(|_| checks.next_s(100)).collect();
        assert_eq!((seconds[0], seconds[999], seconds[1000], seconds[2499]), (100, 100, 101, 102));
        assert_eq!((checks.next_s(101), checks.next_s(500)), (102, 500));
    }
}
