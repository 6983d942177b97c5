//! `zonda zone`: what the running daemon says about its zones, and their text.

use std::io::Read;
use std::process::Stdio;

use crate::harness::{TestFolder, outcome, zone_text};

const CONFIG: &str = "[template.default]\nfile = \"zones/{name}.zone\"\n[[zone]]\nname = \"a.example\"\n[[zone]]\nname = \"b.example\"\n";

fn one_good_zone() -> TestFolder {
    let folder = TestFolder::new();
    folder.write_zone("a.example", 7, "192.0.2.1");
    folder.write("zonda.toml", CONFIG);
    folder
}

#[test]
fn status_shows_which_serial_is_served_and_what_failed() {
    let folder = one_good_zone();
    let _daemon = folder.serve_with_config();
    let all = folder.zone(&["status"]);
    let failed = "b.example.: failed; zones/b.example.zone: error: the zone file cannot be read: No such file or directory (os \
                  error 2) (help: create the file, or correct its path in the configuration)\n";
    assert_eq!((all.status, all.out), (0, format!("a.example.: serving, serial 7\n{failed}")));
    let one = folder.zone(&["status", "A.example", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&one.out).expect("JSON");
    assert_eq!((&value["name"], &value["serial"]), (&"a.example.".into(), &7.into()));
    let keys = [&value["primary-serial"], &value["expires-at"], &value["last-transfer"]];
    assert!(keys.iter().all(|value| value.is_null()) && value["state"] == "serving", "{value}");
    let none = folder.zone(&["status", "b.example", "c.example"]);
    assert_eq!((none.status, none.out.as_str()), (1, failed));
    assert_eq!(none.err, "zonda: c.example.: this is not a zone of this server\n");
}

#[test]
fn more_zones_than_a_response_holds_are_all_shown() {
    let folder = one_good_zone();
    let zones: String = (0..2_500).map(|number| format!("z{number}.example\n")).collect();
    folder.write("zones.list", &zones);
    folder.write("zonda.toml", "zone-list = [\"zones.list\"]\n[template.default]\nfile = \"zones/a.example.zone\"\n");
    let _daemon = folder.serve_with_config();
    let all = folder.zone(&["status", "--json"]);
    let names: std::collections::BTreeSet<String> = all
        .out
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["name"].to_string())
        .collect();
    assert_eq!((all.status, names.len()), (0, 2_500));
}

#[test]
fn export_prints_zone_text_that_can_be_served() {
    let folder = one_good_zone();
    let daemon = folder.serve_with_config();
    let export = folder.zone(&["export", "a.example"]);
    assert_eq!(export.status, 0, "{}", export.err);
    assert!(export.out.starts_with("$ORIGIN a.example.\n@ "), "{}", export.out);
    drop(daemon);
    folder.write("zones/a.example.zone", &export.out);
    let checked = folder.run(&["check", "--zone", "a.example=zones/a.example.zone"]);
    assert_eq!(checked.status, 0, "{}", checked.out);
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    for (name, reason) in [
        ("b.example", "b.example. is not loaded: `zonda zone status` shows why"),
        ("c", "c. is not a zone of this server"),
    ] {
        let outcome = folder.zone(&["export", name]);
        assert_eq!((outcome.status, outcome.err), (1, format!("zonda: {reason}\n")));
    }
}

/// `zonda zone export NAME > FILE` must not leave a part of the zone there with status 0.
#[test]
fn an_export_that_is_cut_off_fails() {
    let folder = one_good_zone();
    // More than the socket and the pipe hold.
    let hosts: String = (0..100_000).map(|host| format!("h{host} A 192.0.2.9\n")).collect();
    folder.write("zones/a.example.zone", &(zone_text(7, "192.0.2.1") + &hosts));
    let daemon = folder.serve_with_config();
    let mut export = folder.zonda(&["zone", "export", "a.example", "--config", "zonda.toml"]);
    let mut export = export.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("zonda runs");
    let mut text = export.stdout.take().expect("it is piped");
    text.read_exact(&mut [0]).expect("it begins");
    daemon.kill();
    text.read_to_end(&mut Vec::new()).expect("a pipe");
    let export = outcome(export.wait_with_output().expect("it ends"));
    assert!(export.status == 1 && export.err.contains("the zone text is incomplete"), "{export:?}");
}
