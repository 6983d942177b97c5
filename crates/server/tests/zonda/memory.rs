//! Memory of very many small zones, of a big one while it loads, and of very many idle connections.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::harness::{Daemon, TestFolder, eventually, report_skipped};

const ZONES: usize = 10_000;
/// Octets a zone in anonymous memory, if the zones differ in their serials alone and share the rest of their records, and if they share
/// none. They were 1,660 when the threads that read zones left holes between them. Before serials were stored apart from the other records,
/// the first was as much as the second.
const MAX_OCTETS: [usize; 2] = [320, 430];
/// The same of a secondary with a journal: of each zone after the first [`FEW_ZONES`], as buffers for transfers do not depend on how
/// many follow each other. They were 365 for zones that share their records when log lines left holes between the zones.
const MAX_SECONDARY_OCTETS: [usize; 2] = [340, 430];
const FEW_ZONES: usize = 5_000;
const MANY_ZONES: usize = 30_000;
/// Records of the big zone.
const RECORDS: u64 = 400_000;
/// The peak of memory while the big zone loads, relative to the memory afterwards. It was 2.0 when threads shared heaps: those that
/// build a zone did not use what the parsers had freed.
const MAX_PEAK: f64 = 1.7;
/// By then what only loading needs has been freed.
const TIME_TO_FREE: Duration = Duration::from_secs(1);

/// A server of this many zones, which have two records each. They differ in their serials, and otherwise too if they `differ`.
fn serve(folder: &TestFolder, zones: usize, differ: bool) -> Daemon {
    for number in 0..zones {
        let minimum = if differ { 300 + number } else { 300 };
        let soa = format!("@ SOA ns.example. host.example. {} 3600 900 604800 {minimum}", number + 1);
        folder.write(&format!("z{number}.test.zone"), &format!("$TTL 3600\n{soa}\n@ NS ns.example.\n"));
    }
    let template = "[template.default]\nfile = \"{name}.zone\"\nallow-transfer = [\"127.0.0.0/8\"]\n";
    folder.write("zonda.toml", &format!("zone-list = [\"zones.list\"]\n{template}"));
    write_list(folder, zones);
    let daemon = folder.serve_with_config();
    daemon.wait_for_log(&format!("served={zones} "));
    daemon
}

/// A secondary of this many zones that has transferred all of them.
fn secondary(folder: &TestFolder, zones: usize, primary: &Daemon) -> Daemon {
    let template = format!("[template.default]\nprimaries = [\"{}\"]\n", primary.address);
    folder.write("zonda.toml", &format!("zone-list = [\"zones.list\"]\n{template}"));
    write_list(folder, zones);
    let daemon = folder.serve_with_config();
    let received = || daemon.log().matches("zone received").count();
    assert!(eventually(|| received() >= zones), "{} of {zones} zones", received());
    daemon
}

fn write_list(folder: &TestFolder, zones: usize) {
    let list: Vec<String> = (0..zones).map(|number| format!("z{number}.test.\n")).collect();
    folder.write("zones.list", &list.concat());
}

/// A server of one zone of RECORDS records, whose owners are in no order and whose fingerprints do not recur.
fn serve_big(folder: &TestFolder) -> Daemon {
    let number = |of: u64| of.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let records = (1..RECORDS).map(|record| {
        let fingerprint: String = (1..5).map(|part| format!("{:016x}", number(number(record) ^ part))).collect();
        format!("{:016x} SSHFP 1 2 {fingerprint}\n", number(record))
    });
    let apex = "$TTL 3600\n@ SOA ns.example. host.example. 1 3600 900 604800 300\n@ NS ns.example.\n";
    folder.write("big.test.zone", &(apex.to_owned() + &records.collect::<String>()));
    folder.write("zonda.toml", "[[zone]]\nname = \"big.test\"\nfile = \"big.test.zone\"\n");
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("served=1 ");
    daemon
}

/// A size from the status of a process, in octets.
fn status(daemon: &Daemon, name: &str) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line of it");
    1024 * line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

