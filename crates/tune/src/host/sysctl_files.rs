//! What sets sysctls at the start of the host: the files of sysctl.d, and sysctl.conf.

use std::collections::BTreeMap;

use super::{Tree, single_spaced, swap_separators};

/// The folders, the strongest first: of files with the same name only the first is read (sysctl.d(5)).
const FOLDERS: [&str; 5] =
    ["etc/sysctl.d", "run/sysctl.d", "usr/local/lib/sysctl.d", "usr/lib/sysctl.d", "lib/sysctl.d"];

/// What `sysctl --system` reads after all of them.
const LAST: &str = "etc/sysctl.conf";

/// A line that sets a sysctl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysctlLine {
    /// The file, without a leading slash.
    pub file: String,
    /// The sysctl, with dots.
    pub name: String,
    /// The value, with single spaces between numbers.
    pub value: String,
}

impl SysctlLine {
    /// Whether it is read after the files of this name.
    pub fn is_after(&self, name: &str) -> bool {
        self.file == LAST || self.file.rsplit('/').next() > Some(name)
    }
}

/// All lines in the order in which `sysctl --system` reads them: the last of a sysctl wins.
pub(super) fn read(files: &Tree) -> Vec<SysctlLine> {
    let mut paths = BTreeMap::new();
    for folder in FOLDERS {
        for name in files.names(folder).into_iter().filter(|name| name.ends_with(".conf")) {
            let path = format!("{folder}/{name}");
            paths.entry(name).or_insert(path);
        }
    }
    let paths = paths.into_values().chain([LAST.to_owned()]);
    paths.flat_map(|path| lines(&files.text(&path).unwrap_or_default(), &path)).collect()
}

fn lines(text: &str, file: &str) -> Vec<SysctlLine> {
    let line = |line: &str| {
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with(['#', ';']))?;
        // With `-` errors are ignored.
        let name = name.trim().trim_start_matches('-');
        let first_separator = name.find(['.', '/']).map(|at| &name[at..=at]);
        let name = if first_separator == Some("/") { swap_separators(name) } else { name.to_owned() };
        Some(SysctlLine { file: file.to_owned(), name, value: single_spaced(value) })
    };
    text.lines().map(str::trim).filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn lines_are_read_as_sysctl_reads_them() {
        let text =
            "# a = 1\n; b = 2\n\nnet.ipv4.tcp_rmem = 4096\t87380  1\n-net/ipv4/conf/eth0.5/rp_filter=2\nno value\n";
        let found: Vec<_> = lines(text, "f").into_iter().map(|line| (line.name, line.value)).collect();
        let expected = [("net.ipv4.tcp_rmem", "4096 87380 1"), ("net.ipv4.conf.eth0/5.rp_filter", "2")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
