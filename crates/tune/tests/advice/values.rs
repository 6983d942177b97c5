//! Advised values change with memory, queues, processors, connections, rate and zones.

use tune::advice::{Action, evidence, sizes};
use tune::{Case, Role, Server, ServerFacts, Workload, advise};

use crate::synthetic::{TestHost, workload};

/// The number in the advised value of a setting.
fn advised(host: &TestHost, workload: Workload, name: &str) -> u64 {
    let row = host.row(workload, name);
    let value = row.advised.unwrap_or_else(|| panic!("{name}: {}", row.why));
    value.parse().unwrap_or_else(|_| panic!("{name}: {value}"))
}

#[test]
fn queues_and_descriptors_follow_the_connections() {
    let host = TestHost::recorded();
    host.write("proc/sys/net/ipv4/tcp_syncookies", "0");
    let of = |connections, name| advised(&host, Workload { connections, ..workload(Role::Tcp) }, name);
    for name in ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog", "LimitNOFILE", "fs.nr_open", "fs.file-max"] {
        assert!(of(5_000_000, name) > of(1_000, name), "{name}");
    }
    assert_eq!(of(5_000_000, "net.core.somaxconn"), 65_535);
    assert_eq!(of(100_000, "net.core.somaxconn"), 8_192);
    // 1,024 + 64 for each of two processors besides the connections.
    assert_eq!(of(100_000, "LimitNOFILE"), (100_000_u64 + 1_152).next_multiple_of(1_024));
}

#[test]
fn no_queue_is_longer_than_the_kernel_lets_it_be() {
    let folder = TestHost::recorded();
    let tcp = Workload { connections: 5_000_000, ..workload(Role::Tcp) };
    folder.write("proc/sys/net/core/somaxconn", "128");
    let row = folder.row(tcp, "net.core.somaxconn");
    assert_eq!(row.advised.as_deref(), Some("65535"), "{}", row.why);
    // Few connections come in storms, too.
    let row = folder.row(workload(Role::Tcp), "net.core.somaxconn");
    assert_eq!(row.advised.as_deref(), Some("4096"), "{}", row.why);
    assert!(!row.why.contains("no effect"), "{}", row.why);
    let storm = "storm during a pause";
    assert!(row.evidence.contains("E33 “somaxconn 65535”") && row.evidence.contains(storm), "{}", row.evidence);
    // With SYN cookies the kernel does not look at it.
    assert_eq!(folder.row(tcp, "net.ipv4.tcp_max_syn_backlog").action, Action::Leave);
}

#[test]
fn the_budget_of_softirqs_is_raised_once() {
    let host = TestHost::recorded();
    let row = || host.row(workload(Role::Udp), "net.core.netdev_budget");
    // 134,217,728 packets, of which UDP over IPv4 are few, and 4,096 squeezes.
    host.write("proc/net/softnet_stat", "08000000 00000000 00001000\n");
    assert_eq!(row().action, Action::Keep);
    host.write("proc/net/softnet_stat", "00080000 00000000 00001000\n");
    assert_eq!(row().advised.as_deref(), Some("600"));
    for now in ["600", "2000"] {
        host.write("proc/sys/net/core/netdev_budget", now);
        assert_eq!(row().action, Action::Keep, "{now}");
    }
}

#[test]
fn nothing_that_is_larger_already_is_lowered() {
    let host = TestHost::recorded();
    host.write("proc/sys/net/core/somaxconn", "60000");
    let row = host.row(workload(Role::Tcp), "net.core.somaxconn");
    assert_eq!((row.action, row.advised.as_deref()), (Action::Keep, Some("60000")));
    host.write("proc/sys/fs/file-max", "9223372036854775807");
    assert_eq!(host.row(workload(Role::Tcp), "fs.file-max").action, Action::Keep);
    host.write("proc/sys/fs/file-max", "18446744073709551616");
    assert_eq!(host.row(workload(Role::Tcp), "fs.file-max").action, Action::Keep);
}

