//! Produced catalogs: labels, and changes that are refused.

use super::*;

/// RFC 9432 5.6: the label of a zone changes if it was removed and added again, and only then.
#[test]
fn rfc_9432_5_6_a_zone_that_is_added_again_gets_another_label() {
    let template = "[template.t]\nprimaries = [\"192.0.2.1\"]\ncatalog-member = \"p.\"\n";
    let produced = "[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n";
    let configured = "[[zone]]\nname = \"a.\"\ntemplate = \"t\"\n";
    let mut bench = Bench::configured(&format!("{template}{produced}{configured}"));
    let catalog = bench.id("p.");
    let label = |bench: &Bench, zone: &str| -> Option<String> {
        let member = catalog::produced_member(bench.zones.latest(catalog)?, name(zone).as_ref())?;
        Some(String::from_utf8(member.label.into()).expect("hexadecimal digits"))
    };
    let add = |bench: &mut Bench, zone: &str| {
        let template = bench.catalogs.templates().usable("t").expect("it is configured");
        bench.zones.add_dynamic(name(zone), template, ZoneOrigin::Added { template: "t".into() }).expect("it is new");
    };
    let remove = |bench: &mut Bench, zone: &str| {
        let id = bench.zones.find(name(zone).as_ref()).expect("it is there");
        assert!(bench.zones.remove(id));
    };
    let start = Instant::now();
    bench.run_until(start, |bench| label(bench, "a.").is_some());
    let plain = String::from_utf8(catalog::unique_label(name("a.").as_ref()).into()).expect("hexadecimal digits");
    assert_eq!(label(&bench, "a."), Some(plain), "the first version");
    // A version of the catalog is without it.
    add(&mut bench, "x.");
    bench.run_until(start, |bench| label(bench, "x.").is_some());
    let first = label(&bench, "x.");
    remove(&mut bench, "x.");
    bench.run_until(start, |bench| label(bench, "x.").is_none());
    add(&mut bench, "x.");
    bench.run_until(start, |bench| label(bench, "x.").is_some());
    let second = label(&bench, "x.");
    assert_ne!(second, first);
    // No version is without it.
    remove(&mut bench, "x.");
    add(&mut bench, "x.");
    bench.run_until(start, |bench| label(bench, "x.") != second);
    let third = label(&bench, "x.");
    assert!(third.is_some() && third != first, "{third:?}");
    // The removal is refused, and the zone is added again before the next attempt.
    bench.zones.freeze(catalog).expect("it is served");
    remove(&mut bench, "x.");
    bench.run_until(start, |bench| bench.refused > 0);
    add(&mut bench, "x.");
    bench.zones.thaw(catalog).expect("it is frozen");
    let due = bench.catalogs.due(start).expect("it is tried again");
    bench.run_until(due, |bench| label(bench, "x.") != third);
    let fourth = label(&bench, "x.");
    assert!(fourth.is_some(), "it is still listed");
    // Another reload, as after a restart, keeps all labels.
    let before = label(&bench, "a.");
    bench.catalogs.produced.values_mut().for_each(ProducedCatalog::relist);
    add(&mut bench, "y.");
    bench.run_until(due, |bench| label(bench, "y.").is_some());
    assert_eq!((label(&bench, "x."), label(&bench, "a.")), (fourth, before));
}

/// Without a journal, what was removed is remembered in memory, which a zone that comes and goes under other names must not use up.
#[test]
fn rfc_9432_5_6_after_very_many_removals_every_zone_that_is_added_gets_another_label() {
    let template = "[template.t]\nprimaries = [\"192.0.2.1\"]\ncatalog-member = \"p.\"\n";
    let mut bench = Bench::configured(&format!("{template}[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n"));
    let catalog = bench.id("p.");
    let member = |bench: &Bench| catalog::produced_member(bench.zones.latest(catalog)?, name("x.").as_ref());
    let origin = || ZoneOrigin::Added { template: "t".into() };
    let start = Instant::now();
    bench.run_until(start, |bench| bench.zones.latest(catalog).is_some());
    let template = bench.catalogs.templates().usable("t").expect("it is configured").clone();
    bench.zones.add_dynamic(name("x."), &template, origin()).expect("it is new");
    bench.run_until(start, |bench| member(bench).is_some());
    let first = member(&bench);
    let id = bench.id("x.");
    assert!(bench.zones.remove(id));
    bench.run_until(start, |bench| member(bench).is_none());
    let produced = bench.catalogs.produced.get_mut(&name("p.")).expect("it is configured");
    (0..70_000).for_each(|number| produced.unlist(name(&format!("z{number}.example.")), false));
    bench.zones.add_dynamic(name("x."), &template, origin()).expect("it was removed");
    bench.run_until(start, |bench| member(bench).is_some());
    assert_ne!(member(&bench).map(|member| member.label), first.map(|member| member.label));
}

