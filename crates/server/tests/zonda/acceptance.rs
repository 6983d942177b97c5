//! Versions that must not be published: the one served before stays, and the log, the reload and the status say why.

use crate::harness::{TestFolder, eventually, zone_text};
use crate::zone_status::status;

const ZONE: &str = "[[zone]]\nname = \"a.example\"\nfile = \"a.zone\"\n";

/// A folder whose zone `a.example` has these settings and this content.
pub fn folder(settings: &str, text: &str) -> TestFolder {
    let folder = TestFolder::new();
    folder.write("zonda.toml", &format!("{ZONE}{settings}\n"));
    folder.write("a.zone", text);
    folder
}

/// A zone with this many hosts.
fn hosts(serial: u32, count: u32) -> String {
    (0..count).fold(zone_text(serial, "192.0.2.1"), |text, host| text + &format!("h{host} A 192.0.2.1\n"))
}

#[test]
fn a_file_beyond_the_limits_is_refused_and_the_old_version_stays() {
    let others = hosts(2, 20).replace("\nh", "\ng");
    for (settings, text, reason) in [
        ("max-shrink-percent = 50", hosts(2, 5), "it removes 69 percent of the names, and `max-shrink-percent` is 50"),
        ("max-shrink-percent = 50", others, "it removes 91 percent of the names, and `max-shrink-percent` is 50"),
        ("max-bytes = 4000", hosts(2, 500), "octets in memory, and `max-bytes` is 4000"),
    ] {
        let folder = folder(settings, &hosts(1, 20));
        let daemon = folder.serve_with_config();
        folder.write("a.zone", &text);
        let report = folder.reload();
        assert_eq!(report.status, 1, "{}", report.out);
        assert!(report.out.contains(reason) && report.out.contains("the version from before is served"), "{report:?}");
        assert!(daemon.ask("h19.a.example").has("192.0.2.1"));
        let status = status(&folder);
        assert_eq!(status["serial"], 1, "{status}");
        assert!(status["problem"].as_str().is_some_and(|problem| problem.contains(reason)), "{status}");
        folder.write("a.zone", &hosts(3, 20));
        assert_eq!(folder.reload().status, 0);
        assert!(crate::zone_status::status(&folder)["problem"].is_null(), "the problem is over");
    }
}

#[test]
fn a_version_that_comes_close_to_a_limit_is_reported_once() {
    let folder = folder("max-records = 1000", &hosts(1, 800));
    let daemon = folder.serve_with_config();
    for (serial, count, is_near) in [(2, 896, false), (3, 897, true), (4, 990, false), (5, 100, false), (6, 990, true)]
    {
        folder.write("a.zone", &hosts(serial, count));
        let report = folder.reload();
        let words = format!("it has {} records, which is close to the limit: `max-records` is 1000", count + 3);
        assert_eq!((report.status, report.out.contains(&words)), (0, is_near), "{report:?}");
    }
    assert!(daemon.ask("h989.a.example").has("192.0.2.1"));
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
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("ns1.example").has("203.0.113.63"));
    let changed = DIGEST.replace("203.0.113.63", "203.0.113.64");
    folder.write("a.zone", &changed);
    let report = folder.reload();
    assert!(report.status == 1 && report.out.contains("its digest does not match its ZONEMD record"), "{report:?}");
    folder.write("a.zone", &changed.replace("admin 2018031900", "admin 2018031901"));
    let report = folder.reload();
    assert!(report.status == 1 && report.out.contains("its ZONEMD record is for serial 2018031900"), "{report:?}");
    let check = folder.run_with_config(&["check"]);
    assert!(check.status == 1 && check.out.contains("its ZONEMD record is for serial 2018031900"), "{check:?}");
    assert!(daemon.ask("ns1.example").has("203.0.113.63"));
}

/// The digest is that of the file, and is stale with any other serial.
#[test]
fn rfc_8976_4_another_serial_removes_the_digest() {
    let folder = TestFolder::new();
    let settings = "keep-versions = 2\nserial-policy = \"increment\"\nzonemd = \"full-transfers\"\n";
    folder.write("zonda.toml", &format!("[[zone]]\nname = \"example\"\nfile = \"a.zone\"\n{settings}"));
    folder.write("a.zone", DIGEST);
    let _daemon = folder.serve_with_config();
    let has = |serial: u32, has_digest: bool| {
        let text = folder.zone(&["export", "example"]).out;
        assert!(text.contains(&format!(" {serial} ")) && text.contains("ZONEMD") == has_digest, "{serial}: {text}");
    };
    has(2018031900, true);
    folder.write("a.zone", &zone_text(2018031909, "192.0.2.1"));
    assert_eq!(folder.reload().status, 0);
    folder.write("a.zone", &DIGEST.replace("63", "64"));
    let wrong = folder.reload();
    assert!(wrong.status == 1 && wrong.out.contains("its digest does not match its ZONEMD record"), "{wrong:?}");
    for _ in 0..2 {
        folder.write("a.zone", DIGEST);
        assert_eq!(folder.reload().status, 0);
        has(2018031910, false);
    }
    assert_eq!(folder.zone(&["rollback", "example", "--to", "2018031900"]).status, 0);
    has(2018031911, false);
}

