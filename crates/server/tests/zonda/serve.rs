//! `zonda serve`: starts, answers, ends.

use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::harness::{NOERROR, NXDOMAIN, REFUSED, SERVFAIL, TestFolder, is_root, outcome, report_skipped, zone_text};

#[test]
fn a_folder_is_served_without_any_configuration() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    folder.write_zone("sub.example.com", 1, "192.0.2.2");
    folder.write("zones/.hidden.zone", "nonsense");
    folder.write("zones/notes.txt", "nonsense");
    let daemon = folder.serve(&["zones"]);
    assert!(daemon.ask("www.example.com").has("192.0.2.1"));
    assert!(daemon.ask("www.sub.example.com").has("192.0.2.2"));
    assert_eq!(daemon.ask("absent.example.com").rcode(), NXDOMAIN);
    assert_eq!(daemon.ask("www.example.org").rcode(), REFUSED);
    let (status, log) = daemon.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains("zonda has stopped"), "{log}");
    assert!(!folder.path().join("state/zonda/control.sock").exists());
}

#[test]
fn zones_can_be_named_on_the_command_line() {
    let folder = TestFolder::new();
    folder.write("db.net", &zone_text(1, "192.0.2.1"));
    folder.write("db.org", &format!("$ORIGIN example.org.\n{}", zone_text(1, "192.0.2.2")));
    folder.write("root.zone", &zone_text(1, "192.0.2.3"));
    let daemon = folder.serve(&["--zone", "example.net=db.net", "db.org", "root.zone"]);
    for (name, address) in [("www.example.net", "192.0.2.1"), ("www.example.org", "192.0.2.2"), ("www", "192.0.2.3")] {
        assert!(daemon.ask(name).has(address), "{name}: {}", daemon.log());
    }
}

#[test]
fn a_configuration_is_served_from_its_folder() {
    let folder = TestFolder::new();
    folder.write("etc/zones/example.com.zone", &zone_text(1, "192.0.2.1"));
    folder.write(
        "etc/zonda.toml",
        "[template.default]\nfile = \"zones/{name}.zone\"\n[[zone]]\nname = \"example.com\"\n",
    );
    let daemon = folder.serve(&["--config", "etc/zonda.toml"]);
    assert!(daemon.ask("www.example.com").has("192.0.2.1"));
}

/// The sockets for control and for notifications have addresses of 107 octets at most (unix(7)).
#[test]
fn the_path_of_the_folder_may_be_long() {
    let folder = TestFolder::with_long_path();
    folder.write_zone("example.com", 1, "192.0.2.1");
    folder.write("zonda.toml", "[[zone]]\nname = \"example.com\"\nfile = \"zones/example.com.zone\"\n");
    let daemon = folder.serve_with_config();
    assert!(daemon.ask("www.example.com").has("192.0.2.1"));
    let output = folder.reload();
    assert_eq!(output.status, 0, "{output:?}");
}

#[test]
fn the_examples_serve_the_documented_answers() {
    let folder = TestFolder::new();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/zonda.toml");
    let daemon = folder.serve(&["--config", config]);
    for (name, address) in [
        ("www.example.com", "192.0.2.80"),
        ("any.pages.example.com", "192.0.2.88"),
        ("www.old.example.com", "192.0.2.99"),
        ("dhcp-7.example.com", "192.0.2.207"),
        ("printer.dept.example.com", "192.0.2.131"),
        ("www.dept.example.com", "192.0.2.80"),
    ] {
        assert!(daemon.ask(name).has(address), "{name}");
    }
}

#[test]
fn a_zone_that_cannot_be_loaded_is_servfail_and_others_are_served() {
    let folder = TestFolder::new();
    folder.write_zone("good.example", 1, "192.0.2.1");
    folder.write("zones/bad.example.zone", "nonsense\n");
    folder.write("zonda.toml", "[[zone]]\nname = \"later.example\"\nprimaries = [\"127.0.0.1:1\"]\n");
    let daemon = folder.serve(&["--config", "zonda.toml", "--zone", "absent.example=absent", "zones"]);
    assert!(daemon.ask("www.good.example").has("192.0.2.1"));
    for name in ["www.bad.example", "www.absent.example", "www.later.example"] {
        assert_eq!(daemon.ask(name).rcode(), SERVFAIL, "{name}");
    }
    for expected in
        ["zones/bad.example.zone:1:", "absent: error: the zone file cannot be read", "no zones can be transferred"]
    {
        daemon.wait_for_log(expected);
    }
}

