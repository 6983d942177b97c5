//! The counters of one worker: plain integers with one writer; the server sums them up.

use wire::message::Rcode;

/// Counts since the worker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Well-formed queries.
    pub queries: u64,
    /// Messages that must not be answered: too short, or responses.
    pub ignored: u64,
    /// Responses by response code.
    pub rcodes: [u64; 16],
    /// BADVERS responses, to EDNS versions other than 0.
    pub bad_versions: u64,
    /// BADCOOKIE responses, to queries without a question whose server cookie is invalid.
    pub bad_cookies: u64,
    /// Responses with TC set because something did not fit.
    pub truncated: u64,
    /// Responses dropped by RRL.
    pub rate_limited: u64,
    /// Responses truncated by RRL (slip).
    pub slipped: u64,
    /// Zone transfers started.
    pub transfers: u64,
    /// NOTIFY messages that were not accepted.
    pub notifies_refused: u64,
    /// SHA-1 digests computed for NSEC3 proofs, additional iterations included.
    pub nsec3_digests: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn count(&mut self, rcode: Rcode, truncated: bool) {
        self.truncated += u64::from(truncated);
        match self.rcodes.get_mut(usize::from(rcode.0)) {
            Some(count) => *count += 1,
            None if rcode == Rcode::BADCOOKIE => self.bad_cookies += 1,
            None => self.bad_versions += 1,
        }
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Counters) {
        self.queries += other.queries;
        self.ignored += other.ignored;
        self.rcodes.iter_mut().zip(other.rcodes).for_each(|(mine, theirs)| *mine += theirs);
        self.bad_versions += other.bad_versions;
        self.bad_cookies += other.bad_cookies;
        self.truncated += other.truncated;
        self.rate_limited += other.rate_limited;
        self.slipped += other.slipped;
        self.transfers += other.transfers;
        self.notifies_refused += other.notifies_refused;
        self.nsec3_digests += other.nsec3_digests;
    }
}
