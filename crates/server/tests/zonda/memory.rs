//! Memory of very many small zones.

use std::fs;
use std::time::{Duration, Instant};

use crate::harness::{Daemon, TestFolder};

const ZONES: usize = 10_000;
/// Octets a zone in anonymous memory, if all zones have the same records and share them, and if each has its own. They were 1,660 when
/// the threads that read zones left holes between them.
const MAX_OCTETS: [usize; 2] = [320, 450];
/// Replaced data is freed soon after a load.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server of this many zones, which have two records each, with different serials if the zones differ.
fn serve(folder: &TestFolder, zones: usize, differ: bool) -> Daemon {
    for number in 0..if differ { zones } else { 1 } {
        let soa = format!("@ SOA ns.example. host.example. {} 3600 900 604800 300", number + 1);
        folder.write(&format!("z{number}.test.zone"), &format!("$TTL 3600\n{soa}\n@ NS ns.example.\n"));
    }
    let file = if differ { "{name}.zone" } else { "z0.test.zone" };
    folder.write("zonda.toml", &format!("zone-list = [\"zones.list\"]\n[template.default]\nfile = \"{file}\"\n"));
    let list: Vec<String> = (0..zones).map(|number| format!("z{number}.test.\n")).collect();
    folder.write("zones.list", &list.concat());
    let daemon = folder.serve(&["--config", "zonda.toml"]);
    daemon.wait_for_log(&format!("served={zones} "));
    daemon
}

/// The anonymous memory of a process, in octets.
pub fn anonymous(daemon: &Daemon) -> usize {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", daemon.id())).expect("procfs");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line of it");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

#[test]
fn tiny_zones_leave_no_holes_in_the_heap() {
    check_memory(false);
}

#[test]
fn tiny_zones_that_differ_leave_no_holes_in_the_heap() {
    check_memory(true);
}

fn check_memory(differ: bool) {
    let folder = TestFolder::new();
    let few = anonymous(&serve(&folder, 1, differ));
    let daemon = serve(&folder, ZONES, differ);
    let begin = Instant::now();
    loop {
        let octets = anonymous(&daemon).saturating_sub(few) / ZONES;
        if octets <= MAX_OCTETS[usize::from(differ)] {
            break;
        }
        assert!(begin.elapsed() < TIMEOUT, "a zone takes {octets} octets");
        std::thread::sleep(Duration::from_millis(20));
    }
}
