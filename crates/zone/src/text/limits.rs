//! How many records a zone may have and how many were read of it. For the parser only.

use super::{ErrorText, RecordLimits};

/// The records read so far, against the limits.
pub(super) struct RecordCounter {
    limits: RecordLimits,
    records: u64,
    generated: u64,
    /// Whether records are generated, or come from a file included before.
    pub is_generated: bool,
    /// Whether a limit was exceeded, which is reported once.
    is_exceeded: bool,
}

impl RecordCounter {
    pub fn new(limits: RecordLimits) -> RecordCounter {
        RecordCounter { limits, records: 0, generated: 0, is_generated: false, is_exceeded: false }
    }

    /// Counts a record of so many octets; whether to take it. An error is to be reported.
    #[inline]
    pub fn record(&mut self, octets: usize) -> Result<bool, ErrorText> {
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
        Err(if self.records > self.limits.records { self.too_many() } else { self.too_many_generated() })
    }

    fn too_many(&self) -> ErrorText {
        let message = format!("the zone has more than {} records", self.limits.records);
        ErrorText { message, help: "raise `max-records`" }
    }

    fn too_many_generated(&self) -> ErrorText {
        let limit = self.limits.generated;
        let message = format!("the zone has more than {limit} records that are generated or included again");
        ErrorText { message, help: "raise `max-generated`" }
    }

    /// Fails if so many records more would exceed a limit.
    pub fn check_range(&self, records: u64) -> Result<(), ErrorText> {
        if self.generated.saturating_add(records) > self.limits.generated {
            return Err(self.too_many_generated());
        }
        if self.records.saturating_add(records) > self.limits.records { Err(self.too_many()) } else { Ok(()) }
    }

    /// Counts text that is generated, or that of a file included again: text without records takes time too.
    pub fn text(&mut self, octets: usize) -> Result<(), ErrorText> {
        let generated = self.generated.saturating_add(whole_units(octets));
        if generated > self.limits.generated {
            return Err(self.too_many_generated());
        }
        self.generated = generated;
        Ok(())
    }

    /// How many records were counted.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Adds records that were counted elsewhere; whether they are within the limits, otherwise they are not added.
    pub fn add(&mut self, records: u64) -> bool {
        let is_within = !self.is_exceeded && self.records + records <= self.limits.records;
        self.records += if is_within { records } else { 0 };
        is_within
    }
}

fn whole_units(octets: usize) -> u64 {
    (octets / RecordLimits::UNIT) as u64
}
