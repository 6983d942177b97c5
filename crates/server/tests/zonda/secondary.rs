//! A secondary and its primary, both the real daemon: transfers, refresh, limits, expiry, status.

use std::net::UdpSocket;
use std::time::Duration;

use crate::harness::{Daemon, REFUSED, SERVFAIL, TestFolder};
use crate::zone_status::{serves, status, wait_for};

const SECRET: &str = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
const OTHER: &str = "Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";
const KEY: &str = "[[key]]\nname = \"t.\"\nalgorithm = \"hmac-sha256\"\nsecret = \"";

/// A zone that is checked every second and expires after four.
fn zone(serial: u32, hosts: &[&str]) -> String {
    let soa =
        format!("$TTL 1h\n@ SOA ns.example.net. hostmaster.example.net. {serial} 1 1 4 300\n@ NS ns.example.net.\n");
    hosts.iter().fold(soa, |text, host| text + &format!("{host} A 192.0.2.1\n"))
}

/// A primary of `a.example`, which asks for a key.
fn primary(folder: &TestFolder) -> Daemon {
    let config = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nallow-transfer = [{ key = \"t.\" }]\n";
    folder.write("zonda.toml", &format!("{KEY}{SECRET}\"\n{config}"));
    folder.serve_with_config()
}

/// A secondary of it with more settings.
fn secondary(folder: &TestFolder, primary: &Daemon, settings: &str) -> Daemon {
    let limits = "min-refresh-s = 1\nmin-retry-s = 1\nmin-expire-s = 1\n";
    let primaries = format!("primaries = [{{ address = \"{}\", key = \"t.\" }}]\n", primary.address);
    let config = format!("{KEY}{SECRET}\"\n[[zone]]\nname = \"a.example\"\n{primaries}{limits}{settings}");
    folder.write("zonda.toml", &config);
    folder.serve_with_config()
}

#[test]
fn a_secondary_transfers_a_zone_and_follows_its_changes() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, &["www"]));
    let primary = primary(&first);
    let secondary = secondary(&second, &primary, "");
    let status = wait_for(&second, "transferred", serves(1));
    assert!(secondary.ask("www.a.example").has("192.0.2.1"));
    assert_eq!((&status["primary-serial"], &status["last-transfer"]["kind"]), (&1.into(), &"axfr".into()), "{status}");
    assert!(status["expires-at"].is_string() && status["last-transfer"]["records"] == 4, "{status}");
    first.write("a.zone", &zone(2, &["www", "new"]));
    assert_eq!(first.reload().status, 0);
    wait_for(&second, "refreshed", serves(2));
    assert!(secondary.ask("new.a.example").has("192.0.2.1"));
    let export = second.zone(&["export", "a.example"]);
    assert!(export.out.contains("new 3600 IN A 192.0.2.1"), "{}", export.out);
    assert!(!secondary.log().contains(SECRET));
}

