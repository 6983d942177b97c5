//! Servers whose zones are stored, their journals, and a client that updates them.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use crate::harness::{Daemon, TestFolder, eventually, uninterrupted};
use crate::update_client;

/// A zone with these timers and addresses.
pub fn zone(serial: u32, timers: &str, hosts: u32) -> String {
    let head =
        format!("$TTL 1h\n@ SOA ns.example.net. host.example.net. {serial} {timers} 300\n@ NS ns.example.net.\n");
    (0..hosts).fold(head, |text, host| text + &format!("h{host} A 192.0.2.1\n"))
}

/// Timers that end after each test.
pub const SLOW: &str = "3600 3600 86400";

/// The addresses of a file that takes long enough to read that the zone is stored.
pub const LARGE: u32 = 30_000;

/// Starts a primary of `a.example`, whose file is there.
pub fn primary(folder: &TestFolder) -> Daemon {
    write_primary_config(folder);
    folder.serve_with_config()
}

/// Configures what [`primary`] starts.
pub fn write_primary_config(folder: &TestFolder) {
    folder
        .write("zonda.toml", "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nallow-transfer = [\"127.0.0.0/8\"]\n");
}

/// Starts a secondary of the zones `a.example` and, if there are more, `b.example`...
pub fn secondary(folder: &TestFolder, primary: &str, names: &[&str]) -> Daemon {
    let limits = "min-refresh-s = 1\nmin-retry-s = 1\nmin-expire-s = 1\nallow-transfer = [\"127.0.0.0/8\"]\n";
    let zones = names.iter().map(|name| format!("[[zone]]\nname = \"{name}\"\nprimaries = [\"{primary}\"]\n{limits}"));
    folder.write("zonda.toml", &zones.collect::<String>());
    folder.serve_with_config()
}

/// The files of the journal whose names begin with this.
pub fn journal_files(folder: &TestFolder, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path().join("state/zonda/journal")).expect("there is a journal");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))).collect()
}

/// Waits until the journal contains these octets: the changes are synced.
pub fn wait_for_journal(folder: &TestFolder, octets: &[u8]) {
    let contains =
        |path: &PathBuf| fs::read(path).expect("it is readable").windows(octets.len()).any(|part| part == octets);
    assert!(eventually(|| journal_files(folder, "").iter().any(contains)), "not in the journal");
}

/// Adds `u{number}` to the zone, or `None` without a response.
pub fn add(socket: &UdpSocket, number: u16) -> Option<u8> {
    let record = update_client::add(&format!("u{number}.a.example"), 1);
    socket.send(&update_client::update(number, vec![record]).to_wire()).ok()?;
    let mut response = [0; 512];
    loop {
        let len = uninterrupted(|| socket.recv(&mut response)).ok()?;
        if len > 3 && response[..2] == number.to_be_bytes() {
            return Some(response[3] & 15);
        }
    }
}

/// A socket for [`add`].
pub fn updater(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(server).expect("loopback");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    socket
}

/// A primary of `a.example` that anybody on this machine may update, in the state-dir that systemd gives.
pub fn updated(folder: &TestFolder) {
    folder.write("a.zone", &zone(1, SLOW, 1));
    folder.write("b.zone", &zone(1, SLOW, 1));
    let zones = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nallow-update = [\"127.0.0.1\"]\n\
                 allow-transfer = [\"127.0.0.1\"]\n[[zone]]\nname = \"b.example\"\nfile = \"b.zone\"\n";
    folder.write("zonda.toml", zones);
}