/// A change of a produced catalog is refused while an operator has frozen it. That must neither be tried again at once, for ever, nor
/// lose the zones that it was to list.
#[test]
fn a_refused_change_of_a_produced_catalog_is_made_later() {
    let zone = |name| format!("[[zone]]\nname = \"{name}\"\nprimaries = [\"192.0.2.1\"]\ncatalog-member = \"p.\"\n");
    let produced = "[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n";
    let template = "[template.t]\nprimaries = [\"192.0.2.1\"]\ncatalog-member = \"p.\"\n";
    let mut bench = Bench::configured(&format!("{template}{produced}{}{}", zone("a."), zone("b.")));
    let id = |bench: &Bench, zone: &str| bench.zones.find(name(zone).as_ref()).expect("it is configured");
    let catalog = id(&bench, "p.");
    let members = |bench: &Bench| {
        let members = catalog::members_after(bench.zones.latest(catalog)?, None);
        Some(members.map(|member| member.expect("valid").zone.to_string()).collect::<BTreeSet<_>>())
    };
    let names = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
    let start = Instant::now();
    bench.run_until(start, |bench| members(bench) == names(&["a.", "b."]));
    bench.zones.freeze(catalog).expect("it is served");
    let (old, origin) = (id(&bench, "a."), ZoneOrigin::Added { template: "t".into() });
    assert!(bench.zones.remove(old));
    let template = bench.catalogs.templates().usable("t").expect("it is configured");
    bench.zones.add_dynamic(name("new."), template, origin).expect("it is new");
    bench.run_until(start, |bench| bench.refused > 0);
    for _ in 0..20 {
        bench.step(start);
    }
    assert_eq!((bench.refused, members(&bench)), (1, names(&["a.", "b."])), "once");
    let problem = bench.catalogs.problem(name("p.").as_ref());
    assert!(problem.as_ref().is_some_and(|problem| problem.contains("frozen")), "{problem:?}");
    let due = bench.catalogs.due(start).expect("it is tried again");
    bench.zones.thaw(catalog).expect("it is frozen");
    bench.run_until(due, |bench| members(bench) == names(&["b.", "new."]));
    bench.run_until(due, |bench| bench.catalogs.problem(name("p.").as_ref()).is_none());
}

/// An operator may leave a catalog frozen for months, in which a host adds and removes zones all the time.
#[test]
fn zones_that_come_and_go_leave_nothing_behind_in_a_produced_catalog_that_is_frozen() {
    let template = "[template.t]\nprimaries = [\"192.0.2.1\"]\ncatalog-member = \"p.\"\n";
    let produced = "[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n[[zone]]\nname = \"a.\"\ntemplate = \"t\"\n";
    let mut bench = Bench::configured(&format!("{template}{produced}"));
    let id = |bench: &Bench, zone: &str| bench.zones.find(name(zone).as_ref()).expect("it is there");
    let catalog = id(&bench, "p.");
    let is_listed =
        |bench: &Bench| catalog::produced_member(bench.zones.latest(catalog)?, name("a.").as_ref()).map(drop);
    let start = Instant::now();
    bench.run_until(start, |bench| is_listed(bench).is_some());
    bench.zones.freeze(catalog).expect("it is served");
    let gone = id(&bench, "a.");
    assert!(bench.zones.remove(gone));
    bench.run_until(start, |bench| bench.refused > 0);
    let template = bench.catalogs.templates().usable("t").expect("it is configured").clone();
    let pending = |bench: &Bench| bench.catalogs.produced[&name("p.")].pending_count();
    // Then no pause is left.
    let later = start + Duration::from_secs(3600);
    for number in 0..40 {
        let (zone, origin) = (name(&format!("z{number}.")), ZoneOrigin::Added { template: "t".into() });
        bench.zones.add_dynamic(zone.clone(), &template, origin).expect("it is new");
        // In the second half of the rounds, a change is made while the zone is there.
        let (is_tried, refused) = (number >= 20, bench.refused);
        let now = if is_tried { later } else { start };
        bench.step(now);
        let id = bench.zones.find(zone.as_ref()).expect("it was added");
        assert!(bench.zones.remove(id));
        bench.step(now);
        bench.run_until(now, |bench| !is_tried || bench.refused > refused);
        assert!(is_tried || pending(&bench) == 1, "{} are pending", pending(&bench));
    }
    let refused = bench.refused;
    bench.run_until(later, |bench| bench.refused > refused + 1);
    assert_eq!(pending(&bench), 1, "a. is to be listed no more");
}

