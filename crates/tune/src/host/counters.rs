//! Counters of the kernel that show what has gone wrong since the start of the host.

use std::collections::BTreeMap;

use super::Tree;

/// Counters by name: `TcpExt.ListenOverflows`, `Udp.RcvbufErrors`, `TCP.tw`, `softnet.dropped`.
#[derive(Clone, Debug, Default)]
pub struct Counters(BTreeMap<String, u64>);

impl Counters {
    pub(super) fn read(files: &Tree) -> Counters {
        let mut counters = BTreeMap::new();
        for file in ["proc/net/netstat", "proc/net/snmp"] {
            add_pairs_of_lines(&files.text(file).unwrap_or_default(), &mut counters);
        }
        add_snmp6(&files.text("proc/net/snmp6").unwrap_or_default(), &mut counters);
        add_sockstat(&files.text("proc/net/sockstat").unwrap_or_default(), &mut counters);
        if let Some(text) = files.text("proc/net/softnet_stat") {
            let values = |number: usize| text.lines().filter_map(move |line| hexadecimal(line, number));
            let column = |number: usize| values(number).fold(0, u64::saturating_add);
            counters.insert("softnet.processed".into(), column(0));
            counters.insert("softnet.dropped".into(), column(1));
            counters.insert("softnet.time_squeeze".into(), column(2));
        }
        Counters(counters)
    }

    /// The value of a counter, if the kernel has it.
    pub fn value(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }
}

/// Files in which a line of names is followed by a line of values.
fn add_pairs_of_lines(text: &str, counters: &mut BTreeMap<String, u64>) {
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks_exact(2) {
        let Some((group, names)) = pair[0].split_once(':') else { continue };
        let values = pair[1].split_once(':').map_or("", |(_, values)| values);
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                counters.insert(format!("{group}.{name}"), value);
            }
        }
    }
}

/// `Udp6RcvbufErrors 5` becomes `Udp6.RcvbufErrors`.
fn add_snmp6(text: &str, counters: &mut BTreeMap<String, u64>) {
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(char::is_whitespace)
            && let Some(name) = name.strip_prefix("Udp6")
            && let Ok(value) = value.trim().parse()
        {
            counters.insert(format!("Udp6.{name}"), value);
        }
    }
}

/// `TCP: inuse 5 orphan 0 tw 3` becomes `TCP.tw` and so on.
fn add_sockstat(text: &str, counters: &mut BTreeMap<String, u64>) {
    for line in text.lines() {
        let Some((group, fields)) = line.split_once(':') else { continue };
        let words: Vec<&str> = fields.split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            if let Ok(value) = pair[1].parse() {
                counters.insert(format!("{group}.{}", pair[0]), value);
            }
        }
    }
}

fn hexadecimal(line: &str, column: usize) -> Option<u64> {
    u64::from_str_radix(line.split_whitespace().nth(column)?, 16).ok()
}