/// A zone that is checked every hour.
fn slow_zone(serial: u32, hosts: u32) -> String {
    let hosts: Vec<String> = (0..hosts).map(|number| format!("h{number}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    zone(serial, &hosts).replace(" 1 1 4 300", " 3600 3600 86400 300")
}

#[test]
fn a_notify_brings_the_changes_alone_at_once() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &slow_zone(1, 100));
    let config = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nallow-transfer = [{ key = \"t.\" }]\n";
    let config = |notify: &str| format!("{KEY}{SECRET}\"\n{config}notify = [{notify}]\n");
    first.write("zonda.toml", &config(""));
    let primary = first.serve_with_config();
    let secondary = secondary(&second, &primary, "");
    wait_for(&second, "transferred", serves(1));
    let target = format!("{{ address = \"{}\", key = \"t.\" }}", secondary.address);
    first.write("zonda.toml", &config(&target));
    first.write("a.zone", &slow_zone(2, 101));
    assert_eq!(first.reload().status, 0);
    let status = wait_for(&second, "notified", serves(2));
    // RFC 1995 4: the new SOA record, old SOA, new SOA, the added record, the new SOA record.
    let transfer = &status["last-transfer"];
    assert_eq!((&transfer["kind"], &transfer["records"]), (&"ixfr".into(), &5.into()), "{status}");
    assert!(secondary.ask("h100.a.example").has("192.0.2.1"));
    // Both sides log one line per transfer, with the same figures.
    for (kind, of_primary, of_secondary) in [
        (
            "axfr",
            "transport=\"tcp\" key=t. kind=\"axfr\" serial=1 records=103 octets=",
            "kind=\"axfr\" serial=1 records=103 octets=",
        ),
        (
            "ixfr",
            "key=t. kind=\"ixfr\" from_serial=1 serial=2 records=5 octets=",
            "kind=\"ixfr\" from_serial=1 serial=2 records=5 octets=",
        ),
    ] {
        let (sent, received) = (primary.wait_for_log(of_primary), secondary.wait_for_log(of_secondary));
        assert!(sent.contains("zone transferred") && received.contains("zone received"), "{sent}\n{received}");
        let octets =
            |line: &str| line.split_once("octets=").map(|(_, rest)| rest.split(' ').take(2).collect::<String>());
        assert_eq!(octets(&sent), octets(&received), "{kind}");
        assert!(sent.contains(" duration_ms="), "{sent}");
    }
    let received = |kind: &str| second.metric(&format!("zonda_transfers_received_total{{kind=\"{kind}\"}}"));
    assert_eq!(["axfr", "ixfr"].map(received), [1, 1]);
    assert!(second.metric("zonda_transfers_received_octets_total") > 1000);
    // The secondary has the changes for its own secondaries.
    first.write("a.zone", &slow_zone(3, 102));
    assert_eq!(first.reload().status, 0);
    wait_for(&second, "notified again", serves(3));
}

/// RFC 1996 3.11: the last NOTIFY may not have arrived before a crash. Here the primary is gone, too.
#[test]
fn a_restart_notifies_secondaries_of_what_is_stored() {
    const OPCODE_NOTIFY: u8 = 4;
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &slow_zone(7, 1));
    let primary = primary(&first);
    let target = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let address = target.local_addr().expect("it is bound");
    let daemon = secondary(&second, &primary, &format!("notify = [\"{address}\"]\n"));
    wait_for(&second, "stored", |status| serves(7)(status) && status["journal"].is_object());
    drop((daemon, primary));
    target.set_nonblocking(true).expect("a socket");
    while target.recv(&mut [0; 512]).is_ok() {}
    target.set_nonblocking(false).expect("a socket");
    target.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let _daemon = second.serve_with_config();
    let mut message = [0; 512];
    target.recv(&mut message).expect("a NOTIFY");
    assert_eq!(message[2] >> 3, OPCODE_NOTIFY);
}

#[test]
fn odd_records_of_a_transfer_are_reported_up_to_a_number() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    // Digests of two octets.
    let odd = (0..7).map(|number| format!("c{number} CDS 1 8 2 0011\n"));
    first.write("a.zone", &(zone(1, &["www"]) + &odd.collect::<String>()));
    let primary = primary(&first);
    let secondary = secondary(&second, &primary, "");
    wait_for(&second, "transferred", serves(1));
    secondary.wait_for_log("left_out=2 ");
    assert_eq!(secondary.log().matches("warning: ").count(), 5, "{}", secondary.log());
}

#[test]
fn small_zones_are_sent_as_changes_too() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, &["www"]));
    let primary = primary(&first);
    let _secondary = secondary(&second, &primary, "");
    wait_for(&second, "transferred", serves(1));
    first.write("a.zone", &zone(2, &["new"]));
    assert_eq!(first.reload().status, 0);
    let status = wait_for(&second, "refreshed", serves(2));
    // RFC 1995 4: three SOA records and the closing one around the removed and the added record.
    assert_eq!(status["last-transfer"]["records"], 6, "{status}");
}

#[test]
fn a_zone_expires_without_its_primary_and_comes_back_with_any_serial() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(9, &["www"]));
    let daemon = primary(&first);
    let address = daemon.address.to_string();
    let secondary = secondary(&second, &daemon, "");
    wait_for(&second, "transferred", serves(9));
    drop(daemon);
    wait_for(&second, "expired", |status| status["state"] == "expired");
    let line = secondary.wait_for_log("expired: within the EXPIRE time no primary has confirmed its version");
    assert!(
        line.contains(&format!("reason=\"no primary answered with a SOA record of the zone: {address}: ")),
        "{line}"
    );
    assert_eq!(secondary.ask("www.a.example").rcode(), SERVFAIL);
    let zones = |state: &str| second.metric(&format!("zonda_zones{{state=\"{state}\"}}"));
    assert_eq!(["serving", "expired", "unavailable"].map(zones), [0, 1, 0]);
    first.write("a.zone", &zone(3, &["other"]));
    let _daemon = first.serve_at(&address);
    wait_for(&second, "back", serves(3));
    assert!(secondary.ask("other.a.example").has("192.0.2.1"));
}

#[test]
fn a_version_beyond_the_limits_is_not_served() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    let hosts: Vec<String> = (0..20).map(|number| format!("h{number}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    first.write("a.zone", &zone(1, &hosts));
    let primary = primary(&first);
    let secondary = secondary(&second, &primary, "max-shrink-percent = 50\n");
    wait_for(&second, "transferred", serves(1));
    first.write("a.zone", &zone(2, &hosts[..5]));
    assert_eq!(first.reload().status, 0);
    let status = wait_for(&second, "refused", |status| status["problem"].is_string());
    assert!(status["problem"].as_str().is_some_and(|problem| problem.contains("max-shrink-percent")), "{status}");
    assert!(status["serial"] == 1 && status["primary-serial"] == 2, "{status}");
    assert!(secondary.ask("h19.a.example").has("192.0.2.1"));
}

#[test]
fn an_operator_forces_a_transfer_of_an_earlier_serial() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(9, &["www"]));
    let primary = primary(&first);
    let _secondary = secondary(&second, &primary, "");
    wait_for(&second, "transferred", serves(9));
    first.write("a.zone", &zone(3, &["www"]));
    assert_eq!(first.reload().status, 0);
    let status = wait_for(&second, "refused", |status| status["problem"].is_string());
    assert_eq!(status["serial"], 9, "{status}");
    let forced = second.zone(&["retransfer", "a.example"]);
    assert_eq!(forced.status, 0, "{}", forced.err);
    wait_for(&second, "forced", serves(3));
    let none = first.zone(&["refresh", "a.example", "b.example"]);
    assert_eq!(none.status, 1);
    assert!(none.err.contains("a.example.: the zone has no `primaries`"), "{}", none.err);
    assert!(none.err.contains("b.example.: this is not a zone of this server"), "{}", none.err);
}