#[test]
fn receive_buffers_follow_rate_and_sockets() {
    let host = TestHost::recorded();
    let at = |rate| advised(&host, Workload { rate: Some(rate), ..workload(Role::Udp) }, "net.core.rmem_max");
    assert!(at(2_000_000) > at(500_000));
    let large = TestHost::large();
    let at_large = advised(&large, Workload { rate: Some(2_000_000), ..workload(Role::Udp) }, "net.core.rmem_max");
    assert!(at_large < at(2_000_000), "more workers share the queries");
}

/// The largest numbers that `zonda tune` takes.
#[test]
fn no_value_is_larger_than_the_kernel_takes() {
    const MOST: u64 = i32::MAX as u64;
    let most = 1_000_000_000;
    for host in [TestHost::recorded(), TestHost::large()] {
        host.write("proc/sys/net/ipv4/tcp_syncookies", "0");
        for (role, server) in [Role::Udp, Role::Tcp, Role::Secondary, Role::Primary]
            .into_iter()
            .flat_map(|role| [Server::Zonda, Server::Nsd, Server::Knot, Server::Bind].map(|server| (role, server)))
        {
            let workload = Workload { server, role, connections: most, zones: most, rate: Some(most) };
            let is_int = |name: &str| name.starts_with("net.core.") || name.starts_with("net.ipv4.tcp_max_");
            for row in host.rows(workload).iter().filter(|row| is_int(row.name) && row.action == Action::Set) {
                let value = row.advised.as_ref().and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
                assert!(value <= MOST, "{server}, {role}: {} = {value}", row.name);
            }
        }
    }
    let bind = Workload { server: Server::Bind, connections: 5_000_000, ..workload(Role::Tcp) };
    let [queue, somaxconn] =
        ["tcp-listen-queue", "net.core.somaxconn"].map(|name| advised(&TestHost::recorded(), bind, name));
    assert_eq!(queue, somaxconn);
    let nsd = Workload { server: Server::Nsd, rate: Some(most), ..workload(Role::Udp) };
    assert!(advised(&TestHost::recorded(), nsd, "receive-buffer-size") <= MOST / 2);
}

#[test]
fn the_buffers_of_all_sockets_fit_into_the_memory() {
    let host = TestHost::recorded();
    host.write("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 900000 kB\n");
    let flood = Workload { rate: Some(10_000_000), ..workload(Role::Udp) };
    // A quarter of 1 GiB for two sockets, of which the kernel charges twice as much.
    let row = host.row(flood, "net.core.rmem_max");
    assert_eq!(row.advised.as_deref(), Some("67108864"), "{}", row.why);
    assert!(row.why.contains("no more than 64 MiB are possible"), "{}", row.why);
    assert_eq!(host.row(flood, "net.ipv4.udp_mem").advised.as_deref(), Some("49152 65536 98304"), "a quarter");
}

#[test]
fn the_memory_of_connections_is_compared_with_the_host() {
    let host = TestHost::recorded();
    let tcp = Workload { connections: 1_000_000, ..workload(Role::Tcp) };
    assert_eq!(host.row(tcp, "memory of connections").action, Action::Keep);
    // BIND needs kilobytes for each: the median of E18.
    let bind = evidence::idle_connection_memory("bind").expect("a committed median");
    assert!(bind > 1_000.0);
    let row = host.row(Workload { server: Server::Bind, ..tcp }, "memory of connections");
    let all = format!("{} in the server", sizes::octets((bind * 1e6) as u64));
    assert!(all.contains("GiB") && row.why.contains(&all), "{all}: {}", row.why);
    // A cgroup leaves less than the host has.
    host.write("sys/fs/cgroup/memory.max", "1073741824");
    let row = host.row(tcp, "memory of connections");
    assert_eq!(row.action, Action::Set, "{}", row.why);
    assert!(row.why.contains("1.0 GiB"), "{}", row.why);
}

