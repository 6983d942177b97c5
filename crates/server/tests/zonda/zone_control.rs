//! `zonda zone freeze`, `thaw` and `rollback`.

use std::net::UdpSocket;
use std::time::Duration;

use crate::acceptance::folder;
use crate::harness::{CommandOutput, NXDOMAIN, TestFolder, zone_text};
use crate::zone_status::status;

fn zone(folder: &TestFolder, arguments: &[&str]) -> CommandOutput {
    folder.zone(&[arguments, &["a.example"]].concat())
}

#[test]
fn a_frozen_zone_changes_only_once_it_is_thawed() {
    let folder = folder("", &zone_text(1, "192.0.2.1"));
    let daemon = folder.serve_with_config();
    assert_eq!(zone(&folder, &["freeze"]).status, 0);
    folder.write("a.zone", &zone_text(2, "192.0.2.2"));
    assert_eq!(folder.reload().status, 0);
    let frozen = status(&folder);
    assert!(frozen["frozen"] == true && frozen["serial"] == 1, "{frozen}");
    assert_eq!(zone(&folder, &["status"]).out, "a.example.: serving, frozen, serial 1\n");
    assert_eq!(zone(&folder, &["freeze"]).status, 0, "it is frozen already");
    assert_eq!(zone(&folder, &["thaw"]).status, 0);
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.2"));
    let thawed = status(&folder);
    assert!(thawed["frozen"] == false && thawed["serial"] == 2, "{thawed}");
    assert_eq!(zone(&folder, &["thaw"]).status, 0, "it is not frozen any more");
}

/// The journal stores small zones of files only if there is a reason.
#[test]
fn a_frozen_zone_is_the_same_after_a_restart_though_its_file_has_changed() {
    let folder = folder("", &zone_text(1, "192.0.2.1"));
    let config = folder.read("zonda.toml");
    folder.write("zonda.toml", &format!("[server]\nstate-dir = \"state/zonda\"\n{config}"));
    let daemon = folder.serve_with_config();
    assert_eq!(zone(&folder, &["freeze"]).status, 0);
    folder.write("a.zone", &zone_text(2, "192.0.2.2"));
    daemon.wait_until("stored", || status(&folder)["journal"].is_object());
    daemon.kill();
    let daemon = folder.serve_with_config();
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"), "{}", daemon.log());
    assert!(status(&folder)["frozen"] == true);
    assert_eq!(zone(&folder, &["thaw"]).status, 0);
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.2"), "{}", daemon.log());
}

/// `frozen-zones` cannot be replaced, as on a full disk: the new file would need the name of a folder.
#[test]
fn a_repeated_command_stores_which_zones_are_frozen() {
    let folder = folder("", &zone_text(1, "192.0.2.1"));
    let daemon = folder.serve_with_config();
    let obstacle = folder.path().join("state/zonda/.frozen-zones.new");
    let is_frozen = || status(&folder)["frozen"] == true;
    for (command, now_frozen) in [("freeze", true), ("thaw", false)] {
        std::fs::create_dir(&obstacle).expect("a folder");
        for zones in ["a.example", "--all"] {
            let unstored = folder.zone(&[command, zones]);
            assert!(unstored.status == 1 && unstored.err.contains("not after a restart"), "{unstored:?}");
        }
        let of_two = folder.zone(&[command, "a.example", "typo.example", "--json"]);
        assert!(of_two.err.contains("typo.example") && of_two.err.contains("not after a restart"), "{of_two:?}");
        assert!(of_two.out.contains("\"unsaved\"") && of_two.out.contains("\"done\": 1"), "{of_two:?}");
        assert_eq!(is_frozen(), now_frozen, "the daemon does what it can");
        std::fs::remove_dir(&obstacle).expect("a folder");
        assert_eq!(zone(&folder, &[command]).status, 0);
        let stored = folder.read("state/zonda/frozen-zones");
        assert_eq!(stored == "a.example.\n", now_frozen, "{stored}");
    }
    drop(daemon);
    let _daemon = folder.serve_with_config();
    assert!(!is_frozen());
}