#[test]
fn a_changed_file_gets_a_serial_by_the_policy() {
    let folder = folder("serial-policy = \"increment\"", &zone_text(5, "192.0.2.1"));
    let daemon = folder.serve_with_config();
    for (serial, address, served) in
        [(5, "192.0.2.2", 6), (5, "192.0.2.3", 7), (5, "192.0.2.3", 7), (9, "192.0.2.4", 9), (3, "192.0.2.5", 10)]
    {
        folder.write("a.zone", &zone_text(serial, address));
        let report = folder.reload();
        assert!(report.status == 0 && !report.out.contains("warning"), "{report:?}");
        assert!(daemon.ask("www.a.example").has(address));
        assert_eq!(status(&folder)["serial"], served, "the file has {serial} and {address}");
    }
    let signed = zone_text(3, "192.0.2.6") + "@ DNSKEY 256 3 13 AAAA\n";
    folder.write("a.zone", &signed);
    let report = folder.reload();
    assert!(report.out.contains("the zone has changed, but its serial went back"), "{report:?}");
    assert_eq!(status(&folder)["serial"], 3, "a signed zone keeps the serial of its file");
}

/// A zone signed by BIND; `None` if it is not installed.
fn signed_by_bind(folder: &TestFolder, algorithm: &str, end: &str, serial: u32) -> Option<String> {
    let run = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).current_dir(folder.path()).output();
        match output {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            output => Some(crate::harness::outcome(output.expect("it runs"))),
        }
    };
    for file in std::fs::read_dir(folder.path()).expect("it is ours").flatten() {
        if file.file_name().to_string_lossy().starts_with("Ka.example") {
            std::fs::remove_file(file.path()).expect("it is ours");
        }
    }
    let text = zone_text(serial, "192.0.2.1") + "*.w A 192.0.2.1\nsub NS ns.sub\nns.sub A 192.0.2.1\nT TXT \"A b\"\n";
    folder.write("plain.zone", &text);
    run("dnssec-keygen", &["-a", algorithm, "-f", "KSK", "a.example"])?;
    run("dnssec-keygen", &["-a", algorithm, "a.example"])?;
    let sign = ["-S", "-x", "-o", "a.example", "-e", end, "-f", "signed.zone", "plain.zone"];
    let signed = run("dnssec-signzone", &sign)?;
    assert_eq!(signed.status, 0, "{signed:?}");
    Some(folder.read("signed.zone"))
}

const DNSSEC: &str = "dnssec-check = \"refuse\"\ndnssec-scope = \"zone\"";

#[test]
fn rfc_4035_5_3_versions_with_bad_signatures_are_refused() {
    for algorithm in ["RSASHA256", "RSASHA512", "ECDSAP256SHA256", "ECDSAP384SHA384", "ED25519"] {
        let folder = folder(DNSSEC, "");
        let Some(good) = signed_by_bind(&folder, algorithm, "now+86400", 1) else {
            return crate::harness::report_skipped("needs dnssec-keygen and dnssec-signzone");
        };
        folder.write("a.zone", &good);
        let daemon = folder.serve_with_config();
        assert!(daemon.ask("www.a.example").has("192.0.2.1"), "{algorithm}: {}", daemon.log());
        let expiring = signed_by_bind(&folder, algorithm, "now+600", 2).expect("as before");
        let changed = signed_by_bind(&folder, algorithm, "now+86400", 3).expect("as before");
        let changed = changed.replace("192.0.2.1", "192.0.2.2");
        for (text, reason) in [
            (expiring.as_str(), "of a.example. have a signature that expires soon, at 20"),
            (&changed, "the A records of *.w.a.example. have a signature that does not fit them"),
            (&zone_text(4, "192.0.2.4"), "it has no DNSKEY records, and the version served is signed"),
        ] {
            folder.write("a.zone", text);
            let report = folder.reload();
            assert!(report.status == 1 && report.out.contains(reason), "{algorithm}: {}", report.out);
            assert_eq!(status(&folder)["serial"], 1);
        }
    }
}

#[test]
fn bad_signatures_may_be_a_warning_only() {
    let folder = folder("dnssec-check = \"warn\"", "");
    let text = zone_text(1, "192.0.2.1")
        + "@ DNSKEY 257 3 13 GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edbkrSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA==\n";
    folder.write("a.zone", &text);
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("www.a.example").has("192.0.2.1"));
    daemon.wait_for_log("validators will not accept it: the");
}

