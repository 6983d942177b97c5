//! Hosts for tests: two recorded ones, and changes of the first for hosts that were not at hand (synthetic: cards with queues, NUMA).

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tune::{Case, Host, Role, Row, Server, ServerFacts, Workload, advise};

/// A copy of the recorded host (two virtual processors, 24 GB, Linux 6.18, one virtio queue) that a test may change.
pub struct TestHost(TempDir);

impl TestHost {
    /// The recorded host.
    pub fn recorded() -> TestHost {
        TestHost::copied("virtual-2cpu")
    }

    /// Another recorded host, as a container sees it: control groups of version 1 without limits, connection tracking, `ethtool`. Without
    /// what names the machine; of its kernel's release only the number, of its processors one flag.
    pub fn container() -> TestHost {
        TestHost::copied("container-2cpu")
    }

    fn copied(name: &str) -> TestHost {
        let folder = tempfile::tempdir().expect("a folder");
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(name), folder.path());
        TestHost(folder)
    }

    /// A synthetic server: two memory nodes of eight cores, 64 GB, a card of 10 Gbit/s with 16 queues on the second node.
    pub fn large() -> TestHost {
        let host = TestHost::recorded();
        host.write("proc/meminfo", "MemTotal: 65536000 kB\nMemAvailable: 60000000 kB\n");
        host.write("sys/devices/system/cpu/online", "0-15");
        host.write("proc/self/status", "CapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-15\n");
        for node in 0..2 {
            host.write(
                &format!("sys/devices/system/node/node{node}/cpulist"),
                &format!("{}-{}", node * 8, node * 8 + 7),
            );
        }
        for cpu in 0..16 {
            let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            host.write(&format!("{topology}/physical_package_id"), &(cpu / 8).to_string());
            host.write(&format!("{topology}/core_id"), &(cpu % 8).to_string());
        }
        let card = "sys/class/net/eth0";
        host.write(&format!("{card}/speed"), "10000");
        host.write(&format!("{card}/device/numa_node"), "1");
        for queue in 0..16 {
            host.write(&format!("{card}/queues/rx-{queue}/rps_cpus"), "0000");
            host.write(&format!("{card}/queues/tx-{queue}/xps_cpus"), &format!("{:04x}", 1 << queue));
            host.write(&format!("{card}/device/msi_irqs/{}", 100 + queue), "msix");
            host.write(&format!("proc/irq/{}/smp_affinity_list", 100 + queue), "0-15");
        }
        host.write(
            "command-output/ethtool_-l_eth0",
            "Pre-set maximums:\nCombined: 32\nCurrent hardware settings:\nCombined: 16\n",
        );
        host.write(
            "command-output/ethtool_-g_eth0",
            "Pre-set maximums:\nRX: 4096\nCurrent hardware settings:\nRX: 512\n",
        );
        host.write(
            "command-output/ethtool_-k_eth0",
            "generic-receive-offload: off\ngeneric-segmentation-offload: on\ntcp-segmentation-offload: on\n",
        );
        host
    }

    /// Writes a file of the host.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// The contents of a sysctl.
    pub fn sysctl(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(tune::host::sysctl_path(name))).expect("a sysctl").trim().to_owned()
    }

    /// Its root.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The host as it is read.
    pub fn read(&self) -> Host {
        Host::read(self.path(), "zonda").expect("a host")
    }

    /// The rows for a workload.
    pub fn rows(&self, workload: Workload) -> Vec<Row> {
        let host = Host::read(self.path(), workload.server.process().0).expect("a host");
        advise(&Case { host: &host, workload, server: ServerFacts::default() })
    }

    /// The row of a setting.
    pub fn row(&self, workload: Workload, name: &str) -> Row {
        self.rows(workload).into_iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no row {name}"))
    }
}

/// A workload of one zone and 1,000 connections.
pub fn workload(role: Role) -> Workload {
    Workload { server: Server::Zonda, role, connections: 1_000, zones: 1, rate: None }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("a file");
        }
    }
}
