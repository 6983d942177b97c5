//! Catalogs and the registry without sockets: hostile catalogs, and many members.

#[path = "../../benches/catalog/fixture.rs"]
mod fixture;
mod produced;

use std::collections::BTreeSet;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use fixture::{configured, name, version};
use zone::Zone;
use zone::catalog::{self, CatalogMember};

use super::*;
use crate::storage::Timers;
use crate::zones::journal::ZoneJournal;
use crate::zones::zone_origin::{Membership, catalog_fingerprint};

const CONFIG: &str = "[template.default]\nprimaries = [\"192.0.2.1\"]\n\
                      [[zone]]\nname = \"c.\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consume\"\n\
                      [[zone]]\nname = \"d.\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consume\"\n";

struct Bench {
    zones: ZoneRegistry,
    catalogs: Catalogs,
    events: Receiver<CatalogEvent>,
    /// The most zones that one step added or removed.
    largest_step: usize,
    /// Changes of produced catalogs that were refused.
    refused: usize,
}

fn member(label: &[u8], zone: Name) -> CatalogMember {
    CatalogMember { label: label.into(), zone, groups: Vec::new(), change_of_ownership: None }
}

impl Bench {
    fn new() -> Bench {
        Bench::configured(CONFIG)
    }

    fn configured(config: &str) -> Bench {
        let (zones, catalogs, events) = configured(config);
        Bench { zones, catalogs, events, largest_step: 0, refused: 0 }
    }

    /// A zone that is there.
    fn id(&self, zone: &str) -> ZoneId {
        self.zones.find(name(zone).as_ref()).expect("it is there")
    }

    fn count(&self) -> usize {
        let (served, not_served) = self.zones.counts();
        served + not_served
    }

    /// One turn of the writer; waits a little for the pool.
    fn step(&mut self, now: Instant) {
        self.zones.take_notices().into_iter().for_each(|notice| self.catalogs.notice(notice, &self.zones));
        if !self.catalogs.step(&mut self.zones, now)
            && let Ok(event) = self.events.recv_timeout(Duration::from_millis(5))
        {
            self.refused += usize::from(matches!(event, CatalogEvent::Changed(_, Err(_))));
            self.catalogs.handle(event);
        }
        self.zones.step(now);
    }

    fn run_until(&mut self, now: Instant, is_done: impl Fn(&Bench) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_done(self) {
            assert!(Instant::now() < end, "it takes too long");
            self.step(now);
        }
    }

    /// Serves a version of a catalog, and does all that follows.
    fn publish(&mut self, catalog: &str, version: Zone) {
        let id = self.zones.find(name(catalog).as_ref()).expect("it is configured");
        let serial = version.serial();
        self.zones.replace(id, version, &[]);
        let end = Instant::now() + Duration::from_secs(60);
        let apex = name(catalog);
        let is_processed = |catalogs: &Catalogs| {
            catalogs.processed_serial(apex.as_ref()) == Some(serial) || catalogs.problem(apex.as_ref()).is_some()
        };
        loop {
            let before = self.count();
            let notices = self.zones.take_notices();
            let has_notices = !notices.is_empty();
            notices.into_iter().for_each(|notice| self.catalogs.notice(notice, &self.zones));
            let is_busy = self.catalogs.step(&mut self.zones, Instant::now());
            self.largest_step = self.largest_step.max(self.count().abs_diff(before));
            self.zones.step(Instant::now());
            if is_busy || has_notices {
                continue;
            }
            match self.events.recv_timeout(Duration::from_millis(300)) {
                Ok(event) => self.catalogs.handle(event),
                Err(_) if is_processed(&self.catalogs) => return,
                // A job of the pool is not done.
                Err(_) => assert!(Instant::now() < end, "it takes too long"),
            }
        }
    }

    fn owner(&self, zone: &str) -> Option<String> {
        let id = self.zones.find(name(zone).as_ref())?;
        match self.zones.origin(id)? {
            ZoneOrigin::Member { catalog, .. } => Some(catalog.to_string()),
            origin => Some(format!("{origin:?}")),
        }
    }
}

#[test]
fn many_members_are_added_and_removed_in_small_steps() {
    let mut bench = Bench::new();
    let members = |range: std::ops::Range<u32>| {
        range.map(|number| {
            let zone = name(&format!("m{number}.example."));
            member(&catalog::unique_label(zone.as_ref()), zone)
        })
    };
    bench.publish("c.", version("c.", 1, members(0..20_000)));
    assert_eq!(bench.count(), 20_002);
    bench.publish("c.", version("c.", 2, members(5_000..20_001)));
    assert_eq!(
        (bench.count(), bench.owner("m5.example."), bench.owner("m20000.example.")),
        (15_003, None, Some("c.".into()))
    );
    assert!(bench.largest_step <= member_work::STEP, "{}", bench.largest_step);
    bench.publish("c.", version("c.", 3, []));
    assert_eq!(bench.count(), 2);
    assert_eq!(bench.catalogs.listings(name("m7.example.").as_ref(), None), []);
}

