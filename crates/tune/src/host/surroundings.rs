//! What surrounds the server: container, cgroup limits, privileges, connection tracking.

use std::collections::BTreeMap;

use super::Tree;

/// A cgroup of version 1 without a limit reports a number near 2^63.
const NO_LIMIT: u64 = 1 << 60;

/// Container, limits and privileges.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// What shows that this is a container, such as `/.dockerenv`.
    pub container: Option<String>,
    /// Whether this is a virtual machine, as far as the kernel shows it.
    pub virtual_machine: bool,
    /// Whether this is a user namespace: its root may set the settings of its own network namespace only.
    pub user_namespace: bool,
    /// Whether this process has CAP_NET_ADMIN.
    pub net_admin: bool,
    /// The octets of memory that the cgroup allows.
    pub memory_limit: Option<u64>,
    /// The processors' worth of time that the cgroup allows.
    pub cpu_limit: Option<f64>,
    /// How many tasks the cgroup allows.
    pub task_limit: Option<u64>,
    /// Entries of connection tracking now; `None` if it is not loaded.
    pub tracked: Option<u64>,
    /// How many of them are to each port; `None` if the list cannot be read.
    pub tracked_ports: Option<BTreeMap<u16, usize>>,
    /// What may redirect packets to another address (DNAT), such as `chain PREROUTING of table ip nat`; `None` if there is nothing, or if it
    /// cannot be read.
    pub redirection: Option<String>,
}

impl Surroundings {
    pub(super) fn read(files: &Tree, process: &str) -> Surroundings {
        let status = files.text("proc/self/status").unwrap_or_default();
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.and_then(|word| u64::from_str_radix(word.trim(), 16).ok()).unwrap_or(0);
        let uid_map = files.text("proc/self/uid_map").unwrap_or_default();
        let uid_map: Vec<&str> = uid_map.split_whitespace().collect();
        let tracked = files.number("proc/sys/net/netfilter/nf_conntrack_count");
        Surroundings {
            container: container(files),
            virtual_machine: virtual_machine(files),
            user_namespace: !uid_map.is_empty() && uid_map != ["0", "0", "4294967295"],
            net_admin: capabilities & (1 << 12) != 0,
            tracked,
            tracked_ports: tracked.and_then(|_| tracked_ports(files)),
            redirection: tracked.and_then(|_| redirection(files)),
            ..cgroup(files, process)
        }
    }
}

fn container(files: &Tree) -> Option<String> {
    let marks = [".dockerenv", "run/.containerenv", "run/systemd/container"];
    let mark = marks.iter().find(|mark| files.exists(mark)).map(|mark| format!("/{mark}"));
    mark.or_else(|| {
        let environment = files.text("proc/1/environ")?;
        let kind = environment.split('\0').find_map(|variable| variable.strip_prefix("container="))?;
        Some(format!("container={kind}"))
    })
}

/// What firmware tables (DMI) of virtual machines begin with, as `systemd-detect-virt` knows them: makers, products and clouds.
const VIRTUAL_PRODUCTS: &[&str] = &[
    "Alibaba Cloud ECS",
    "Amazon EC2",
    "Apple Virtualization",
    "BHYVE",
    "Bochs",
    "Google Compute Engine",
    "Hyper-V",
    "KVM",
    "KubeVirt",
    "OpenStack",
    "Parallels",
    "QEMU",
    "VMW",
    "VMware",
    "Virtual Machine",
    "VirtualBox",
    "Xen",
    "innotek GmbH",
    "vServer",
];

/// Processors of x86 have the flag `hypervisor`, and Xen has a folder. Other processors show nothing: there the device tree or the
/// firmware names the virtual machine.
fn virtual_machine(files: &Tree) -> bool {
    // The first domain of Xen has the cards of the machine.
    let controls_xen = files.text("proc/xen/capabilities").is_some_and(|text| text.contains("control_d"));
    let text = files.text("proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")).unwrap_or_default();
    let is_seen = files.exists("sys/hypervisor/type")
        || flags.split_whitespace().any(|flag| flag == "hypervisor")
        || has_virtual_device_tree(files)
        || is_virtual_product(files);
    is_seen && !controls_xen
}

/// KVM, Xen and others add the node `hypervisor`; the machine that QEMU and Firecracker imitate on ARM is `linux,dummy-virt`.
fn has_virtual_device_tree(files: &Tree) -> bool {
    let machine = files.text("proc/device-tree/compatible").unwrap_or_default();
    files.exists("proc/device-tree/hypervisor") || ["dummy-virt", "qemu"].iter().any(|name| machine.contains(name))
}

fn is_virtual_product(files: &Tree) -> bool {
    let text = |name: &str| files.text(&format!("sys/class/dmi/id/{name}")).unwrap_or_default();
    // Clouds that rent whole machines name them so, under the same maker.
    let is_metal = text("product_name").ends_with(".metal");
    let names = ["product_name", "product_version", "sys_vendor", "board_vendor", "bios_vendor"].map(text);
    !is_metal && names.iter().any(|name| VIRTUAL_PRODUCTS.iter().any(|product| name.starts_with(product)))
}

