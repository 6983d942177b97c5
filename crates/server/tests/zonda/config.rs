//! `zonda config`: the effective configuration.

use std::os::unix::fs::PermissionsExt;

use crate::harness::{CommandOutput, TestFolder, outcome, report_skipped};

const TEXT: &str = r#"
include = ["zones.d/*.toml"]

[server]
listen = ["127.0.0.1:5300", "::1"]
cookie-secrets = ["00112233445566778899aabbccddeeff"]

[template.default]
file = "zones/{name}.zone"
allow-transfer = ["192.0.2.0/24"]

[template.other]
file = "other/{name}"

[[zone]]
name = "Example.COM"

[[zone]]
name = "example.net."
template = "other"
allow-transfer = []
"#;

#[test]
fn templates_and_includes_are_resolved() {
    let folder = TestFolder::new();
    folder.write("zonda.toml", TEXT);
    folder.write("zones.d/10.toml", "[[zone]]\nname = \".\"\nfile = \"here\"\nprimaries = [\"192.0.2.1\"]\n");
    let outcome = folder.run_with_config(&["config", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    let expected = serde_json::json!([
        {"name": ".", "file": "zones.d/here", "primaries": ["192.0.2.1:53"], "allow-transfer": ["192.0.2.0/24"]},
        {"name": "example.com.", "file": "zones/example.com.zone", "allow-transfer": ["192.0.2.0/24"]},
        {"name": "example.net.", "file": "other/example.net"},
    ]);
    assert_eq!(value["zone"], expected);
    assert_eq!(value["server"]["listen"], serde_json::json!(["127.0.0.1:5300", "[::1]:53"]));
    assert_eq!(value["server"]["udp-payload"], 1232);
    assert!(!outcome.out.contains("aabbcc"), "a secret is never shown");
    assert_eq!(outcome.err, "");
}

#[test]
fn limits_come_from_templates() {
    let folder = TestFolder::new();
    let template = "[template.default]\nmax-records = 5\nnsec3-max-iterations = 0\ninclude-paths = [\"shared\"]\n";
    let zone = "[[zone]]\nname = \"a\"\nfile = \"a.zone\"\nmax-records = 0\nmax-generated = 7\n";
    folder.write("etc/zonda.toml", &format!("{template}{zone}"));
    let outcome = folder.run(&["config", "--config", "etc/zonda.toml", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    // 0, the default of max-records, overrides the template and is not printed.
    let expected = serde_json::json!([{
        "name": "a.", "file": "etc/a.zone", "include-paths": ["etc/shared"], "max-generated": 7, "nsec3-max-iterations": 0,
    }]);
    assert_eq!(value["zone"], expected);
}

#[test]
fn the_printed_configuration_can_be_read() {
    let folder = TestFolder::new();
    folder.write("zonda.toml", &TEXT.replace("cookie-secrets", "# cookie-secrets"));
    let first = folder.run_with_config(&["config"]).out;
    folder.write("again.toml", &first);
    let second = folder.run(&["config", "--config", "again.toml"]);
    assert_eq!(second.status, 0, "{}", second.err);
    let body = |text: &str| text.lines().filter(|line| !line.starts_with("# Read from")).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&second.out), body(&first));
}

#[test]
fn the_default_configuration_is_found() {
    let folder = TestFolder::new();
    let nothing = folder.run(&["config"]);
    if nothing.status == 0 {
        return report_skipped("this machine has /etc/zonda/zonda.toml");
    }
    assert!(nothing.err.contains(".config/zonda/zonda.toml and /etc/zonda/zonda.toml"), "{}", nothing.err);
    folder.write(".config/zonda/zonda.toml", "[server]\nnsid = \"from home\"\n");
    assert!(folder.run(&["config"]).out.contains("nsid = \"from home\""));
    folder.write("xdg/zonda/zonda.toml", "[server]\nnsid = \"from xdg\"\n");
    let found =
        folder.zonda(&["config"]).env("XDG_CONFIG_HOME", folder.path().join("xdg")).output().expect("zonda runs");
    assert!(String::from_utf8_lossy(&found.stdout).contains("nsid = \"from xdg\""));
}

/// Entries of every kind in lists of servers and of access; `check.rs` has the form that scripts rely on.
const TRANSFERS: &str = r#"
[server]
listen = ["127.0.0.1:5300"]
listen-tls = ["127.0.0.1"]
listen-quic = ["127.0.0.1", "::1"]
tls-cert = "cert.pem"
tls-key = "key.pem"
tls-ca = "ca.pem"

[[key]]
name = "Transfer.example"
algorithm = "HMAC-SHA256"
secret = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

[[key]]
name = "other.example."
algorithm = "hmac-sha512"
secret-file = "other.secret"
min-mac-octets = 32

[template.secondary]
primaries = ["192.0.2.1"]

[[zone]]
name = "example.com"
primaries = ["192.0.2.1", { address = "192.0.2.2", key = "transfer.example.", tls = "ns1.example.net", source = "192.0.2.53" }]
allow-notify = ["192.0.2.1"]
allow-transfer = ["192.0.2.0/24", { address = "2001:db8::/32", key = "transfer.example.", tls = true }]
allow-update = [{ key = "transfer.example.", names = ["*.dyn.example.com"], types = ["A", "aaaa", "TXT"] }]
notify = ["192.0.2.3", { address = "192.0.2.4:5300", key = "other.example." }, { address = "2001:db8::1", quic = true, tls = true, tls-client-cert = "c.pem", tls-client-key = "k.pem", tls-pin = "sha256/Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=" }]
forward-updates = false
keep-versions = 2
max-records = 0
min-refresh-s = 2

[[zone]]
name = "catalog.example."
catalog = "consume"
catalog-templates = { customers = "secondary" }
primaries = ["192.0.2.1"]

[[zone]]
name = "produced.example."
catalog = "produce"
"#;

fn transfers_folder(text: &str) -> TestFolder {
    let folder = TestFolder::new();
    folder.write("zonda.toml", text);
    folder.write("other.secret", "AAECAwQFBgcICQ==\n");
    folder
}

#[test]
fn keys_transfers_and_catalogs_have_their_documented_form() {
    let folder = transfers_folder(TRANSFERS);
    let outcome = folder.run_with_config(&["config", "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    let keys = serde_json::json!([
        {"name": "transfer.example.", "algorithm": "hmac-sha256", "secret": "(hidden)"},
        {"name": "other.example.", "algorithm": "hmac-sha512", "secret-file": "other.secret", "min-mac-octets": 32},
    ]);
    assert_eq!(value["key"], keys);
    let pin = "sha256/Hx4dHBsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA=";
    let zones = serde_json::json!([
        {"name": "example.com.", "keep-versions": 2,
            "primaries": ["192.0.2.1:53", {"address": "192.0.2.2:853", "key": "transfer.example.",
                "tls": "ns1.example.net.", "source": "192.0.2.53"}],
            "allow-notify": ["192.0.2.1/32"],
            "allow-transfer": ["192.0.2.0/24", {"address": "2001:db8::/32", "key": "transfer.example.", "tls": true}],
            "allow-update": [{"key": "transfer.example.", "names": ["*.dyn.example.com."], "types": ["A", "AAAA", "TXT"]}],
            "notify": ["192.0.2.3:53", {"address": "192.0.2.4:5300", "key": "other.example."},
                {"address": "[2001:db8::1]:853", "tls": true, "quic": true, "tls-pin": pin, "tls-client-cert": "c.pem",
                    "tls-client-key": "k.pem"}]},
        {"name": "catalog.example.", "catalog": "consume", "catalog-templates": {"customers": "secondary"},
            "primaries": ["192.0.2.1:53"]},
        {"name": "produced.example.", "catalog": "produce"},
    ]);
    assert_eq!(value["zone"], zones);
    // RFC 7858 3.1, RFC 9250 4.1.1.
    assert_eq!(value["server"]["listen-tls"], serde_json::json!(["127.0.0.1:853"]));
    assert_eq!(value["server"]["listen-quic"], serde_json::json!(["127.0.0.1:853", "[::1]:853"]));
    for secret in ["AQIDBAUG", "AAECAwQF"] {
        assert!(!format!("{}{}", outcome.out, outcome.err).contains(secret), "{secret}");
    }
    assert!(outcome.err.contains("`allow-update`"), "a setting without effect must not pretend: {}", outcome.err);
    assert!(outcome.err.contains("every user of this machine can open the secret"), "{}", outcome.err);
}

#[test]
fn a_key_that_every_user_can_read_is_reported() {
    let folder = transfers_folder(TRANSFERS);
    let warns = || {
        let err = folder.run_with_config(&["config"]).err;
        err.lines().any(|line| line.contains("can open the secret") && line.contains("key.pem"))
    };
    for (mode, expected) in [(0o644, true), (0o640, false)] {
        folder.write("key.pem", "");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(folder.path().join("key.pem"), mode).expect("it is ours");
        assert_eq!(warns(), expected);
    }
}

#[test]
fn a_printed_configuration_with_tables_in_lists_can_be_read() {
    let text = TRANSFERS
        .replace("secret = \"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=\"", "secret-file = \"other.secret\"");
    let folder = transfers_folder(
        &text.replace("template.secondary", "template.default").replace("\"secondary\"", "\"default\""),
    );
    let first = folder.run_with_config(&["config"]).out;
    folder.write("again.toml", &(first.clone() + "\n[template.default]\nprimaries = [\"192.0.2.1\"]\n"));
    let second = folder.run(&["config", "--config", "again.toml"]);
    assert_eq!(second.status, 0, "{}", second.err);
    let body = |text: &str| text.lines().filter(|line| !line.starts_with("# Read from")).collect::<Vec<_>>().join("\n");
    assert_eq!(body(&second.out), body(&first));
}

#[test]
fn update_rights_are_printed_as_they_are_written() {
    let folder = TestFolder::new();
    let zone = |name: &str, rest: &str| format!("[[zone]]\nname = \"{name}\"\nfile = \"a\"\n{rest}\n");
    let primary = zone("a", "allow-update = [\"::1\", { address = \"192.0.2.1\", signed = true }]");
    let secondary = zone("b", "primaries = [\"192.0.2.1\"]\nallow-update = [\"::1\"]\nforward-updates = true");
    folder.write("zonda.toml", &format!("[server]\nstate-dir = \"state\"\n{primary}{secondary}"));
    let outcome = folder.run_with_config(&["config", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    let expected = serde_json::json!(["::1/128", {"address": "192.0.2.1/32", "signed": true}]);
    assert_eq!((&value["zone"][0]["allow-update"], outcome.err.as_str()), (&expected, ""));
    let useless = zone("a", "forward-updates = true") + &secondary.replace("forward-updates = true", "");
    folder.write("zonda.toml", &useless);
    let outcome = folder.run_with_config(&["config"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err);
    for setting in ["`forward-updates` has no effect", "`allow-update` has no effect"] {
        assert!(outcome.err.contains(setting), "{setting}: {}", outcome.err);
    }
}

#[test]
fn update_rights_that_permit_nothing_are_reported() {
    let folder = TestFolder::new();
    let zone = |name: &str, rights: &str| {
        format!("[[zone]]\nname = \"{name}\"\nfile = \"a\"\nallow-update = [{{ address = \"::1\", {rights} }}]\n")
    };
    let none = zone("a.example", "names = [\"_acme-challenge\", \"www.b.example\"], types = [\"ANY\", \"TXT\"]");
    let matching = [
        zone(
            "b.example",
            "names = [\"b.example\", \"*.b.example\", \"*.example\", \"*.a.b.example\"], types = [\"A\"]",
        ),
        // The zones of a template may be added later.
        "[template.t]\nfile = \"a\"\nallow-update = [{ address = \"::1\", names = [\"c.example\"] }]\n".into(),
        "[[zone]]\nname = \"d.example\"\ntemplate = \"t\"\n".into(),
    ];
    folder.write("zonda.toml", &format!("[server]\nstate-dir = \"state\"\n{none}{}", matching.concat()));
    let outcome = folder.run_with_config(&["config"]);
    let warnings: Vec<&str> = outcome.err.lines().filter(|line| line.contains("allow-update")).collect();
    let [first, second, third] = warnings[..] else { panic!("{}", outcome.err) };
    let help = "(help: names are complete, as in \"_acme-challenge.a.example.\")";
    assert!(
        first.contains("zone a.example.: `allow-update` permits _acme-challenge., which is not in the zone"),
        "{first}"
    );
    assert!(first.contains("warning") && first.ends_with(help), "{first}");
    assert!(second.contains("permits www.b.example., which is not in the zone"), "{second}");
    assert!(third.contains("permits ANY, which is no type of records"), "{third}");
}

#[test]
fn a_produced_catalog_takes_no_file_of_the_default_template() {
    let folder = TestFolder::new();
    let text = "[template.default]\nfile = \"{name}.zone\"\ncatalog-member = \"c.\"\ncatalog-group = \"g\"\n\
                [[zone]]\nname = \"c.\"\ncatalog = \"produce\"\n[[zone]]\nname = \"a.\"\n";
    folder.write("zonda.toml", text);
    let outcome = folder.run_with_config(&["config", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&outcome.out).expect("JSON");
    let zones = serde_json::json!([
        {"name": "a.", "file": "a.zone", "catalog-member": "c.", "catalog-group": "g"},
        {"name": "c.", "catalog": "produce"},
    ]);
    assert_eq!(value["zone"], zones, "{}", outcome.err);
}

const ZONE: &str = "[[zone]]\nname = \"a\"\nfile = \"a\"\n";
const KEY: &str = "[[key]]\nname = \"transfer.example\"\nalgorithm = \"hmac-sha256\"\nsecret = \"AQID\"\n";

/// What `zonda config` prints in a shell: systemd gives no state-dir there.
fn config_without_systemd(folder: &TestFolder) -> CommandOutput {
    let mut command = folder.zonda(&["config", "--config", "zonda.toml"]);
    outcome(command.env_remove("STATE_DIRECTORY").output().expect("zonda runs"))
}

/// Each text is refused with this message, which shows no secret.
fn assert_mistakes(mistakes: &[(String, &str)]) {
    for (text, expected) in mistakes {
        let outcome = config_without_systemd(&transfers_folder(text));
        assert_ne!(outcome.status, 0, "{text}");
        assert!(outcome.err.contains(expected), "{text}\nexpected: {expected}\nfound: {}", outcome.err);
        assert!(!outcome.err.contains("SECRET"), "{}", outcome.err);
    }
}

#[test]
fn mistakes_in_keys_are_found_where_they_are() {
    assert_mistakes(&[
        (
            format!("{KEY}{ZONE}allow-transfer = [\n{{ key = \"transfr.example\" }}]\n"),
            "9:9: error: there is no key `transfr.example.` (help: did you mean `transfer.example.`?)",
        ),
        (
            format!("{ZONE}allow-transfer = [{{ key = \"x.\" }}]\n"),
            "4:27: error: there is no key `x.` (help: add a [[key]] table with name = \"x.\")",
        ),
        (
            format!("{KEY}{KEY}{ZONE}"),
            "5:1: error: the key transfer.example. is defined twice (help: it was first defined at",
        ),
        (KEY.replace("AQID", "A/B SECRET") + ZONE, "4:10: error: `secret`: this is not a secret in base64"),
        (KEY.replace("hmac-sha256", "hmac-md5") + ZONE, "3:13: error: `algorithm`: unknown algorithm `hmac-md5`"),
        (
            KEY.replace("secret = \"AQID\"\n", "") + ZONE,
            "1:1: error: this key has no secret (help: set `secret` or `secret-file`",
        ),
        (KEY.replace("secret =", "secret-file =") + ZONE, "`AQID` cannot be read"),
        (
            format!("{KEY}min-mac-octets = 15\n{ZONE}"),
            "1:1: error: the key transfer.example. cannot be used: a MAC of this algorithm may be truncated to 16 octets, and has at most 32",
        ),
        (KEY.replace("name =", "nam =") + ZONE, "error: this key has no name"),
        (
            format!("[server]\nlisten-tls = [\"::1\"]\n{ZONE}"),
            "2:1: error: `listen-tls` needs `tls-cert` and `tls-key`",
        ),
        (
            format!("[server]\nlisten-quic = [\"::1\"]\n{ZONE}"),
            "2:1: error: `listen-quic` needs `tls-cert` and `tls-key`",
        ),
        (
            format!("[server]\ntls-cert = \"c\"\ntls-key = \"k\"\nlisten-quic = [\"[::1]:53\"]\n{ZONE}"),
            "4:1: error: `listen-quic` has port 53, which is for DNS over UDP",
        ),
        (
            format!("[server]\ntls-self-signed = true\nlisten-tls = [\"::1\"]\nlisten = [\"[::]:853\"]\n{ZONE}"),
            "3:1: error: `listen-tls` has [::1]:853, where `listen` has DNS over TCP",
        ),
        (
            format!("[server]\ntls-self-signed = true\nlisten-quic = [\"::1\"]\nlisten = [\"[::1]:853\"]\n{ZONE}"),
            "3:1: error: `listen-quic` has [::1]:853, where `listen` has DNS over UDP",
        ),
        (format!("[server]\ntls-key = \"k\"\n{ZONE}"), "2:1: error: `tls-key` needs `tls-cert`"),
    ]);
}

#[test]
fn mistakes_in_lists_are_found_where_they_are() {
    assert_mistakes(&[
        (
            format!("{ZONE}allow-transfer = [\"::1\", {{ adress = \"::1\" }}]\n"),
            "4:26: error: `allow-transfer`: this entry matches everybody; set `address`, `key` or `tls`",
        ),
        (
            format!("{ZONE}allow-transfer = [{{ tls = true, adress = \"::1\" }}]\n"),
            "4:19: error: `allow-transfer`: an entry has no key `adress`; did you mean `address`?",
        ),
        (
            format!("{ZONE}allow-transfer = [{{ tls = 5 }}]\n"),
            "error: `allow-transfer`: `tls` has the type integer and must be true or a name",
        ),
        (
            format!("{ZONE}allow-update = [{{ address = \"::1\", types = [\"AAAAA\"] }}]\n"),
            "`types`: `AAAAA` is not a record type; did you mean `AAAA`?",
        ),
        (
            format!("{ZONE}allow-update = [{{ address = \"::1\", signed = 1 }}]\n"),
            "`signed` has the type integer and must be true or false",
        ),
        (format!("{ZONE}allow-update = [\"::1\"]\n"), "1:1: error: zone a.: `allow-update` needs `state-dir`"),
        (format!("{ZONE}primaries = [{{ key = \"a\" }}]\n"), "error: `primaries`: this entry has no `address`"),
        (
            format!("{ZONE}primaries = [{{ address = \"::1\", source = \"127.0.0.1\" }}]\n"),
            "must both be IPv4 or both be IPv6",
        ),
        (
            format!("{ZONE}notify = [{{ address = \"::1\", tls-client-key = \"k\" }}]\n"),
            "`tls-client-cert` and `tls-client-key` must both be set",
        ),
        (
            format!("{ZONE}notify = [{{ address = \"::1\", quic = \"yes\" }}]\n"),
            "`quic` has the type string and must be true or false",
        ),
        (
            format!("{ZONE}notify = [{{ address = \"::1\", tls-pin = \"AAAA\" }}]\n"),
            "`tls-pin`: write `sha256/` and the 32 octets",
        ),
        (format!("{ZONE}min-retry-s = 9\nmax-retry-s = 8\n"), "`min-retry-s` is 9 and `max-retry-s` is 8"),
        (
            format!("{ZONE}primaries = [{}]\n", "\"192.0.2.1\",".repeat(17)),
            "1:1: error: zone a.: `primaries` has 17 entries, and at most 16 are asked (help: remove some)",
        ),
    ]);
}

#[test]
fn mistakes_in_catalogs_are_found_where_they_are() {
    assert_mistakes(&[
        (format!("{ZONE}catalog = \"produce\"\nallow-update = [\"::1\"]\n"), "a catalog that this server makes"),
        (format!("{ZONE}catalog-templates = {{ a = \"default\" }}\n"), "not a consumed catalog"),
        (
            format!("{ZONE}catalog = \"consume\"\ncatalog-templates = {{ a = \"defolt\" }}\n[template.default]\n"),
            "there is no template `defolt` (help: did you mean `default`?)",
        ),
        (
            format!("{ZONE}catalog = \"consume\"\n"),
            "zone a.: the members of this catalog have no template (help: add [tem",
        ),
        (
            format!("{ZONE}catalog = \"consume\"\n[template.default]\nallow-transfer = [\"::1\"]\n"),
            "the template `default` of its members has neither `primaries` nor `file`",
        ),
        (
            format!("{ZONE}catalog = \"consume\"\n[template.default]\nfile = \"z\"\n"),
            "the template `default` of its members has the same `file` for all zones (help: set `primaries`, or a `file` with {name}",
        ),
        (
            format!("{ZONE}catalog = \"produce\"\n"),
            "a catalog with catalog = \"produce\" is made by this server (help: remove",
        ),
        (format!("{ZONE}catalog-group = \"g\"\n"), "`catalog-group` is set without `catalog-member`"),
        (
            format!("{ZONE}catalog-member = \"c.example\"\n"),
            "`catalog-member`: c.example. is not a catalog of this server (help: add [[zone]] with name",
        ),
        (
            "[[zone]]\nname = \"a\"\ncatalog = \"produce\"\ncatalog-member = \"a\"\n".into(),
            "a catalog does not list itself",
        ),
    ]);
}

/// Zones that are added at run time have the settings of a template, and no other check.
#[test]
fn updates_by_templates_need_a_state_dir() {
    let template = |keys: &str| format!("{ZONE}[template.added]\nfile = \"{{name}}.zone\"\n{keys}\n");
    assert_mistakes(&[
        (
            template("allow-update = [\"::1\"]"),
            "4:11: error: template added: `allow-update` needs `state-dir` (help: upd",
        ),
        (template("min-retry-s = 9\nmax-retry-s = 8"), "template added: `min-retry-s` is 9 and `max-retry-s` is 8"),
        (template("check-command = [\"\"]"), "template added: `check-command` has no program"),
    ]);
    let folder = TestFolder::new();
    let zones = "[template.default]\nfile = \"{name}.zone\"\nallow-update = [\"::1\"]\n[[zone]]\nname = \"a\"\n";
    folder.write("zonda.toml", zones);
    let without = config_without_systemd(&folder);
    assert_eq!(without.err.matches("`allow-update` needs").count(), 1, "once for the zone: {}", without.err);
    let by_systemd = folder.run_with_config(&["config"]);
    assert_eq!(by_systemd.status, 0, "{}", by_systemd.err);
    // None of these templates is used for zones that are added and updated here.
    for text in [
        format!("[server]\nstate-dir = \"state\"\n{zones}"),
        "[template.a]\nallow-update = [\"::1\"]\n".into(),
        "[template.a]\nallow-update = [\"::1\"]\nforward-updates = true\nprimaries = [\"192.0.2.1\"]\n".into(),
    ] {
        folder.write("zonda.toml", &text);
        let without = config_without_systemd(&folder);
        assert_eq!(without.status, 0, "{text}: {}", without.err);
    }
}
