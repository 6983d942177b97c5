//! Network interfaces: queues, steering, interrupts, rings, offloads, queueing discipline.

use std::collections::BTreeMap;

use super::{Tree, number_list};

/// A virtio card is a child of the device that has the interrupts and the memory node.
const DEVICE_OF_VIRTIO: &str = "device/..";

/// A network interface that is up.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// The largest packet in octets.
    pub mtu: u64,
    /// Megabits per second, if the driver knows.
    pub speed: Option<u64>,
    /// The memory node of the card.
    pub node: Option<usize>,
    /// Whether there is hardware (or what a hypervisor shows as such) behind it.
    pub is_device: bool,
    /// Receive queues.
    pub rx_queues: usize,
    /// Send queues.
    pub tx_queues: usize,
    /// `rps_cpus` of each receive queue.
    pub rps: Vec<String>,
    /// `xps_cpus` of each send queue.
    pub xps: Vec<String>,
    /// Combined queues: now and at most (`ethtool -l`).
    pub channels: Option<(u64, u64)>,
    /// Whether the queue of a UDP packet follows from its ports besides its addresses (`ethtool -n`).
    pub hashes_udp_ports: Option<bool>,
    /// Receive descriptors: now and at most (`ethtool -g`).
    pub rx_ring: Option<(u64, u64)>,
    /// Send descriptors: now and at most (`ethtool -g`).
    pub tx_ring: Option<(u64, u64)>,
    /// Offloads and whether they are on (`ethtool -k`).
    pub offloads: BTreeMap<String, bool>,
    /// The root queueing discipline and its options (`tc qdisc show`).
    pub qdisc: Option<String>,
    /// The processors that handle each interrupt of the card.
    pub interrupts: BTreeMap<u64, Vec<usize>>,
}

impl Interface {
    pub(super) fn read_all(files: &Tree) -> Vec<Interface> {
        let is_up = |name: &String| {
            let state = files.text(&format!("sys/class/net/{name}/operstate"));
            name != "lo" && matches!(state.as_deref(), Some("up" | "unknown"))
        };
        let names = files.names("sys/class/net").into_iter().filter(is_up);
        names.map(|name| Interface::read(files, name)).collect()
    }

    fn read(files: &Tree, name: String) -> Interface {
        let folder = format!("sys/class/net/{name}");
        let queues = files.names(&format!("{folder}/queues"));
        let of = |kind: &str| queues.iter().filter(|queue| queue.starts_with(kind)).cloned().collect::<Vec<_>>();
        let masks = |queues: &[String], file: &str| {
            let mask = |queue: &String| files.text(&format!("{folder}/queues/{queue}/{file}"));
            queues.iter().filter_map(mask).collect()
        };
        let (receive, send) = (of("rx-"), of("tx-"));
        let ethtool = |option: &str| files.output("ethtool", &[option, &name]);
        let rings = ethtool("-g");
        Interface {
            mtu: files.number(&format!("{folder}/mtu")).unwrap_or(1500),
            speed: files.number(&format!("{folder}/speed")).filter(|speed| *speed > 0),
            node: ["device", DEVICE_OF_VIRTIO]
                .iter()
                .find_map(|device| files.number(&format!("{folder}/{device}/numa_node"))?.try_into().ok()),
            is_device: files.exists(&format!("{folder}/device")),
            rx_queues: receive.len(),
            tx_queues: send.len(),
            rps: masks(&receive, "rps_cpus"),
            xps: masks(&send, "xps_cpus"),
            channels: ethtool("-l").and_then(|text| now_and_most(&text, "Combined:")),
            hashes_udp_ports: files
                .output("ethtool", &["-n", &name, "rx-flow-hash", "udp4"])
                .and_then(|text| hashes_ports(&text)),
            rx_ring: rings.as_deref().and_then(|text| now_and_most(text, "RX:")),
            tx_ring: rings.as_deref().and_then(|text| now_and_most(text, "TX:")),
            offloads: ethtool("-k").map(|text| switches(&text)).unwrap_or_default(),
            qdisc: files.output("tc", &["qdisc", "show", "dev", &name]).and_then(|text| root_qdisc(&text)),
            interrupts: interrupts(files, &folder),
            name,
        }
    }

    /// Whether a processor other than the one that took the interrupt may handle received packets (RPS).
    pub fn has_rps(&self) -> bool {
        self.rps.iter().any(|mask| mask.bytes().any(|octet| !matches!(octet, b'0' | b',')))
    }
}

/// The values of `key` in the two parts of `ethtool -l` and `-g`: the maximum, then the current.
fn now_and_most(text: &str, key: &str) -> Option<(u64, u64)> {
    let mut values = text.lines().filter_map(|line| line.trim().strip_prefix(key)?.trim().parse::<u64>().ok());
    let (most, now) = (values.next()?, values.next()?);
    Some((now, most))
}

/// Whether ports are among the fields that `ethtool -n DEV rx-flow-hash udp4` lists; `None` if it lists no fields.
fn hashes_ports(text: &str) -> Option<bool> {
    text.contains("IP SA").then(|| text.contains("L4 bytes 0 & 1") && text.contains("L4 bytes 2 & 3"))
}

/// The lines `name: on` and `name: off [fixed]` of `ethtool -k`.
fn switches(text: &str) -> BTreeMap<String, bool> {
    let switch = |line: &str| {
        let (name, value) = line.trim().split_once(": ")?;
        Some((name.to_owned(), value.starts_with("on")))
    };
    text.lines().filter_map(switch).collect()
}

/// The kind and the options of the root qdisc: `fq_codel limit 10240p`, without handle and reference count.
fn root_qdisc(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.contains(" root "))?;
    let kind = line.split_whitespace().nth(1)?;
    let options = line
        .split_once(" root ")?
        .1
        .split_whitespace()
        .skip_while(|word| *word == "refcnt" || word.parse::<u64>().is_ok());
    Some([kind].into_iter().chain(options).collect::<Vec<_>>().join(" "))
}

fn interrupts(files: &Tree, folder: &str) -> BTreeMap<u64, Vec<usize>> {
    let folders = ["device", DEVICE_OF_VIRTIO].map(|device| format!("{folder}/{device}/msi_irqs"));
    let numbers = folders.iter().flat_map(|folder| files.names(folder)).filter_map(|name| name.parse::<u64>().ok());
    let affinity = |number| Some((number, number_list(&files.text(&format!("proc/irq/{number}/smp_affinity_list"))?)));
    numbers.filter_map(affinity).collect()
}

#[cfg(test)]
mod tests {
    use super::{now_and_most, root_qdisc};

    #[test]
    fn the_current_part_of_ethtool_comes_second() {
        let text = "Ring parameters for eth0:\nPre-set maximums:\nRX:\t\t4096\nTX:\t\t4096\nCurrent hardware settings:\nRX:\t\t512\nTX:\t\t512\n";
        assert_eq!(now_and_most(text, "RX:"), Some((512, 4096)));
        assert_eq!(now_and_most("", "RX:"), None);
    }

    #[test]
    fn the_root_qdisc_is_found() {
        let text = "qdisc fq 8001: root refcnt 2 limit 10000p maxrate 8Gbit\nqdisc ingress ffff: parent ffff:fff1\n";
        assert_eq!(root_qdisc(text).as_deref(), Some("fq limit 10000p maxrate 8Gbit"));
    }
}