#[test]
fn a_hostile_catalog_harms_no_zone_of_the_configuration() {
    let mut bench = Bench::new();
    let long = Name::from_wire(&[&[63; 64][..], &[63; 64], &[63; 64], &[61; 62], &[0]].concat()).expect("255 octets");
    let hostile = [
        member(b"self", name("c.")),
        member(b"other", name("d.")),
        member(b"root", Name::root()),
        member(b"a.b \0\xff\"", name("odd.example.")),
        member(&[b'x'; 63], long.clone()),
        member(b"below", name("1.zones.c.")),
        member(b"zones", name("zones.")),
        CatalogMember { change_of_ownership: Some(name("c.")), ..member(b"loop", name("loop.example.")) },
        CatalogMember {
            groups: vec![[b'g'; 2000].into(), [0xff; 9].into()],
            ..member(b"groups", name("groups.example."))
        },
    ];
    bench.publish("c.", version("c.", 1, hostile));
    for zone in ["odd.example.", ".", "1.zones.c.", "zones.", "loop.example.", "groups.example."] {
        assert_eq!(bench.owner(zone).as_deref(), Some("c."), "{zone}");
    }
    assert!(bench.zones.find(long.as_ref()).is_some());
    for zone in ["c.", "d."] {
        assert_eq!(bench.owner(zone).as_deref(), Some("Configured"));
        let listings = bench.catalogs.listings(name(zone).as_ref(), None);
        assert_eq!(listings[0].problem.as_deref(), Some("the zone is configured itself"));
    }
    bench.publish("c.", version("c.", 2, []));
    assert_eq!(bench.count(), 2, "the catalogs themselves");
}

/// RFC 9432 4.3.1, 5.4: data is kept only under the same label.
#[test]
fn a_member_with_another_label_starts_anew() {
    let mut bench = Bench::new();
    let id = |bench: &Bench, zone: &str| bench.zones.find(name(zone).as_ref()).expect("a member");
    let leaving =
        |label: &[u8], zone: &str| CatalogMember { change_of_ownership: Some(name("d.")), ..member(label, name(zone)) };
    bench.publish("c.", version("c.", 1, [member(b"1", name("x.")), leaving(b"2", "y."), leaving(b"3", "z.")]));
    let [x, y, z] = ["x.", "y.", "z."].map(|zone| id(&bench, zone));
    bench.publish("c.", version("c.", 2, [member(b"9", name("x.")), leaving(b"2", "y."), leaving(b"3", "z.")]));
    assert_ne!(id(&bench, "x."), x, "another label in the same catalog");
    bench.publish("d.", version("d.", 1, [member(b"2", name("y.")), member(b"8", name("z."))]));
    assert_eq!((bench.owner("y.").as_deref(), bench.owner("z.").as_deref()), (Some("d."), Some("d.")));
    assert_eq!(id(&bench, "y."), y, "the same label");
    assert_ne!(id(&bench, "z."), z, "another label");
}

/// Has timers of a zone from before the restart.
struct StoredMember(Name, Timers);

impl ZoneJournal for StoredMember {
    fn stored_timers(&self, apex: NameRef<'_>) -> Option<Timers> {
        (self.0.as_ref() == apex).then_some(self.1)
    }
}

/// RFC 9432 5.2: the instance that exists wins, and it has existed since before the restart.
#[test]
fn rfc_9432_5_2_a_member_waits_for_the_catalog_that_it_had_before_a_restart() {
    for (members, owner) in [(vec![member(b"1", name("x."))], "d."), (Vec::new(), "c.")] {
        let mut bench = Bench::new();
        let membership = Membership { catalog: catalog_fingerprint(name("d.").as_ref()), label: 0 };
        let timers = Timers { expires_at_s: 1, fingerprint: membership.to_stored(), ..Timers::default() };
        bench.zones.set_journal(Box::new(StoredMember(name("x."), timers)));
        bench.publish("c.", version("c.", 1, [member(b"1", name("x.")), member(b"2", name("y."))]));
        assert_eq!((bench.owner("x."), bench.owner("y.").as_deref()), (None, Some("c.")));
        let problem = bench.catalogs.listings(name("x.").as_ref(), None)[0].problem.clone();
        assert_eq!(problem.as_deref(), Some("the zone is a member of the catalog d."));
        assert!(!bench.catalogs.are_settled());
        bench.publish("d.", version("d.", 1, members));
        assert_eq!(bench.owner("x.").as_deref(), Some(owner));
        assert!(bench.catalogs.are_settled());
    }
    // Without that catalog, the zone is free.
    let mut bench = Bench::new();
    let timers = Timers { expires_at_s: 1, fingerprint: u64::MAX, ..Timers::default() };
    bench.zones.set_journal(Box::new(StoredMember(name("x."), timers)));
    bench.publish("c.", version("c.", 1, [member(b"1", name("x."))]));
    assert_eq!(bench.owner("x.").as_deref(), Some("c."));
}