#[test]
fn the_memory_of_connections_counts_tls_and_quic_if_the_server_listens_for_them() {
    let folder = TestHost::recorded();
    let host = folder.read();
    let row = |connections, server| {
        let workload = Workload { connections, ..workload(Role::Tcp) };
        let rows = advise(&Case { host: &host, workload, server });
        rows.into_iter().find(|row| row.name == "memory of connections").expect("the row")
    };
    let tls = ServerFacts { tls_octets: 1 << 10, ..ServerFacts::default() };
    let quic = ServerFacts { quic_octets: 32 << 10, ..ServerFacts::default() };
    let tcp = row(100_000, ServerFacts::default());
    assert!(!tcp.why.contains("TLS") && !tcp.why.contains("QUIC"), "{}", tcp.why);
    let over_tls = row(100_000, tls);
    // The median of E18, and what TLS adds.
    let zonda = evidence::idle_connection_memory("zonda").expect("a committed median");
    let in_server = sizes::octets(((zonda + 1024.0) * 1e5) as u64);
    let needed = format!("100000 connections over TLS need 391 MiB in the kernel, {in_server} in the server");
    assert!(over_tls.why.starts_with(&needed), "{needed}: {}", over_tls.why);
    let over_quic = row(100_000, quic.clone());
    assert!(
        over_quic.why.contains("391 MiB in the kernel")
            && over_quic.why.contains(", 3.1 GiB for as many over QUIC: 3.6 GiB of"),
        "{}",
        over_quic.why
    );
    assert_eq!([&tcp, &over_quic].map(|row| row.action), [Action::Keep; 2]);
    assert_eq!(row(1_000_000, ServerFacts::default()).action, Action::Keep);
    let row = row(1_000_000, quic);
    assert!(row.advised.as_deref().is_some_and(|value| value.starts_with("at most ")), "{}", row.why);
}

#[test]
fn memory_limits_of_protocols_follow_the_memory() {
    let host = TestHost::recorded();
    let tcp = Workload { connections: 5_000_000, ..workload(Role::Tcp) };
    host.write("proc/sys/net/ipv4/tcp_mem", "1000 2000 3000");
    let much = host.row(tcp, "net.ipv4.tcp_mem").advised;
    host.write("proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 900000 kB\n");
    let little = host.row(tcp, "net.ipv4.tcp_mem").advised;
    assert_eq!(little.as_deref(), Some("49152 65536 98304"), "a quarter of 1 GiB");
    assert_ne!(much, little);
    // What an operator published: 32 GiB, on a host of 1 GiB.
    host.write("proc/sys/net/ipv4/tcp_mem", "8388608 8388608 8388608");
    let row = host.row(workload(Role::Tcp), "net.ipv4.tcp_mem");
    assert_eq!(row.advised.as_deref(), Some("12288 16384 24576"), "{}", row.why);
}

#[test]
fn memory_limits_of_protocols_are_of_the_host_and_never_lowered() {
    let host = TestHost::recorded();
    let row = |workload, name: &str| host.row(workload, name);
    // The kernel has sized them for the host; a cgroup is of a few programs.
    host.write("sys/fs/cgroup/memory.max", "1073741824");
    for name in ["net.ipv4.tcp_mem", "net.ipv4.udp_mem"] {
        assert_eq!(row(workload(Role::Tcp), name).action, Action::Keep, "{name}");
    }
    // At most a quarter of 6,171,021 pages.
    let flood = Workload { rate: Some(1_000_000_000), ..workload(Role::Udp) };
    assert_eq!(row(flood, "net.ipv4.udp_mem").advised.as_deref(), Some("1157066 1542755 2314132"));
    // Each mark by itself.
    let tcp = Workload { connections: 5_000_000, ..workload(Role::Tcp) };
    host.write("proc/meminfo", "MemTotal: 134217728 kB\n");
    host.write("proc/sys/net/ipv4/tcp_mem", "786432 1048576 26777216");
    assert_eq!(row(tcp, "net.ipv4.tcp_mem").advised.as_deref(), Some("1500000 2000000 26777216"));
    // In pages of 64 KiB.
    host.write("command-output/getconf_PAGESIZE", "65536\n");
    host.write("proc/sys/net/ipv4/tcp_mem", "1000 2000 3000");
    assert_eq!(row(tcp, "net.ipv4.tcp_mem").advised.as_deref(), Some("93750 125000 187500"));
}

