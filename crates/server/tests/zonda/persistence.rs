//! What survives a restart of the real daemon, by SIGTERM or SIGKILL: zones, their timers, their history; and which version wins.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use wire::message::Rcode;

use crate::harness::{NOERROR, NXDOMAIN, REFUSED, SERVFAIL, TestFolder, report_skipped};
use crate::persistent_servers::{
    LARGE, SLOW, add, journal_files, primary, secondary, updated, updater, wait_for_journal, write_primary_config, zone,
};
use crate::update_client::{self, Client};
use crate::zone_status::{serves, status, wait_for};

#[test]
fn a_kill_at_any_moment_loses_no_acknowledged_update() {
    let folder = TestFolder::new();
    updated(&folder);
    let (mut next, mut acknowledged) = (0, Vec::new());
    for round in 0..8 {
        let daemon = folder.serve_with_config();
        let export = folder.zone(&["export", "a.example"]).out;
        let lost = acknowledged.iter().find(|number| !export.contains(&format!("u{number} 60 IN A")));
        assert_eq!(lost, None, "round {round} of {} updates: {}", acknowledged.len(), daemon.log());
        let socket = updater(daemon.address);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20 + 37 * round));
            daemon.kill();
        });
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        while let Some(rcode) = add(&socket, next) {
            assert_eq!(rcode, NOERROR);
            acknowledged.push(next);
            next += 1;
        }
        // Whether the last one was applied is unknown.
        next += 1;
        killer.join().expect("it is killed");
    }
    assert!(acknowledged.len() > 20, "{}", acknowledged.len());
}

#[test]
fn a_file_wins_over_updates_only_with_a_later_serial() {
    let folder = TestFolder::new();
    updated(&folder);
    let daemon = folder.serve_with_config();
    assert_eq!(add(&updater(daemon.address), 7), Some(NOERROR));
    daemon.stop();
    // The file is as it was: the updated zone is served.
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("u7.a.example").has("192.0.2.1"), "{}", daemon.log());
    let serial = status(&folder)["serial"].as_u64().expect("a serial");
    assert!(serial > 1);
    daemon.stop();
    // It was edited, and its serial is not later.
    folder.write("a.zone", &zone(1, SLOW, 2));
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("is not later than");
    assert!(daemon.ask("u7.a.example").has("192.0.2.1"));
    assert_eq!(daemon.ask("h1.a.example").rcode(), NXDOMAIN);
    daemon.stop();
    folder.write("a.zone", &zone(serial as u32 + 1, SLOW, 2));
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("h1.a.example").has("192.0.2.1"), "{}", daemon.log());
    assert_eq!(daemon.ask("u7.a.example").rcode(), NXDOMAIN);
    daemon.stop();
    // Without updates since it was read, any edit wins.
    folder.write("a.zone", &zone(1, SLOW, 3));
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("h2.a.example").has("192.0.2.1"), "{}", daemon.log());
}

/// A file is read again if it was young when it was read, or includes others: then it is not a new edit.
#[test]
fn an_unchanged_file_is_no_mistake_of_an_updated_zone() {
    for includes in [false, true] {
        let folder = TestFolder::new();
        updated(&folder);
        folder.write("more", "more A 192.0.2.3\n");
        if includes {
            folder.write("a.zone", &(zone(1, SLOW, 1) + "$INCLUDE more\n"));
            // So that its files are not young.
            std::thread::sleep(Duration::from_millis(1100));
        }
        let daemon = folder.serve_with_config();
        assert_eq!(add(&updater(daemon.address), 7), Some(NOERROR));
        for _ in 0..2 {
            let reload = folder.reload();
            assert_eq!(reload.status, 0, "{}", reload.out);
        }
        daemon.stop();
        let daemon = folder.serve_with_config();
        let reload = folder.reload();
        assert_eq!(reload.status, 0, "{}", reload.out);
        assert!(daemon.ask("u7.a.example").has("192.0.2.1"));
        assert!(!daemon.log().contains("NOT LOADED"), "{}", daemon.log());
        // An edit is still one.
        folder.write(if includes { "more" } else { "a.zone" }, "more A 192.0.2.4\n; edited\n");
        assert_eq!(folder.reload().status, 1);
        assert!(daemon.ask("u7.a.example").has("192.0.2.1"));
        daemon.stop();
    }
}

