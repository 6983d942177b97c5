//! What should be set, and why: a table of settings ([`settings`]), and its values for one host ([`advise`]).
//!
//! A row computes its advice from a [`Case`]. Its evidence is looked up in the committed records of the lab, so that a new record
//! changes what the row says. A setting that a source recommends and that is useless or harmful has a row that says so.

mod bind;
mod buffers;
mod card;
mod descriptors;
pub mod evidence;
mod knot;
mod nsd;
mod ports;
mod processors;
mod queues;
pub mod sizes;
pub mod sources;
pub(crate) mod symptoms;
mod tcp;
pub mod workload;
mod zonda;

use serde::{Serialize, Serializer};

use crate::host::Host;
use evidence::Lookup;
use sources::Source;
pub use symptoms::{Symptom, symptoms};
use workload::{Role, Server, ServerFacts, Workload};

/// What an advice is computed from.
#[derive(Debug)]
pub struct Case<'a> {
    /// The host as it is.
    pub host: &'a Host,
    /// What the server shall do.
    pub workload: Workload,
    /// What is known of the server.
    pub server: ServerFacts,
}

/// A setting: a row of the table.
pub struct Setting {
    /// The name under which an administrator finds it.
    pub name: &'static str,
    /// The part of the table.
    pub group: Group,
    /// Where it is set.
    pub place: Place,
    /// How the advised value is computed, or why it should be left alone, for any host.
    pub rule: &'static str,
    /// The advice for one host.
    pub compute: fn(&Case) -> Advice,
    /// Documents that advise it, and what they say.
    pub sources: &'static [Source],
    /// Our own experiments.
    pub evidence: &'static [Lookup],
    /// What can go wrong.
    pub risk: &'static str,
    /// When the advice applies; empty if always.
    pub condition: &'static str,
}

/// The parts of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Queues of connections and packets.
    Queues,
    /// Files and connections that may be open.
    Descriptors,
    /// Socket buffers.
    Buffers,
    /// Ports and TIME_WAIT.
    Ports,
    /// How TCP behaves.
    Tcp,
    /// Network card and queueing discipline.
    Card,
    /// Processors and memory nodes.
    Processors,
    /// Options of the DNS server.
    Server,
}

/// Where a setting is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `/proc/sys`, sysctl.d.
    Sysctl,
    /// limits.d.
    Login,
    /// A drop-in of the server's systemd unit.
    Unit,
    /// A command of the network card or the processor, run at every start of the host.
    Device,
    /// The configuration of a DNS server.
    Config(Server),
    /// A habit of the administrator, or a property of the host.
    Habit,
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Place::Sysctl => "sysctl",
            Place::Login => "limits",
            Place::Unit => "unit",
            Place::Device => "device",
            Place::Config(_) => "config",
            Place::Habit => "habit",
        })
    }
}

/// What to do about a setting on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Set it to this value.
    Set {
        /// The value as it is written.
        value: String,
        /// The computation.
        why: String,
    },
    /// It should have the default of the kernel.
    Default {
        /// The default as it is written.
        value: String,
        /// Why nothing else is better.
        why: String,
    },
    /// It is good as it is.
    Keep(String),
    /// It is more than this workload needs: it may have been set for another.
    KeepMore(String),
    /// Changing it does not help, or harms.
    Leave(String),
    /// This host does not have it.
    Absent(String),
}

/// What to do, as one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Set the advised value.
    Set,
    /// Good as it is.
    Keep,
    /// Useless or harmful.
    Leave,
    /// Not on this host.
    Absent,
}

/// The advice on one setting, as it is printed.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The setting.
    pub name: &'static str,
    /// What to do.
    pub action: Action,
    /// The value now; `None` if it is not set or cannot be read.
    pub now: Option<String>,
    /// The value to set, or the one to keep.
    pub advised: Option<String>,
    /// The computation.
    pub why: String,
    /// Our own measurements, or that there are none.
    pub evidence: String,
    /// Where they are found.
    #[serde(skip)]
    pub lookups: &'static [Lookup],
    /// What can go wrong.
    pub risk: &'static str,
    /// When the advice applies.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub condition: &'static str,
    /// What documents say.
    pub sources: Vec<String>,
    /// Where they give different values: which, and who.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disagreement: Option<String>,
    /// The part of the table.
    #[serde(skip)]
    pub group: Group,
    /// Where it is set.
    pub place: Place,
    /// Whether `--apply` or a written file may have set the value now, for this workload or another.
    #[serde(skip)]
    pub is_reached: bool,
}

/// The table, in the order in which it is printed.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    let parts: [&[Setting]; 11] = [
        queues::SETTINGS,
        descriptors::SETTINGS,
        buffers::SETTINGS,
        ports::SETTINGS,
        tcp::SETTINGS,
        card::SETTINGS,
        processors::SETTINGS,
        zonda::SETTINGS,
        nsd::SETTINGS,
        knot::SETTINGS,
        bind::SETTINGS,
    ];
    parts.into_iter().flatten()
}

/// The advice on every setting that concerns this case. Options of other servers are left out.
pub fn advise(case: &Case) -> Vec<Row> {
    let concerns = |setting: &&Setting| match setting.place {
        Place::Config(server) => server == case.workload.server,
        _ => true,
    };
    settings().filter(concerns).map(|setting| row(case, setting)).collect()
}

