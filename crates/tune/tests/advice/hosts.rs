//! Hosts that are containers, old, foreign, or in trouble.

use std::os::unix::fs::symlink;

use tune::advice::{Action, symptoms};
use tune::host::HostError;
use tune::render::{notes, table};
use tune::{Case, Host, Role, Server, ServerFacts, Workload, advise};

use crate::synthetic::{TestHost, workload};

fn notes_of(host: &TestHost) -> String {
    let host = host.read();
    let case = Case { host: &host, workload: workload(Role::Udp), server: ServerFacts::default() };
    notes::notes(&case, &advise(&case)).join("\n")
}

#[test]
fn other_kernels_get_a_clear_message() {
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(Host::read(folder.path(), "zonda").expect_err("no host"), HostError::NoProc);
    let host = TestHost::recorded();
    host.write("proc/sys/kernel/ostype", "FreeBSD\n");
    let error = Host::read(host.path(), "zonda").expect_err("not Linux");
    assert!(error.to_string().contains("the kernel is FreeBSD"), "{error}");
}

#[test]
fn settings_that_an_old_kernel_lacks_are_absent() {
    let host = TestHost::recorded();
    host.write("proc/sys/kernel/osrelease", "3.10.0-1160.el7.x86_64");
    std::fs::remove_file(host.path().join("proc/sys/net/ipv4/tcp_fastopen")).expect("the file");
    assert_eq!(host.row(workload(Role::Udp), "net.ipv4.tcp_fastopen").action, Action::Absent);
    assert!(host.row(workload(Role::Udp), "net.ipv4.tcp_low_latency").why.contains("old kernel"));
    assert!(notes_of(&host).contains("3.10.0-1160.el7.x86_64 is older than 4.14"));
}

#[test]
fn containers_and_missing_privileges_are_named() {
    let host = TestHost::recorded();
    assert!(!notes_of(&host).contains("container"));
    host.write(".dockerenv", "");
    host.write("proc/self/uid_map", "0 1000 1");
    host.write("proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-1\n");
    let notes = notes_of(&host);
    for word in ["container (/.dockerenv)", "user namespace", "without CAP_NET_ADMIN"] {
        assert!(notes.contains(word), "{word}: {notes}");
    }
}

#[test]
fn symptoms_name_the_setting_that_helps() {
    let host = TestHost::recorded();
    host.write("proc/net/netstat", "TcpExt: ListenOverflows ListenDrops\nTcpExt: 17 0\n");
    host.write("proc/net/snmp", "Udp: InDatagrams RcvbufErrors\nUdp: 1000 5\n");
    host.write("proc/net/softnet_stat", "00000010 00000002 00000000\n00000010 0000000a 00000000\n");
    host.write("proc/net/sockstat", "TCP: inuse 1 orphan 0 tw 20000 alloc 1 mem 1\n");
    host.write("proc/pressure/io", "some avg10=0.00 avg60=12.50 avg300=0.10 total=5\n");
    let host = host.read();
    let case_of = |role| Case { host: &host, workload: workload(role), server: ServerFacts::default() };
    let case = case_of(Role::Secondary);
    let found = symptoms(&case);
    let counts: Vec<_> = found.iter().map(|symptom| (symptom.name, symptom.count)).collect();
    assert_eq!(
        counts,
        [
            ("TcpExt.ListenOverflows", 17),
            ("Udp.RcvbufErrors", 5),
            ("softnet.dropped", 12),
            ("TCP.tw", 20_000),
            ("disk pressure (PSI), percent of the last minute", 12)
        ]
    );
    // Connections that a server has closed itself are in TIME_WAIT at its own port.
    for role in [Role::Udp, Role::Tcp, Role::Primary] {
        assert!(symptoms(&case_of(role)).iter().all(|symptom| symptom.name != "TCP.tw"), "{role}");
    }
    assert!(found[0].help.contains("net.core.somaxconn"));
    let text = table::text(&case, &advise(&case), &found, &[]);
    assert!(text.contains("Udp.RcvbufErrors: UDP queries were dropped"), "{text}");
    // The manual has all of them, also those that are no counters.
    let manual = tune::render::manual::markdown();
    let pressures = ["memory", "disk"].map(|of| format!("`{of} pressure (PSI), percent of the last minute`"));
    for name in ["`TcpExt.ListenOverflows`", "`TCP.tw`"].into_iter().chain(pressures.iter().map(String::as_str)) {
        assert!(manual.contains(name), "{name}");
    }
}