/// Another version of zonda, or other settings, read a file by other rules. That is no edit of it.
#[test]
fn other_rules_of_reading_are_no_edit_of_the_file_of_an_updated_zone() {
    let folder = TestFolder::new();
    updated(&folder);
    let config = folder.read("zonda.toml");
    let limit = |records: u32| {
        let zone = format!("file = \"a.zone\"\nmax-records = {records}\n");
        folder.write("zonda.toml", &config.replace("file = \"a.zone\"\n", &zone));
    };
    let daemon = folder.serve_with_config();
    assert_eq!(add(&updater(daemon.address), 7), Some(NOERROR));
    limit(100);
    let reload = folder.reload();
    assert_eq!(reload.status, 0, "{}", reload.out);
    daemon.stop();
    // The file was young when it was read first, and is not any more.
    for pause_ms in [0, 1100] {
        std::thread::sleep(Duration::from_millis(pause_ms));
        limit(200 + pause_ms as u32);
        let daemon = folder.serve_with_config();
        assert!(daemon.ask("u7.a.example").has("192.0.2.1"), "{}", daemon.log());
        assert!(!daemon.log().contains("was changed since"), "{}", daemon.log());
        daemon.stop();
    }
    folder.write("a.zone", &zone(1, SLOW, 2));
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("was changed since");
    assert!(daemon.ask("u7.a.example").has("192.0.2.1"));
}

#[test]
fn secondaries_get_changes_after_a_restart_of_their_primary() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    updated(&first);
    let daemon = first.serve_with_config();
    let address = daemon.address.to_string();
    let secondary = secondary(&second, &address, &["a.example"]);
    wait_for(&second, "transferred", serves(1));
    assert_eq!(add(&updater(daemon.address), 3), Some(NOERROR));
    let serial = status(&first)["serial"].as_u64().expect("a serial") as u32;
    daemon.kill();
    let _daemon = first.serve_at(&address);
    assert_eq!(second.zone(&["refresh", "a.example"]).status, 0);
    let status = wait_for(&second, "refreshed", serves(serial));
    assert_eq!(status["last-transfer"]["kind"], "ixfr", "{status}");
    drop(secondary);
}

#[test]
fn on_a_full_disk_updates_fail_and_everything_else_goes_on() {
    let folder = TestFolder::new();
    updated(&folder);
    let Some(daemon) = folder.serve_on_disk("state/zonda", 512, &["--config", "zonda.toml"]) else {
        return report_skipped("this user may not mount a disk");
    };
    let socket = updater(daemon.address);
    assert_eq!(add(&socket, 0), Some(NOERROR), "{}", daemon.log());
    let filler = PathBuf::from(format!("/proc/{}/root", daemon.id()))
        .join(folder.path().strip_prefix("/").expect("it is absolute"))
        .join("state/zonda/filler");
    let mut file = fs::File::create(&filler).expect("a file");
    while file.write_all(&[0; 1024]).is_ok() {}
    // What is left of the last page of the journal may take some.
    let mut answers = (1..200).map(|number| (number, add(&socket, number)));
    let (failed, rcode) = answers.find(|(_, rcode)| *rcode != Some(NOERROR)).expect("the disk is full");
    assert_eq!(rcode, Some(SERVFAIL), "{}", daemon.log());
    assert_eq!(add(&socket, failed + 1), Some(SERVFAIL), "{}", daemon.log());
    daemon.wait_for_log("cannot write the journal");
    assert!(daemon.ask("u0.a.example").has("192.0.2.1"));
    assert_eq!(daemon.ask(&format!("u{}.a.example", failed + 1)).rcode(), NXDOMAIN, "nothing else was published");
    folder.write("b.zone", &zone(2, SLOW, 2));
    daemon.signal("HUP");
    daemon.wait_for_log("reloaded");
    assert!(daemon.ask("h1.b.example").has("192.0.2.1"), "{}", daemon.log());
    drop(file);
    fs::remove_file(&filler).expect("it is ours");
    daemon.wait_for_log("the journal can be written again");
    assert_eq!(add(&socket, 500), Some(NOERROR), "{}", daemon.log());
    let log = daemon.log();
    assert_eq!(log.matches("cannot write the journal").count(), 1, "{log}");
}