#[test]
fn includes_are_read_from_the_folder_of_their_file() {
    let folder = TestFolder::new();
    folder.write("zones/example.com.zone", &(zone_text(1, "192.0.2.1") + "$INCLUDE parts/more\n"));
    folder.write("zones/parts/more", "more A 192.0.2.7\n$INCLUDE yet/more\n");
    folder.write("zones/parts/yet/more", "yet.more A 192.0.2.8\n");
    let daemon = folder.serve(&["zones"]);
    assert!(daemon.ask("more.example.com").has("192.0.2.7"));
    assert!(daemon.ask("yet.more.example.com").has("192.0.2.8"));
}

/// Opening a pipe without a writer would block the thread that loads zones.
#[test]
fn a_named_pipe_is_not_read_as_a_zone_file() {
    let folder = TestFolder::new();
    folder.write("zones/a.example.zone", &(zone_text(1, "192.0.2.1") + "$INCLUDE /dev/tty\n"));
    folder.write_zone("good.example", 1, "192.0.2.1");
    folder.write("zonda.toml", "[template.default]\ninclude-paths = [\"/dev\"]\n");
    let daemon = folder.serve(&["--config", "zonda.toml", "--zone", "null.example=/dev/null", "zones"]);
    assert!(daemon.ask("www.good.example").has("192.0.2.1"));
    daemon.wait_for_log("/dev/null: error: the zone file is not a regular file");
    daemon.wait_for_log("/dev/tty is not included: it is not a regular file");
}

/// Files of /proc are called regular, but some have no end and others block.
#[test]
fn files_that_the_kernel_generates_are_not_read() {
    let folder = TestFolder::new();
    folder.write("zones/a.example.zone", &(zone_text(1, "192.0.2.1") + "$INCLUDE /proc/version\n"));
    folder.write("zonda.toml", "[template.default]\ninclude-paths = [\"/proc\"]\n");
    let arguments = ["--config", "zonda.toml", "--zone", "maps.example=/proc/self/maps", "zones"];
    let daemon = folder.serve(&arguments);
    daemon.wait_for_log("/proc/self/maps: error: the zone file is not a regular file");
    daemon.wait_for_log("/proc/version is not included: it is not a regular file");
    let outcome = folder.run(&["check", "--zone", "maps.example=/proc/self/maps"]);
    assert!(outcome.out.contains("the zone file cannot be read: it is not a regular file"), "{}", outcome.out);
    let outcome = folder.run(&["check", "--config", "/proc/self/maps"]);
    assert!(outcome.out.contains("the configuration cannot be read: it is not a regular file"), "{}", outcome.out);
}

/// 100,000 missing files must not hide the rest of the log.
#[test]
fn many_missing_files_are_summarized_in_the_log() {
    let folder = TestFolder::new();
    let zones = |first: usize| -> String {
        (first..first + 250).map(|n| format!("[[zone]]\nname = \"z{n}\"\nfile = \"absent/z{n}\"\n")).collect()
    };
    folder.write_zone("good.example", 1, "192.0.2.1");
    folder.write("zonda.toml", &zones(0));
    let daemon = folder.serve(&["--config", "zonda.toml", "zones"]);
    daemon.wait_for_log("150 more zones are NOT LOADED; `zonda check` lists their errors");
    folder.write("zonda.toml", &zones(1000));
    let outcome = folder.reload();
    for (wanted, count) in
        [(": removed\n", 250), (": NOT LOADED, answered with SERVFAIL\n", 250), ("cannot be read", 250)]
    {
        assert_eq!(outcome.out.matches(wanted).count(), count, "{wanted}");
    }
    daemon.wait_for_log("150 more zones have changed");
    let (_, log) = daemon.stop();
    assert_eq!(log.matches("150 more zones are NOT LOADED").count(), 2, "{log}");
    assert_eq!(log.matches(": NOT LOADED, answered with SERVFAIL: absent/z").count(), 200, "{log}");
    assert_eq!(log.matches(": removed").count(), 100, "{log}");
    assert!(log.lines().count() < 320, "one line for each: {log}");
}

#[test]
fn zone_files_include_files_of_their_folders() {
    let folder = TestFolder::new();
    let text = |path: &str| format!("{}$INCLUDE {path}\n", zone_text(1, "192.0.2.1"));
    for name in ["zones/sub", "config", "shared"] {
        folder.write(&format!("{name}/more"), "more 60 A 192.0.2.7\n");
    }
    let served = [("below", "sub/more"), ("config", "../config/more"), ("shared", "../shared/more")];
    for (name, path) in served {
        folder.write(&format!("zones/{name}.example.zone"), &text(path));
    }
    let zone = |name: &str| format!("[[zone]]\nname = \"{name}.example\"\nfile = \"../zones/{name}.example.zone\"\n");
    let zones: String = served.iter().map(|(name, _)| zone(name)).collect();
    folder.write("config/zonda.toml", &format!("{zones}include-paths = [\"../shared\"]\n"));
    let daemon = folder.serve(&["--config", "config/zonda.toml"]);
    for (name, _) in served {
        assert!(daemon.ask(&format!("more.{name}.example")).has("192.0.2.7"), "{name}");
    }
    let outcome = folder.run(&["check", "zones/below.example.zone", "zones/shared.example.zone"]);
    assert!(outcome.out.contains("../shared/more is not included: it is outside"), "{}", outcome.out);
    assert!(outcome.out.contains("`include-paths`") && !outcome.out.contains("sub/more"), "{}", outcome.out);
}

