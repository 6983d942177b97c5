//! What is served of zones that are in the journal, and of secondaries that have a file.

use std::sync::Mutex;

use super::tests::{Bench, loaded, with_primary_key};
use super::*;
use crate::clock;
use crate::storage::Timers;
use crate::zone_status::ZoneServingState;
use crate::zones::journal::{JournalEvent, RestoredZone};
use crate::zones::template_set::TemplateSource;
use crate::zones::zone_entry::Acls;
use crate::zones::zone_origin::ZoneOrigin;

/// Has a version of every zone, with these timers, which it keeps.
struct StoredJournal(Arc<Mutex<Option<Timers>>>);

impl ZoneJournal for StoredJournal {
    fn restore(&mut self, _: ZoneId, _: NameRef<'_>, _: u64) -> bool {
        true
    }

    fn set_timers(&mut self, _: ZoneId, _: NameRef<'_>, timers: Timers) {
        *self.0.lock().expect("no panic") = Some(timers);
    }
}

/// Has a version of one zone, until it is asked for.
struct OneVersionJournal(bool);

impl ZoneJournal for OneVersionJournal {
    fn restore(&mut self, _: ZoneId, _: NameRef<'_>, _: u64) -> bool {
        std::mem::take(&mut self.0)
    }
}

/// The server may have been killed after the catalog was stored, and before the zone was removed.
#[test]
fn rfc_9432_5_4_a_stored_member_that_has_another_label_begins_anew() {
    let stored = Arc::new(Mutex::new(Some(Timers { expires_at_s: clock::real_s() + 60, ..Timers::default() })));
    // The first label is not known: an earlier version of zonda did not store it.
    for (label, serial) in [(b"1", 5), (b"1", 5), (b"2", 0)] {
        let mut bench = Bench::new(&[]);
        bench.zones.set_journal(Box::new(StoredJournal(Arc::clone(&stored))));
        let config = with_primary_key("a.", "key.");
        let extras = Acls::default().of(&config.source.policy);
        let template = TemplateSource { source: Arc::new(config.source), extras };
        let catalog: Name = "catalog.".parse().expect("a name");
        let origin = ZoneOrigin::Member { catalog, group: None, template: "default".into() };
        let apex = config.name;
        let id = bench.zones.add_member(apex.clone(), &template, origin, label).expect("it is new");
        let version = loaded(apex.as_ref(), 5).zone.expect("a version");
        let timers = *stored.lock().expect("no panic");
        let restored = RestoredZone { version, history: Vec::new(), timers };
        bench.zones.handle_journal(JournalEvent::Restored(id, Some(Box::new(restored))));
        bench.zones.step(Instant::now());
        bench.zones.publish();
        assert_eq!(bench.serial("a."), Some(serial), "{label:?}");
    }
}

/// RFC 1034 4.3.5: EXPIRE must not begin anew with each restart.
#[test]
fn a_restored_secondary_without_times_is_served_once_a_primary_confirms_it() {
    let now_s = clock::real_s();
    let of_secondary = |expires_at_s| Some(Timers { expires_at_s, ..Timers::default() });
    let of_file = Some(Timers::of_file(7, 5));
    for (timers, serial) in [(None, 0), (of_secondary(now_s - 1), 0), (of_secondary(now_s + 60), 5), (of_file, 5)] {
        let mut bench = Bench::new(&[]);
        let stored = Arc::new(Mutex::new(timers));
        bench.zones.set_journal(Box::new(StoredJournal(Arc::clone(&stored))));
        bench.zones.configure([with_primary_key("a.", "key.")].into());
        bench.zones.step(Instant::now());
        let id = bench.restore("a.", 5, timers);
        bench.zones.step(Instant::now());
        bench.zones.publish();
        assert_eq!(bench.serial("a."), Some(serial), "{timers:?}");
        // With its file, the primary was this server.
        let kept = stored.lock().expect("no panic").expect("they are known from now on");
        assert!(kept.is_of_secondary() && (kept.expires_at_s > now_s) == (serial == 5), "{kept:?}");
        bench.zones.refreshed(id, now_s + 60);
        bench.zones.step(Instant::now());
        bench.zones.publish();
        assert_eq!(bench.serial("a."), Some(5));
    }
}

