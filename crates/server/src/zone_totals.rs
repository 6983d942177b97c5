//! How many zones are served, and what was received from primaries, for `zonda metrics`.

/// The totals of all zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneTotals {
    /// Zones that are served.
    pub serving: u64,
    /// Zones that have expired.
    pub expired: u64,
    /// Zones that were not read or transferred yet, or could not be.
    pub unavailable: u64,
    /// What was received since the start.
    pub received: ReceivedTotals,
}

/// The transfers into this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedTotals {
    /// Whole zones that are or were served.
    pub axfr: u64,
    /// Changes that are or were served.
    pub ixfr: u64,
    /// The octets of both.
    pub octets: u64,
    /// Transfers that failed, or whose version was refused.
    pub failed: u64,
}
