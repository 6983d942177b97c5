//! What the host has and how it is set, read from `/proc`, `/sys`, `/etc` and a few programs. Nothing is changed here.

mod counters;
mod cpu;
mod limits;
mod memory;
mod network;
mod program;
mod surroundings;
mod sysctl_files;
mod tree;

use std::fmt;
use std::path::Path;

pub use counters::Counters;
pub use cpu::{Cpus, Node};
pub use limits::OpenFileLimits;
pub use memory::{Memory, Pressure};
pub use network::Interface;
pub use surroundings::Surroundings;
pub use sysctl_files::SysctlLine;
pub use tree::Tree;

/// A host as it is now.
#[derive(Debug)]
pub struct Host {
    /// The release of the kernel, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// Processors and memory nodes.
    pub cpus: Cpus,
    /// Memory and how scarce processors, memory and disks are.
    pub memory: Memory,
    /// The network interfaces that are up, without the loopback.
    pub interfaces: Vec<Interface>,
    /// Container, cgroup limits, privileges.
    pub surroundings: Surroundings,
    /// What has gone wrong since the start of the host.
    pub counters: Counters,
    /// The process of the running server, whose processors and cgroup count; while it does not run, those of this process.
    pub server: Option<String>,
    files: Tree,
}

/// Why a host cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostError {
    /// There is no `/proc/sys`.
    NoProc,
    /// The kernel is another one; its name.
    OtherKernel(String),
}

impl fmt::Display for HostError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::NoProc => formatter.write_str(
                "there is no /proc/sys, so the settings of this kernel cannot be read (help: `zonda tune` reads Linux, with /proc mounted)",
            ),
            HostError::OtherKernel(name) => write!(
                formatter,
                "the kernel is {name}, not Linux (help: `zonda tune` knows the settings of Linux only, and docs/manual/tuning.md lists them)"
            ),
        }
    }
}

impl std::error::Error for HostError {}

impl Host {
    /// Reads the host below `root`, which is `/` except in tests. `comm` is the name of the server's process.
    pub fn read(root: &Path, comm: &str) -> Result<Host, HostError> {
        let files = Tree::new(root);
        if !files.exists("proc/sys/kernel") {
            return Err(HostError::NoProc);
        }
        match files.text("proc/sys/kernel/ostype") {
            Some(name) if name != "Linux" => return Err(HostError::OtherKernel(name)),
            _ => {}
        }
        let server = running(&files, comm);
        let process = server.as_deref().unwrap_or("self");
        Ok(Host {
            kernel: files.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            memory: Memory::read(&files),
            interfaces: Interface::read_all(&files),
            surroundings: Surroundings::read(&files, process),
            counters: Counters::read(&files),
            cpus: Cpus::read(&files, process),
            server,
            files,
        })
    }

    /// The value of a sysctl with single spaces between numbers; `None` if this kernel or namespace does not have it.
    pub fn sysctl(&self, name: &str) -> Option<String> {
        self.files.text(&sysctl_path(name)).map(|text| single_spaced(&text))
    }

    /// The first number of a sysctl. A number too large for 64 bits is the largest.
    pub fn sysctl_number(&self, name: &str) -> Option<u64> {
        self.sysctl_numbers(name).first().copied()
    }

    /// The numbers of a sysctl such as `tcp_rmem`.
    pub fn sysctl_numbers(&self, name: &str) -> Vec<u64> {
        let text = self.sysctl(name).unwrap_or_default();
        let number =
            |word: &str| word.bytes().all(|octet| octet.is_ascii_digit()).then(|| word.parse().unwrap_or(u64::MAX));
        text.split(' ').filter(|word| !word.is_empty()).map_while(number).collect()
    }

    /// The lines of files that set sysctls at the start of the host, in the order in which `sysctl --system` reads them.
    pub fn sysctl_lines(&self) -> Vec<SysctlLine> {
        sysctl_files::read(&self.files)
    }

    /// The limits of open files of the server, as it runs, as systemd starts its `unit`, and as PAM sets it.
    pub fn open_files(&self, unit: &str) -> OpenFileLimits {
        OpenFileLimits::read(&self.files, self.server.as_deref(), unit)
    }

    /// What exists but could not be read for lack of permission.
    pub fn denied(&self) -> Vec<String> {
        self.files.denied()
    }

    /// The command lines of programs that did not end in time, and for how many seconds they ran.
    pub fn timed_out(&self) -> (Vec<String>, u64) {
        (self.files.timed_out(), tree::PROGRAM_TIMEOUT_S)
    }

    /// The release of the kernel as two numbers, such as (6, 1).
    pub fn kernel_version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.kernel.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }

    /// The octets of memory that can be used without swapping, or that the cgroup allows if that is less, part of which it
    /// may use already, unlike in the calculation of the server; `None` if the kernel does not say.
    pub fn available_memory(&self) -> Option<u64> {
        let limit = self.surroundings.memory_limit.unwrap_or(u64::MAX);
        (self.memory.available > 0).then_some(self.memory.available.min(limit))
    }

    /// The octets of memory that the server may use: what the host has, or the cgroup allows if that is less.
    pub fn usable_memory(&self) -> u64 {
        self.surroundings.memory_limit.unwrap_or(u64::MAX).min(self.memory.total)
    }
}

/// The path of a sysctl below the root: dots in names of interfaces are written as slashes, as `sysctl` does.
pub fn sysctl_path(name: &str) -> String {
    format!("proc/sys/{}", swap_separators(name))
}

/// The other form of the name of a sysctl: dots for slashes, slashes for dots.
fn swap_separators(name: &str) -> String {
    let swap = |letter| match letter {
        '.' => '/',
        '/' => '.',
        other => other,
    };
    name.chars().map(swap).collect()
}

/// The value of a sysctl with single spaces between numbers.
pub fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The process with this name.
fn running(files: &Tree, comm: &str) -> Option<String> {
    let processes = files.names("proc").into_iter().filter(|name| name.bytes().all(|octet| octet.is_ascii_digit()));
    // `zonda tune` itself has the same name as the server.
    let own = files.link_name("proc/self");
    processes
        .filter(|process| Some(process) != own.as_ref())
        .find(|process| files.text(&format!("proc/{process}/comm")).as_deref() == Some(comm))
}

/// The numbers of a list such as `0-3,8`.
fn number_list(text: &str) -> Vec<usize> {
    /// No machine has more processors; a longer list is not one of processors.
    const MAX: usize = 65_536;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
            && last < MAX
        {
            numbers.extend(first..=last);
        }
        if numbers.len() > MAX {
            return Vec::new();
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::{number_list, sysctl_path};

    #[test]
    fn lists_of_processors_are_expanded() {
        assert_eq!(number_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(number_list(""), [0; 0]);
        assert_eq!(number_list("0-99999999999"), [0; 0]);
        assert_eq!(number_list("0-65535").len(), 65_536);
        assert_eq!(number_list(&"0-65535,".repeat(1_000_000)), [0; 0]);
    }

    #[test]
    fn names_of_sysctls_become_paths() {
        assert_eq!(sysctl_path("net.ipv4.tcp_sack"), "proc/sys/net/ipv4/tcp_sack");
        assert_eq!(sysctl_path("net.ipv4.conf.eth0/5.rp_filter"), "proc/sys/net/ipv4/conf/eth0.5/rp_filter");
    }
}
