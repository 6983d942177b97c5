//! Limits on the number of records of a zone, which bound the cost of `$GENERATE` and repeated `$INCLUDE`.

use super::ErrorText;

/// How many records a zone may have; `u64::MAX` is no limit.
#[derive(Clone, Copy, Debug)]
pub struct RecordLimits {
    /// Records, including those that are skipped.
    pub records: u64,
    /// Records of `$GENERATE` and of files included again. A record of more than [`RecordLimits::UNIT`] octets, in text or
    /// in wire form, counts several times.
    pub generated: u64,
}

impl RecordLimits {
    /// The octets that count as one generated record.
    pub const UNIT: usize = 256;
    /// Any number of records; a million generated ones, about as many as a /12 IPv4 network has addresses.
    pub const DEFAULT: RecordLimits = RecordLimits { records: u64::MAX, generated: 1_000_000 };
}

/// Counts records and enforces the limits.
pub(super) struct RecordCounter {
    limits: RecordLimits,
    records: u64,
    generated: u64,
    /// Whether records now come from `$GENERATE` or from a file included before.
    pub is_generated: bool,
    /// Whether a limit was exceeded, which is reported once.
    is_exceeded: bool,
}

impl RecordCounter {
    pub fn new(limits: RecordLimits) -> RecordCounter {
        RecordCounter { limits, records: 0, generated: 0, is_generated: false, is_exceeded: false }
    }

    /// Counts a record of `octets` octets and returns whether to load it. The first record over a limit is an error.
    #[inline]
    pub fn count_record(&mut self, octets: usize) -> Result<bool, ErrorText> {
        self.records += 1;
        if self.is_generated {
            self.generated += 1 + whole_units(octets);
        }
        let is_within = self.records <= self.limits.records && self.generated <= self.limits.generated;
        if is_within { Ok(true) } else { self.exceed() }
    }

    #[cold]
    fn exceed(&mut self) -> Result<bool, ErrorText> {
        if std::mem::replace(&mut self.is_exceeded, true) {
            return Ok(false);
        }
        Err(if self.records > self.limits.records { self.too_many_records() } else { self.too_many_generated() })
    }

    fn too_many_records(&self) -> ErrorText {
        let message = format!("the zone has more than {} records", self.limits.records);
        ErrorText { message, help: "raise `max-records`" }
    }

    fn too_many_generated(&self) -> ErrorText {
        let limit = self.limits.generated;
        let message = format!("the zone has more than {limit} records that are generated or included again");
        ErrorText { message, help: "raise `max-generated`" }
    }

    /// Fails if `records` more generated records would exceed a limit.
    pub fn check_range(&self, records: u64) -> Result<(), ErrorText> {
        if self.generated.saturating_add(records) > self.limits.generated {
            return Err(self.too_many_generated());
        }
        if self.records.saturating_add(records) > self.limits.records { Err(self.too_many_records()) } else { Ok(()) }
    }

    /// Counts generated or repeatedly included text: parsing it takes time even if it has no records.
    pub fn count_text(&mut self, octets: usize) -> Result<(), ErrorText> {
        let generated = self.generated.saturating_add(whole_units(octets));
        if generated > self.limits.generated {
            return Err(self.too_many_generated());
        }
        self.generated = generated;
        Ok(())
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds records counted by another counter if they are within the limits; returns whether they are.
    pub fn add(&mut self, records: u64) -> bool {
        let is_within = !self.is_exceeded && self.records + records <= self.limits.records;
        self.records += if is_within { records } else { 0 };
        is_within
    }
}

fn whole_units(octets: usize) -> u64 {
    (octets / RecordLimits::UNIT) as u64
}