#[test]
fn the_first_version_of_a_produced_catalog_has_a_serial_by_its_policy() {
    for (policy, is_date) in [("date", true), ("unix", false), ("increment", false)] {
        let produced = format!("[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\nserial-policy = \"{policy}\"\n");
        let mut bench = Bench::configured(&produced);
        let id = bench.id("p.");
        bench.run_until(Instant::now(), |bench| bench.zones.latest(id).is_some());
        let serial = bench.zones.latest(id).map_or(0, Zone::serial);
        assert_eq!((2000010100..).contains(&serial), is_date, "{policy}: {serial}");
    }
}

/// Keeps versions of all zones that it could not read.
struct UnreadVersions;

impl ZoneJournal for UnreadVersions {
    fn is_unread(&self, _zone: ZoneId) -> bool {
        true
    }
}

/// RFC 9432 5.6: with other labels, consumers would reset all zones, and after a restart reset them again.
#[test]
fn a_produced_catalog_whose_stored_version_cannot_be_read_is_not_made_anew() {
    let mut bench = Bench::configured("[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n");
    bench.zones.set_journal(Box::new(UnreadVersions));
    let (start, catalog) = (Instant::now(), name("p."));
    bench.run_until(start, |bench| bench.catalogs.problem(catalog.as_ref()).is_some());
    for _ in 0..20 {
        bench.step(start);
    }
    assert!(bench.zones.latest(bench.id("p.")).is_none());
    let problem = bench.catalogs.problem(catalog.as_ref());
    assert!(problem.is_some_and(|problem| problem.contains("cannot be read")));
}

/// A catalog that was written by hand or transferred may become one that is made here. What it has listed so far has other labels, under
/// which no zone may stay (RFC 9432 4.1: each is listed once), and it may not even be a catalog (4.2.1).
#[test]
fn a_zone_that_becomes_a_produced_catalog_loses_its_former_content() {
    let config = "[[zone]]\nname = \"p.\"\ncatalog = \"produce\"\n\
                  [[zone]]\nname = \"a.\"\nprimaries = [\"192.0.2.1\"]\ncatalog-member = \"p.\"\n";
    let own = |zone: &str| catalog::unique_label(name(zone).as_ref());
    let listed = version("p.", 7, [member(b"1", name("a.")), member(b"2", name("gone."))]);
    let partly = version("p.", 7, [member(&own("a."), name("a.")), member(b"2", name("gone."))]);
    let text = "@ 60 SOA ns host 7 1 1 1 1\n@ 60 NS ns\nns 60 A 192.0.2.1\n";
    let apex = name("p.");
    let other = zone::load::load_text(apex.as_ref(), text.as_bytes());
    for former in [listed, partly, other.zone.expect("a valid zone")] {
        let mut bench = Bench::configured(config);
        let id = bench.zones.find(apex.as_ref()).expect("it is configured");
        bench.zones.replace(id, former, &[]);
        bench.zones.freeze(id).expect("it is served");
        let start = Instant::now();
        bench.run_until(start, |bench| bench.catalogs.problem(apex.as_ref()).is_some());
        assert_eq!(bench.zones.latest(id).map(Zone::serial), Some(7), "nothing changes while it is frozen");
        bench.zones.thaw(id).expect("it is frozen");
        let due = bench.catalogs.due(start).expect("it is tried again");
        let members = |bench: &Bench| -> Vec<CatalogMember> {
            let version = bench.zones.latest(id).expect("it is served");
            catalog::members_after(version, None).filter_map(Result::ok).collect()
        };
        bench.run_until(due, |bench| bench.catalogs.problem(apex.as_ref()).is_none());
        for _ in 0..20 {
            bench.step(due);
        }
        let version = bench.zones.latest(id).expect("it is served");
        assert_eq!(catalog::check(version), Ok(()));
        assert!(wire::serial::is_later(version.serial(), 7), "consumers follow");
        let members = members(&bench);
        assert!(members.len() == 1 && members[0].zone == name("a.") && members[0].label.starts_with(&own("a.")));
    }
}
