//! Memory of very many small zones.

use std::fs;
use std::time::{Duration, Instant};

use crate::harness::{Daemon, TestFolder};

const ZONES: usize = 10_000;
/// Octets a zone in anonymous memory. It is about 350, and was 1,660 when the threads that read zones left holes between them.
const MAX_OCTETS: usize = 700;
/// Replaced data is freed soon after a load.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server of so many zones, which have two records each.
fn serve(folder: &TestFolder, zones: usize) -> Daemon {
    folder.write("tiny.zone", "$TTL 3600\n@ SOA ns.example. host.example. 1 3600 900 604800 300\n@ NS ns.example.\n");
    folder.write("zonda.toml", "zone-list = [\"zones.list\"]\n[template.default]\nfile = \"tiny.zone\"\n");
    let list: Vec<String> = (0..zones).map(|number| format!("z{number}.test.\n")).collect();
    folder.write("zones.list", &list.concat());
    let daemon = folder.serve(&["--config", "zonda.toml"]);
    daemon.wait_for_log(&format!("served={zones} "));
    daemon
}

/// The anonymous memory of a process, in octets.
fn anonymous(daemon: &Daemon) -> usize {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", daemon.id())).expect("procfs");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line of it");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

#[test]
fn tiny_zones_leave_no_holes_in_the_heap() {
    let folder = TestFolder::new();
    let few = anonymous(&serve(&folder, 1));
    let daemon = serve(&folder, ZONES);
    let begin = Instant::now();
    loop {
        let octets = anonymous(&daemon).saturating_sub(few) / ZONES;
        if octets <= MAX_OCTETS {
            break;
        }
        assert!(begin.elapsed() < TIMEOUT, "a zone takes {octets} octets");
        std::thread::sleep(Duration::from_millis(20));
    }
}
