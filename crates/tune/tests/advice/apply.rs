//! `--apply` sets sysctls and says how to undo it: on a recorded host, and in a network namespace of its own.

use std::path::Path;
use std::process::Command;

use tune::advice::Action;
use tune::apply::apply;
use tune::{Case, Host, Role, Row, ServerFacts, Workload, advise};

use crate::synthetic::{TestHost, workload};

const PORTS: &str = "net.ipv4.ip_local_port_range";

/// Set in the process that runs in the namespace.
const INSIDE: &str = "ZONDA_TUNE_TEST_INSIDE";

fn many_zones() -> Workload {
    Workload { zones: 60_000, ..workload(Role::Secondary) }
}

fn port_row(host: &Host) -> Vec<Row> {
    let rows = advise(&Case { host, workload: many_zones(), server: ServerFacts::default() });
    rows.into_iter().filter(|row| row.name == PORTS).collect()
}

#[test]
fn sysctls_are_set_and_nothing_else() {
    let host = TestHost::recorded();
    let rows = host.rows(many_zones());
    let changes = apply(host.path(), &rows);
    assert!(changes.iter().any(|change| change.name == PORTS));
    for change in &changes {
        assert_eq!((change.error.as_deref(), &host.sysctl(change.name)), (None, &change.asked));
        assert_eq!(change.undo(), format!("sysctl -w {}='{}'", change.name, change.before));
    }
    // What was set is good now.
    for row in host.rows(many_zones()).iter().filter(|row| changes.iter().any(|change| change.name == row.name)) {
        assert_eq!(row.action, Action::Keep, "{}", row.name);
    }
    assert_eq!(host.sysctl("net.ipv4.tcp_sack"), "1");
}

#[test]
fn what_cannot_be_set_is_explained() {
    let host = TestHost::recorded();
    let rows = port_row(&host.read());
    std::fs::remove_dir_all(host.path().join("proc/sys/net/ipv4")).expect("the folder");
    let changes = apply(host.path(), &rows);
    let error = changes[0].error.as_deref().expect("an error");
    assert!(error.contains("help: this network namespace does not have it"), "{error}");
}

/// As gVisor does with some settings.
#[test]
fn a_value_that_is_accepted_without_effect_is_an_error() {
    let host = TestHost::recorded();
    let rows = port_row(&host.read());
    let file = host.path().join(tune::host::sysctl_path(PORTS));
    std::fs::remove_file(&file).expect("the sysctl");
    let before = rows[0].now.clone().expect("a value");
    // A pipe that takes what is written and returns the former value.
    assert!(Command::new("mkfifo").arg(&file).status().is_ok_and(|status| status.success()));
    let kernel = std::thread::spawn(move || {
        let asked = std::fs::read_to_string(&file).expect("the pipe");
        std::fs::write(&file, before).expect("the pipe");
        asked
    });
    let changes = apply(host.path(), &rows);
    assert_eq!(kernel.join().ok(), rows[0].advised);
    let error = changes[0].error.as_deref().expect("an error");
    assert!(error.contains("kept its own"), "{error}");
}

#[test]
fn a_namespace_is_set_and_undone() {
    if std::env::var_os(INSIDE).is_some() {
        return set_and_undo();
    }
    let program = std::env::current_exe().expect("this test");
    let arguments = ["--user", "--map-root-user", "--net", "--"];
    if !Command::new("unshare").args(arguments).arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no user and network namespace may be made here (unshare)");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(arguments).arg(program).args(["--exact", "apply::a_namespace_is_set_and_undone", "--nocapture"]);
    let output = command.env(INSIDE, "1").output().expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("set and undone"), "{text}");
}

/// Runs in the namespace: its ports are its own, so that the host is not touched.
fn set_and_undo() {
    let root = Path::new("/");
    let host = Host::read(root, "zonda").expect("this host");
    let before = host.sysctl(PORTS).expect("the ports of the namespace");
    let changes = apply(root, &port_row(&host));
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].error, None);
    assert_eq!(host.sysctl(PORTS).as_deref(), Some("1024 65535"));
    assert_eq!(port_row(&host)[0].action, Action::Keep);
    let undone = Command::new("sh").args(["-c", &changes[0].undo()]).status();
    match undone {
        Ok(status) if status.success() => {}
        // Without `sysctl` (procps) the value is written as the command would.
        _ => std::fs::write(root.join(tune::host::sysctl_path(PORTS)), &before).expect("the value of before"),
    }
    assert_eq!(host.sysctl(PORTS).as_deref(), Some(before.as_str()));
    println!("set and undone");
}
