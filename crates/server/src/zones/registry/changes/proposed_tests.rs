//! Changes that are computed from the version that they are applied to.

use std::sync::mpsc::channel;

use zone::change::ChangeSet;

use super::tests::{RULES, Results, TestJournal, change_set};
use super::*;
use crate::zones::registry::tests::Bench;

impl Bench {
    /// Begins a change to the serial after that of the version that it is applied to; none if that is `unless` already.
    fn compute(&mut self, unless: u32, is_large: bool) -> Results {
        let (sender, results) = channel();
        let done = Box::new(move |result| _ = sender.send(result));
        let compute = Box::new(move |zone: &Zone| match zone.serial() {
            serial if serial == unless => Ok(ChangeSet::new(zone.apex())),
            serial => Ok(change_set("a.", serial, serial + 1, 1)),
        });
        let (zone, change) = (self.id("a."), ProposedChange::Computed { compute, is_large });
        self.zones.change(ZoneChange { zone, change, rules: RULES, order: PublishOrder::AfterSync, done });
        results
    }
}

/// A repeated update changes nothing, but must not be acknowledged before the first one is on disk.
#[test]
fn what_changes_nothing_is_reported_when_the_changes_before_it_are_on_disk() {
    let mut bench = Bench::loaded(&["a.", "b."]);
    bench.zones.set_journal(Box::new(TestJournal::default()));
    let same = |serial| ChangedZone { old_serial: serial, serial };
    let early = bench.compute(1, false);
    bench.step();
    assert_eq!(early.try_recv().expect("nothing is before it").expect("it is valid"), same(1));
    let (first, nothing, second) = (bench.compute(9, false), bench.compute(2, false), bench.compute(9, false));
    bench.step();
    assert!([&first, &nothing, &second].iter().all(|results| results.try_recv().is_err()));
    bench.zones.durable(1);
    bench.step();
    assert!(first.try_recv().is_ok() && second.try_recv().is_err());
    assert_eq!(nothing.try_recv().expect("it is reported").expect("it is valid"), same(2));
    assert_eq!(bench.serial("a."), Some(2));
    bench.zones.durable(2);
    bench.step();
    assert_eq!((second.try_recv().is_ok(), bench.serial("a.")), (true, Some(3)));
}

#[test]
fn changes_behind_a_large_one_are_computed_from_its_result() {
    let mut bench = Bench::loaded(&["a.", "b."]);
    let results: Vec<Results> = (0..6).map(|number| bench.compute(4, number % 2 == 0)).collect();
    bench.run_until(|bench| bench.serial("a.") == Some(4));
    // Two of the six find the version that they lead to.
    bench.run_until(|bench| bench.zones.changes.work.is_empty() && bench.zones.changes.published.is_empty());
    let serials: Vec<u32> =
        results.iter().map(|results| results.try_recv().expect("reported").expect("valid").serial).collect();
    assert_eq!(serials, [2, 3, 4, 4, 4, 4]);
}