/// Each pressure is its own, that of the last minute, from one percent on.
#[test]
fn pressures_are_symptoms_from_one_percent_on() {
    for (memory, disk, expected) in [
        ("0.99", "1.00", vec![("disk", 1)]),
        ("2.50", "0.99", vec![("memory", 2)]),
        ("3.00", "4.00", vec![("memory", 3), ("disk", 4)]),
    ] {
        let host = TestHost::recorded();
        for (resource, percent) in [("memory", memory), ("io", disk), ("cpu", "99.00")] {
            let line = format!("some avg10=50.00 avg60={percent} avg300=60.00 total=5\nfull avg10=70.00 avg60=80.00\n");
            host.write(&format!("proc/pressure/{resource}"), &line);
        }
        let host = host.read();
        let case = Case { host: &host, workload: workload(Role::Udp), server: ServerFacts::default() };
        let found = symptoms(&case);
        let pressures: Vec<(&str, u64)> = found
            .iter()
            .filter_map(|symptom| {
                Some((symptom.name.strip_suffix(" pressure (PSI), percent of the last minute")?, symptom.count))
            })
            .collect();
        assert_eq!(pressures, expected);
    }
}

/// What the first recorded host does not have, because it has neither `ethtool` nor a container.
#[test]
fn a_container_is_read_as_it_was_recorded() {
    let host = TestHost::container();
    let row = |name: &str| host.row(workload(Role::Tcp), name);
    let read = host.read();
    assert_eq!(read.surroundings.container.as_deref(), Some("/.dockerenv"));
    assert!(read.surroundings.virtual_machine && read.denied().is_empty());
    assert_eq!((read.surroundings.memory_limit, read.surroundings.cpu_limit), (None, None), "2^63 is no limit");
    assert_eq!(read.interfaces.iter().map(|card| card.interrupts.len()).collect::<Vec<_>>(), [3]);
    assert_eq!(
        (row("RSS queues").action, row("RSS queues").now.as_deref()),
        (Action::Keep, Some("eth0: 1 of 1 queues"))
    );
    assert_eq!(row("NIC receive buffers (ring)").now.as_deref(), Some("eth0: 256 of 256"));
    assert_eq!(row("NIC receive buffers (ring)").action, Action::Keep, "the card has no more");
    assert_eq!(row("offloads (GRO, GSO, TSO)").action, Action::Keep);
    assert_eq!(row("qdisc of the card").now.as_deref().and_then(|now| now.split(' ').nth(1)), Some("pfifo_fast"));
    assert_eq!(row("RSS hash fields and indirection table").action, Action::Absent);
    assert_eq!(row("firewall and connection tracking").action, Action::Set, "the list of entries cannot be read");
    assert_eq!(row("queues of virtual machines").action, Action::Keep);
    assert_eq!(row("cgroup limits").action, Action::Keep);
    let limits = row("nofile (limits.d)");
    assert_eq!((limits.action, limits.now.as_deref()), (Action::Keep, Some("20000:20000 (this shell)")));
    assert!(notes_of(&host).contains("this is a container (/.dockerenv)"));
}

