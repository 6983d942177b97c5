//! Memory, and pressure stall information (PSI): the share of time that work waited for processors, memory or disks.

use super::Tree;

/// Memory in octets, and pressures.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// What the host has.
    pub total: u64,
    /// The size of a page, in which the kernel counts the memory of protocols: 4 KiB, on some hosts 64 KiB.
    pub page_octets: u64,
    /// What can be used without swapping.
    pub available: u64,
    /// `None` where the kernel has no pressure stall information (before Linux 4.20, or off).
    pub pressure: Option<Pressure>,
}

/// The share of the last minute, in percent, that some work waited.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pressure {
    /// For a processor.
    pub cpu: f64,
    /// For memory.
    pub memory: f64,
    /// For disks.
    pub io: f64,
}

impl Memory {
    pub(super) fn read(files: &Tree) -> Memory {
        let text = files.text("proc/meminfo").unwrap_or_default();
        let octets = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
                .map_or(0, |kib| kib.saturating_mul(1024))
        };
        let page = files.output("getconf", &["PAGESIZE"]).and_then(|text| text.trim().parse().ok());
        let share = |resource: &str| waiting(&files.text(&format!("proc/pressure/{resource}"))?);
        let pressure = || Some(Pressure { cpu: share("cpu")?, memory: share("memory")?, io: share("io")? });
        Memory {
            total: octets("MemTotal"),
            page_octets: page.filter(|octets| *octets > 0).unwrap_or(4_096),
            available: octets("MemAvailable"),
            pressure: pressure(),
        }
    }
}

/// The `avg60` of the line `some`.
fn waiting(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("avg60="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn pressure_is_that_of_the_last_minute() {
        let text = "some avg10=0.00 avg60=1.25 avg300=0.10 total=5\nfull avg10=0.00 avg60=0.50 avg300=0.00 total=1\n";
        assert_eq!(super::waiting(text), Some(1.25));
        assert_eq!(super::waiting(""), None);
    }
}
