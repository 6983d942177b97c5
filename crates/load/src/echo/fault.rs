//! What an echo server does wrong on purpose, so that tests of the lab can prove that the lab sees it.

use std::str::FromStr;
use std::thread;
use std::time::Duration;

use netio::clock;

/// The faults of a server; the default has none. Each thread counts for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    stall_every_ms: u64,
    stall_ms: u64,
    delay_us: u64,
    drop_every: u64,
    wrong_every: u64,
    max_rate: u64,
    wrong_above: u64,
}

/// Why a fault cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// The text has another form.
    #[error("`{0}` is not of the form NAME=N")]
    Form(String),
    /// There is no fault of the name.
    #[error(
        "no fault `{0}`; there are stall-every-ms, stall-ms, delay-us, drop-every, wrong-every, max-rate, wrong-above"
    )]
    Name(String),
}

impl Faults {
    fn field(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "stall-every-ms" => &mut self.stall_every_ms,
            "stall-ms" => &mut self.stall_ms,
            "delay-us" => &mut self.delay_us,
            "drop-every" => &mut self.drop_every,
            "wrong-every" => &mut self.wrong_every,
            "max-rate" => &mut self.max_rate,
            "wrong-above" => &mut self.wrong_above,
            _ => return None,
        })
    }
}

/// One fault, like `drop-every=10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    name: String,
    value: u64,
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Fault, FaultError> {
        let form = || FaultError::Form(text.into());
        let (name, value) = text.split_once('=').ok_or_else(form)?;
        Faults::default().field(name).ok_or_else(|| FaultError::Name(name.into()))?;
        Ok(Fault { name: name.into(), value: value.parse().map_err(|_| form())? })
    }
}

impl<'a> FromIterator<&'a Fault> for Faults {
    fn from_iter<I: IntoIterator<Item = &'a Fault>>(each: I) -> Faults {
        let mut faults = Faults::default();
        for fault in each {
            *faults.field(&fault.name).expect("parsing has checked the name") = fault.value;
        }
        faults
    }
}

/// What a query gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    Answer,
    /// SERVFAIL.
    Wrong,
    Drop,
}

/// The time over which rates are measured: long enough that a busy machine's hiccups even out.
const RATE_INTERVAL: Duration = Duration::from_millis(100);
const INTERVALS_PER_SECOND: u64 = 10;

/// Decides what each query of a thread gets.
#[derive(Clone)]
pub struct FaultInjector {
    faults: Faults,
    now: Duration,
    next_stall: Duration,
    /// Queries so far.
    count: u64,
    /// When the current [`RATE_INTERVAL`] ends.
    interval_end: Duration,
    /// Queries of the current and of the previous interval.
    in_interval: u64,
    in_previous: u64,
}

impl FaultInjector {
    pub fn new(faults: Faults) -> FaultInjector {
        let now = clock::monotonic_exact();
        FaultInjector {
            faults,
            now,
            next_stall: now + Duration::from_millis(faults.stall_every_ms),
            count: 0,
            interval_end: now + RATE_INTERVAL,
            in_interval: 0,
            in_previous: 0,
        }
    }

    /// Pauses if that is due.
    pub fn begin_batch(&mut self) {
        if self.faults.delay_us > 0 {
            thread::sleep(Duration::from_micros(self.faults.delay_us));
        }
        self.now = clock::monotonic_exact();
        if self.faults.stall_every_ms > 0 && self.now >= self.next_stall {
            thread::sleep(Duration::from_millis(self.faults.stall_ms));
            self.now = clock::monotonic_exact();
            self.next_stall = self.now + Duration::from_millis(self.faults.stall_every_ms);
        }
        self.begin_interval();
    }

    fn begin_interval(&mut self) {
        if self.now >= self.interval_end {
            let is_next = self.now < self.interval_end + RATE_INTERVAL;
            self.in_previous = if is_next { self.in_interval } else { 0 };
            self.in_interval = 0;
            self.interval_end = self.now + RATE_INTERVAL;
        }
    }

    pub fn treat(&mut self) -> Treatment {
        self.count += 1;
        self.in_interval += 1;
        let is_every = |every: u64| every > 0 && self.count.is_multiple_of(every);
        let is_above = |rate: u64, count: u64| rate > 0 && count > rate / INTERVALS_PER_SECOND;
        if is_every(self.faults.drop_every) || is_above(self.faults.max_rate, self.in_interval) {
            Treatment::Drop
        } else if is_every(self.faults.wrong_every)
            || is_above(self.faults.wrong_above, self.in_interval.max(self.in_previous))
        {
            Treatment::Wrong
        } else {
            Treatment::Answer
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(texts: &[&str]) -> Faults {
        let each: Vec<Fault> = texts.iter().map(|text| text.parse().expect("a good fault")).collect();
        each.iter().collect()
    }

    fn treatments(texts: &[&str], count: usize) -> Vec<Treatment> {
        let mut injector = FaultInjector::new(faults(texts));
        injector.begin_batch();
        (0..count).map(|_| injector.treat()).collect()
    }

    #[test]
    fn answers_are_dropped_and_wrong_as_configured() {
        use Treatment::{Answer, Drop, Wrong};
        assert_eq!(treatments(&["drop-every=3", "wrong-every=2"], 6), [Answer, Wrong, Drop, Wrong, Answer, Drop]);
        assert_eq!(treatments(&["max-rate=20"], 4), [Answer, Answer, Drop, Drop]);
        assert_eq!(treatments(&["wrong-above=20"], 4), [Answer, Answer, Wrong, Wrong]);
    }

    #[test]
    fn a_server_stalls_when_it_is_due() {
        let mut injector = FaultInjector::new(faults(&["stall-every-ms=1", "stall-ms=30"]));
        thread::sleep(Duration::from_millis(2));
        let began = clock::monotonic_exact();
        injector.begin_batch();
        assert!(clock::monotonic_exact() - began >= Duration::from_millis(30));
    }

    #[test]
    fn unknown_faults_are_rejected() {
        assert_eq!(Fault::from_str("drop-every"), Err(FaultError::Form("drop-every".into())));
        assert_eq!(Fault::from_str("drop-every=x"), Err(FaultError::Form("drop-every=x".into())));
        assert_eq!(Fault::from_str("loss=1"), Err(FaultError::Name("loss".into())));
    }
}
