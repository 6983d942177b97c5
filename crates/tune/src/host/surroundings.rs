//! What surrounds the server: container, cgroup limits, privileges, connection tracking.

use super::Tree;

/// A cgroup of version 1 without a limit reports a number near 2^63.
const NO_LIMIT: u64 = 1 << 60;

/// Container, limits and privileges.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// What shows that this is a container, such as `/.dockerenv`.
    pub container: Option<String>,
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
    /// How many of them have port 53; `None` if the list cannot be read.
    pub tracked_dns: Option<usize>,
}

impl Surroundings {
    pub(super) fn read(files: &Tree) -> Surroundings {
        let status = files.text("proc/self/status").unwrap_or_default();
        let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = capabilities.and_then(|word| u64::from_str_radix(word.trim(), 16).ok()).unwrap_or(0);
        let uid_map = files.text("proc/self/uid_map").unwrap_or_default();
        let uid_map: Vec<&str> = uid_map.split_whitespace().collect();
        let tracked = files.number("proc/sys/net/netfilter/nf_conntrack_count");
        Surroundings {
            container: container(files),
            user_namespace: !uid_map.is_empty() && uid_map != ["0", "0", "4294967295"],
            net_admin: capabilities & (1 << 12) != 0,
            tracked,
            tracked_dns: tracked.and_then(|_| tracked_dns(files)),
            ..cgroup(files)
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

/// The limits of the cgroup of this process, of version 2 or 1.
fn cgroup(files: &Tree) -> Surroundings {
    let groups = files.text("proc/self/cgroup").unwrap_or_default();
    let group = |controller: &str| {
        let mut fields = groups.lines().map(|line| line.splitn(3, ':'));
        fields.find_map(|mut fields| {
            let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            controllers.split(',').any(|name| name == controller).then(|| path.trim_matches('/').to_owned())
        })
    };
    let file = |controller: &str, old: &str, new: &str| {
        let unified = group("").and_then(|path| files.text(&format!("sys/fs/cgroup/{path}/{new}").replace("//", "/")));
        unified.or_else(|| {
            files.text(&format!("sys/fs/cgroup/{controller}/{}/{old}", group(controller)?).replace("//", "/"))
        })
    };
    let limit = |text: Option<String>| text?.parse::<u64>().ok().filter(|limit| *limit < NO_LIMIT);
    let quota = |text: &str| {
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    };
    Surroundings {
        memory_limit: limit(file("memory", "memory.limit_in_bytes", "memory.max")),
        task_limit: limit(file("pids", "pids.max", "pids.max")),
        cpu_limit: file("cpu", "cpu.max", "cpu.max").as_deref().and_then(quota),
        ..Surroundings::default()
    }
}

fn tracked_dns(files: &Tree) -> Option<usize> {
    let text = files.text("proc/net/nf_conntrack")?;
    Some(text.lines().filter(|line| line.split(' ').any(|field| field == "dport=53")).count())
}