#[test]
fn ports_follow_the_transfers_per_minute() {
    let host = TestHost::recorded();
    let of =
        |zones, rate| host.row(Workload { zones, rate, ..workload(Role::Secondary) }, "net.ipv4.ip_local_port_range");
    assert_eq!(of(10_000, None).action, Action::Keep);
    assert_eq!(of(30_000, None).advised.as_deref(), Some("1024 65535"));
    assert_eq!(of(30_000, Some(1_000)).action, Action::Keep, "spread over half an hour");
    let addresses = host.row(Workload { zones: 200_000, ..workload(Role::Secondary) }, "connections for each transfer");
    assert!(addresses.advised.is_some_and(|advised| advised.starts_with("4 addresses")));
    assert_eq!(host.row(workload(Role::Udp), "connections for each transfer").action, Action::Absent);
    let primary = Workload { zones: 60_000, ..workload(Role::Primary) };
    let row = host.row(primary, "net.ipv4.ip_local_port_range");
    assert_eq!(row.action, Action::Leave, "a primary accepts its connections at port 53: {}", row.why);
}

#[test]
fn time_wait_buckets_are_raised_and_never_lowered() {
    let host = TestHost::recorded();
    let many = Workload { zones: 500_000, ..workload(Role::Secondary) };
    assert_eq!(advised(&host, many, "net.ipv4.tcp_max_tw_buckets"), 524_288);
    host.write("proc/sys/net/ipv4/tcp_max_tw_buckets", "1000");
    let row = host.row(workload(Role::Secondary), "net.ipv4.tcp_max_tw_buckets");
    for role in [Role::Udp, Role::Tcp, Role::Secondary] {
        assert_eq!(advised(&host, workload(role), "net.ipv4.tcp_max_tw_buckets"), 16_384);
    }
    let busy = Workload { connections: 100_000, ..workload(Role::Udp) };
    assert_eq!(advised(&host, busy, "net.ipv4.tcp_max_tw_buckets"), 1 << 20, "600,000 in a minute");
    assert!(row.evidence.contains("1,000 buckets (dangerous)"), "{}", row.evidence);
    assert!(row.condition.contains("E14 has 1,000 buckets"), "{}", row.condition);
    assert!(row.sources.iter().any(|source| source.contains("dangerous")), "{:?}", row.sources);
    // 5 % of 64 MiB has room for 10,485 of them.
    host.write("proc/meminfo", "MemTotal: 65536 kB\nMemAvailable: 60000 kB\n");
    assert_eq!(advised(&host, many, "net.ipv4.tcp_max_tw_buckets"), 16_384);
}

#[test]
fn stream_buffers_follow_role_and_speed() {
    let host = TestHost::recorded();
    let large = TestHost::large();
    for (role, name, other) in
        [(Role::Primary, "net.ipv4.tcp_wmem", Role::Secondary), (Role::Secondary, "net.ipv4.tcp_rmem", Role::Primary)]
    {
        for host in [&host, &large] {
            host.write(&tune::host::sysctl_path(name), "4096 131072 4194304");
        }
        let row = large.row(workload(role), name);
        assert!(row.advised.as_deref().is_some_and(|value| value.ends_with(" 33554432")), "{row:?}");
        assert_eq!(large.row(workload(other), name).action, Action::Leave);
        let slow = host.row(workload(role), name);
        assert_eq!(
            slow.advised.as_deref(),
            Some("4096 131072 25000000"),
            "twice 12.5 MB: 1 Gbit/s where no speed is known"
        );
    }
}

