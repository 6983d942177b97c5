//! `zonda tune`: the configuration and the host go in, advice comes out, and nothing changes unless asked.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{CommandOutput, TestFolder, report_skipped};

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
    assert_eq!(setting(&report, "net.core.somaxconn")["advised"], "65535");
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
    assert!(quic_memory.contains("1.0 GiB for as many over QUIC"), "{quic_memory}");
    assert_eq!(of(&quic, "quic-connections", "advised"), "15000");
    assert_eq!(of(&tcp, "quic-connections", "action"), "leave");
}

/// By the formula of the server itself, with the 7,000,000 KiB that the host has available.
#[test]
fn the_connections_that_the_server_allows_itself_are_compared_with_those_asked_for() {
    let folder = TestFolder::new();
    let host = host(&folder);
    folder.write("zonda.toml", "[server]\nlisten = [\"127.0.0.1:5300\"]\n");
    let run = |connections: &str| {
        let arguments = ["tune", "--config", "zonda.toml", "--root", &host, "--connections", connections, "--json"];
        json(&folder.run(&arguments).out)
    };
    let few = run("200000");
    assert_eq!(setting(&few, "tcp-connections")["action"], "keep", "{}", setting(&few, "tcp-connections"));
    let many = run("500000");
    let limit = setting(&many, "tcp-connections");
    assert_eq!((&limit["now"], &limit["advised"]), (&"0".into(), &"500000".into()), "{limit}");
    assert!(limit["why"].as_str().is_some_and(|why| why.starts_with("0 means 218750 connections")), "{limit}");
    let memory = setting(&many, "memory of connections");
    assert!(memory["why"].as_str().is_some_and(|why| why.contains("the server keeps at most 218750")), "{memory}");
}

#[test]
fn connection_tracking_is_advised_against_for_the_ports_of_the_configuration() {
    let folder = TestFolder::new();
    let host = host(&folder);
    folder.write("host/proc/sys/net/netfilter/nf_conntrack_count", "2");
    let listen = "listen = [\"127.0.0.1:5300\"]\nlisten-tls = [\"127.0.0.1:8530\"]\nlisten-quic = [\"127.0.0.1:8531\"]";
    folder.write("zonda.toml", &format!("[server]\ntls-self-signed = true\n{listen}\n"));
    let outcome = folder.run(&["tune", "--config", "zonda.toml", "--root", &host, "--json"]);
    let report = json(&outcome.out);
    let rule = setting(&report, "firewall and connection tracking")["advised"].as_str().expect("commands").to_owned();
    assert!(rule.contains("th dport { 5300, 8530, 8531 } notrack"), "{rule}");
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
    let text = folder.read("tuning/sysctl.d/99-zz-zonda-tune.conf");
    assert!(text.contains("\nnet.core.somaxconn = 4096\n"), "{text}");
    assert!(!Path::new(&folder.path().join("tuning/limits.d")).exists());
    let kept = folder.read("host/proc/sys/net/core/somaxconn");
    assert_eq!(kept, "128", "--write sets nothing");
}

