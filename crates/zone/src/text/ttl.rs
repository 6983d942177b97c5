//! TTL syntax: seconds, or numbers with units as in `1w2d3h4m5s`, which BIND introduced.

/// Help for errors.
pub(super) const HELP: &str = "write seconds, or numbers with units as in 1w2d3h4m5s";

/// Parses a TTL or another interval of seconds, which may be larger than the largest TTL; an error is a predicate.
pub(super) fn parse(text: &[u8]) -> Result<u32, &'static str> {
    let (mut total, mut number, mut is_number, mut has_units) = (0, 0, false, false);
    for &byte in text {
        if byte.is_ascii_digit() {
            number = (number * 10 + u64::from(byte - b'0')).min(TOO_LARGE);
            is_number = true;
        } else if is_number {
            total = (total + number * seconds(byte)?).min(TOO_LARGE);
            (number, is_number, has_units) = (0, false, true);
        } else {
            return Err("is not a number of seconds");
        }
    }
    match (is_number, has_units) {
        (false, false) => Err("is not a number of seconds"),
        (true, true) => Err("has a last number without a unit"),
        _ => u32::try_from(total + number).map_err(|_| "does not fit in 32 bits"),
    }
}

/// Sums saturate at this value: it does not fit in 32 bits; ten times it, or times a week, fits in 64.
const TOO_LARGE: u64 = 1 << 32;

fn seconds(unit: u8) -> Result<u64, &'static str> {
    match unit.to_ascii_lowercase() {
        b's' => Ok(1),
        b'm' => Ok(60),
        b'h' => Ok(3600),
        b'd' => Ok(86_400),
        b'w' => Ok(604_800),
        _ => Err("has an unknown unit"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_units() {
        for (text, seconds) in [
            ("0", 0),
            ("3600", 3600),
            ("0003600", 3600),
            ("1w2d3h4m5s", 788_645),
            ("1W2D3H4M5S", 788_645),
            ("90m", 5400),
            ("4294967295", u32::MAX),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn errors() {
        for (text, error) in [
            ("", "is not a number of seconds"),
            ("h", "is not a number of seconds"),
            ("-1", "is not a number of seconds"),
            ("1h30", "has a last number without a unit"),
            ("1y", "has an unknown unit"),
            ("1hm", "is not a number of seconds"),
            ("4294967296", "does not fit in 32 bits"),
            ("99999999999999999999999999w", "does not fit in 32 bits"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(error), "{text}");
        }
    }
}