#[test]
fn connection_tracking_of_the_ports_of_the_server_is_found() {
    let host = TestHost::recorded();
    let name = "firewall and connection tracking";
    assert_eq!(host.row(workload(Role::Udp), name).action, Action::Absent);
    host.write("proc/sys/net/netfilter/nf_conntrack_count", "3");
    host.write("proc/sys/net/netfilter/nf_conntrack_max", "262144");
    let entry = |protocol: &str, port: u16| {
        format!(
            "ipv4 2 {protocol} 29 src=192.0.2.1 dst=192.0.2.2 sport=5353 dport={port} src=192.0.2.2 sport={port} dport=5353\n"
        )
    };
    host.write("proc/net/nf_conntrack", &[entry("udp 17", 53), entry("tcp 6", 853), entry("udp 17", 853)].concat());
    let row = host.row(workload(Role::Udp), name);
    assert!(row.why.contains("3 entries, 3 of port 53, 853"), "{}", row.why);
    assert!(row.advised.is_some_and(|rule| rule.matches("port { 53, 853 } notrack").count() == 2));
    // Those of the configuration.
    let read = host.read();
    let row_for = |ports: &[u16]| {
        let server = ServerFacts { ports: ports.iter().copied().collect(), ..ServerFacts::default() };
        let rows = advise(&Case { host: &read, workload: workload(Role::Udp), server });
        rows.into_iter().find(|row| row.name == name).expect("the row")
    };
    let row = row_for(&[53, 8530]);
    assert!(row.why.contains("3 entries, 1 of port 53, 8530"), "{}", row.why);
    assert!(row.advised.is_some_and(|rule| rule.contains("th sport { 53, 8530 } notrack")));
    assert_eq!(row_for(&[5300]).action, Action::Keep);
}

#[test]
fn limits_of_units_and_logins_are_read() {
    let host = TestHost::recorded();
    host.write("usr/lib/systemd/system/zonda.service", "[Service]\nLimitNOFILE=4096\n");
    host.write("etc/security/limits.d/files.conf", "* hard nofile 70000\n");
    let row = host.row(workload(Role::Udp), "LimitNOFILE");
    assert_eq!((row.now.as_deref(), row.action), (Some("4096"), Action::Keep));
    host.write("etc/systemd/system/zonda.service.d/limit.conf", "[Service]\nLimitNOFILE = 1024:1500\n");
    let row = host.row(workload(Role::Udp), "LimitNOFILE");
    assert_eq!((row.now.as_deref(), row.action), (Some("1024:1500"), Action::Set));
    assert_eq!(host.row(workload(Role::Udp), "nofile (limits.d)").now.as_deref(), Some("1024:70000"));
    // A running server is what counts where no unit says anything.
    let other = TestHost::recorded();
    other.write("proc/77/comm", "zonda");
    other.write("proc/77/limits", "Max open files            1024                 524288               files\n");
    assert_eq!(other.row(workload(Role::Udp), "LimitNOFILE").now.as_deref(), Some("1024:524288 (running)"));
}

/// NSD does not raise its soft limit, and other users do: theirs must not be lowered with it.
#[test]
fn a_hard_limit_that_is_higher_stays() {
    let host = TestHost::recorded();
    let nsd = Workload { server: Server::Nsd, ..workload(Role::Tcp) };
    let advised = |name: &str| host.row(nsd, name).advised.expect("a limit");
    host.write("run/systemd/system/.keep", "");
    host.write("proc/self/limits", "Max open files            1024                 1048576              files\n");
    let wanted = (1_000_u64 + 1_152).next_multiple_of(1_024);
    assert_eq!(advised("LimitNOFILE"), format!("{wanted}:524288"));
    assert_eq!(advised("nofile (limits.d)"), format!("{wanted}:1048576"));
    let read = host.read();
    let case = Case { host: &read, workload: nsd, server: ServerFacts::default() };
    let planned = tune::render::files::plan(&case, &advise(&case));
    let login = planned.iter().find(|file| file.path.starts_with("limits.d")).expect("a file");
    for line in [format!("* soft nofile {wanted}\n* hard nofile 1048576\n"), format!("root soft nofile {wanted}\n")] {
        assert!(login.text.contains(&line), "{}", login.text);
    }
    // No line sets the hard limit: it is that of the shell, which Zonda raises the soft one to.
    host.write("etc/security/limits.conf", "* soft nofile 1024\n");
    assert_eq!(advised("nofile (limits.d)"), format!("{wanted}:1048576"));
    assert_eq!(host.row(workload(Role::Tcp), "nofile (limits.d)").action, Action::Keep);
    // The soft limit is what such a server has of limits.d.
    for (lines, action) in [
        ("* hard nofile 70000\n", Action::Set),
        ("* soft nofile 1024\n* hard nofile 70000\n", Action::Set),
        ("* soft nofile 70000\n* hard nofile 70000\n", Action::Keep),
        ("* - nofile 70000\n", Action::Keep),
    ] {
        host.write("etc/security/limits.conf", lines);
        let row = host.row(nsd, "nofile (limits.d)");
        assert_eq!(row.action, action, "{lines}{:?}", row.now);
    }
}

