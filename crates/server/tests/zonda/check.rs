//! `zonda check`: all errors, each with its position.

use crate::harness::{TestFolder, report_skipped, zone_text};
use crate::test_certificates::TestCertificates;

#[test]
fn a_good_configuration_and_its_zones_pass() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    folder.write("zonda.toml", "[[zone]]\nname = \"example.com\"\nfile = \"zones/{name}.zone\"\n");
    let outcome = folder.run_with_config(&["check"]);
    assert_eq!((outcome.status, outcome.out.as_str()), (0, "1 zones read, 0 errors, 0 warnings\n"), "{}", outcome.err);
}

const MANY_MISTAKES: &str = r#"colour = "blue"
include = ["more/*.toml", "absent.toml"]
[server]
lisen = ["127.0.0.1"]
workers = -1
tcp-workers = "two"
listen = ["127.0.0.1", "nowhere", 7]
udp-payload = 100
cookie-secrets = ["00112233"]
allow-transfer = []
log-level = "loud"
[sever]
[zone]
name = "x."
[[zone]]
name = "a..b"
file = "f"
[[zone]]
file = "f"
[[zone]]
name = "twice.example"
file = "f"
[[zone]]
name = "TWICE.example."
file = "f"
template = "custmer"
[[zone]]
name = "fileless.example"
allow-transfer = ["192.0.2.1/24"]
[template.customer]
name = "x"
nofity = []
"#;

#[test]
fn all_errors_of_a_configuration_are_reported_in_one_run() {
    let folder = TestFolder::new();
    folder.write("zonda.toml", MANY_MISTAKES);
    folder.write("more/b.toml", "include = []\n[server]\nlisten = [\"::1\"]\n");
    folder.write("more/a.toml", "[server\n");
    let outcome = folder.run_with_config(&["check"]);
    assert_eq!(outcome.status, 1);
    for expected in [
        "zonda.toml:1:1: error: there is no key `colour` here (help: zonda.toml(5) lists the keys: `zonda man zonda.toml`)",
        "zonda.toml:4:1: error: there is no key `lisen` here (help: did you mean `listen`?)",
        "zonda.toml:5:11: error: `workers`: -1 is out of range (help: write a whole number from 0 to 1024)",
        "zonda.toml:6:15: error: `tcp-workers`: this has the type string (help: write a whole number from 0 to 1024)",
        "zonda.toml:7:24: error: `listen`: `nowhere` is not an address with an optional port (help: write an address with",
        "zonda.toml:7:35: error: `listen`: this has the type integer (help: write an address with",
        "zonda.toml:8:15: error: `udp-payload`: 100 is out of range (help: write a whole number from 512 to 4096)",
        "zonda.toml:9:19: error: `cookie-secrets`: this is not a cookie secret (help: write a string of 32 hexadecimal digits",
        "zonda.toml:10:1: error: there is no key `allow-transfer` here (help: `allow-transfer` belongs in [[zone]] or [template.NAME])",
        "zonda.toml:11:13: error: `log-level`: unknown value `loud` (help: write one of \"error\", \"warn\"",
        "zonda.toml:12:2: error: there is no key `sever` here (help: did you mean [server]?)",
        "zonda.toml:13:2: error: there is no key `zone` here (help: did you mean [[zone]]?)",
        "zonda.toml:16:8: error: `name`: `a..b` is not a domain name",
        "zonda.toml:18:1: error: this zone has no name (help: add name = \"example.com\")",
        "zonda.toml:23:1: error: zone twice.example. is named twice (help: it was first named at zonda.toml:20:1",
        "zonda.toml:23:1: error: there is no template `custmer` (help: did you mean `customer`?)",
        "zonda.toml:27:1: error: zone fileless.example. has no file",
        "zonda.toml:29:19: error: `allow-transfer`: the address of `192.0.2.1/24` has bits set after the prefix length",
        "zonda.toml:31:1: error: a template cannot set `name` (help: set it in [[zone]])",
        "zonda.toml:32:1: error: there is no key `nofity` here (help: did you mean `notify`?)",
        "zonda.toml:2:27: error: `absent.toml` cannot be read",
        "more/a.toml:1:8: error: unclosed table, expected `]` (help: write KEY = VALUE, with names and addresses in double quotes",
        "more/b.toml:1:1: error: an included file cannot include others",
        "more/b.toml:3:1: error: `listen` is set twice (help: it was first set at zonda.toml:7:1)",
    ] {
        assert!(outcome.out.contains(expected), "{expected}\nis not in\n{}", outcome.out);
    }
    let lines =
        outcome.out.lines().filter_map(|line| line.strip_prefix("zonda.toml:")?.split(':').next()?.parse().ok());
    let lines: Vec<u32> = lines.collect();
    assert!(lines.is_sorted(), "in the order of the text: {}", outcome.out);
    assert_eq!(outcome.out.lines().last(), Some("0 zones read, 24 errors, 0 warnings"), "{}", outcome.out);
    assert!(!outcome.out.contains("00112233"), "a secret is never shown");
}