#[test]
fn queues_rings_and_interrupts_follow_the_card() {
    let large = TestHost::large();
    let udp = Workload { rate: Some(5_000_000), ..workload(Role::Udp) };
    assert_eq!(
        large.row(udp, "RSS queues").advised.as_deref(),
        Some("ethtool -L eth0 combined 8"),
        "the cores of one node"
    );
    assert_eq!(large.row(udp, "NIC receive buffers (ring)").advised.as_deref(), Some("ethtool -G eth0 rx 2048"));
    assert_eq!(large.row(udp, "RPS (rps_cpus)").action, Action::Leave);
    assert!(large.row(udp, "IRQ affinity").why.contains("0 of 16 interrupts"));
    // Not those of a slower card, which comes first.
    for (file, text) in [("operstate", "up"), ("speed", "1000"), ("device/numa_node", "0")] {
        large.write(&format!("sys/class/net/ens1/{file}"), text);
    }
    assert!(large.row(udp, "memory nodes (NUMA)").advised.is_some_and(|advised| advised.contains("node 1")));
    assert_eq!(large.row(udp, "offloads (GRO, GSO, TSO)").action, Action::Set);
    // The card is on the second node, whose processors are 8 to 15.
    type ProcessorOf = fn(usize) -> usize;
    let bindings: [(ProcessorOf, Action); 3] =
        [(|_| 8, Action::Set), (|irq| irq - 100, Action::Set), (|irq| 8 + irq % 8, Action::Keep)];
    for (cpu, action) in bindings {
        for irq in 100..116 {
            large.write(&format!("proc/irq/{irq}/smp_affinity_list"), &cpu(irq).to_string());
        }
        let row = large.row(udp, "IRQ affinity");
        assert_eq!(row.action, action, "{}", row.why);
    }
    large.write("run/irqbalance.pid", "7");
    assert!(large.row(udp, "IRQ affinity").why.contains("irqbalance"));
}

/// Where only addresses are hashed, all queries of one of them reach one queue.
#[test]
fn the_hash_fields_of_a_card_are_read() {
    const NAME: &str = "RSS hash fields and indirection table";
    let of = |host: &TestHost| host.row(workload(Role::Udp), NAME);
    assert_eq!(of(&TestHost::recorded()).action, Action::Absent, "one queue");
    let large = TestHost::large();
    let fields = |of_ports: &str| {
        let head = "UDP over IPV4 flows use these fields for computing Hash flow key:";
        large.write("command-output/ethtool_-n_eth0_rx-flow-hash_udp4", &format!("{head}\nIP SA\nIP DA\n{of_ports}"));
    };
    fields("");
    let row = of(&large);
    assert_eq!((row.action, row.now.as_deref()), (Action::Leave, Some("eth0: addresses")), "{}", row.why);
    for command in ["ethtool -N eth0 rx-flow-hash udp4 sdfn", "ethtool -X eth0 equal 16"] {
        assert!(row.why.contains(command), "{}", row.why);
    }
    assert_eq!(row.evidence, "not measured here");
    fields("L4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n");
    let row = of(&large);
    assert_eq!((row.action, row.now.as_deref()), (Action::Keep, Some("eth0: addresses and ports")), "{}", row.why);
    large.write("command-output/ethtool_-n_eth0_rx-flow-hash_udp4", "UDP over IPV4 flows use these fields:\nNone\n");
    assert_eq!(of(&large).action, Action::Absent);
}

#[test]
fn one_queue_for_many_processors_is_steered() {
    let host = TestHost::recorded();
    assert_eq!(host.row(workload(Role::Udp), "RPS (rps_cpus)").action, Action::Leave, "two processors");
    host.write("sys/devices/system/node/node0/cpulist", "0-3");
    let row = host.row(workload(Role::Udp), "RPS (rps_cpus)");
    assert_eq!(row.advised.as_deref(), Some("echo e > /sys/class/net/eth0/queues/rx-0/rps_cpus"));
}

#[test]
fn queues_of_virtual_machines_are_advised_to_their_guests_only() {
    let host = TestHost::recorded();
    host.write("sys/devices/system/cpu/online", "0-3");
    let row = || host.row(workload(Role::Udp), "queues of virtual machines");
    assert_eq!(row().action, Action::Absent, "no hypervisor is visible");
    host.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n");
    assert_eq!(row().advised.as_deref(), Some("4 queues for eth0, set on the hypervisor"));
    std::fs::remove_dir_all(host.path().join("sys/class/net/eth0/device")).expect("the folder");
    assert_eq!(row().action, Action::Absent, "a veth has no queues of a hypervisor");
}

