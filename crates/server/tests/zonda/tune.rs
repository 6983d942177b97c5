//! `zonda tune`: the configuration and the host go in, advice comes out, and nothing changes unless asked.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{TestFolder, report_skipped};

/// A host with a few settings. Others are absent.
fn host(folder: &TestFolder) -> String {
    for (path, text) in [
        ("proc/sys/kernel/ostype", "Linux"),
        ("proc/sys/kernel/osrelease", "6.1.0"),
        ("proc/sys/net/core/somaxconn", "128"),
        ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999"),
        ("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB"),
        ("sys/devices/system/cpu/online", "0-3"),
    ] {
        folder.write(&format!("host/{path}"), text);
    }
    folder.path().join("host").display().to_string()
}

fn json(out: &str) -> Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// A setting of the list `settings`.
fn setting<'v>(report: &'v Value, name: &str) -> &'v Value {
    let settings = report["settings"].as_array().expect("a list");
    settings.iter().find(|setting| setting["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn json_has_the_advice_for_the_configuration() {
    let folder = TestFolder::new();
    let host = host(&folder);
    folder.write("zonda.toml", "[server]\nlisten = [\"127.0.0.1:5300\"]\ntcp-connections = 70000\nworkers = 3\n");
    let outcome = folder.run(&["tune", "--config", "zonda.toml", "--root", &host, "--json"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err);
    let report = json(&outcome.out);
    for setting in report["settings"].as_array().expect("a list") {
        for key in ["name", "now", "advised", "why", "evidence", "risk", "place"] {
            assert!(setting.get(key).is_some(), "{key}: {setting}");
        }
    }
    let queue = setting(&report, "net.core.somaxconn");
    assert_eq!((&queue["now"], &queue["advised"]), (&"128".into(), &"4096".into()), "{queue}");
    assert_eq!(
        (&queue["place"], &setting(&report, "memory of connections")["place"]),
        (&"sysctl".into(), &"habit".into())
    );
    assert_eq!(setting(&report, "tcp-connections")["now"], "70000");
    assert!(setting(&report, "workers and processors")["why"].as_str().is_some_and(|why| why.contains("3 workers")));
    let limit = setting(&report, "LimitNOFILE")["advised"].as_str().and_then(|text| text.parse::<u64>().ok());
    assert!(limit.is_some_and(|limit| (70_000..80_000).contains(&limit)), "{limit:?}");
    // Options of the command line are stronger.
    let outcome = folder.run(&["tune", "--config", "zonda.toml", "--root", &host, "--connections", "900000", "--json"]);
    let report = json(&outcome.out);
    let limit = setting(&report, "LimitNOFILE")["advised"].as_str().and_then(|text| text.parse::<u64>().ok());
    assert!(limit.is_some_and(|limit| limit > 900_000), "{limit:?}");
    // Zonda asks for 4,096 places, and the kernel gives no more.
    assert_eq!(setting(&report, "net.core.somaxconn")["advised"], "4096");
}

#[test]
fn memory_and_options_follow_the_listeners_of_the_configuration() {
    let folder = TestFolder::new();
    let host = host(&folder);
    let report = |listeners: &str| {
        folder
            .write("zonda.toml", &format!("[server]\ntls-self-signed = true\nquic-connections = 2000\n{listeners}\n"));
        let outcome =
            folder.run(&["tune", "--config", "zonda.toml", "--root", &host, "--connections", "15000", "--json"]);
        assert_eq!(outcome.status, 0, "{}", outcome.err);
        json(&outcome.out)
    };
    let of = |report: &Value, name: &str, key: &str| setting(report, name)[key].as_str().unwrap_or_default().to_owned();
    let [tcp, tls, quic] = ["", "listen-tls = [\"127.0.0.1:8530\"]", "listen-quic = [\"127.0.0.1:8530\"]"].map(report);
    let [tcp_memory, tls_memory, quic_memory] =
        [&tcp, &tls, &quic].map(|report| of(report, "memory of connections", "why"));
    assert!(!tcp_memory.contains("over"), "{tcp_memory}");
    assert!(tls_memory.contains("15000 connections over TLS") && tls_memory != tcp_memory, "{tls_memory}");
    assert!(quic_memory.contains("469 MiB for as many over QUIC"), "{quic_memory}");
    assert_eq!(of(&quic, "quic-connections", "advised"), "15000");
    assert_eq!(of(&tcp, "quic-connections", "action"), "leave");
}

#[test]
fn the_processors_of_the_running_server_count() {
    let folder = TestFolder::new();
    let host = host(&folder);
    folder.write("zonda.toml", "[server]\n");
    folder.write("host/proc/77/comm", "zonda\n");
    folder.write("host/proc/77/status", "Cpus_allowed_list:\t0-2\n");
    let outcome = folder.run(&["tune", "--config", "zonda.toml", "--root", &host, "--json"]);
    let report = json(&outcome.out);
    assert_eq!(setting(&report, "workers and processors")["why"], "3 workers for 3 processors");
}

#[test]
fn mistakes_are_explained() {
    let folder = TestFolder::new();
    let host = host(&folder);
    folder.write("zonda.toml", "[server]\nworkers = -1\n");
    let outcome = folder.run(&["tune", "--config", "zonda.toml", "--root", &host]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err.contains("zonda.toml:2"), "{}", outcome.err);
    let outcome = folder.run(&["tune", "--root", "nowhere"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err.contains("there is no /proc/sys"), "{}", outcome.err);
    let outcome = folder.run(&["tune", "--root", &host, "--only", "net.ipv4.tcp_sock"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err.contains("there is no setting net.ipv4.tcp_sock"), "{}", outcome.err);
}

#[test]
fn files_are_written_for_one_setting() {
    let folder = TestFolder::new();
    let host = host(&folder);
    folder.write("host/.dockerenv", "");
    let arguments = ["tune", "--root", &host, "--only", "net.core.somaxconn", "--write", "tuning"];
    let outcome = folder.run(&arguments);
    assert_eq!(
        (outcome.status, outcome.out.lines().next()),
        (0, Some("written: tuning/sysctl.d/99-zz-zonda-tune.conf"))
    );
    assert!(outcome.out.contains("note: this is a container (/.dockerenv)"), "{}", outcome.out);
    let text = fs::read_to_string(folder.path().join("tuning/sysctl.d/99-zz-zonda-tune.conf")).expect("the file");
    assert!(text.contains("\nnet.core.somaxconn = 4096\n"), "{text}");
    assert!(!Path::new(&folder.path().join("tuning/limits.d")).exists());
    let kept = fs::read_to_string(folder.path().join("host/proc/sys/net/core/somaxconn")).expect("the sysctl");
    assert_eq!(kept, "128", "--write sets nothing");
}

#[test]
fn a_sysctl_is_applied_in_a_namespace() {
    let namespace = ["--user", "--map-root-user", "--net", "--"];
    if !Command::new("unshare").args(namespace).arg("true").status().is_ok_and(|status| status.success()) {
        return report_skipped("no user and network namespace may be made here (unshare)");
    }
    let folder = TestFolder::new();
    // One shell is one namespace: the ports before and after `--apply`.
    let script = format!(
        "cat /proc/sys/net/ipv4/ip_local_port_range; \
         {} tune --role secondary --zones 60000 --only net.ipv4.ip_local_port_range --apply --json > report.json; \
         cat /proc/sys/net/ipv4/ip_local_port_range",
        env!("CARGO_BIN_EXE_zonda")
    );
    let mut command = Command::new("unshare");
    command.args(namespace).args(["sh", "-c", &script]).current_dir(folder.path()).env_remove("XDG_CONFIG_HOME");
    let output = command.env("HOME", folder.path()).output().expect("unshare runs");
    let ports = String::from_utf8_lossy(&output.stdout).replace('\t', " ");
    let (before, after) = ports.trim().split_once('\n').unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(after, "1024 65535", "{output:?}");
    let report = json(&fs::read_to_string(folder.path().join("report.json")).expect("the report"));
    let change = &report["applied"][0];
    assert_eq!((&change["before"], &change["error"]), (&before.into(), &Value::Null));
    assert_eq!(change["undo"], format!("sysctl -w net.ipv4.ip_local_port_range='{before}'"));
}
