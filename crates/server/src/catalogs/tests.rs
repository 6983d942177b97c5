//! Catalogs and the registry without sockets: hostile catalogs, and many members.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use wire::Rtype;
use zone::Zone;
use zone::catalog::{self, CatalogMember};
use zone::zone_builder::{ZoneBuilder, ZoneBuilderOptions};

use super::*;
use crate::config::reader::ConfigReader;
use crate::config::{Config, Server};

const CONFIG: &str = "[template.default]\nprimaries = [\"192.0.2.1\"]\n\
                      [[zone]]\nname = \"c.\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consume\"\n\
                      [[zone]]\nname = \"d.\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consume\"\n";

struct Bench {
    zones: ZoneRegistry,
    catalogs: Catalogs,
    events: Receiver<CatalogEvent>,
    /// The most zones that one step added or removed.
    largest_step: usize,
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn member(label: &[u8], zone: Name) -> CatalogMember {
    CatalogMember { label: label.into(), zone, groups: Vec::new(), change_of_ownership: None }
}

fn version(catalog: &str, serial: u32, members: impl IntoIterator<Item = CatalogMember>) -> Zone {
    let apex = name(catalog);
    let mut builder = ZoneBuilder::new(apex.as_ref(), ZoneBuilderOptions::default());
    builder.push(apex.as_ref(), Rtype::SOA, 0, &catalog::soa_rdata(serial));
    let members = members.into_iter().flat_map(|member| catalog::member_records(apex.as_ref(), &member));
    for (owner, rtype, rdata) in catalog::apex_records(apex.as_ref()).into_iter().chain(members) {
        builder.push(owner.as_ref(), rtype, 0, &rdata);
    }
    builder.finish().expect("a valid zone").0
}

impl Bench {
    fn new() -> Bench {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), CONFIG).expect("space");
        let mut reader = ConfigReader::default();
        reader.read_file(file.path());
        let Config { zones: configured, templates, catalogs: names, .. } = reader.finish().expect("no mistakes");
        let mut zones = ZoneRegistry::new(&Server::default(), |_| (), |_| ()).expect("random numbers");
        zones.configure(configured);
        zones.step(Instant::now());
        let (sender, events) = channel();
        let mut catalogs = Catalogs::new(move |event| _ = sender.send(event));
        catalogs.configure(&templates, &names, &zones);
        Bench { zones, catalogs, events, largest_step: 0 }
    }

    fn count(&self) -> usize {
        let (served, not_served) = self.zones.counts();
        served + not_served
    }

    /// Serves a version of a catalog, and does all that follows.
    fn publish(&mut self, catalog: &str, version: Zone) {
        let id = self.zones.find(name(catalog).as_ref()).expect("it is configured");
        self.zones.replace(id, version, &[]);
        loop {
            let before = self.count();
            let notices = self.zones.take_notices();
            let has_notices = !notices.is_empty();
            notices.into_iter().for_each(|notice| self.catalogs.notice(notice, &self.zones));
            let is_busy = self.catalogs.step(&mut self.zones);
            self.largest_step = self.largest_step.max(self.count().abs_diff(before));
            self.zones.step(Instant::now());
            if is_busy || has_notices {
                continue;
            }
            // A job of the pool ends soon; without one there is nothing to wait for.
            match self.events.recv_timeout(Duration::from_millis(300)) {
                Ok(event) => self.catalogs.handle(event),
                Err(_) => return,
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
    assert!(bench.largest_step <= consumed_catalog::STEP, "{}", bench.largest_step);
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
