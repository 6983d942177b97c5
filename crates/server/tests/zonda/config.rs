//! `zonda config`: the effective configuration.

use crate::harness::{TestFolder, report_skipped};

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
    let outcome = folder.run(&["config", "--config", "zonda.toml", "--json"]);
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
    assert!(outcome.err.contains("zonda.d") || outcome.err.contains("primaries"), "{}", outcome.err);
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
    let first = folder.run(&["config", "--config", "zonda.toml"]).out;
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