/// The primary of the catalog that has the zone may not answer for days, while reloads and new versions place the members of the other one again.
#[test]
fn a_zone_is_kept_once_for_the_catalog_that_it_had_before_a_restart() {
    let mut bench = Bench::new();
    let membership = Membership { catalog: catalog_fingerprint(name("d.").as_ref()), label: 0 };
    let timers = Timers { expires_at_s: 1, fingerprint: membership.to_stored(), ..Timers::default() };
    bench.zones.set_journal(Box::new(StoredMember(name("x."), timers)));
    for serial in 1..4 {
        bench.publish("c.", version("c.", serial, [member(&[b'0' + serial as u8], name("x."))]));
        assert_eq!((bench.owner("x."), bench.catalogs.placements.kept()), (None, 1), "serial {serial}");
    }
}

/// Keeps owners as the journal does.
#[derive(Clone, Default)]
struct Owners(Arc<Mutex<BTreeMap<Name, u32>>>);

impl Owners {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, u32>> {
        self.0.lock().expect("no test panics with it")
    }
}

impl ZoneJournal for Owners {
    fn stored_owner(&self, apex: NameRef<'_>) -> Option<u32> {
        self.lock().get(&apex.to_owned()).copied()
    }

    fn keep_owner(&mut self, apex: NameRef<'_>, catalog: u32) {
        self.lock().insert(apex.to_owned(), catalog);
    }

    fn forget_owner(&mut self, apex: NameRef<'_>) {
        self.lock().remove(&apex.to_owned());
    }
}

/// RFC 9432 5.2, 5.4: with another label it is a new zone, of the same catalog. The other one may be the first that a restart reads.
#[test]
fn rfc_9432_5_2_a_member_with_another_label_keeps_its_owner_over_a_restart() {
    let (mut bench, owners) = (Bench::new(), Owners::default());
    bench.zones.set_journal(Box::new(owners.clone()));
    bench.publish("c.", version("c.", 1, [member(b"1", name("x."))]));
    assert_eq!(*owners.lock(), BTreeMap::new());
    bench.publish("d.", version("d.", 1, [member(b"1", name("x."))]));
    let kept = BTreeMap::from([(name("x."), catalog_fingerprint(name("c.").as_ref()))]);
    assert_eq!(*owners.lock(), kept);
    bench.publish("c.", version("c.", 2, [member(b"2", name("x."))]));
    assert_eq!((bench.owner("x.").as_deref(), owners.lock().clone()), (Some("c."), kept));
    bench.publish("c.", version("c.", 3, []));
    assert_eq!((bench.owner("x.").as_deref(), owners.lock().clone()), (Some("d."), BTreeMap::new()));
}

/// RFC 9432 5.4: it is "immediately followed by processing the member as a newly configured zone in the same catalog".
#[test]
fn rfc_9432_5_4_a_member_with_another_label_stays_in_its_catalog() {
    let mut bench = Bench::new();
    let id = |bench: &Bench| bench.id("x.");
    bench.publish("c.", version("c.", 1, [member(b"1", name("x."))]));
    bench.publish("d.", version("d.", 1, [member(b"1", name("x."))]));
    let x = id(&bench);
    // Labels sort before and after the one that is replaced, and go from one zone to another.
    for (serial, members) in [
        (2, vec![member(b"9", name("x."))]),
        (3, vec![member(b"0", name("x."))]),
        (4, vec![member(b"1", name("x.")), member(b"0", name("y."))]),
        (5, vec![member(b"0", name("x.")), member(b"1", name("y."))]),
    ] {
        let before = id(&bench);
        bench.publish("c.", version("c.", serial, members));
        assert_eq!(bench.owner("x.").as_deref(), Some("c."), "serial {serial}");
        assert_ne!(id(&bench), before, "serial {serial}");
    }
    assert_ne!(id(&bench), x);
    bench.publish("c.", version("c.", 6, []));
    assert_eq!(bench.owner("x.").as_deref(), Some("d."), "a zone that is no member is free");
}