/// Another zone of the same name is another zone, after a restart as before.
#[test]
fn a_frozen_zone_that_was_removed_and_added_again_is_not_frozen_after_a_restart() {
    let folder = folder("", &zone_text(1, "192.0.2.1"));
    let config = folder.read("zonda.toml");
    let daemon = folder.serve_with_config();
    assert_eq!(zone(&folder, &["freeze"]).status, 0);
    let stored = || folder.read("state/zonda/frozen-zones");
    assert_eq!(stored(), "a.example.\n");
    for config in ["[[zone]]\nname = \"b.example\"\nfile = \"a.zone\"\n", &config] {
        folder.write("zonda.toml", config);
        assert_eq!(folder.reload().status, 0);
    }
    assert!(status(&folder)["frozen"] == false);
    daemon.wait_until("stored", || stored().is_empty());
    daemon.kill();
    let _daemon = folder.serve_with_config();
    assert!(status(&folder)["frozen"] == false);
}

/// A secondary that has lost its zone, or that was added, does not wait for the next change.
#[test]
fn secondaries_are_notified_again_on_request() {
    const OPCODE_NOTIFY: u8 = 4;
    let target = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    target.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let address = target.local_addr().expect("it is bound");
    let more = "[[zone]]\nname = \"b.example\"\nfile = \"b.zone\"\n";
    let folder = folder(&format!("notify = [\"{address}\"]\n{more}"), &zone_text(1, "192.0.2.1"));
    folder.write("b.zone", &zone_text(1, "192.0.2.1"));
    let _daemon = folder.serve_with_config();
    // Returns the ID of a NOTIFY, and answers it so that it is not repeated.
    let notified = || {
        let mut message = [0; 512];
        let (len, from) = target.recv_from(&mut message).expect("a NOTIFY");
        assert_eq!(message[2] >> 3, OPCODE_NOTIFY);
        message[2] |= 0x80;
        target.send_to(&message[..len], from).expect("loopback");
        [message[0], message[1]]
    };
    let first = notified();
    assert_eq!(zone(&folder, &["notify"]).status, 0);
    let mut second = notified();
    if second == first {
        // It was sent again before its answer had arrived.
        second = notified();
    }
    assert_ne!(second, first);
    let others = folder.zone(&["notify", "b.example", "c.example"]);
    assert!(others.err.contains("b.example.: the zone has neither `notify` nor `notify-ns`"), "{others:?}");
    assert!(others.status == 1 && others.err.contains("c.example.: this is not a zone of this server"), "{others:?}");
}