/// RFC 1034 4.3.5: a copy lives until EXPIRE without contact to a primary, who is asked from its serial. The file of a secondary only starts it.
#[test]
fn the_file_of_a_secondary_does_not_replace_what_a_primary_sent() {
    let mut bench = Bench::new(&[]);
    let configure = |bench: &mut Bench| {
        bench.zones.configure([with_primary_key("a.", "key.")].into());
        bench.zones.step(Instant::now());
    };
    for serial in [1, 2] {
        bench.gate.open("file", serial);
        configure(&mut bench);
        bench.run_until(|bench| bench.serial("a.") == Some(serial));
    }
    let apex: Name = "a.".parse().expect("a name");
    let id = bench.zones.find(apex.as_ref()).expect("it is configured");
    let send = |bench: &mut Bench, serial| {
        let version = loaded(apex.as_ref(), serial).zone.expect("a version");
        let base = bench.zones.version_or_expired(id).cloned();
        assert!(bench.zones.serve_transferred(id, base.as_ref(), version, &[]));
        bench.zones.publish();
    };
    // The third look begins before the transfer ends.
    configure(&mut bench);
    bench.run_until(|bench| bench.gate.begun("file") == 3);
    send(&mut bench, 5);
    bench.gate.open("file", 7);
    bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!(bench.serial("a."), Some(5));
    bench.gate.open("file", 7);
    configure(&mut bench);
    bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!((bench.serial("a."), bench.gate.begun("file")), (Some(5), 3));
    bench.zones.expire(id);
    configure(&mut bench);
    bench.run_until(|bench| bench.zones.is_idle());
    bench.zones.publish();
    assert_eq!((bench.serial("a."), bench.gate.begun("file")), (Some(0), 3), "an expired zone stays expired");
    send(&mut bench, 6);
    assert_eq!(bench.serial("a."), Some(6));
}

#[test]
fn a_zone_whose_stored_version_is_being_read_is_loading() {
    let mut bench = Bench::new(&[]);
    bench.zones.set_journal(Box::new(OneVersionJournal(true)));
    bench.configure(&[("a.", "a")]);
    let id = bench.id("a.");
    let state = |bench: &Bench| bench.zones.status_at(id.index as usize).map(|(_, status)| status.state);
    assert_eq!(state(&bench), Some(ZoneServingState::Loading));
    bench.zones.handle_journal(JournalEvent::Restored(id, None));
    bench.gate.open("a", 1);
    bench.run_until(|bench| bench.zones.is_idle());
    assert_eq!(state(&bench), Some(ZoneServingState::Serving));
}

/// RFC 1034 4.3.5: an expired zone stays so over a restart, and one that is served has the serial that its primaries are asked from.
#[test]
fn the_file_of_a_secondary_does_not_replace_what_is_stored() {
    let now_s = clock::real_s();
    let of_secondary = |expires_at_s| Some(Timers { expires_at_s, ..Timers::default() });
    for (timers, serial) in [(of_secondary(now_s - 1), 0), (of_secondary(now_s + 60), 5)] {
        let mut bench = Bench::new(&[]);
        bench.zones.set_journal(Box::new(OneVersionJournal(true)));
        bench.gate.open("file", 7);
        bench.zones.configure([with_primary_key("a.", "key.")].into());
        bench.zones.step(Instant::now());
        bench.restore("a.", 5, timers);
        bench.run_until(|bench| bench.zones.is_idle());
        bench.zones.publish();
        assert_eq!((bench.serial("a."), bench.gate.begun("file")), (Some(serial), 0), "{timers:?}");
    }
}