fn row(case: &Case, setting: &Setting) -> Row {
    let now = case.now(setting);
    let is_now = |value: &String| now.as_ref() == Some(value);
    let (action, advised, why, is_reached) = match (setting.compute)(case) {
        Advice::Set { value, why } if is_now(&value) => (Action::Keep, Some(value), why, true),
        Advice::Set { value, why } => (Action::Set, Some(value), why, false),
        Advice::Default { value, why } if is_now(&value) => (Action::Leave, Some(value), why, true),
        Advice::Default { value, why } => (Action::Set, Some(value), format!("the kernel's default: {why}"), false),
        Advice::Keep(why) => (Action::Keep, now.clone(), why, false),
        Advice::KeepMore(why) => {
            let is_reached = now.as_ref().is_some_and(|value| is_set(setting.name, value));
            (Action::Keep, now.clone(), why, is_reached)
        }
        Advice::Leave(why) => (Action::Leave, now.clone(), why, false),
        Advice::Absent(why) => (Action::Absent, None, why, false),
    };
    Row {
        name: setting.name,
        action,
        now,
        advised,
        why,
        evidence: evidence::describe(setting.evidence),
        lookups: setting.evidence,
        risk: setting.risk,
        condition: setting.condition,
        sources: setting.sources.iter().map(Source::to_string).collect(),
        disagreement: setting.disagreement(),
        group: setting.group,
        place: setting.place,
        is_reached,
    }
}

/// The values that sysctls have after a start of the host: those of Linux, old and new, and of systemd. Those that the kernel computes from
/// the memory are missing.
const AT_START: &[(&str, &[&str])] = &[
    ("fs.file-max", &["9223372036854775807"]),
    ("fs.nr_open", &["1048576", "1073741816"]),
    ("net.core.netdev_budget", &["300"]),
    ("net.core.netdev_max_backlog", &["1000"]),
    ("net.core.rmem_max", &["212992", "4194304"]),
    ("net.core.somaxconn", &["128", "4096"]),
    ("net.core.wmem_max", &["212992", "4194304"]),
    ("net.ipv4.ip_local_port_range", &["32768 60999"]),
];

/// Whether somebody has set this value of a sysctl. One that the kernel computes counts as not set: a file would keep it when the memory
/// grows.
fn is_set(name: &str, value: &str) -> bool {
    AT_START.iter().any(|(sysctl, values)| *sysctl == name && !values.contains(&value))
}

impl Setting {
    /// The values that its sources give, if they differ: `sources disagree: 0 (an operator) or 1 (kernel documentation)`.
    pub fn disagreement(&self) -> Option<String> {
        sources::disagreement(self.sources)
    }
}

impl Case<'_> {
    /// The current value of a setting.
    fn now(&self, setting: &Setting) -> Option<String> {
        match setting.place {
            Place::Sysctl => self.host.sysctl(setting.name),
            Place::Login | Place::Unit => descriptors::now(self, setting.name),
            Place::Device => card::now(self, setting.name).or_else(|| processors::now(self, setting.name)),
            Place::Habit => processors::now(self, setting.name),
            Place::Config(_) => self.server.options.get(setting.name).cloned(),
        }
    }

    /// Queries per second: `--rate`, unless that counts transfers.
    fn queries_per_s(&self) -> u64 {
        self.workload.queries_per_s()
    }

    /// Processors the server may use: what the process may run on, less if the cgroup allows less time.
    fn processors(&self) -> u64 {
        let allowed = self.host.cpus.usable() as u64;
        let paid = self.host.surroundings.cpu_limit.map_or(allowed, |limit| limit.ceil() as u64);
        allowed.min(paid).max(1)
    }

    /// UDP sockets that share the queries.
    fn udp_sockets(&self) -> u64 {
        self.server.workers.unwrap_or_else(|| self.processors()).max(1)
    }

    /// Raises a sysctl to `wanted` if it is lower, never lowers it.
    fn at_least(&self, name: &str, wanted: u64, why: String) -> Advice {
        match self.host.sysctl_number(name) {
            None => Advice::Absent(missing()),
            Some(now) if now > wanted => Advice::KeepMore(format!("{why}; it is enough")),
            Some(_) => Advice::set(wanted, why),
        }
    }

    /// Leaves a sysctl at its default, or sets it back.
    fn default(&self, name: &str, default: &str, why: &str) -> Advice {
        match self.host.sysctl(name) {
            None => Advice::Absent(missing()),
            Some(_) => Advice::Default { value: default.to_owned(), why: why.to_owned() },
        }
    }

    /// Leaves a sysctl as it is, whatever that is.
    fn leave(&self, name: &str, why: &str) -> Advice {
        match self.host.sysctl(name) {
            None => Advice::Absent(missing()),
            Some(_) => Advice::Leave(why.to_owned()),
        }
    }

    /// Whose processors and cgroup have been read.
    fn whose(&self) -> &'static str {
        if self.host.server.is_some() { "of the running server" } else { "of this shell" }
    }

    fn is_role(&self, roles: &[Role]) -> bool {
        roles.contains(&self.workload.role)
    }
}

impl Advice {
    fn set(value: impl ToString, why: impl Into<String>) -> Advice {
        Advice::Set { value: value.to_string(), why: why.into() }
    }

    /// For an option of a server whose value is not read: set only if its default is too low.
    fn above_default(wanted: u64, default: u64, why: &str) -> Advice {
        match wanted > default {
            true => Advice::set(wanted, format!("{why}; {default} by default")),
            false => Advice::Leave(format!("{why}; the default of {default} is enough")),
        }
    }
}

fn missing() -> String {
    "this kernel or network namespace does not have it".into()
}

/// A setting with nothing but defaults, for the tables.
const SETTING: Setting = Setting {
    name: "",
    group: Group::Server,
    place: Place::Sysctl,
    rule: "",
    compute: |_| Advice::Leave(String::new()),
    sources: &[],
    evidence: &[],
    risk: "none known",
    condition: "",
};