#[test]
fn a_port_in_use_is_reported() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let outcome = folder.run(&["serve", "--listen", &address, "zones"]);
    assert_eq!(outcome.status, 1);
    assert!(outcome.err.contains(&format!("cannot listen on {address}")), "{}", outcome.err);
}

#[test]
fn a_failed_start_reports_the_reason() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    folder.write("user.toml", "[server]\nuser = \"nobody-of-this-name\"\n");
    folder.write("state.toml", "[server]\nstate-dir = \"user.toml/state\"\n");
    for (arguments, expected) in [
        (vec!["serve"], "error: there is no configuration"),
        (vec!["serve", "--config", "absent.toml"], "absent.toml: error: the configuration cannot be read"),
        (vec!["serve", "absent"], "absent: error: this cannot be read"),
        (vec!["serve", "--listen", "192.0.2.1:5300", "zones"], "no interface of this host has the address"),
        (
            vec!["serve", "--listen", "127.0.0.1:0", "--config", "user.toml"],
            "cannot become the user nobody-of-this-name",
        ),
        (
            vec!["serve", "--listen", "127.0.0.1:0", "--config", "state.toml"],
            "the state-dir user.toml/state cannot be used",
        ),
    ] {
        let outcome = folder.run(&arguments);
        assert_eq!(outcome.status, 1, "{arguments:?}: {}", outcome.err);
        assert!(outcome.err.contains(expected), "{arguments:?}: {}", outcome.err);
    }
    assert_eq!(folder.run(&["serve", "--listen", "here", "zones"]).status, 2);
}

/// Secrets are made from it. Here it is empty, as where a container has no such device.
#[test]
fn a_start_without_random_numbers_says_so() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    let namespaces = ["--user", "--map-root-user", "--mount", "--"];
    let script = "mount --bind /dev/null /dev/urandom && exec \"$@\"";
    let zonda = folder.zonda(&["serve", "--listen", "127.0.0.1:0", "zones"]);
    let in_namespace = |program: &std::ffi::OsStr| {
        let mut command = Command::new("timeout");
        command.args(["30", "unshare"]).args(namespaces).args(["sh", "-c", script, "sh"]).arg(program);
        command.current_dir(folder.path());
        command
    };
    if !in_namespace("true".as_ref()).output().is_ok_and(|output| output.status.success()) {
        return report_skipped("no user and mount namespace may be made here (unshare)");
    }
    let mut command = in_namespace(zonda.get_program());
    command
        .args(zonda.get_args())
        .env("XDG_STATE_HOME", folder.path())
        .env("STATE_DIRECTORY", folder.path().join("state"));
    let outcome = outcome(command.output().expect("it runs"));
    assert_eq!(outcome.status, 1, "{}", outcome.err);
    assert!(outcome.err.contains("/dev/urandom cannot be read"), "{}", outcome.err);
    assert!(outcome.err.contains("(help: a container or chroot needs this device)"), "{}", outcome.err);
}

/// systemd and other programs that start it read the log.
#[test]
fn mistakes_in_the_configuration_are_in_the_log_if_that_is_json() {
    let folder = TestFolder::new();
    folder.write("zonda.toml", "[server]\nworkres = 1\n");
    let outcome = folder.run(&["serve", "--config", "zonda.toml", "--log-format", "json"]);
    assert_eq!(outcome.status, 1);
    let line: serde_json::Value = serde_json::from_str(outcome.err.trim_end()).expect("one line of JSON");
    let message = line["message"].as_str().unwrap_or_default();
    assert!(line["level"] == "ERROR" && message.contains("did you mean `workers`?"), "{line}");
}

/// Without it, zones would be served from their older files.
#[test]
fn a_state_dir_of_systemd_must_be_usable() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    let state_dir = folder.path().join("state/zonda");
    std::fs::create_dir_all(&state_dir).expect("a folder");
    std::fs::set_permissions(&state_dir, PermissionsExt::from_mode(0o777)).expect("it is ours");
    let outcome = folder.run(&["serve", "--listen", "127.0.0.1:0", "zones"]);
    assert_eq!(outcome.status, 1, "{}", outcome.err);
    assert!(outcome.err.contains("can be changed by others") && outcome.err.contains("chmod o-w"), "{}", outcome.err);
}