#[test]
fn a_zone_is_written_as_text_on_request() {
    let folder = folder("write-file = \"text/{name}.txt\"", &zone_text(1, "192.0.2.1"));
    folder.write("text/other", "");
    let daemon = folder.serve_with_config();
    let written = |wanted: &str| {
        let mut text = String::new();
        let is_written = eventually(|| {
            text = std::fs::read_to_string(folder.path().join("text/a.example.txt")).unwrap_or_default();
            text.contains(wanted)
        });
        assert!(is_written, "{wanted} is not in {text}: {}", daemon.log());
        text
    };
    let text = written("www 3600 IN A 192.0.2.1");
    assert!(text.starts_with("; the text of zone a.example., ") && text.contains("\n$ORIGIN a.example.\n"), "{text}");
    // Three versions within the interval are written once, the last of them.
    for serial in 2..5 {
        folder.write("a.zone", &zone_text(serial, &format!("192.0.2.{serial}")));
        assert_eq!(folder.reload().status, 0);
    }
    let begin = std::time::Instant::now();
    written("www 3600 IN A 192.0.2.4");
    assert!(begin.elapsed() > std::time::Duration::from_secs(2), "it is limited");
    let files: Vec<_> = std::fs::read_dir(folder.path().join("text")).expect("it is there").flatten().collect();
    assert_eq!(files.len(), 2, "nothing else is left: {files:?}");
    // A file that a reload asks for does not wait for the next version.
    folder.write("zonda.toml", &format!("{ZONE}write-file = \"text/other.txt\"\n"));
    assert_eq!(folder.reload().status, 0);
    daemon.wait_until("written", || folder.path().join("text/other.txt").exists());
}

#[test]
fn text_files_that_would_destroy_a_file_are_refused() {
    let folder = folder("", &zone_text(1, "192.0.2.1"));
    let template = |keys: &str| format!("{ZONE}[template.added]\n{keys}\n");
    for (config, mistake) in [
        (format!("{ZONE}write-file = \"a.zone\"\n"), "zone a.example.: `write-file` is its own zone file"),
        (
            "[template.default]\nwrite-file = \"all.txt\"\nfile = \"a.zone\"\n[[zone]]\nname = \"b\"\n[[zone]]\nname = \"c\"\n".into(),
            "zone c.: `write-file` is that of another zone too",
        ),
        (
            format!("{ZONE}[[zone]]\nname = \"b\"\nfile = \"b.zone\"\nwrite-file = \"a.zone\"\n"),
            "zone b.: `write-file` is the zone file of a.example.",
        ),
        (
            format!("{ZONE}[[zone]]\nname = \"b\"\nprimaries = [\"192.0.2.1\"]\nwrite-file = \"a.zone\"\n"),
            "zone b.: `write-file` is the zone file of a.example.",
        ),
        (
            template("file = \"{name}.zone\"\nwrite-file = \"{name}.zone\""),
            "template added: `write-file` is the zone file",
        ),
        (
            template("file = \"{name}.zone\"\nwrite-file = \"out.txt\""),
            "template added: `write-file` is the same for all zones",
        ),
        (
            template("primaries = [\"192.0.2.1\"]\nwrite-file = \"out.txt\""),
            "template added: `write-file` is the same for all zones",
        ),
    ] {
        folder.write("zonda.toml", &config);
        let check = folder.run_with_config(&["check"]);
        assert!(check.status == 1 && check.out.contains(mistake), "{mistake}: {check:?}");
    }
    // A secondary starts with what it had, and others may be added with a template like that.
    let own = "write-file = \"{name}.zone\"\nfile = \"{name}.zone\"\nprimaries = [\"192.0.2.1\"]\n";
    folder.write("zonda.toml", &format!("{}[[zone]]\nname = \"b\"\n{own}", template(own)));
    folder.write("b.zone", &zone_text(1, "192.0.2.1"));
    let config = folder.run_with_config(&["config"]);
    assert_eq!(config.status, 0, "{config:?}");
}

/// The manual: zonda never changes a zone file. The configuration does not say which zones are added.
#[test]
fn the_text_of_an_added_zone_replaces_no_zone_file() {
    let folder = TestFolder::new();
    folder.write("zones/b.zone", &zone_text(1, "192.0.2.1"));
    folder.write("own/b.txt", &zone_text(1, "192.0.2.1"));
    let template = "[template.default]\nfile = \"zones/{name}.zone\"\nwrite-file = \"own/{name}.txt\"\n";
    folder.write("zonda.toml", &format!("[[zone]]\nname = \"a.example\"\nfile = \"own/b.txt\"\n{template}"));
    let daemon = folder.serve_with_config();
    assert_eq!(folder.zone(&["add", "b"]).status, 0);
    let line = daemon.wait_for_log("the text cannot be written to");
    assert!(line.contains("zone=b.") && line.contains("help: move it away, or set another `write-file`"), "{line}");
    let kept = folder.read("own/b.txt");
    assert_eq!(kept, zone_text(1, "192.0.2.1"));
}