/// `ethtool`, `tc` and `getconf` may wait for a driver that hangs.
#[test]
fn programs_that_never_end_are_given_up() {
    let folder = TestFolder::new();
    for program in ["ethtool", "tc", "getconf"] {
        let path = folder.write(&format!("bin/{program}"), "#!/bin/sh\nexec sleep 40\n");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its owner");
    }
    let path = format!("{}:{}", folder.path().join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let begin = Instant::now();
    let output = folder.zonda(&["tune", "--json"]).env("PATH", path).output().expect("zonda runs");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert!(output.status.success(), "{output:?}");
    let report = json(&String::from_utf8_lossy(&output.stdout));
    let notes: Vec<&str> = report["notes"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let given_up = |command: &str| notes.iter().any(|note| note.starts_with(command) && note.contains("2 seconds"));
    assert!(given_up("`getconf PAGESIZE` did not end"), "{notes:?}");
    let interfaces = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let is_read = |state: &str| matches!(state.trim(), "up" | "unknown");
    let mut states = interfaces
        .filter(|interface| interface.file_name() != "lo")
        .filter_map(|interface| fs::read_to_string(interface.path().join("operstate")).ok());
    if states.any(|state| is_read(&state)) {
        assert!(given_up("`ethtool -g ") && given_up("`tc qdisc show dev "), "{notes:?}");
        assert_eq!(
            notes.iter().filter(|note| note.contains("`ethtool")).count(),
            1,
            "once, and no advice to install it"
        );
    }
}

/// Runs a shell script in namespaces of its own, whose root it is; `$ZONDA` is the program. `None` if these may not be made here.
fn in_namespaces(folder: &TestFolder, script: &str) -> Option<CommandOutput> {
    let namespaces = ["--user", "--map-root-user", "--net", "--mount", "--"];
    if !Command::new("unshare").args(namespaces).arg("true").status().is_ok_and(|status| status.success()) {
        report_skipped("no user, network and mount namespace may be made here (unshare)");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-ec", script]).current_dir(folder.path());
    command.env("ZONDA", env!("CARGO_BIN_EXE_zonda")).env("HOME", folder.path()).env_remove("XDG_CONFIG_HOME");
    let output = command.output().expect("unshare runs");
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    Some(CommandOutput {
        status: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    })
}

/// Two settings that a network namespace has, and that need a change.
const TWO_SETTINGS: &str =
    "--role secondary --zones 60000 --only net.ipv4.ip_local_port_range --only net.core.somaxconn";

/// Makes a file of the namespace read-only. The other options are those that a mount of /proc has and that may not be dropped.
const READ_ONLY: &str = "read_only() { mount --bind $1 $1; mount -o remount,bind,ro$(findmnt -no OPTIONS -T $1 | tr , '\\n' \
    | grep -x -e nosuid -e nodev -e noexec | sed s/^/,/ | tr -d '\\n') $1; }; echo 128 > /proc/sys/net/core/somaxconn";

#[test]
fn settings_that_are_read_only_are_reported_and_the_others_can_be_undone() {
    let folder = TestFolder::new();
    let run = |path: &str| {
        in_namespaces(&folder, &format!("{READ_ONLY}; read_only {path}; $ZONDA tune {TWO_SETTINGS} --apply"))
    };
    let Some(all) = run("/proc/sys") else { return };
    assert_eq!((all.status, all.out.matches("not set: ").count()), (1, 2), "{all:?}");
    assert!(all.out.contains("/proc/sys is read-only, as in most containers: set it on the host"), "{all:?}");
    assert!(!all.out.contains("undo"), "{all:?}");
    let Some(some) = run("/proc/sys/net/ipv4/ip_local_port_range") else { return };
    assert_eq!((some.status, some.out.matches("not set: net.ipv4.ip_local_port_range").count()), (1, 1), "{some:?}");
    assert!(some.out.contains("set: net.core.somaxconn = 4096 (was 128)"), "{some:?}");
    assert!(some.out.contains("To undo it:\n  sysctl -w net.core.somaxconn='128'\n"), "{some:?}");
}

#[test]
fn how_to_undo_it_is_not_lost_where_the_report_cannot_be_written() {
    let folder = TestFolder::new();
    let script = format!("{READ_ONLY}; $ZONDA tune {TWO_SETTINGS} --apply > /dev/full");
    let Some(outcome) = in_namespaces(&folder, &script) else { return };
    assert_eq!(outcome.status, 1, "{outcome:?}");
    assert!(outcome.err.contains("to undo it: sysctl -w net.core.somaxconn='128'\n"), "{outcome:?}");
    assert!(outcome.err.contains("to undo it: sysctl -w net.ipv4.ip_local_port_range="), "{outcome:?}");
}

#[test]
fn a_full_disk_leaves_no_files() {
    let folder = TestFolder::new();
    fs::create_dir(folder.path().join("disk")).expect("a folder");
    for size in ["4k", "8k", "12k", "16k"] {
        // The disk has room for none, or only some of the files.
        let script = format!(
            "mount -t tmpfs -o size={size} tmpfs disk; echo 128 > /proc/sys/net/core/somaxconn; \
             $ZONDA tune --connections 5000000 --write disk --apply && exit 9; \
             cat /proc/sys/net/core/somaxconn; find disk -type f"
        );
        let Some(outcome) = in_namespaces(&folder, &script) else { return };
        assert_eq!((outcome.status, outcome.out.as_str()), (0, "128\n"), "{size}: {outcome:?}");
        for words in [
            "the files cannot be written, and nothing was set: disk/",
            "No space left on device",
            "help: free some space",
        ] {
            assert!(outcome.err.contains(words), "{size}: {outcome:?}");
        }
    }
}

#[test]
fn a_folder_without_permission_is_named() {
    let folder = TestFolder::new();
    let denied = folder.path().join("denied");
    fs::create_dir(&denied).expect("a folder");
    fs::set_permissions(&denied, fs::Permissions::from_mode(0o555)).expect("its owner");
    // Root may write everywhere, but not as that of a user namespace that lacks the owner of the folder.
    let outcome = match chown(&denied, Some(12_345), None) {
        Ok(()) => in_namespaces(&folder, "exec $ZONDA tune --connections 5000000 --write denied"),
        Err(_) => Some(folder.run(&["tune", "--connections", "5000000", "--write", "denied"])),
    };
    let Some(outcome) = outcome else { return };
    assert_eq!((outcome.status, fs::read_dir(&denied).expect("the folder").count()), (1, 0), "{outcome:?}");
    for words in
        ["the files cannot be written: denied/", "Permission denied", "help: choose a folder that you may write to"]
    {
        assert!(outcome.err.contains(words), "{outcome:?}");
    }
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
    let report = json(&folder.read("report.json"));
    let change = &report["applied"][0];
    assert_eq!((&change["before"], &change["error"]), (&before.into(), &Value::Null));
    assert_eq!(change["undo"], format!("sysctl -w net.ipv4.ip_local_port_range='{before}'"));
}
