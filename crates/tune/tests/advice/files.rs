//! The files of `--write`: as their readers parse them, they have the advised values and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tune::advice::{Action, Place};
use tune::apply::apply;
use tune::render::files;
use tune::{Case, Role, Row, ServerFacts, Workload, advise};

use crate::synthetic::{TestHost, workload};

/// The assignments of a file as `sysctl --system` reads it: no empty lines, no lines that begin with `#` or `;`, blanks around `=`.
fn sysctl_assignments(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    lines.map(|line| pair(line).unwrap_or_else(|| panic!("sysctl cannot parse {line}"))).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_written_files_have_the_advised_values() {
    let (host, folder) = (TestHost::large(), tempfile::tempdir().expect("a folder"));
    let host = host.read();
    let workload = Workload { connections: 2_000_000, zones: 100_000, ..workload(Role::Secondary) };
    let case = Case { host: &host, workload, server: ServerFacts::default() };
    let rows = advise(&case);
    let of = |place| rows.iter().filter(move |row| row.place == place && row.action == Action::Set);
    let written = files::write(folder.path(), &files::plan(&case, &rows)).expect("the files");
    assert_eq!(written.len(), 4);

    let sysctls = read(&folder.path().join("sysctl.d/99-zz-zonda-tune.conf"));
    // Also what has the very value that is advised: `--apply` may have set it.
    let is_written = |row: &&Row| row.action == Action::Set || (row.action == Action::Keep && row.is_reached);
    let written = rows.iter().filter(|row| row.place == Place::Sysctl).filter(is_written);
    let expected: Vec<_> = written.map(|row| (row.name.to_owned(), row.advised.clone().expect("a value"))).collect();
    assert!(expected.len() > 4, "{expected:?}");
    assert_eq!(sysctl_assignments(&sysctls), expected);
    assert!(sysctls.contains("# net.ipv4.tcp_sack: "), "what is left alone has a comment");
    for key in ["evidence", "sources", "condition", "risk"] {
        assert!(sysctls.contains(&format!("# {key}: ")), "{key}: {sysctls}");
    }

    let limit = of(Place::Unit).next().and_then(|row| row.advised.clone()).expect("a limit");
    let unit = read(&folder.path().join("systemd/zonda.service.d/zz-zonda-tune.conf"));
    let lines: Vec<&str> = unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(lines, ["[Service]", &format!("LimitNOFILE={limit}")]);
    let login = read(&folder.path().join("limits.d/zz-zonda-tune.conf"));
    let lines: Vec<&str> = login.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let expected = ["*", "root"].map(|who| ["soft", "hard"].map(|kind| format!("{who} {kind} nofile {limit}")));
    assert_eq!(lines, expected.concat(), "lines for everybody are not for root");
    assert!(login.contains("# condition: the server is started from a shell"), "{login}");
    assert!(login.contains("nobody can log in"), "{login}");
    assert!(read(&folder.path().join("by-hand.txt")).contains("ethtool -L eth0 combined 8"));

    // A second time the files are replaced; those of somebody else are not.
    files::write(folder.path(), &files::plan(&case, &rows)).expect("the files again");
    fs::write(folder.path().join("sysctl.d/99-zz-zonda-tune.conf"), "net.core.somaxconn = 1\n").expect("a file");
    let error = files::write(folder.path(), &files::plan(&case, &rows)).expect_err("a file of somebody else");
    assert!(error.to_string().contains("was not written by `zonda tune`"), "{error}");
}

/// The planned file for sysctl.d; empty without one.
fn sysctl_text(host: &TestHost, workload: Workload) -> String {
    let host = host.read();
    let case = Case { host: &host, workload, server: ServerFacts::default() };
    let planned = files::plan(&case, &advise(&case)).into_iter().find(|file| file.path.starts_with("sysctl.d"));
    planned.map(|file| file.text).unwrap_or_default()
}

#[test]
fn a_later_file_has_what_was_applied_and_installed() {
    let host = TestHost::recorded();
    let assignments = |workload| BTreeMap::from_iter(sysctl_assignments(&sysctl_text(&host, workload)));
    let secondary = Workload { connections: 5_000_000, zones: 60_000, ..workload(Role::Secondary) };
    assert!(!assignments(workload(Role::Secondary)).contains_key("net.ipv4.tcp_mem"), "the kernel computes it");
    host.write("proc/sys/net/ipv4/tcp_mem", "1000 2000 3000");
    host.write("proc/sys/net/ipv4/tcp_sack", "0");
    host.write("etc/sysctl.d/90-site.conf", "net.ipv4.tcp_sack = 0\n");
    let first = assignments(secondary);
    for name in ["net.ipv4.tcp_mem", "net.ipv4.tcp_sack", "net.ipv4.ip_local_port_range", "fs.file-max"] {
        assert!(first.contains_key(name), "{name}");
    }
    let text = sysctl_text(&host, secondary);
    apply(host.path(), &host.rows(secondary));
    assert_eq!(assignments(secondary), first, "good now, but not after the next start");

    // Installed and started again, then written for other work.
    host.write("etc/sysctl.d/99-zz-zonda-tune.conf", &text);
    let second = assignments(Workload { connections: 20_000_000, ..workload(Role::Tcp) });
    let lost: Vec<_> = first.keys().filter(|name| !second.contains_key(*name)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(second["net.ipv4.ip_local_port_range"], "1024 65535");
    assert_eq!(second["net.ipv4.tcp_sack"], "1");
}

#[test]
fn what_was_applied_for_more_work_is_written_for_less() {
    let host = TestHost::recorded();
    let assignments = |workload| BTreeMap::from_iter(sysctl_assignments(&sysctl_text(&host, workload)));
    for (name, default) in [
        ("net.core.rmem_max", "212992"),
        ("net.core.wmem_max", "212992"),
        ("net.core.netdev_max_backlog", "1000"),
        ("fs.nr_open", "1048576"),
        ("fs.file-max", "9223372036854775807"),
        ("net.ipv4.ip_local_port_range", "32768 60999"),
    ] {
        host.write(&tune::host::sysctl_path(name), default);
    }
    let names = ["net.core.somaxconn", "net.core.rmem_max", "net.core.wmem_max", "net.core.netdev_max_backlog"];
    let names = [&names[..], &["fs.nr_open", "net.ipv4.ip_local_port_range"]].concat();
    let before = assignments(workload(Role::Udp));
    for name in ["net.core.netdev_max_backlog", "fs.nr_open", "fs.file-max", "net.ipv4.ip_local_port_range"] {
        assert!(!before.contains_key(name), "{name} has the value that the kernel begins with");
    }
    let large = Workload { connections: 5_000_000, zones: 60_000, ..workload(Role::Secondary) };
    apply(host.path(), &host.rows(large));
    let busy = Workload { connections: 5_000_000, rate: Some(3_000_000), ..workload(Role::Udp) };
    apply(host.path(), &host.rows(busy));
    let written = assignments(workload(Role::Udp));
    for name in names {
        assert_eq!(written.get(name), Some(&host.sysctl(name)), "{name}");
    }
    assert!(!written.contains_key("fs.file-max"), "{written:?}");
}

#[test]
fn the_files_are_read_after_all_others() {
    let folder = TestHost::large();
    let host = folder.read();
    let workload = Workload { connections: 2_000_000, ..workload(Role::Tcp) };
    let case = Case { host: &host, workload, server: ServerFacts::default() };
    let planned = files::plan(&case, &advise(&case));
    for (folder, others) in [
        ("sysctl.d", ["99-sysctl.conf", "90-override.conf"]),
        ("limits.d", ["increase-nofile.conf", "90-nproc.conf"]),
        ("zonda.service.d", ["override.conf", "filelimit.conf"]),
    ] {
        let is_here = |path: &Path| path.parent().is_some_and(|parent| parent.ends_with(folder));
        let ours = planned.iter().find(|file| is_here(&file.path)).expect("a file");
        let name = ours.path.file_name().expect("a name");
        assert!(others.iter().all(|other| name > *other), "{name:?}");
    }
}

#[test]
fn nothing_is_written_where_nothing_is_to_set() {
    let host = TestHost::recorded().read();
    let case = Case { host: &host, workload: workload(Role::Udp), server: ServerFacts::default() };
    assert_eq!(files::plan(&case, &[]), []);
}

#[test]
fn only_files_of_its_own_are_overwritten() {
    let (host, folder) = (TestHost::large().read(), tempfile::tempdir().expect("a folder"));
    let case = Case { host: &host, workload: workload(Role::Tcp), server: ServerFacts::default() };
    let planned = files::plan(&case, &advise(&case));
    let written = files::write(folder.path(), &planned).expect("the files");
    let last = written.last().expect("a file");

    // The name of the new file is known before: a link there is replaced, not followed.
    let precious = folder.path().join("precious");
    fs::write(&precious, "precious").expect("a file");
    for path in &written {
        symlink(&precious, path.with_extension("new")).expect("a link");
    }
    files::write(folder.path(), &planned).expect("the files again");
    assert_eq!(read(&precious), "precious");

    // A file that never ends, a link to another author's, and one that is no text; then nothing else is written either.
    fs::write(&written[0], "# Written by `zonda tune`. This is an old one.").expect("a file");
    for target in [Path::new("/dev/zero"), &precious, folder.path()] {
        fs::remove_file(last).expect("it was written");
        symlink(target, last).expect("a link");
        let error = files::write(folder.path(), &planned).expect_err("not ours");
        assert!(error.to_string().contains("was not written by `zonda tune`"), "{error}");
    }
    fs::remove_file(last).expect("a link");
    fs::write(last, [0xff; 80]).expect("a file");
    let error = files::write(folder.path(), &planned).expect_err("not ours");
    assert!(error.to_string().contains("was not written by `zonda tune`"), "{error}");
    assert!(read(&written[0]).contains("old one") && read(&precious) == "precious");
}