/// A server that starts serves a stored catalog, and its primary may send the next version before the members are placed. What it is to
/// reset is then still in the journal.
#[test]
fn rfc_9432_5_4_a_label_that_changes_before_the_first_members_are_placed_is_noticed() {
    let mut bench = Bench::new();
    let catalog = bench.id("c.");
    let id = |bench: &Bench| bench.zones.find(name("x.").as_ref());
    bench.zones.replace(catalog, version("c.", 1, [member(b"1", name("x."))]), &[]);
    while bench.catalogs.consumed[&name("c.")].is_idle() {
        bench.step(Instant::now());
    }
    bench.zones.replace(catalog, version("c.", 2, [member(b"2", name("x."))]), &[]);
    bench.run_until(Instant::now(), |bench| id(bench).is_some());
    let first = id(&bench);
    let is_processed = |bench: &Bench| bench.catalogs.processed_serial(name("c.").as_ref()) == Some(2);
    bench.run_until(Instant::now(), is_processed);
    assert_ne!(id(&bench), first, "the member of the first version was placed, and removed");
}

/// RFC 9432 4.3.1: the old catalog may set `coo` before or after the new one lists the zone. RFC 9432 6 (consumers): data is kept.
#[test]
fn a_member_goes_to_the_catalog_that_listed_it_before_the_change_of_ownership_was_set() {
    let mut bench = Bench::new();
    let id = |bench: &Bench| bench.id("x.");
    let leaving = |to| CatalogMember { change_of_ownership: Some(name(to)), ..member(b"1", name("x.")) };
    bench.publish("c.", version("c.", 1, [member(b"1", name("x."))]));
    let x = id(&bench);
    // Only the catalog that the zone is served for passes it on.
    bench.publish("d.", version("d.", 1, [leaving("d.")]));
    assert_eq!(bench.owner("x.").as_deref(), Some("c."));
    bench.publish("c.", version("c.", 2, [leaving("d.")]));
    assert_eq!((bench.owner("x.").as_deref(), id(&bench)), (Some("d."), x));
    bench.publish("c.", version("c.", 3, []));
    assert_eq!((bench.owner("x.").as_deref(), id(&bench)), (Some("d."), x));
}

/// RFC 9432 4.3.1: any catalog may claim that a zone goes elsewhere; only its owner may say so.
#[test]
fn a_catalog_that_does_not_own_a_member_does_not_change_where_it_goes() {
    let zone = "[[zone]]\nname = \"e.\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consume\"\n";
    let mut bench = Bench::configured(&format!("{CONFIG}{zone}"));
    let leaving = |to| CatalogMember { change_of_ownership: Some(name(to)), ..member(b"1", name("x.")) };
    bench.publish("c.", version("c.", 1, [leaving("d.")]));
    bench.publish("e.", version("e.", 1, [leaving("c.")]));
    bench.publish("d.", version("d.", 1, [member(b"1", name("x."))]));
    assert_eq!(bench.owner("x.").as_deref(), Some("d."));
}

/// RFC 9432 5.2: the zone of a member is served if one of its catalogs can serve it.
#[test]
fn a_catalog_without_a_template_does_not_keep_a_zone_from_the_next() {
    let catalog = |name: &str, more: &str| {
        format!("[[zone]]\nname = \"{name}\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consume\"\n{more}")
    };
    let groups = "catalog-templates = { g = \"t\" }\n";
    let config = "[template.t]\nprimaries = [\"192.0.2.1\"]\n".to_owned()
        + &catalog("c.", "catalog-templates = { other = \"t\" }\n")
        + &catalog("d.", groups)
        + &catalog("e.", groups);
    let mut bench = Bench::configured(&config);
    let listed = || [CatalogMember { groups: vec![b"g".as_slice().into()], ..member(b"1", name("m.example.")) }];
    for catalog in ["e.", "c.", "d."] {
        bench.publish(catalog, version(catalog, 1, listed()));
    }
    assert_eq!(bench.owner("m.example.").as_deref(), Some("e."));
    bench.publish("e.", version("e.", 2, []));
    assert_eq!(bench.owner("m.example.").as_deref(), Some("d."), "c. has no template for it");
}

/// RFC 1034 4.3.5 is about the catalog itself: its members have timers of their own.
#[test]
fn the_members_of_a_catalog_that_has_expired_are_served() {
    let mut bench = Bench::new();
    let id = bench.id("c.");
    bench.zones.replace(id, version("c.", 1, [member(b"1", name("x."))]), &[]);
    bench.zones.expire(id);
    bench.run_until(Instant::now(), |bench| bench.owner("x.").is_some());
}
