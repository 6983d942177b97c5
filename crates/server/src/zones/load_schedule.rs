//! Whose turn it is to be looked at, where several reloads want to have all zones looked at.

/// Goes round all zones, over and over again, as far as looks were asked for. Looks are numbered; who asks for one at
/// every zone waits for all below an [`LoadSchedule::end`].
#[derive(Default)]
pub struct LoadSchedule {
    /// The zone whose turn is next.
    next: usize,
    zones: usize,
    /// The number of the next look.
    looks: u64,
    /// That of the first look that nobody asked for.
    end: u64,
    /// The end when the zones were numbered anew, and the one that stands for it and those before.
    renumbered: (u64, u64),
}

impl LoadSchedule {
    /// Asks for one look at every zone from now on, of so many zones. Where they are not the zones from before, `next` is the
    /// number that the next zone has now: it goes on from there, so that no zone waits for ever while others come and go. Then
    /// everybody who asked waits for all of them: who knows which of them were looked at.
    pub fn ask(&mut self, zones: usize, next: Option<usize>) {
        if let Some(next) = next {
            // What was left is left out, so that numbers only grow.
            (self.next, self.looks) = (if next < zones { next } else { 0 }, self.end);
            self.renumbered = (self.end, self.end + zones as u64);
        }
        self.end = self.looks + zones as u64;
        self.zones = zones;
    }

    /// The zone whose turn is next.
    pub fn position(&self) -> usize {
        self.next
    }

    /// The zone to look at now, and the number of the look.
    pub fn next(&mut self) -> Option<(usize, u64)> {
        if self.left() == 0 {
            return None;
        }
        let next = (self.next, self.looks);
        self.next = (self.next + 1) % self.zones;
        self.looks += 1;
        Some(next)
    }

    /// How many looks are left.
    pub fn left(&self) -> usize {
        (self.end - self.looks) as usize
    }

    /// The number below which all looks are that were asked for.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// What stands for an earlier [`LoadSchedule::end`] now.
    pub fn current(&self, end: u64) -> u64 {
        if end <= self.renumbered.0 { self.renumbered.1 } else { end }
    }

    /// Whether the looks below this number are begun.
    pub fn has_reached(&self, end: u64) -> bool {
        self.looks >= end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(schedule: &mut LoadSchedule, count: usize) -> Vec<usize> {
        (0..count).map_while(|_| schedule.next()).map(|(zone, _)| zone).collect()
    }

    #[test]
    fn every_zone_has_its_turn_for_everybody_who_asks() {
        let mut schedule = LoadSchedule::default();
        schedule.ask(4, Some(0));
        let first = schedule.end();
        assert_eq!(looks(&mut schedule, 3), [0, 1, 2]);
        schedule.ask(4, None);
        let second = schedule.end();
        assert_eq!(looks(&mut schedule, 1), [3]);
        assert!(schedule.has_reached(schedule.current(first)) && !schedule.has_reached(schedule.current(second)));
        assert_eq!(looks(&mut schedule, 9), [0, 1, 2]);
        assert!(schedule.has_reached(schedule.current(second)));
    }

    #[test]
    fn other_zones_are_looked_at_from_where_it_is() {
        let mut schedule = LoadSchedule::default();
        schedule.ask(9, Some(0));
        let first = schedule.end();
        assert_eq!(looks(&mut schedule, 2), [0, 1]);
        schedule.ask(3, Some(1));
        assert_eq!((schedule.left(), schedule.current(first)), (3, schedule.end()));
        assert_eq!(looks(&mut schedule, 9), [1, 2, 0]);
        assert!(schedule.has_reached(schedule.current(first)));
        schedule.ask(0, Some(0));
        assert_eq!(schedule.next(), None);
        assert!(schedule.has_reached(schedule.current(first)));
    }
}