#[test]
fn a_key_that_the_primary_does_not_know_is_reported() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, &["www"]));
    let primary = primary(&first);
    let primaries = format!("primaries = [{{ address = \"{}\", key = \"t.\" }}]\n", primary.address);
    let config =
        |secret: &str| format!("{KEY}{secret}\"\n[[zone]]\nname = \"a.example\"\nmin-retry-s = 1\n{primaries}");
    second.write("zonda.toml", &config(OTHER));
    let secondary = second.serve_with_config();
    let status = wait_for(&second, "refused", |status| status["problem"].is_string());
    assert!(status["state"] == "failed" && status["serial"].is_null(), "{status}");
    assert_eq!(secondary.ask("www.a.example").rcode(), SERVFAIL);
    second.write("zonda.toml", &config(SECRET));
    assert_eq!(second.reload().status, 0);
    wait_for(&second, "transferred with the new secret", serves(1));
    assert_ne!(secondary.ask("www.b.example").rcode(), SERVFAIL);
    assert_eq!(secondary.ask("www.b.example").rcode(), REFUSED);
}

/// Which primary gave which answer, for an operator with several.
#[test]
fn a_check_that_fails_names_the_primary_and_its_answer() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, &["www"]));
    let daemon = primary(&first);
    let address = daemon.address;
    let secondary = secondary(&second, &daemon, "");
    wait_for(&second, "transferred", serves(1));
    // The primary does not have the zone any more.
    first.write("zonda.toml", &format!("[server]\nallow-no-zones = true\n{KEY}{SECRET}\"\n"));
    assert_eq!(first.reload().status, 0);
    let reason = format!("{address}: the primary answers REFUSED");
    let is_explained = |problem: &str| problem.contains(&reason);
    wait_for(&second, "explained", |status| status["problem"].as_str().is_some_and(is_explained));
    secondary.wait_for_log(&reason);
    // Nor is it there any more.
    drop(daemon);
    secondary.wait_for_log("no zones can be transferred from this primary: the connection to the primary was closed");
}

#[test]
fn a_frozen_secondary_neither_transfers_nor_expires() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, &["www"]));
    let primary = primary(&first);
    let secondary = secondary(&second, &primary, "keep-versions = 1\n");
    wait_for(&second, "transferred", serves(1));
    first.write("a.zone", &zone(2, &["new"]));
    assert_eq!(first.reload().status, 0);
    wait_for(&second, "refreshed", serves(2));
    let run = |command: &str| second.zone(&[command, "a.example"]);
    assert_eq!(run("rollback").status, 0);
    let status = status(&second);
    assert!(status["frozen"] == true && status["serial"] == 1, "{status}");
    assert!(run("refresh").err.contains("the zone is frozen"), "{:?}", run("refresh"));
    first.write("a.zone", &zone(3, &["newer"]));
    assert_eq!(first.reload().status, 0);
    // Longer than its expiry.
    std::thread::sleep(Duration::from_millis(4500));
    assert!(secondary.ask("www.a.example").has("192.0.2.1"));
    assert_eq!(second.reload().status, 0);
    assert_eq!(self::status(&second)["serial"], 1, "a reload does not thaw it");
    assert_eq!(run("thaw").status, 0);
    wait_for(&second, "thawed", serves(3));
    assert!(secondary.ask("newer.a.example").has("192.0.2.1"));
}

#[test]
fn rfc_8976_4_a_change_that_leaves_the_digest_behind_removes_it() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    let digest = format!("@ ZONEMD 1 1 1 {}\n", "00".repeat(48));
    first.write("a.zone", &(zone(1, &["www"]) + &digest));
    let primary = primary(&first);
    let secondary = secondary(&second, &primary, "");
    wait_for(&second, "transferred", serves(1));
    let export = || second.zone(&["export", "a.example"]).out;
    assert!(export().contains("ZONEMD"));
    for (serial, text) in [(2, zone(2, &["www", "new"]) + &digest), (3, zone(3, &["www", "newer"]))] {
        first.write("a.zone", &text);
        assert_eq!(first.reload().status, 0);
        let status = wait_for(&second, "refreshed", serves(serial));
        assert_eq!(status["last-transfer"]["kind"], "ixfr", "{status}");
        assert!(!export().contains("ZONEMD"), "serial {serial}");
    }
    secondary.wait_for_log("the change made its ZONEMD record stale: the record is removed");
}