/// The limits of the cgroup of a process, of version 2 or 1. A group is also held to the limits of those above it.
fn cgroup(files: &Tree, process: &str) -> Surroundings {
    let groups = files.text(&format!("proc/{process}/cgroup")).unwrap_or_default();
    let folders = |controller: &str| -> Vec<String> {
        let fields = groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let of_controller = fields.filter(|(controllers, _)| controllers.split(',').any(|name| name == controller));
        of_controller.flat_map(|(_, path)| with_parents(controller, path)).collect()
    };
    let smallest = |controller: &str, read: &dyn Fn(&str) -> Option<f64>| {
        let found = folders("").into_iter().chain(folders(controller)).filter_map(|folder| read(&folder));
        found.reduce(f64::min)
    };
    let number = |folder: &str, name: &str| {
        files.number(&format!("{folder}/{name}")).filter(|limit| *limit < NO_LIMIT).map(|limit| limit as f64)
    };
    let quota = |folder: &str| {
        let old = || Some(number(folder, "cpu.cfs_quota_us")? / number(folder, "cpu.cfs_period_us")?);
        let text = files.text(&format!("{folder}/cpu.max")).unwrap_or_default();
        let new = text
            .split_once(' ')
            .and_then(|(quota, period)| Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?));
        new.or_else(old).filter(|share| *share > 0.0)
    };
    let memory = |folder: &str| number(folder, "memory.max").or_else(|| number(folder, "memory.limit_in_bytes"));
    Surroundings {
        memory_limit: smallest("memory", &memory).map(|limit| limit as u64),
        task_limit: smallest("pids", &|folder| number(folder, "pids.max")).map(|limit| limit as u64),
        cpu_limit: smallest("cpu", &quota),
        ..Surroundings::default()
    }
}

/// The folders of a cgroup and of those above it. In a container the path may be one of the host, and only the last exists.
fn with_parents(controller: &str, path: &str) -> Vec<String> {
    let mount = if controller.is_empty() { "sys/fs/cgroup".to_owned() } else { format!("sys/fs/cgroup/{controller}") };
    let mut folders = vec![mount.clone()];
    for part in path.split('/').filter(|part| !part.is_empty() && *part != "..") {
        folders.push(format!("{}/{part}", folders.last().unwrap_or(&mount)));
    }
    folders
}

/// The entries of connection tracking by the port that the first packet was sent to, which comes first in a line.
fn tracked_ports(files: &Tree) -> Option<BTreeMap<u16, usize>> {
    let text = files.text("proc/net/nf_conntrack")?;
    let mut ports = BTreeMap::new();
    let port = |line: &str| line.split(' ').find_map(|field| field.strip_prefix("dport="))?.parse::<u16>().ok();
    for port in text.lines().filter_map(port) {
        *ports.entry(port).or_default() += 1;
    }
    Some(ports)
}

/// The first chain of nftables that may redirect what arrives, or the table of the older iptables whose rules only root may list.
fn redirection(files: &Tree) -> Option<String> {
    let chains = files.output("nft", &["list", "chains"]).unwrap_or_default();
    redirecting_chain(&chains).or_else(|| {
        let has_nat = |name: &&&str| files.text(name).is_some_and(|tables| tables.lines().any(|table| table == "nat"));
        let file = ["proc/net/ip_tables_names", "proc/net/ip6_tables_names"].iter().find(has_nat)?;
        Some(format!("table nat of {}", if file.contains("ip6") { "ip6tables" } else { "iptables" }))
    })
}

/// The chain of type nat at prerouting in the output of `nft list chains`.
fn redirecting_chain(chains: &str) -> Option<String> {
    let (mut table, mut chain) = ("", "");
    for line in chains.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("table ") {
            table = name.trim_end_matches(" {");
        } else if let Some(name) = line.strip_prefix("chain ") {
            chain = name.trim_end_matches(" {");
        } else if line.starts_with("type nat hook prerouting") {
            return Some(format!("chain {chain} of table {table}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::redirecting_chain;

    #[test]
    fn a_chain_that_may_redirect_is_found() {
        let of = |hook: &str| {
            format!(
                "table ip filter {{\n\tchain INPUT {{\n\t\ttype filter hook input priority filter;\n\t}}\n}}\ntable ip nat {{\n\tchain DOCKER {{\n\t}}\n\tchain PREROUTING {{\n\t\ttype nat hook {hook} priority dstnat; policy accept;\n\t}}\n}}\n"
            )
        };
        assert_eq!(redirecting_chain(&of("prerouting")).as_deref(), Some("chain PREROUTING of table ip nat"));
        assert_eq!(redirecting_chain(&of("postrouting")), None, "masquerading redirects nothing");
        assert_eq!(redirecting_chain(""), None);
    }
}
