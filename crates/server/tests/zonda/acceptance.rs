//! Versions that must not be published: the one served before stays, and the log, the reload and the status say why.

use crate::harness::{CommandOutput, TestFolder, zone_text};

const ZONE: &str = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\n";

/// A folder whose zone `a.example` has these settings and this content.
pub fn folder(settings: &str, text: &str) -> TestFolder {
    let folder = TestFolder::new();
    folder.write("zonda.toml", &format!("{ZONE}{settings}\n"));
    folder.write("a.zone", text);
    folder
}

pub fn reload(folder: &TestFolder) -> CommandOutput {
    folder.run(&["reload", "--config", "zonda.toml"])
}

pub fn status(folder: &TestFolder) -> serde_json::Value {
    let output = folder.run(&["zone", "status", "a.example", "--json", "--config", "zonda.toml"]);
    serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{} {}", output.out, output.err))
}

/// A zone with this many hosts.
fn hosts(serial: u32, count: u32) -> String {
    (0..count).fold(zone_text(serial, "192.0.2.1"), |text, host| text + &format!("h{host} A 192.0.2.1\n"))
}

#[test]
fn a_file_beyond_the_limits_is_refused_and_the_old_version_stays() {
    for (settings, text, reason) in [
        ("max-shrink-percent = 50", hosts(2, 5), "it removes 68 percent of the names, and `max-shrink-percent` is 50"),
        ("max-bytes = 4000", hosts(2, 500), "octets in memory, and `max-bytes` is 4000"),
    ] {
        let folder = folder(settings, &hosts(1, 20));
        let daemon = folder.serve(&["--config", "zonda.toml"]);
        folder.write("a.zone", &text);
        let report = reload(&folder);
        assert_eq!(report.status, 1, "{}", report.out);
        assert!(report.out.contains(reason) && report.out.contains("the version from before is served"), "{report:?}");
        assert!(daemon.ask("h19.a.example").has("192.0.2.1"));
        let status = status(&folder);
        assert_eq!(status["serial"], 1, "{status}");
        assert!(status["problem"].as_str().is_some_and(|problem| problem.contains(reason)), "{status}");
        folder.write("a.zone", &hosts(3, 20));
        assert_eq!(reload(&folder).status, 0);
        assert!(self::status(&folder)["problem"].is_null(), "the problem is over");
    }
}

/// RFC 8976 A.1 with another name.
const DIGEST: &str = "$ORIGIN example.
@ 86400 SOA ns1 admin 2018031900 1800 900 604800 86400
@ 86400 NS ns1
@ 86400 NS ns2
@ 86400 ZONEMD 2018031900 1 1 c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3a1ddc0b9a87153b9a9713b3c9ae5cc27777f98b8e730044c
ns1 3600 A 203.0.113.63
ns2 3600 AAAA 2001:db8::63
";

#[test]
fn rfc_8976_4_a_file_with_a_wrong_digest_is_refused() {
    let folder = TestFolder::new();
    folder.write("zonda.toml", "[[zone]]\nname = \"example\"\nfile = \"a.zone\"\nzonemd = \"full-transfers\"\n");
    folder.write("a.zone", DIGEST);
    let daemon = folder.serve(&["--config", "zonda.toml"]);
    assert!(daemon.ask("ns1.example").has("203.0.113.63"));
    let changed = DIGEST.replace("203.0.113.63", "203.0.113.64");
    folder.write("a.zone", &changed);
    let report = reload(&folder);
    assert!(report.status == 1 && report.out.contains("its digest does not match its ZONEMD record"), "{report:?}");
    folder.write("a.zone", &changed.replace("admin 2018031900", "admin 2018031901"));
    let report = reload(&folder);
    assert!(report.status == 1 && report.out.contains("its ZONEMD record is for serial 2018031900"), "{report:?}");
    assert!(daemon.ask("ns1.example").has("203.0.113.63"));
}