/// What a host shows of a hypervisor, in files.
#[test]
fn virtual_machines_of_all_processors_are_recognized() {
    const ARM: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd evtstrm aes\n");
    let is_virtual = |files: &[(&str, &str)]| {
        let host = TestHost::recorded();
        for (path, text) in [&[ARM], files].concat() {
            host.write(path, text);
        }
        host.read().surroundings.virtual_machine
    };
    let product = |name: &'static str| ("sys/class/dmi/id/product_name", name);
    let vendor = |name: &'static str| ("sys/class/dmi/id/sys_vendor", name);
    for files in [
        &[vendor("QEMU"), product("QEMU Virtual Machine")][..],
        &[product("KVM Virtual Machine")],
        &[vendor("Amazon EC2"), product("c7g.large")],
        &[vendor("Microsoft Corporation"), product("Virtual Machine")],
        &[("sys/class/dmi/id/bios_vendor", "BHYVE")],
        &[("sys/hypervisor/type", "xen")],
        &[("proc/device-tree/hypervisor/compatible", "linux,kvm\0")],
        &[("proc/device-tree/compatible", "linux,dummy-virt\0")],
    ] {
        assert!(is_virtual(files), "{files:?}");
    }
    for files in [
        &[][..],
        &[vendor("Amazon EC2"), product("c7g.metal")],
        &[vendor("Ampere(R)"), product("Altra"), ("proc/device-tree/compatible", "raspberrypi,4-model-b\0")],
        &[("sys/hypervisor/type", "xen"), ("proc/xen/capabilities", "control_d\n")],
    ] {
        assert!(!is_virtual(files), "{files:?}");
    }
}

#[test]
fn rings_of_a_card_are_shown() {
    let host = TestHost::large();
    host.write(
        "command-output/ethtool_-g_eth0",
        "Pre-set maximums:\nRX: 4096\nTX: 2048\nCurrent hardware settings:\nRX: 512\nTX: 256\n",
    );
    let row = host.row(workload(Role::Udp), "NIC transmit buffers (ring)");
    assert_eq!((row.action, row.now.as_deref()), (Action::Leave, Some("eth0: 256 of 2048")));
}

#[test]
fn workers_follow_processors_and_quota() {
    let host = TestHost::large();
    assert_eq!(host.row(workload(Role::Udp), "workers and processors").advised.as_deref(), Some("16"));
    host.write("sys/fs/cgroup/cpu.max", "250000 100000");
    assert_eq!(host.row(workload(Role::Udp), "workers and processors").advised.as_deref(), Some("3"));
    assert_eq!(host.row(workload(Role::Udp), "cgroup limits").action, Action::Set);
    // The option says the same: 0 would be 16.
    let option = host.row(workload(Role::Udp), "workers");
    assert_eq!((option.action, option.advised.as_deref()), (Action::Set, Some("3")), "{}", option.why);
    host.write("sys/fs/cgroup/cpu.max", "max 100000");
    assert_eq!(host.row(workload(Role::Udp), "workers").action, Action::Keep);
    // One less is what the row proposes to try.
    let host = host.read();
    for (workers, action) in [(16, Action::Keep), (15, Action::Keep), (14, Action::Set)] {
        let server = ServerFacts { workers: Some(workers), ..ServerFacts::default() };
        let rows = advise(&Case { host: &host, workload: workload(Role::Udp), server });
        let row = rows.iter().find(|row| row.name == "workers and processors").expect("the row");
        assert_eq!(row.action, action, "{}", row.why);
    }
}

#[test]
fn harmful_values_are_set_back() {
    let host = TestHost::recorded();
    for (name, bad, good) in [
        ("net.ipv4.tcp_sack", "0", "1"),
        ("net.ipv4.tcp_timestamps", "0", "1"),
        ("net.ipv4.tcp_tso_win_divisor", "1", "3"),
        ("net.ipv4.tcp_abort_on_overflow", "1", "0"),
        ("net.core.rmem_default", "67108864", "212992"),
        ("net.core.busy_poll", "50", "0"),
        ("net.core.busy_read", "50", "0"),
        ("net.ipv4.tcp_synack_retries", "1", "5"),
        ("net.ipv4.tcp_fin_timeout", "15", "60"),
        ("net.ipv4.tcp_orphan_retries", "1", "0"),
        ("net.ipv4.tcp_no_metrics_save", "1", "0"),
        ("net.ipv4.tcp_retries2", "3", "15"),
        ("net.ipv4.tcp_max_tw_buckets", "1000", "16384"),
    ] {
        host.write("proc/sys/net/ipv4/tcp_retries2", "15");
        assert_ne!(host.row(workload(Role::Udp), name).action, Action::Set, "{name}");
        host.write(&tune::host::sysctl_path(name), bad);
        assert_eq!(host.row(workload(Role::Udp), name).advised.as_deref(), Some(good), "{name}");
    }
}