/// The anonymous memory of a process, in octets.
pub fn anonymous(daemon: &Daemon) -> usize {
    let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", daemon.id())).expect("procfs");
    let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("a line of it");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}

/// The limit of an idle TCP connection: its slot has 40 octets.
const MAX_CONNECTION_OCTETS: usize = 48;

/// Each has asked a query, so that it has had buffers, too.
#[test]
fn an_idle_tcp_connection_takes_no_more_than_its_slot() {
    const WARM: usize = 500;
    const CONNECTIONS: usize = 4_000;
    const QUERY: &[u8] = b"\0\x21\x12\x34\0\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";
    if netio::resource_limits::raise_open_files().is_ok_and(|limit| limit < 6_000) {
        return report_skipped("the limit of open files is below 6,000");
    }
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    let server = "[server]\ntcp-workers = 1\ntcp-connections-per-client = 10000\ntcp-idle-timeout-ms = 600000\n";
    folder.write("zonda.toml", &format!("{server}[[zone]]\nname = \"example.com\"\nfile = \"zones/{{name}}.zone\"\n"));
    let daemon = folder.serve_with_config();
    let connect = |_| {
        let mut connection = TcpStream::connect(daemon.address).expect("loopback");
        connection.write_all(QUERY).expect("open");
        connection.read_exact(&mut [0; 2 + 12]).expect("an answer");
        connection
    };
    let mut connections: Vec<TcpStream> = (0..WARM).map(connect).collect();
    let before = anonymous(&daemon);
    connections.extend((0..CONNECTIONS).map(connect));
    let octets = anonymous(&daemon).saturating_sub(before) as f64 / CONNECTIONS as f64;
    println!("an idle TCP connection takes {octets:.1} octets");
    assert!(octets <= MAX_CONNECTION_OCTETS as f64, "{octets} octets a connection");
}

#[test]
fn tiny_zones_leave_no_holes_in_the_heap() {
    check_memory(false);
}

#[test]
fn tiny_zones_that_differ_leave_no_holes_in_the_heap() {
    check_memory(true);
}

#[test]
fn a_tiny_zone_of_a_secondary_takes_little() {
    check_secondary(false);
}

#[test]
fn a_tiny_zone_of_a_secondary_that_differs_takes_little() {
    check_secondary(true);
}

#[test]
fn a_zone_in_no_order_needs_little_more_while_it_loads() {
    let folder = TestFolder::new();
    let daemon = serve_big(&folder);
    // File pages are those of the program.
    let peak = status(&daemon, "VmHWM") - status(&daemon, "RssFile");
    std::thread::sleep(TIME_TO_FREE);
    let ratio = peak as f64 / anonymous(&daemon) as f64;
    assert!(ratio < MAX_PEAK, "{ratio:.2} times the memory afterwards");
}

fn check_memory(differ: bool) {
    let folder = TestFolder::new();
    let few = anonymous(&serve(&folder, 1, differ));
    expect_octets(&serve(&folder, ZONES, differ), (ZONES, || few), MAX_OCTETS[usize::from(differ)]);
}

fn check_secondary(differ: bool) {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    let primary = serve(&first, MANY_ZONES, differ);
    let few = secondary(&TestFolder::new(), FEW_ZONES, &primary);
    let many = secondary(&second, MANY_ZONES, &primary);
    let zones = MANY_ZONES - FEW_ZONES;
    expect_octets(&many, (zones, || anonymous(&few)), MAX_SECONDARY_OCTETS[usize::from(differ)]);
}

/// Waits until a zone takes no more than `max` octets: those of `zones` more than a daemon with so little memory has.
fn expect_octets(daemon: &Daemon, (zones, few): (usize, impl Fn() -> usize), max: usize) {
    let mut octets = 0;
    // Replaced data is freed soon after a load.
    let is_little = eventually(|| {
        octets = anonymous(daemon).saturating_sub(few()) / zones;
        octets <= max
    });
    println!("a zone takes {octets} octets");
    assert!(is_little, "a zone takes {octets} octets");
}