#[test]
fn all_zones_are_frozen_at_once_and_what_cannot_be_is_reported() {
    let folder = folder("[[zone]]\nname = \"b.example\"\nfile = \"b.zone\"\n", &zone_text(1, "192.0.2.1"));
    let _daemon = folder.serve_with_config();
    let all = folder.zone(&["freeze", "--all", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&all.out).expect("JSON");
    assert!(all.status == 0 && report["done"] == 1, "{all:?}");
    let named = folder.zone(&["freeze", "b.example", "c.example"]);
    assert_eq!(named.status, 1);
    assert!(named.err.contains("b.example.: the zone is not served: there is nothing to freeze"), "{named:?}");
    assert!(named.err.contains("c.example.: this is not a zone of this server"), "{named:?}");
}

#[test]
fn a_primary_publishes_an_earlier_version_with_the_next_serial() {
    let folder = folder("keep-versions = 2", &zone_text(1, "192.0.2.1"));
    let daemon = folder.serve_with_config();
    let none = zone(&folder, &["rollback"]);
    assert!(none.status == 1 && none.err.contains("no earlier version is kept"), "{none:?}");
    for (serial, address) in [(2, "192.0.2.2"), (3, "192.0.2.3"), (4, "192.0.2.4")] {
        folder.write("a.zone", &zone_text(serial, address));
        assert_eq!(folder.reload().status, 0);
    }
    assert_eq!(status(&folder)["kept-versions"], serde_json::json!([3, 2]));
    assert_eq!(zone(&folder, &["rollback"]).status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.3"));
    let rolled_back = status(&folder);
    assert!(rolled_back["serial"] == 5 && rolled_back["frozen"] == false, "{rolled_back}");
    assert_eq!(rolled_back["kept-versions"], serde_json::json!([4, 3]));
    // The file, which did not change, does not return by itself.
    assert_eq!(folder.reload().status, 0);
    assert_eq!(status(&folder)["serial"], 5);
    assert_eq!(zone(&folder, &["rollback", "--to", "4"]).status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.4"));
    let unknown = zone(&folder, &["rollback", "--to", "1"]);
    assert!(unknown.status == 1 && unknown.err.contains("no version with serial 1 is kept"), "{unknown:?}");
    folder.write("a.zone", &zone_text(7, "192.0.2.7"));
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.7"));
}

#[test]
fn a_signed_zone_returns_to_its_own_serial_and_is_frozen() {
    let signed = |serial, address| zone_text(serial, address) + "@ DNSKEY 256 3 13 AAAA\n";
    let folder = folder("keep-versions = 1", &signed(1, "192.0.2.1"));
    let daemon = folder.serve_with_config();
    folder.write("a.zone", &(signed(2, "192.0.2.2") + "new A 192.0.2.9\n"));
    assert_eq!(folder.reload().status, 0);
    assert_eq!(zone(&folder, &["rollback"]).status, 0);
    let rolled_back = status(&folder);
    assert!(rolled_back["serial"] == 1 && rolled_back["frozen"] == true, "{rolled_back}");
    assert_eq!(daemon.ask("new.a.example").rcode(), NXDOMAIN);
    folder.write("a.zone", &signed(3, "192.0.2.3"));
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"), "a frozen zone is not reloaded");
    assert_eq!(zone(&folder, &["thaw"]).status, 0);
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.a.example").has("192.0.2.3"));
}

/// As on a full disk: the new file would need the name of a folder.
#[test]
fn a_rollback_that_is_not_frozen_after_a_restart_is_no_success() {
    for (end, status, words) in
        [("@ DNSKEY 256 3 13 AAAA\n", 1, "1 of them are not frozen after a restart"), ("", 0, "")]
    {
        let folder = folder("keep-versions = 1", &(zone_text(1, "192.0.2.1") + end));
        let daemon = folder.serve_with_config();
        folder.write("a.zone", &(zone_text(2, "192.0.2.2") + end));
        assert_eq!(folder.reload().status, 0);
        std::fs::create_dir(folder.path().join("state/zonda/.frozen-zones.new")).expect("a folder");
        let rollback = zone(&folder, &["rollback"]);
        assert!(rollback.status == status && rollback.err.contains(words), "{rollback:?}");
        assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    }
}

#[test]
fn rolled_back_and_frozen_zones_stay_so_over_a_restart() {
    let signed = |serial, address| zone_text(serial, address) + "@ DNSKEY 256 3 13 AAAA\n";
    for (is_signed, serial) in [(true, 1), (false, 3)] {
        let text = |serial, address| if is_signed { signed(serial, address) } else { zone_text(serial, address) };
        let folder = folder("keep-versions = 1", &text(1, "192.0.2.1"));
        let daemon = folder.serve_with_config();
        folder.write("a.zone", &text(2, "192.0.2.2"));
        assert_eq!(folder.reload().status, 0);
        assert_eq!(zone(&folder, &["rollback"]).status, 0);
        // It is killed, not stopped.
        drop(daemon);
        let daemon = folder.serve_with_config();
        let status = status(&folder);
        assert!(status["serial"] == serial && status["frozen"] == is_signed, "{status}: {}", daemon.log());
        assert!(daemon.ask("www.a.example").has("192.0.2.1"));
        folder.write("a.zone", &text(4, "192.0.2.4"));
        assert_eq!(folder.reload().status, 0);
        assert!(daemon.ask("www.a.example").has(if is_signed { "192.0.2.1" } else { "192.0.2.4" }));
        if is_signed {
            assert_eq!(zone(&folder, &["thaw"]).status, 0);
            assert_eq!(folder.reload().status, 0);
            assert!(daemon.ask("www.a.example").has("192.0.2.4"));
            drop(daemon);
            let _daemon = folder.serve_with_config();
            assert_eq!(self::status(&folder)["frozen"], false);
        }
    }
}
