//! How the serial of a zone advances when a change does not set it.

use wire::serial::is_later;

/// The choice of the next serial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SerialPolicy {
    /// The serial of the zone file or of the update. An update that sets none increments it.
    #[default]
    Keep,
    /// One more than the previous serial.
    Increment,
    /// The date in UTC as `YYYYMMDDnn` (RFC 1912 2.2).
    Date,
    /// Seconds since 1970.
    Unix,
}

impl SerialPolicy {
    /// All policies.
    pub const ALL: [SerialPolicy; 4] =
        [SerialPolicy::Keep, SerialPolicy::Increment, SerialPolicy::Date, SerialPolicy::Unix];

    /// The serial of a first version. `now_s` is the time in seconds since 1970.
    pub fn first(self, now_s: u64) -> u32 {
        match self {
            SerialPolicy::Keep | SerialPolicy::Increment => 1,
            SerialPolicy::Date => date_serial(now_s),
            SerialPolicy::Unix => now_s as u32,
        }
    }

    /// The serial after `previous`, always later than it (RFC 1982). `now_s` is the time in seconds since 1970.
    pub fn next(self, previous: u32, now_s: u64) -> u32 {
        match self {
            SerialPolicy::Date | SerialPolicy::Unix if is_later(self.first(now_s), previous) => self.first(now_s),
            _ => previous.wrapping_add(1),
        }
    }
}

/// `YYYYMMDD00` of a time in seconds since 1970, in UTC.
fn date_serial(now_s: u64) -> u32 {
    let time = jiff::Timestamp::from_second(now_s.cast_signed()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let date = jiff::tz::Offset::UTC.to_datetime(time).date();
    ((date.year().unsigned_abs() as u32 * 100 + date.month() as u32) * 100 + date.day() as u32) * 100
}

#[cfg(test)]
mod tests {
    use super::SerialPolicy;

    #[test]
    fn the_next_serial_is_always_later() {
        let noon_2026_11_22 = 1_795_348_800;
        assert_eq!(SerialPolicy::Date.next(5, noon_2026_11_22), 2026112200);
        assert_eq!(SerialPolicy::Date.next(2026112200, noon_2026_11_22), 2026112201);
        assert_eq!(SerialPolicy::Unix.next(5, noon_2026_11_22), 1_795_348_800);
        assert_eq!(SerialPolicy::Unix.next(1_795_348_800, noon_2026_11_22), 1_795_348_801);
        assert_eq!(SerialPolicy::Increment.next(u32::MAX, 0), 0);
        assert_eq!(SerialPolicy::Keep.next(7, 0), 8);
        // From 2038 on, the time is not later than 0 (RFC 1982).
        assert_eq!(SerialPolicy::Unix.first(1 << 31), 1 << 31);
    }

    #[test]
    fn dates_follow_the_gregorian_calendar() {
        for (seconds, serial) in [(0, 1970010100), (951_782_400, 2000022900), (951_868_800, 2000030100)] {
            assert_eq!(SerialPolicy::Date.next(0, seconds), serial);
        }
        assert_eq!(SerialPolicy::Date.next(0, 1_767_225_599), 2025123100, "the last second of a year");
    }
}
