//! Numbers on the command line, with their limits.

/// The longest duration, about four months.
pub const MAX_SECONDS: f64 = 1e7;

/// A share, from 0 to 1.
pub fn share(text: &str) -> Result<f64, String> {
    number(text, |number| (0.0..=1.0).contains(&number), "a number from 0 to 1")
}

/// A rate per second. Send times are in nanoseconds, hence the upper limit.
pub fn rate(text: &str) -> Result<f64, String> {
    number(text, |number| (1e-6..=1e9).contains(&number), "a number from 0.000001 to 1000000000")
}

/// A duration in seconds, up to about four months.
pub fn seconds(text: &str) -> Result<f64, String> {
    number(text, |number| number > 0.0 && number <= MAX_SECONDS, "a number above 0, at most 10000000")
}

/// As [`seconds`], or 0.
pub fn seconds_or_none(text: &str) -> Result<f64, String> {
    number(text, |number| (0.0..=MAX_SECONDS).contains(&number), "a number from 0 to 10000000")
}

/// A reporting interval, in seconds.
pub fn interval(text: &str) -> Result<f64, String> {
    number(text, |number| (0.001..=MAX_SECONDS).contains(&number), "a number from 0.001 to 10000000")
}

pub fn percent(text: &str) -> Result<f64, String> {
    number(text, |number| (0.01..=100.0).contains(&number), "a number from 0.01 to 100")
}

pub fn positive(text: &str) -> Result<f64, String> {
    number(text, |number| number > 0.0 && number.is_finite(), "a number above 0")
}

pub fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |number| number >= 0.0 && number.is_finite(), "a number from 0 up")
}

fn number(text: &str, is_allowed: impl Fn(f64) -> bool, wanted: &str) -> Result<f64, String> {
    text.parse().ok().filter(|&number| is_allowed(number)).ok_or_else(|| format!("must be {wanted}"))
}
