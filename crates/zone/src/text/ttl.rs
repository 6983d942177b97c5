//! TTLs in zone text: seconds, or numbers with units as in `1w2d3h4m5s` (RFC 2308 4, as BIND has it).

/// The largest TTL (RFC 2181 8).
pub(super) const MAX: u32 = i32::MAX as u32;

/// How a TTL is written, for messages.
pub(super) const HELP: &str = "a TTL is a number of seconds, or has units as in 1d12h";

/// Reads a TTL; an error is a message about what is wrong with it. May be larger than [`MAX`].
pub(super) fn parse(text: &[u8]) -> Result<u32, &'static str> {
    let (mut total, mut rest, mut has_units) = (0u64, text, false);
    loop {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = number(&rest[..digits])?;
        let Some(&unit) = rest.get(digits) else {
            return if has_units { Err("the last number of the TTL has no unit") } else { fit(number) };
        };
        total = total.saturating_add(number.saturating_mul(seconds(unit)?));
        has_units = true;
        rest = &rest[digits + 1..];
        if rest.is_empty() {
            return fit(total);
        }
    }
}

fn number(digits: &[u8]) -> Result<u64, &'static str> {
    if digits.is_empty() {
        return Err("the TTL is not a number");
    }
    Ok(digits.iter().fold(0u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

fn seconds(unit: u8) -> Result<u64, &'static str> {
    match unit.to_ascii_lowercase() {
        b's' => Ok(1),
        b'm' => Ok(60),
        b'h' => Ok(3600),
        b'd' => Ok(86_400),
        b'w' => Ok(604_800),
        _ => Err("the TTL has an unknown unit"),
    }
}

fn fit(seconds: u64) -> Result<u32, &'static str> {
    u32::try_from(seconds).map_err(|_| "the TTL does not fit in 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 2308 4 and BIND: seconds, or units in either case.
    #[test]
    fn good() {
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
    fn bad() {
        for (text, error) in [
            ("", "the TTL is not a number"),
            ("h", "the TTL is not a number"),
            ("-1", "the TTL is not a number"),
            ("1h30", "the last number of the TTL has no unit"),
            ("1y", "the TTL has an unknown unit"),
            ("1hm", "the TTL is not a number"),
            ("4294967296", "the TTL does not fit in 32 bits"),
            ("99999999999999999999999999w", "the TTL does not fit in 32 bits"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(error), "{text}");
        }
    }
}
