//! What a worker counts: plain numbers with one writer, added up by whoever publishes them.

/// Counts since the worker began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Queries that were understood.
    pub queries: u64,
    /// Messages that got no answer: too short, or answers themselves.
    pub ignored: u64,
    /// Answers by response code; code 15 and above share the last.
    pub rcodes: [u64; 16],
    /// Answers with EDNS version other than 0 (BADVERS).
    pub bad_versions: u64,
    /// Answers with TC set because they did not fit.
    pub truncated: u64,
    /// Answers dropped by rate limits.
    pub rate_limited: u64,
    /// Answers truncated by rate limits.
    pub slipped: u64,
    /// Zone transfers begun.
    pub transfers: u64,
    /// SHA-1 digests computed for NSEC3 proofs, additional iterations included: the work that one query can demand.
    pub nsec3_digests: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn count(&mut self, rcode: u8, truncated: bool, bad_version: bool) {
        self.truncated += u64::from(truncated);
        if bad_version {
            self.bad_versions += 1;
        } else {
            self.count_rcode(rcode);
        }
    }

    #[inline]
    pub(crate) fn count_rcode(&mut self, rcode: u8) {
        self.rcodes[usize::from(rcode & 15)] += 1;
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Counters) {
        self.queries += other.queries;
        self.ignored += other.ignored;
        self.rcodes.iter_mut().zip(other.rcodes).for_each(|(mine, theirs)| *mine += theirs);
        self.bad_versions += other.bad_versions;
        self.truncated += other.truncated;
        self.rate_limited += other.rate_limited;
        self.slipped += other.slipped;
        self.transfers += other.transfers;
        self.nsec3_digests += other.nsec3_digests;
    }
}