#[test]
fn a_secondary_serves_its_zones_after_a_restart_without_its_primary() {
    for is_killed in [false, true] {
        let (first, second) = (TestFolder::new(), TestFolder::new());
        first.write("a.zone", &zone(1, SLOW, 3));
        let primary = primary(&first);
        let address = primary.address.to_string();
        let daemon = secondary(&second, &address, &["a.example"]);
        wait_for(&second, "transferred", serves(1));
        // The second version is a change.
        first.write("a.zone", &zone(2, SLOW, 4));
        assert_eq!(first.reload().status, 0);
        assert_eq!(second.zone(&["refresh", "a.example"]).status, 0);
        let expires = wait_for(&second, "refreshed", serves(2))["expires-at"].clone();
        drop(primary);
        wait_for_journal(&second, b"\x02h3\x01a\x07example\0");
        if is_killed {
            daemon.kill()
        } else {
            drop(daemon.stop())
        }
        let daemon = secondary(&second, &address, &["a.example"]);
        assert!(daemon.ask("h3.a.example").has("192.0.2.1"), "{}", daemon.log());
        let status = wait_for(&second, "restored", serves(2));
        // Timers are written with some delay, but not lost by a stop.
        assert!(is_killed || status["expires-at"] == expires, "{expires} {status}");
    }
}

/// Its primary is asked from the serial of what it has sent: the file would be served until the next change there.
#[test]
fn the_file_of_a_secondary_replaces_nothing_that_a_primary_sent() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(2, SLOW, 2));
    second.write("a.zone", &zone(1, SLOW, 1));
    let primary = primary(&first);
    let of_file = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\n";
    second.write("zonda.toml", &format!("{of_file}primaries = [\"{}\"]\n", primary.address));
    let daemon = second.serve_with_config();
    wait_for(&second, "transferred", serves(2));
    drop(primary);
    daemon.stop();
    let daemon = second.serve_with_config();
    for serial in [1, 3] {
        second.write("a.zone", &zone(serial, SLOW, 1));
        assert_eq!(second.reload().status, 0);
        assert!(daemon.ask("h1.a.example").has("192.0.2.1"), "{}", daemon.log());
    }
    assert_eq!(status(&second)["serial"], 2);
    // Without primaries, it is the file that says what the zone is.
    second.write("a.zone", &zone(1, SLOW, 1));
    second.write("zonda.toml", of_file);
    second.reload();
    assert_eq!(daemon.ask("h1.a.example").rcode(), NXDOMAIN, "{}", daemon.log());
}

#[test]
fn an_expired_zone_stays_expired() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, "1 1 3", 1));
    let primary = primary(&first);
    let address = primary.address.to_string();
    let daemon = secondary(&second, &address, &["a.example"]);
    wait_for(&second, "transferred", serves(1));
    drop(primary);
    daemon.stop();
    std::thread::sleep(Duration::from_secs(5));
    let daemon = secondary(&second, &address, &["a.example"]);
    assert_eq!(daemon.ask("h0.a.example").rcode(), SERVFAIL);
    wait_for(&second, "expired", |status| status["state"] == "expired");
    write_primary_config(&first);
    let _primary = first.serve_at(&address);
    wait_for(&second, "confirmed", serves(1));
    assert!(daemon.ask("h0.a.example").has("192.0.2.1"));
}

#[test]
fn a_zone_that_was_removed_starts_anew() {
    let (first, second) = (TestFolder::new(), TestFolder::new());
    first.write("a.zone", &zone(1, SLOW, 1));
    let primary = primary(&first);
    let address = primary.address.to_string();
    let daemon = secondary(&second, &address, &["a.example"]);
    wait_for(&second, "transferred", serves(1));
    drop(primary);
    daemon.stop();
    // It is removed while the daemon is down.
    let daemon = secondary(&second, &address, &["other.example"]);
    assert_eq!(daemon.ask("h0.a.example").rcode(), REFUSED);
    // The writer answers once it has forgotten the zone.
    crate::zone_status::status_of(&second, "other.example");
    daemon.stop();
    let daemon = secondary(&second, &address, &["a.example"]);
    assert_eq!(daemon.ask("h0.a.example").rcode(), SERVFAIL);
}

#[test]
fn a_large_zone_file_is_read_again_only_if_it_was_changed() {
    let folder = TestFolder::new();
    let path = folder.write("a.zone", &zone(1, SLOW, LARGE));
    folder.write("zonda.toml", "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\n");
    let daemon = folder.serve_with_config();
    daemon.stop();
    assert!(!journal_files(&folder, "").is_empty());
    // The restart does not open it: the user may even not be allowed to.
    let text = fs::read(&path).expect("the file");
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("h7.a.example").has("192.0.2.1"));
    daemon.stop();
    // With the same size and time, but another ctime.
    let modified = fs::metadata(&path).and_then(|metadata| metadata.modified()).expect("it has a time");
    fs::write(
        &path,
        String::from_utf8(text).expect("text").replacen("h7 A", "x7 A", 1).replacen(" 1 3600", " 2 3600", 1),
    )
    .expect("it is written");
    fs::File::options().append(true).open(&path).and_then(|file| file.set_modified(modified)).expect("its time is set");
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("x7.a.example").has("192.0.2.1"), "{}", daemon.log());
    assert_eq!(daemon.ask("h7.a.example").rcode(), NXDOMAIN);
}

