//! The cost of catalogs in the writer: a consumed catalog of a million members, and one member more or less, without sockets and disk.
//!
//! `cargo bench -p zonda-server --bench catalog` prints CPU time of the writer's thread and of all threads; `members=N` sets the size.

mod fixture;

use std::fs;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use fixture::{configured, name, version};
use server::catalogs::{CatalogEvent, Catalogs};
use server::zones::ZoneRegistry;
use wire::Rtype;
use zone::Zone;
use zone::catalog::{self, CatalogMember};
use zone::change::{ChangeRules, ChangeSet};

const CONFIG: &str = "[template.default]\nprimaries = [\"192.0.2.1\"]\n\
                      [[zone]]\nname = \"c.\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consume\"\n";
/// Single changes measured.
const CHANGES: u32 = 200;

fn main() {
    let sizes: Vec<u32> =
        std::env::args().filter_map(|argument| argument.strip_prefix("members=")?.parse().ok()).collect();
    let count = sizes.first().copied().unwrap_or(1_000_000);
    let mut bench = Bench::new();
    let mut catalog = version("c.", 1, (0..count).map(member));
    let (begin, started) = (cpu_ns(), Instant::now());
    bench.publish(catalog.clone());
    report("first version, us of the writer per member", (cpu_ns() - begin) as f64 / 1e3 / f64::from(count));
    report("first version, us until served per member", started.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    report("longest step, ms", bench.longest.as_secs_f64() * 1e3);
    bench.longest = Duration::ZERO;
    let begin = cpu_ns();
    for number in 0..CHANGES {
        catalog = with_member(&catalog, count + number, true);
        bench.publish(catalog.clone());
    }
    let middle = cpu_ns();
    for number in 0..CHANGES {
        catalog = with_member(&catalog, count + number, false);
        bench.publish(catalog.clone());
    }
    // With the change of the catalog itself.
    report("one member more, us", (middle - begin) as f64 / 1e3 / f64::from(CHANGES));
    report("one member less, us", (cpu_ns() - middle) as f64 / 1e3 / f64::from(CHANGES));
    report("longest step, ms", bench.longest.as_secs_f64() * 1e3);
    assert_eq!(bench.zones.slot_count(), count as usize + 2);
}

/// The registry and the catalogs as the writer has them.
struct Bench {
    zones: ZoneRegistry,
    catalogs: Catalogs,
    events: Receiver<CatalogEvent>,
    longest: Duration,
}

impl Bench {
    fn new() -> Bench {
        let (zones, catalogs, events) = configured(CONFIG);
        Bench { zones, catalogs, events, longest: Duration::ZERO }
    }

    /// Serves a version of the catalog, and then its members.
    fn publish(&mut self, version: Zone) {
        let serial = version.serial();
        let id = self.zones.find(name("c.").as_ref()).expect("it is configured");
        self.zones.replace(id, version, &[]);
        while self.catalogs.processed_serial(name("c.").as_ref()) != Some(serial) {
            let begin = Instant::now();
            for notice in self.zones.take_notices() {
                self.catalogs.notice(notice, &self.zones);
            }
            let is_busy = self.catalogs.step(&mut self.zones, begin);
            self.zones.step(begin);
            self.longest = self.longest.max(begin.elapsed());
            self.zones.publisher.reclaim();
            if !is_busy && let Ok(event) = self.events.recv_timeout(Duration::from_millis(1)) {
                self.catalogs.handle(event);
            }
        }
    }
}

fn member(number: u32) -> CatalogMember {
    let zone = name(&format!("customer{number}.example."));
    let label = Box::new(catalog::unique_label(zone.as_ref()));
    CatalogMember { label, zone, groups: Vec::new(), change_of_ownership: None }
}

fn with_member(catalog: &Zone, number: u32, is_added: bool) -> Zone {
    let apex = name("c.");
    let mut change = ChangeSet::new(apex.as_ref());
    for (owner, rtype, rdata) in catalog::member_records(apex.as_ref(), &member(number)) {
        match is_added {
            true => change.add(owner.as_ref(), rtype, 0, &rdata).expect("in the zone"),
            false => change.remove(owner.as_ref(), rtype, &rdata).expect("in the zone"),
        }
    }
    change.remove(apex.as_ref(), Rtype::SOA, &catalog.soa_rdata()).expect("in the zone");
    change.add(apex.as_ref(), Rtype::SOA, 0, &catalog::soa_rdata(catalog.serial() + 1)).expect("in the zone");
    let rules = ChangeRules { check_mode: zone::CheckMode::Lenient, nsec3_max_iterations: 0 };
    catalog.apply(change, rules).unwrap_or_else(|error| panic!("{error:?}")).zone
}

fn report(name: &str, value: f64) {
    println!("{name:50} {value:.2}");
}

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let times = fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel counts CPU time");
    times.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds on the CPU")
}