#[test]
fn each_server_has_its_own_options() {
    let host = TestHost::recorded();
    let rows = |server| host.rows(Workload { server, connections: 20_000, ..workload(Role::Tcp) });
    let value = |server, name: &str| rows(server).into_iter().find(|row| row.name == name).and_then(|row| row.advised);
    assert_eq!(value(Server::Bind, "tcp-clients").as_deref(), Some("20000"));
    assert_eq!(value(Server::Bind, "tcp-listen-queue").as_deref(), Some("1024"));
    assert_eq!(value(Server::Nsd, "tcp-count").as_deref(), Some("10000"), "for each of two processes");
    assert_eq!(value(Server::Nsd, "server-count").as_deref(), Some("2"));
    assert!(rows(Server::Zonda).iter().all(|row| row.name != "tcp-clients"));
    let limit = |server| value(server, "LimitNOFILE").and_then(|limit| limit.parse::<u64>().ok()).expect("a limit");
    assert!(limit(Server::Knot) > 2 * 20_000, "Knot uses half of it for TCP");
}

#[test]
fn nsd_is_bound_to_processors_that_it_may_use() {
    let host = TestHost::large();
    let affinity = || host.row(Workload { server: Server::Nsd, ..workload(Role::Udp) }, "cpu-affinity").advised;
    host.write("proc/self/status", "Cpus_allowed_list:\t2,4-7\n");
    assert_eq!(affinity().as_deref(), Some("2 4 5 6 7"));
    let row = host.row(Workload { server: Server::Nsd, ..workload(Role::Udp) }, "cpu-affinity");
    assert!(row.why.contains("xfrd-cpu-affinity: the last, which it shares"), "{}", row.why);
    host.write("sys/fs/cgroup/cpu.max", "400000 100000");
    assert_eq!(affinity().as_deref(), Some("2 4 5 6"));
}

#[test]
fn options_of_other_servers_are_not_set_below_their_defaults() {
    let host = TestHost::recorded();
    host.write("sys/devices/system/cpu/online", "0-3");
    host.write("proc/self/status", "Cpus_allowed_list:\t0-3\n");
    let action = |server, role, connections, zones, name: &str| {
        let workload = Workload { server, connections, zones, ..workload(role) };
        let row = host.row(workload, name);
        (row.action, row.advised)
    };
    let left = (Action::Leave, None);
    let set = |value: &str| (Action::Set, Some(value.to_owned()));
    assert_eq!(action(Server::Nsd, Role::Tcp, 100, 1, "tcp-count"), left, "25 for each of four processes");
    assert_eq!(action(Server::Nsd, Role::Tcp, 100, 1, "tcp-timeout"), left);
    assert_eq!(action(Server::Nsd, Role::Secondary, 100, 60, "xfrd-tcp-max"), left);
    assert_eq!(action(Server::Nsd, Role::Secondary, 100, 60_000, "xfrd-tcp-max"), set("1000"));
    assert_eq!(action(Server::Knot, Role::Tcp, 10_000, 1, "tcp-max-clients"), left);
    assert_eq!(action(Server::Bind, Role::Tcp, 100, 1, "tcp-clients"), left);
    assert_eq!(action(Server::Bind, Role::Tcp, 100, 1, "tcp-listen-queue"), left);
    for name in ["transfers-in", "transfers-per-ns", "serial-query-rate"] {
        assert_eq!(action(Server::Bind, Role::Secondary, 100, 60, name), left, "{name}");
        assert_eq!(action(Server::Bind, Role::Secondary, 100, 60_000, name), set("1000"), "{name}");
    }
    // 15 transfers a second: more than 10, less than 20.
    assert_eq!(action(Server::Bind, Role::Secondary, 100, 900, "transfers-in"), set("15"));
    assert_eq!(action(Server::Bind, Role::Secondary, 100, 900, "serial-query-rate"), left);
}
