//! Advised options and commands are accepted by the programs that they are for, where those are installed.

use std::path::Path;
use std::process::Command;

use tune::advice::{Action, Place};
use tune::{Role, Server, Workload};

use crate::synthetic::{TestHost, workload};

/// The options to set, as the lines of a configuration.
fn lines(server: Server, line: impl Fn(&str, &str) -> String) -> String {
    let mut text = String::new();
    for role in [Role::Tcp, Role::Secondary] {
        let workload = Workload { server, connections: 20_000, zones: 50_000, ..workload(role) };
        for row in TestHost::large().rows(workload) {
            let is_option =
                row.name.bytes().all(|octet| octet.is_ascii_lowercase() || octet == b'-') && !row.name.starts_with('-');
            if row.place == Place::Config(server) && row.action == Action::Set && is_option {
                let new = line(row.name, row.advised.as_deref().expect("a value"));
                text += if text.contains(&new) { "" } else { &new };
            }
        }
    }
    assert!(text.lines().count() >= 2, "{text}");
    text
}

/// Runs a checker on a configuration; a program that is not installed is said.
fn check(program: &str, arguments: &[&str], text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let file: &Path = &folder.path().join("server.conf");
    std::fs::write(file, text).expect("the configuration");
    let arguments = arguments.iter().map(|argument| argument.replace("FILE", &file.display().to_string()));
    match Command::new(program).args(arguments).output() {
        Err(_) => eprintln!("skipped: {program} is not installed"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && !said.contains("deprecated"), "{text}{said}");
        }
    }
}

#[test]
fn options_of_bind_are_valid() {
    let options = lines(Server::Bind, |name, value| format!("{name} {value};\n"));
    check("named-checkconf", &["FILE"], &format!("options {{\n{options}}};\n"));
}

#[test]
fn options_of_nsd_are_valid() {
    let options = lines(Server::Nsd, |name, value| format!("  {name}: {value}\n"));
    check("nsd-checkconf", &["FILE"], &format!("server:\n{options}"));
}

#[test]
fn options_of_knot_are_valid() {
    // Knot refuses an option that is there twice; both roles advise the same options with the same values.
    let options = lines(Server::Knot, |name, value| format!("    {name}: {value}\n"));
    check("knotc", &["-c", "FILE", "conf-check"], &format!("server:\n{options}"));
}

#[test]
fn commands_against_connection_tracking_are_valid() {
    let host = TestHost::recorded();
    host.write("proc/sys/net/netfilter/nf_conntrack_count", "3");
    let row = host.row(workload(Role::Udp), "firewall and connection tracking");
    let commands = row.advised.expect("commands");
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "--", "sh", "-c", script]).output()
    };
    if !in_namespace("nft list ruleset").is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: nft is not installed, or no namespace may be made here");
        return;
    }
    let output = in_namespace(&commands).expect("unshare runs");
    assert!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
}
