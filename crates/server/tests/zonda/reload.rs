//! `zonda reload` and SIGHUP: changes are loaded; after an error the previous version is still served.

use crate::harness::{REFUSED, SERVFAIL, TestFolder, zone_text};

const CONFIG: &str = "[template.default]\nfile = \"zones/{name}.zone\"\n[[zone]]\nname = \"a.example\"\n[[zone]]\nname = \"b.example\"\n";

fn two_zones() -> TestFolder {
    let folder = TestFolder::new();
    folder.write_zone("a.example", 1, "192.0.2.1");
    folder.write_zone("b.example", 1, "192.0.2.2");
    folder.write("zonda.toml", CONFIG);
    folder
}

#[test]
fn only_changed_zones_are_reported() {
    let folder = two_zones();
    let daemon = folder.serve_with_config();
    let nothing = folder.reload();
    assert_eq!(nothing.status, 0, "{}", nothing.err);
    assert!(nothing.out.starts_with("0 zones changed, 2 unchanged, 0 not loaded"), "{}", nothing.out);
    folder.write_zone("a.example", 2, "192.0.2.9");
    let changed = folder.reload();
    assert_eq!(changed.status, 0, "{}", changed.err);
    assert!(
        changed.out.starts_with("a.example.: changed, serial 1 -> 2\n1 zones changed, 1 unchanged"),
        "{}",
        changed.out
    );
    assert!(daemon.ask("www.a.example").has("192.0.2.9"));
    assert!(daemon.ask("www.b.example").has("192.0.2.2"));
}