#[test]
fn a_state_dir_is_not_shared() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    folder.write("zonda.toml", "[server]\nlisten = [\"127.0.0.1:0\"]\nstate-dir = \"state/zonda\"\n");
    let first = folder.serve(&["zones"]);
    for arguments in [&["serve", "--config", "zonda.toml"][..], &["serve", "--listen", "127.0.0.1:0", "zones"]] {
        let refused = folder.run(arguments);
        assert_eq!(refused.status, 1);
        assert!(refused.err.contains("another zonda (process"), "{}", refused.err);
    }
    assert!(first.ask("www.example.com").has("192.0.2.1"));
}

/// Neither configured nor given by systemd.
#[test]
fn the_default_state_dir_is_optional() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    // In its place is a file.
    folder.write("default", "");
    let Some(daemon) = folder.serve_without_state_dir(&["zones"]) else {
        return report_skipped("root may not hide the default state-dir here");
    };
    assert!(daemon.ask("www.example.com").has("192.0.2.1"));
}

#[test]
fn privileges_are_dropped_and_reloads_still_work() {
    let folder = TestFolder::new();
    if !is_root() {
        return report_skipped("only root can become another user");
    }
    folder.write_zone("example.com", 1, "192.0.2.1");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    folder.write(
        "zonda.toml",
        "[server]\nuser = \"nobody\"\n[[zone]]\nname = \"example.com\"\nfile = \"zones/{name}.zone\"\n",
    );
    let daemon = folder.serve_with_config();
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).expect("it runs");
    let effective =
        status.lines().find(|line| line.starts_with("Uid:")).and_then(|line| line.split_whitespace().nth(2));
    assert!(effective.is_some_and(|user| user != "0"), "{status}");
    let state_dir = folder.path().join("state/zonda");
    let reloaded = folder.run(&["reload", "--state-dir", state_dir.to_str().expect("a path")]);
    assert!(reloaded.out.starts_with("0 zones changed, 1 unchanged"), "{} {}", reloaded.out, reloaded.err);
    assert!(daemon.ask("www.example.com").has("192.0.2.1"));
}

/// systemd has `User=zonda` in the unit, and the configuration may have `user = "zonda"`, too.
#[test]
fn the_user_that_it_runs_as_already_may_be_configured() {
    let folder = TestFolder::new();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let process = std::fs::metadata("/proc/self").expect("procfs");
    let (user, group) = if is_root() { (65534, 65534) } else { (process.uid(), process.gid()) };
    // The start ends at the next step.
    let config = format!("[server]\nuser = \"{user}:{group}\"\nstate-dir = \"zonda.toml/state\"\n");
    folder.write("zonda.toml", &config);
    let mut command = folder.zonda(&["serve", "--listen", "127.0.0.1:0", "--config", "zonda.toml"]);
    let Ok(output) = command.uid(user).gid(group).output() else {
        return report_skipped("nobody may not run this program");
    };
    let error = outcome(output).err;
    assert!(error.contains("the state-dir zonda.toml/state cannot be used"), "{error}");
}

#[test]
fn sigint_stops_the_daemon_like_sigterm() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    let mut daemon = folder.serve(&["zones"]);
    daemon.signal("INT");
    daemon.wait_for_notification("STOPPING=1");
    assert!(daemon.wait().success());
}

#[test]
fn sigusr1_logs_the_counters() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    let daemon = folder.serve(&["zones"]);
    assert_eq!(daemon.ask("www.example.com").rcode(), NOERROR);
    daemon.signal("USR1");
    let (_, log) = daemon.stop();
    assert!(
        log.lines().any(|line| line.contains("queries=1") && line.contains("udp") && line.contains("NOERROR=1")),
        "{log}"
    );
}

#[test]
fn the_log_format_can_be_json() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    folder.write("zones/bad.example.zone", "nonsense\n");
    let (_, log) = folder.serve(&["--log-format", "json", "zones"]).stop();
    assert!(log.lines().count() > 3);
    for line in log.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(value["level"].is_string() && value["timestamp"].is_string(), "{line}");
    }
}

#[test]
fn the_log_level_is_applied() {
    let folder = TestFolder::new();
    folder.write_zone("example.com", 1, "192.0.2.1");
    let outcome = outcome(
        folder
            .zonda(&["serve", "--log-level", "error", "--listen", "192.0.2.1:53", "zones"])
            .output()
            .expect("zonda runs"),
    );
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
}
