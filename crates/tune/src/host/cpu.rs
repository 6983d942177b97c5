//! Processors, memory nodes, frequency scaling and interrupt balancing.

use std::collections::BTreeSet;

use super::{Tree, number_list};

/// The processors of a host.
#[derive(Clone, Debug, Default)]
pub struct Cpus {
    /// The processors that the server may use; while it does not run, those of this process.
    pub allowed: Vec<usize>,
    /// How many are online.
    pub online: usize,
    /// How many physical cores are online: siblings (SMT) count once.
    pub cores: usize,
    /// The memory nodes (NUMA) with processors.
    pub nodes: Vec<Node>,
    /// The frequency governor of the first processor, if the host lets the guest scale.
    pub governor: Option<String>,
    /// Whether `irqbalance` runs.
    pub irqbalance: bool,
}

/// A memory node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number.
    pub number: usize,
    /// Its physical cores.
    pub cores: usize,
    /// Its processors.
    pub cpus: Vec<usize>,
}

impl Cpus {
    pub(super) fn read(files: &Tree, process: &str) -> Cpus {
        let online = number_list(&files.text("sys/devices/system/cpu/online").unwrap_or_default());
        let status = files.text(&format!("proc/{process}/status")).unwrap_or_default();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = allowed.map_or_else(|| online.clone(), number_list);
        let online_count = online.len().max(allowed.len()).max(1);
        Cpus {
            online: online_count,
            cores: cores(files, &online).max(1),
            nodes: nodes(files),
            governor: files.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            irqbalance: files.exists("run/irqbalance.pid") || files.exists("run/irqbalance"),
            allowed,
        }
    }

    /// How many processors the server may use.
    pub fn usable(&self) -> usize {
        self.allowed.len().max(1)
    }

    /// The node with this number, else the first.
    pub fn node(&self, number: Option<usize>) -> Option<&Node> {
        let found = self.nodes.iter().find(|node| Some(node.number) == number);
        found.or_else(|| self.nodes.first())
    }
}

fn cores(files: &Tree, cpus: &[usize]) -> usize {
    let core = |cpu: &usize| {
        let topology = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let package = files.text(&format!("{topology}/physical_package_id")).unwrap_or_default();
        // Without topology every processor is its own core.
        (package, files.text(&format!("{topology}/core_id")).unwrap_or_else(|| cpu.to_string()))
    };
    cpus.iter().map(core).collect::<BTreeSet<_>>().len()
}

fn nodes(files: &Tree) -> Vec<Node> {
    let folder = "sys/devices/system/node";
    let numbers = files.names(folder).into_iter().filter_map(|name| name.strip_prefix("node")?.parse::<usize>().ok());
    let node = |number| {
        let cpus = number_list(&files.text(&format!("{folder}/node{number}/cpulist")).unwrap_or_default());
        Node { number, cores: cores(files, &cpus), cpus }
    };
    let mut nodes: Vec<Node> = numbers.map(node).filter(|node| !node.cpus.is_empty()).collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}