/// RFC 1982 3: secondaries that have the later serial would never get what is served with an earlier one.
#[test]
fn the_serial_of_a_small_zone_does_not_go_back_to_that_of_its_file() {
    for policy in ["increment", "date", "unix"] {
        let folder = TestFolder::new();
        let config = format!("[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nserial-policy = \"{policy}\"\n");
        folder.write("zonda.toml", &config);
        folder.write("a.zone", &zone(5, SLOW, 1));
        let daemon = folder.serve_with_config();
        folder.write("a.zone", &zone(5, SLOW, 2));
        folder.reload();
        let serial = status(&folder)["serial"].as_u64().expect("a serial");
        assert!(serial > 5 && daemon.ask("h1.a.example").has("192.0.2.1"), "{policy} {serial}");
        daemon.stop();
        let daemon = folder.serve_with_config();
        assert_eq!(status(&folder)["serial"], serial, "{policy}: {}", daemon.log());
        assert!(daemon.ask("h1.a.example").has("192.0.2.1"));
        // Edited while it is down, and while it runs.
        daemon.stop();
        folder.write("a.zone", &zone(5, SLOW, 3));
        let daemon = folder.serve_with_config();
        daemon.wait_until("read", || daemon.ask("h2.a.example").has("192.0.2.1"));
        let next = status(&folder)["serial"].as_u64().expect("a serial");
        assert!(next > serial, "{policy} {next} {serial}");
        folder.write("a.zone", &zone(5, SLOW, 4));
        folder.reload();
        assert!(status(&folder)["serial"].as_u64() > Some(next) && daemon.ask("h3.a.example").has("192.0.2.1"));
    }
}

/// Secondaries would keep the later version, and miss others with the same serial.
#[test]
fn serials_that_a_restart_forgets_are_warned_of() {
    for (policy, is_warned) in [("increment", true), ("keep", false)] {
        let folder = TestFolder::new();
        let config = format!("[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\nserial-policy = \"{policy}\"\n");
        folder.write("zonda.toml", &config);
        folder.write("a.zone", &zone(5, SLOW, 1));
        let Some(daemon) = folder.serve_without_state_dir(&["--config", "zonda.toml"]) else {
            return report_skipped("this user may not mount");
        };
        let warning = "serials by `serial-policy` are not kept when zonda is restarted";
        daemon.wait_for_log("ready served");
        assert_eq!(daemon.log().contains(warning), is_warned, "{}", daemon.log());
    }
}

/// RFC 2136 3.5: an update is on disk before it is acknowledged. A process that was started without a journal has none after a reload either.
#[test]
fn rfc_2136_3_5_updates_that_a_reload_permits_wait_for_a_journal() {
    let folder = TestFolder::new();
    folder.write_zone("a.example", 1, "192.0.2.1");
    folder.write("zonda.toml", "[[zone]]\nname = \"a.example\"\nfile = \"zones/a.example.zone\"\n");
    let Some(daemon) = folder.serve_without_state_dir(&["--config", "zonda.toml"]) else {
        return report_skipped("this user may not mount");
    };
    let zone = "file = \"zones/a.example.zone\"\nallow-update = [{ key = \"all.\" }]\n";
    folder.write("zonda.toml", &update_client::config(zone));
    daemon.signal("HUP");
    let warning = daemon.wait_for_log("`allow-update` has no effect before a restart");
    assert!(warning.contains("(1 in all, the first is a.example.)"), "{warning}");
    daemon.wait_for_log(" reloaded ");
    let mut client = Client::new(daemon.address);
    let message = update_client::update(1, vec![update_client::add("x.a.example", 1)]);
    for over_tcp in [false, true] {
        assert_eq!(client.update("all.", &message, over_tcp), Rcode::SERVFAIL);
        assert_eq!((daemon.ask("x.a.example").rcode(), client.serial(over_tcp)), (NXDOMAIN, 1));
    }
    drop(daemon);
    let daemon = folder.serve_with_config();
    let answer = Client::new(daemon.address).update("all.", &message, false);
    assert_eq!(answer, Rcode::NOERROR);
}