#[test]
fn units_are_read_as_systemd_reads_them() {
    let host = TestHost::recorded();
    let now = || host.row(workload(Role::Udp), "LimitNOFILE").now;
    host.write("usr/lib/systemd/system/zonda.service", "[Service]\nLimitNOFILE=4096\n");
    host.write("usr/lib/systemd/system/zonda.service.d/50-limit.conf", "[Service]\nLimitNOFILE=5000\n");
    host.write("etc/systemd/system/zonda.service.d/10-limit.conf", "[Service]\nLimitNOFILE=6000\n");
    assert_eq!(now().as_deref(), Some("5000"), "drop-ins are ordered by their names");
    host.write("etc/systemd/system/zonda.service.d/50-limit.conf", "[Service]\n");
    assert_eq!(now().as_deref(), Some("6000"), "one of the administrator hides that of the distribution");
    std::fs::remove_dir_all(host.path().join("etc/systemd/system/zonda.service.d")).expect("the folder");
    std::fs::remove_dir_all(host.path().join("usr/lib/systemd/system/zonda.service.d")).expect("the folder");
    host.write("etc/systemd/system/zonda.service", "[Service]\nUser=zonda\n");
    assert_ne!(now().as_deref(), Some("4096"), "the unit of the distribution is not read any more");
}

#[test]
fn the_default_limit_of_systemd_is_not_lowered() {
    let host = TestHost::recorded();
    let row = |server| host.row(Workload { server, ..workload(Role::Udp) }, "LimitNOFILE");
    assert_eq!(row(Server::Zonda).action, Action::Set, "no systemd");
    host.write("run/systemd/system/.keep", "");
    let zonda = row(Server::Zonda);
    assert_eq!((zonda.now.as_deref(), zonda.action), (Some("1024:524288 (DefaultLimitNOFILE)"), Action::Keep));
    assert_eq!(row(Server::Nsd).action, Action::Set, "NSD does not raise its soft limit");
    host.write("etc/systemd/system.conf.d/x.conf", "[Manager]\nDefaultLimitNOFILE=6500000:8388600\n");
    assert_eq!([row(Server::Zonda).action, row(Server::Nsd).action], [Action::Keep; 2]);
}

#[test]
fn the_processors_and_the_cgroup_of_the_running_server_count() {
    let host = TestHost::recorded();
    host.write("proc/self/cgroup", "0::/shell\n");
    host.write("sys/fs/cgroup/shell/memory.max", "1073741824");
    assert_eq!(host.read().surroundings.memory_limit, Some(1 << 30));
    assert!(
        notes_of(&host)
            .contains("Zonda does not run: the processors and the limits of the cgroup are those of this shell")
    );
    host.write("proc/77/comm", "zonda\n");
    host.write("proc/77/status", "Name:\tzonda\nCpus_allowed_list:\t1\n");
    host.write("proc/77/cgroup", "0::/server\n");
    host.write("sys/fs/cgroup/server/memory.max", "2147483648");
    let read = host.read();
    assert_eq!((read.surroundings.memory_limit, read.cpus.allowed.as_slice()), (Some(2 << 30), &[1][..]));
    assert!(!notes_of(&host).contains("this shell"));
    let limits = host.row(workload(Role::Udp), "cgroup limits");
    assert_eq!(limits.now.as_deref(), Some("2.0 GiB (of the running server)"));
}

#[test]
fn files_that_undo_the_advice_are_named() {
    let host = TestHost::recorded();
    host.write("proc/sys/net/core/somaxconn", "16");
    for file in ["sysctl.conf", "sysctl.d/zz-site.conf", "sysctl.d/50-site.conf"] {
        host.write(&format!("etc/{file}"), "net.core.somaxconn=16\nnet.ipv4.tcp_sack = 1\n");
    }
    // A file of the administrator hides one of the distribution.
    host.write("usr/lib/sysctl.d/zz-site.conf", "net.core.somaxconn = 17\n");
    let notes = notes_of(&host);
    for file in ["sysctl.conf", "sysctl.d/zz-site.conf"] {
        assert!(notes.contains(&format!("/etc/{file} sets net.core.somaxconn = 16, and is read after")), "{notes}");
    }
    assert_eq!(notes.matches("is read after").count(), 2, "{notes}");
}