#[test]
fn a_secret_in_the_wrong_place_is_not_quoted() {
    let folder = TestFolder::new();
    let secret = "00112233445566778899aabbccddeeff";
    for (line, expected) in [
        (format!("cookie-secrets = \"{secret}\""), "`cookie-secrets`: this has the type string (help: write a list, "),
        (
            format!("cookie-secrets = [[\"{secret}\"]]"),
            "`cookie-secrets`: this has the type array (help: write a string ",
        ),
        (
            format!("cookie-secrets = [\"{secret}0\"]"),
            "`cookie-secrets`: this is not a cookie secret (help: write a string ",
        ),
        (format!("workers = \"{secret}\""), "`workers`: this has the type string (help: write a whole number "),
    ] {
        folder.write("zonda.toml", &format!("[server]\n{line}\n"));
        let outcome = folder.run_with_config(&["check"]);
        assert!(outcome.out.contains(expected), "{line}: {}", outcome.out);
        assert!(!outcome.out.contains(secret), "{line}: {}", outcome.out);
    }
}

#[test]
fn all_errors_of_zones_are_reported_with_the_zone() {
    let folder = TestFolder::new();
    let broken = zone_text(1, "192.0.2.1") + "bad A 192.0.2.999\nworse MX mail\n";
    folder.write("zones/broken.example.zone", &broken);
    folder.write_zone("good.example", 1, "192.0.2.1");
    let outcome = folder.run(&["check", "zones"]);
    assert_eq!(outcome.status, 1);
    for (line, column) in [(5, 7), (6, 10)] {
        let place = format!("zones/broken.example.zone:{line}:{column}: error: ");
        let found = outcome.out.lines().find(|line| line.starts_with(&place));
        assert!(found.is_some_and(|line| line.ends_with("[zone broken.example.]")), "{place}: {}", outcome.out);
    }
    assert!(outcome.out.ends_with("2 zones read, 2 errors, 0 warnings\n"), "{}", outcome.out);
}

#[test]
fn records_that_break_a_rule_are_errors_with_strict_checks_only() {
    let folder = TestFolder::new();
    folder.write("zones/odd.example.zone", &(zone_text(1, "192.0.2.1") + "elsewhere.test. A 192.0.2.9\n"));
    let finding = |severity| {
        format!("zones/odd.example.zone:5:1: {severity}: an out-of-zone record is skipped: elsewhere.test. (help: ")
    };
    let lenient = folder.run(&["check", "zones"]);
    assert!(lenient.out.starts_with(&finding("warning")), "{}", lenient.out);
    assert_eq!((lenient.status, lenient.out.lines().last()), (0, Some("1 zones read, 0 errors, 1 warnings")));
    let strict = folder.run(&["check", "--strict", "zones"]);
    assert!(strict.out.starts_with(&finding("error")), "{}", strict.out);
    assert_eq!((strict.status, strict.out.lines().last()), (1, Some("1 zones read, 1 errors, 0 warnings")));
    let config =
        "[template.default]\nchecks = \"strict\"\n[[zone]]\nname = \"odd.example\"\nfile = \"zones/{name}.zone\"\n";
    folder.write("zonda.toml", config);
    assert_eq!(folder.run_with_config(&["check"]).status, 1, "as `zonda serve` does");
}

#[test]
fn json_has_the_same_findings() {
    let folder = TestFolder::new();
    folder.write("zones/broken.example.zone", &(zone_text(1, "192.0.2.1") + "bad A 192.0.2.999\n"));
    let outcome = folder.run(&["check", "--json", "zones"]);
    assert_eq!(outcome.status, 1);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    assert_eq!((&value["errors"], &value["zones"]), (&1.into(), &1.into()));
    let finding = &value["findings"][0];
    assert_eq!(finding["zone"], "broken.example.");
    assert_eq!((&finding["line"], &finding["column"]), (&5.into(), &7.into()));
    assert_eq!((&finding["severity"], &finding["file"]), (&"error".into(), &"zones/broken.example.zone".into()));
}