#[test]
fn a_change_without_a_later_serial_is_served_with_a_warning() {
    let folder = two_zones();
    let daemon = folder.serve_with_config();
    folder.write_zone("a.example", 1, "192.0.2.9");
    let outcome = folder.reload();
    assert_eq!(outcome.status, 0, "{}", outcome.out);
    assert!(outcome.out.contains("warning: the zone has changed, but not its serial: 1"), "{}", outcome.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.9"));
}

#[test]
fn a_broken_zone_keeps_its_version_until_it_is_fixed() {
    let folder = two_zones();
    let daemon = folder.serve_with_config();
    folder.write("zones/a.example.zone", &(zone_text(2, "192.0.2.9") + "bad A nonsense\n"));
    for _ in 0..2 {
        let outcome = folder.reload();
        assert_eq!(outcome.status, 1);
        assert!(outcome.out.contains("zones/a.example.zone:5:7: error: "), "{}", outcome.out);
        assert!(
            outcome.out.contains("a.example.: NOT LOADED, the version from before is served, serial 1"),
            "{}",
            outcome.out
        );
        assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    }
    daemon.wait_for_log("a.example.zone:5:7: error: ");
    folder.write_zone("a.example", 3, "192.0.2.9");
    let outcome = folder.run_with_config(&["reload", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.out);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    let expected = serde_json::json!([{"zone": "a.example.", "change": "changed", "old_serial": 1, "serial": 3}]);
    assert_eq!((&value["zones"], &value["unchanged"]), (&expected, &1.into()));
    assert!(daemon.ask("www.a.example").has("192.0.2.9"));
}

#[test]
fn checks_are_set_by_zone_and_changed_by_a_reload() {
    let folder = two_zones();
    for name in ["a.example", "b.example"] {
        folder.write(&format!("zones/{name}.zone"), &(zone_text(1, "192.0.2.1") + "elsewhere.test. A 192.0.2.9\n"));
    }
    let strict = CONFIG.replace("[[zone]]\nname = \"b.", "[[zone]]\nchecks = \"strict\"\nname = \"b.");
    folder.write("zonda.toml", &strict);
    let daemon = folder.serve_with_config();
    daemon.wait_for_log("b.example.zone:5:1: error: an out-of-zone record is skipped: elsewhere.test.");
    daemon.wait_for_log("a.example.zone:5:1: warning: an out-of-zone record is skipped: elsewhere.test.");
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    assert_eq!(daemon.ask("www.b.example").rcode(), SERVFAIL);

    folder.write("zonda.toml", &strict.replace("checks = \"strict\"", "checks = \"lenient\""));
    assert_eq!(folder.reload().status, 0);
    assert!(daemon.ask("www.b.example").has("192.0.2.1"));

    folder.write("zonda.toml", &CONFIG.replace("[template.default]", "[template.default]\nchecks = \"strict\""));
    let outcome = folder.reload();
    assert_eq!(outcome.status, 1, "the files are as they were, and are read again: {}", outcome.out);
    assert!(outcome.out.contains("a.example.: NOT LOADED, the version from before is served"), "{}", outcome.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
}

#[test]
fn a_zone_without_its_file_keeps_its_version() {
    let folder = two_zones();
    let daemon = folder.serve_with_config();
    std::fs::remove_file(folder.path().join("zones/a.example.zone")).expect("it was there");
    let outcome = folder.reload();
    assert_eq!(outcome.status, 1);
    assert!(outcome.out.contains("zones/a.example.zone: error: the zone file cannot be read"), "{}", outcome.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
}

#[test]
fn zones_are_added_and_removed_with_the_configuration() {
    let folder = two_zones();
    folder.write_zone("c.example", 7, "192.0.2.3");
    let daemon = folder.serve_with_config();
    folder.write("zonda.toml", &CONFIG.replace("\"a.example\"", "\"c.example\""));
    let outcome = folder.reload();
    assert_eq!(outcome.status, 0);
    let expected = "a.example.: removed\nc.example.: added, serial 7\n2 zones changed, 1 unchanged, 0 not loaded";
    assert!(outcome.out.starts_with(expected), "{}", outcome.out);
    assert_eq!(daemon.ask("www.a.example").rcode(), REFUSED);
    assert!(daemon.ask("www.c.example").has("192.0.2.3"));
}

#[test]
fn a_reload_lists_folders_again() {
    let folder = two_zones();
    let daemon = folder.serve(&["zones"]);
    folder.write_zone("c.example", 1, "192.0.2.3");
    let outcome = folder.run(&["reload"]);
    assert!(outcome.out.starts_with("c.example.: added"), "{} {}", outcome.out, outcome.err);
    assert!(daemon.ask("www.c.example").has("192.0.2.3"));
}

#[test]
fn the_last_zones_are_not_removed_unless_allowed() {
    let folder = two_zones();
    let daemon = folder.serve_with_config();
    folder.write("zonda.toml", "");
    let outcome = folder.reload();
    assert_eq!(outcome.status, 1);
    assert!(
        outcome.out.starts_with("zonda.toml: error: no zone is left of the 2 that are configured now"),
        "{}",
        outcome.out
    );
    assert!(outcome.out.contains("set `allow-no-zones = true` in [server]"), "{}", outcome.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    folder.write("zonda.toml", "[server]\nallow-no-zones = true\n");
    assert_eq!(folder.reload().status, 0);
    assert_eq!(daemon.ask("www.a.example").rcode(), REFUSED);
}

/// A folder without any zone file left is usually one whose mount is missing.
#[test]
fn an_emptied_folder_keeps_its_zones() {
    let folder = two_zones();
    folder.write("more/c.example.zone", &zone_text(1, "192.0.2.3"));
    folder.write("empty/readme", "no zone here, and never was");
    let daemon = folder.serve(&["zones", "more", "empty"]);
    let file = folder.path().join("more/c.example.zone");
    std::fs::rename(&file, folder.path().join("c")).expect("it was there");
    for _ in 0..2 {
        let outcome = folder.run(&["reload"]);
        assert_eq!(outcome.status, 1);
        assert!(outcome.out.starts_with("more: error: there is no file left to read here"), "{}", outcome.out);
        assert!(daemon.ask("www.c.example").has("192.0.2.3"));
    }
    std::fs::rename(folder.path().join("c"), &file).expect("it was there");
    std::fs::rename(folder.path().join("more"), folder.path().join("gone")).expect("it was there");
    assert!(folder.run(&["reload"]).out.starts_with("more: error: this cannot be read"));
    std::fs::rename(folder.path().join("gone"), folder.path().join("more")).expect("it was there");
    assert!(folder.run(&["reload"]).out.contains("0 zones changed, 3 unchanged"));
}

/// As a folder of zone files: the zones, and the updates to them, would be gone with a mount.
#[test]
fn a_pattern_that_matches_nothing_any_more_keeps_its_zones() {
    let folder = two_zones();
    folder.write("zones.d/c.toml", "[[zone]]\nname = \"c.example\"\nfile = \"c.zone\"\n");
    folder.write("zones.d/c.zone", &zone_text(1, "192.0.2.3"));
    folder.write("lists/own.list", "d.example listed\n");
    folder.write("zones/d.example.zone", &zone_text(1, "192.0.2.4"));
    let patterns = "include = [\"zones.d/*.toml\", \"never/*.toml\"]\nzone-list = [\"lists/*.list\"]\n";
    let template = "[template.listed]\nfile = \"zones/{name}.zone\"\n";
    folder.write("zonda.toml", &[patterns, CONFIG, template].concat());
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("www.c.example").has("192.0.2.3") && daemon.ask("www.d.example").has("192.0.2.4"));
    for (name, pattern) in [("zones.d", "zones.d/*.toml"), ("lists", "lists/*.list")] {
        let gone = folder.path().join("gone");
        std::fs::rename(folder.path().join(name), &gone).expect("it was there");
        let outcome = folder.reload();
        let expected = format!("{pattern}: error: there is no file left to read here");
        assert!(outcome.status == 1 && outcome.out.starts_with(&expected), "{outcome:?}");
        assert!(daemon.ask("www.c.example").has("192.0.2.3") && daemon.ask("www.d.example").has("192.0.2.4"));
        std::fs::rename(&gone, folder.path().join(name)).expect("it was there");
        assert_eq!(folder.reload().status, 0);
    }
}

#[test]
fn names_of_zone_files_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let folder = two_zones();
    let daemon = folder.serve(&["zones"]);
    let file = folder.path().join(std::ffi::OsStr::from_bytes(b"zones/caf\xe9.example.zone"));
    std::fs::write(&file, zone_text(1, "192.0.2.3")).expect("a file");
    let outcome = folder.run(&["reload"]);
    assert!(outcome.out.starts_with("caf\\233.example.: added, serial 1\n"), "{}", outcome.out);
    std::fs::write(&file, "nonsense").expect("a file");
    let outcome = folder.run(&["reload"]);
    assert!(outcome.out.starts_with("zones/caf\\xe9.example.zone:1:"), "{}", outcome.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
}

#[test]
fn a_broken_configuration_changes_nothing() {
    let folder = two_zones();
    let daemon = folder.serve_with_config();
    folder.write_zone("a.example", 2, "192.0.2.9");
    folder.write("zonda.toml", "[server]\ncolour = \"blue\"\n");
    let outcome = folder.reload();
    assert_eq!(outcome.status, 1);
    assert!(outcome.out.starts_with("zonda.toml:2:1: error: there is no key `colour` here"), "{}", outcome.out);
    assert!(outcome.out.ends_with("nothing was changed: fix the configuration first\n"), "{}", outcome.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
}

#[test]
fn keys_that_need_a_restart_are_named() {
    let folder = two_zones();
    let _daemon = folder.serve_with_config();
    folder.write("zonda.toml", &format!("[server]\ntcp-connections = 7\nnsid = \"x\"\n{CONFIG}"));
    let outcome = folder.reload();
    assert_eq!(outcome.status, 0);
    assert!(outcome.out.starts_with("waiting for a restart: tcp-connections\n"), "{}", outcome.out);
}

#[test]
fn changed_settings_of_a_zone_are_applied() {
    let folder = two_zones();
    let _daemon = folder.serve_with_config();
    folder.write("zonda.toml", &format!("{CONFIG}allow-transfer = [\"127.0.0.1\"]\n"));
    let outcome = folder.reload();
    assert!(outcome.out.starts_with("b.example.: settings changed\n1 zones changed, 1 unchanged"), "{}", outcome.out);
}

#[test]
fn a_change_of_an_included_file_is_detected() {
    let folder = two_zones();
    folder.write("zones/a.example.zone", &(zone_text(1, "192.0.2.1") + "$INCLUDE parts/more\n"));
    folder.write("zones/parts/more", "more A 192.0.2.7\n");
    let daemon = folder.serve_with_config();
    folder.write("zones/parts/more", "more A 192.0.2.8\n");
    let outcome = folder.reload();
    assert!(outcome.out.contains("\na.example.: changed"), "{}", outcome.out);
    assert!(daemon.ask("more.a.example").has("192.0.2.8"));
}

#[test]
fn sighup_reloads_and_notifies_systemd() {
    let folder = two_zones();
    let daemon = folder.serve_with_config();
    folder.write_zone("a.example", 2, "192.0.2.9");
    folder.write("zones/b.example.zone", "nonsense\n");
    daemon.signal("HUP");
    assert!(daemon.wait_for_notification("RELOADING=1").contains("MONOTONIC_USEC="));
    daemon.wait_for_notification("READY=1");
    assert!(daemon.ask("www.a.example").has("192.0.2.9"));
    assert!(daemon.ask("www.b.example").has("192.0.2.2"));
}

#[test]
fn a_zone_that_failed_at_the_start_is_loaded_by_a_reload() {
    let folder = two_zones();
    folder.write("zones/a.example.zone", "nonsense\n");
    let daemon = folder.serve_with_config();
    assert_eq!(daemon.ask("www.a.example").rcode(), SERVFAIL);
    let failed = folder.reload();
    assert_eq!(failed.status, 1);
    assert!(failed.out.contains("a.example.: NOT LOADED, answered with SERVFAIL"), "{}", failed.out);
    folder.write_zone("a.example", 1, "192.0.2.1");
    let fixed = folder.reload();
    assert!(fixed.out.starts_with("a.example.: added, serial 1"), "{}", fixed.out);
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
}

#[test]
fn a_missing_daemon_is_an_error() {
    let folder = two_zones();
    let outcome = folder.run(&["reload", "--state-dir", "nowhere"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err.contains("no zonda answers at nowhere/control.sock"), "{}", outcome.err);
    assert!(outcome.err.contains("(help: start it, or name its configuration with --config"), "{}", outcome.err);
}

/// Not that no server answers in the default state-dir, which may be another one's.
#[test]
fn a_configuration_that_cannot_be_read_is_reported_instead_of_the_default_state_dir() {
    let folder = two_zones();
    let _daemon = folder.serve_with_config();
    for command in [&["reload"][..], &["metrics"], &["zone", "status"], &["zone", "export", "a.example"]] {
        let outcome = folder.run(&[command, &["--config", "absent.toml"]].concat());
        assert_eq!((outcome.status, outcome.out.as_str()), (1, ""), "{command:?}");
        let expected =
            "absent.toml: error: the configuration cannot be read: No such file or directory (os error 2) (help: ";
        assert!(outcome.err.contains(expected), "{command:?}: {}", outcome.err);
    }
}