#[test]
fn a_limit_of_logins_above_that_of_the_kernel_is_named() {
    let host = TestHost::recorded();
    host.write("etc/security/limits.conf", "* hard nofile 1024\n");
    assert!(!notes_of(&host).contains("nobody can log in"));
    host.write("proc/sys/fs/nr_open", "2048");
    assert!(notes_of(&host).contains("fs.nr_open is 2048: raise it before a file in limits.d asks for 3072"));
}

#[test]
fn the_text_has_every_row_with_its_evidence() {
    let recorded = TestHost::recorded();
    let host = recorded.read();
    let case = Case { host: &host, workload: workload(Role::Tcp), server: ServerFacts::default() };
    let rows = advise(&case);
    let text = table::text(&case, &rows, &[], &["a note".into()]);
    for row in &rows {
        assert!(text.contains(row.name), "{}", row.name);
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in [
        "note: a note",
        "why: ",
        "evidence: not measured here",
        "E16 “abort_on_overflow 1”: answered rate, ratio to “default”, full load: bind ",
        "and: server CPU time per answer, ratio to “default”, full load: bind ",
        "E18: server memory per idle connection, bytes, median, 15,000 idle: ",
        "Measured as a whole group",
        "To set ",
        "risk: ",
        "Nothing was changed",
    ] {
        assert!(words.contains(word), "{word}");
    }
    assert!(
        text.lines().filter(|line| line.starts_with("    ")).all(|line| line.chars().count() <= 100),
        "lines are cut"
    );
}

#[test]
fn limits_of_all_cgroups_above_count() {
    let host = TestHost::recorded();
    host.write("proc/self/cgroup", "0::/pod/server\n");
    host.write("sys/fs/cgroup/pod/memory.max", "2147483648");
    host.write("sys/fs/cgroup/pod/server/memory.max", "max");
    host.write("sys/fs/cgroup/pod/server/cpu.max", "max 100000");
    assert_eq!(host.read().surroundings.memory_limit, Some(2 << 30));
    assert_eq!(host.read().surroundings.cpu_limit, None);
    // Version 1.
    host.write("proc/self/cgroup", "4:memory:/server\n1:cpu,cpuacct:/server\n");
    host.write("sys/fs/cgroup/memory/server/memory.limit_in_bytes", "1073741824");
    host.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
    host.write("sys/fs/cgroup/cpu/server/cpu.cfs_quota_us", "150000");
    host.write("sys/fs/cgroup/cpu/server/cpu.cfs_period_us", "100000");
    let found = host.read().surroundings;
    assert_eq!((found.memory_limit, found.cpu_limit), (Some(1 << 30), Some(1.5)));
}

#[test]
fn files_that_never_end_or_make_no_sense_count_as_missing() {
    let host = TestHost::recorded();
    for path in ["proc/meminfo", "proc/net/snmp", "sys/devices/system/cpu/online", "proc/sys/net/core/somaxconn"] {
        std::fs::remove_file(host.path().join(path)).expect("the file");
        symlink("/dev/zero", host.path().join(path)).expect("a link");
    }
    host.write("proc/self/status", &format!("Cpus_allowed_list:\t{}\n", "0-65535,".repeat(100_000)));
    host.write("proc/net/softnet_stat", "1 ffffffffffffffff 0\n1 ffffffffffffffff 0\n");
    let read = host.read();
    assert_eq!((read.memory.total, read.cpus.usable(), read.sysctl("net.core.somaxconn")), (0, 1, None));
    assert_eq!(read.counters.value("softnet.dropped"), Some(u64::MAX));
    std::fs::remove_file(host.path().join("proc/meminfo")).expect("a link");
    host.write("proc/meminfo", "MemTotal: 18446744073709551615 kB\n");
    assert_eq!(host.read().memory.total, u64::MAX);
    assert_eq!(host.row(workload(Role::Udp), "net.core.somaxconn").action, Action::Absent);
}

#[test]
fn numbers_that_no_kernel_has_are_survived() {
    let huge = "99999999999999999999";
    for text in ["", "-1", "0", huge, &format!("{huge} {huge} {huge}"), &format!("1 {huge}"), "no number"] {
        let host = TestHost::large();
        host.write("proc/net/sockstat", &format!("TCP: inuse 1 orphan 0 tw {text} alloc 1 mem 1\n"));
        host.write("command-output/getconf_PAGESIZE", text);
        host.write("sys/class/net/eth0/speed", text);
        host.write("sys/fs/cgroup/cpu.max", &format!("{text} 1"));
        host.write("sys/fs/cgroup/memory.max", text);
        host.write("proc/meminfo", &format!("MemTotal: {text} kB\nMemAvailable: {text} kB\n"));
        host.write("proc/self/limits", &format!("Max open files            {text} {text} files\n"));
        host.write("etc/security/limits.conf", &format!("* hard nofile {text}\n"));
        for setting in tune::advice::settings().filter(|setting| setting.place == tune::advice::Place::Sysctl) {
            host.write(&tune::host::sysctl_path(setting.name), text);
        }
        let read = host.read();
        for role in [Role::Udp, Role::Tcp, Role::Secondary, Role::Primary] {
            for server in [Server::Zonda, Server::Nsd, Server::Knot, Server::Bind] {
                let workload = Workload { server, ..workload(role) };
                let case = Case { host: &read, workload, server: ServerFacts::default() };
                let rows = advise(&case);
                let (symptoms, notes) = (symptoms(&case), notes::notes(&case, &rows));
                assert!(!table::text(&case, &rows, &symptoms, &notes).is_empty());
                tune::render::files::plan(&case, &rows);
            }
        }
    }
}

#[test]
fn without_meminfo_nothing_is_said_of_the_memory_of_connections() {
    let host = TestHost::recorded();
    std::fs::remove_file(host.path().join("proc/meminfo")).expect("the file");
    let row = host.row(workload(Role::Tcp), "memory of connections");
    assert_eq!((row.action, row.advised.as_deref()), (Action::Absent, None), "{}", row.why);
}

#[test]
fn what_waits_for_hosts_that_do_not_exist_leaves_room_in_the_send_buffer() {
    let host = TestHost::recorded();
    for name in ["net.ipv4.neigh.default.unres_qlen_bytes", "net.ipv6.neigh.default.unres_qlen_bytes"] {
        let row = || host.row(workload(Role::Udp), name);
        assert_eq!(row().action, Action::Absent);
        for (now, action, advised) in
            [("212992", Action::Set, "4096"), ("4096", Action::Keep, "4096"), ("3000", Action::Keep, "3000")]
        {
            host.write(&tune::host::sysctl_path(name), now);
            assert_eq!((row().action, row().advised.as_deref()), (action, Some(advised)), "{}", row().why);
        }
    }
    host.write("proc/sys/net/core/wmem_max", "212992");
    // The kernel doubles it: twice what waits for 1,024 neighbours.
    assert_eq!(host.row(workload(Role::Udp), "net.core.wmem_max").advised.as_deref(), Some("4194304"));
}

/// A bond has 16 receive queues by default, whatever its cards have, and a bridge or veth reports a speed of its own.
#[test]
fn virtual_interfaces_are_no_cards() {
    let host = TestHost::recorded();
    let udp = Workload { rate: Some(1_000_000), ..workload(Role::Udp) };
    let knot = Workload { server: Server::Knot, ..udp };
    let rows = || {
        [
            (udp, "net.core.netdev_max_backlog"),
            (knot, "socket-affinity"),
            (workload(Role::Primary), "net.ipv4.tcp_wmem"),
            (udp, "net.ipv4.tcp_mtu_probing"),
        ]
        .map(|(workload, name)| host.row(workload, name))
        .map(|row| (row.name, row.action, row.advised, row.why))
    };
    let without = rows();
    for (file, text) in [("operstate", "up"), ("mtu", "9000"), ("speed", "40000")] {
        host.write(&format!("sys/class/net/bond0/{file}"), text);
    }
    for queue in 0..16 {
        host.write(&format!("sys/class/net/bond0/queues/rx-{queue}/rps_cpus"), "0");
    }
    assert_eq!(rows(), without);
}