#[test]
fn missing_files_are_named() {
    let folder = TestFolder::new();
    let cases: [(&[&str], &str); 5] = [
        (&["check", "--config", "absent.toml"], "absent.toml: error: the configuration cannot be read: No such file"),
        (&["check", "absent.zone"], "absent.zone: error: this cannot be read: No such file"),
        (&["check", "--zone", "example.com=absent"], "absent: error: the zone file cannot be read: No such file"),
        (&["check"], "error: there is no configuration: "),
        (&["check", "db"], "db: error: the zone of this file is unknown (help: rename it to NAME.zone"),
    ];
    folder.write("db", &zone_text(1, "192.0.2.1"));
    for (arguments, expected) in cases {
        let outcome = folder.run(arguments);
        assert_eq!(outcome.status, 1, "{arguments:?}");
        assert!(outcome.out.starts_with(expected), "{arguments:?}: {}", outcome.out);
    }
    assert_eq!(folder.run(&["check", "--zone", "nonsense"]).status, 2);
}

#[test]
fn an_empty_listen_is_an_error() {
    let folder = TestFolder::new();
    folder.write("zonda.toml", "[server]\nlisten = []\n");
    let outcome = folder.run_with_config(&["check"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.out.starts_with("zonda.toml:2:1: error: `listen` is empty"), "{}", outcome.out);
}

#[test]
fn a_folder_without_zones_is_a_warning() {
    let folder = TestFolder::new();
    folder.write("zones/readme.txt", "none");
    let outcome = folder.run(&["check", "zones"]);
    assert_eq!(outcome.status, 0);
    assert!(outcome.out.starts_with("zones: warning: there is no zone file in this folder"), "{}", outcome.out);
}

#[test]
fn an_unreadable_file_is_named() {
    let folder = TestFolder::new();
    let path = folder.write("zones/secret.example.zone", &zone_text(1, "192.0.2.1"));
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o0)).expect("it is ours");
    if std::fs::read(&path).is_ok() {
        return report_skipped("this user may read everything");
    }
    let outcome = folder.run(&["check", "zones"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.out.contains("secret.example.zone: error: the zone file cannot be read: Permission denied"));
}

/// The form of the configuration that other people's scripts and measurements rely on, with a secret, and the two templates that it names.
const DOCUMENTED_FORM: &str = r#"
[server]
listen = ["192.0.2.53"]
listen-tls = ["192.0.2.53"]           # port 853
tls-cert = "cert.pem"
tls-key = "key.pem"
tls-ca = "ca.pem"                     # whom to trust when authenticating primaries and clients
state-dir = "/var/lib/zonda"

[[key]]
name = "transfer.example."
algorithm = "hmac-sha256"
secret = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

[[zone]]
name = "example.com"
primaries = ["192.0.2.1", { address = "192.0.2.2", key = "transfer.example.", tls = "ns1.example.net", source = "192.0.2.53" }]
allow-notify = ["192.0.2.1"]
allow-transfer = ["192.0.2.0/24", { address = "2001:db8::/32", key = "transfer.example.", tls = true }]
allow-update = [{ key = "transfer.example.", names = ["*.dyn.example.com"], types = ["A", "AAAA", "TXT"] }]
notify = ["192.0.2.3", { address = "192.0.2.4:5300", key = "transfer.example." }]
forward-updates = false
keep-versions = 0
max-records = 0
max-bytes = 0
max-shrink-percent = 0
min-refresh-s = 2
max-refresh-s = 86400
min-retry-s = 1
max-retry-s = 3600
min-expire-s = 3
max-expire-s = 1209600
zonemd = "full-transfers"
notify-ns = true

[[zone]]
name = "catalog.example."
catalog = "consume"
catalog-templates = { customers = "secondary" }
primaries = ["192.0.2.1"]

[template.default]
primaries = ["192.0.2.1"]

[template.secondary]
primaries = [{ address = "192.0.2.2", tls = true, tls-pin = "sha256/Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=", tls-client-cert = "cert.pem", tls-client-key = "key.pem" }]
"#;

#[test]
fn the_documented_form_of_the_configuration_is_accepted() {
    let (folder, certificates) = (TestFolder::new(), TestCertificates::new());
    let own = certificates.issue("own", &["ns2.example.net"]);
    for (name, file) in [("cert.pem", &own.certificate), ("key.pem", &own.key), ("ca.pem", &certificates.authority())] {
        folder.write(name, &std::fs::read_to_string(file).expect("a file of the test"));
    }
    folder.write("zonda.toml", DOCUMENTED_FORM);
    let outcome = folder.run_with_config(&["check"]);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    assert!(outcome.out.ends_with(" 0 errors, 2 warnings\n"), "{outcome:?}");
    assert!(outcome.out.contains("`allow-update` has no effect"), "{outcome:?}");
}
