//! "Did you mean": the known word nearest to a misspelled one.

/// Longer words are not compared: the cost is quadratic.
const MAX_WORD_LEN: usize = 64;

/// The candidate nearest to `word`, ignoring case, if it differs by at most a third of the letters and at most three.
pub fn nearest<T: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = T>) -> Option<T> {
    if !(3..=MAX_WORD_LEN).contains(&word.len()) {
        return None;
    }
    let allowed = (word.len() / 3).min(3);
    let word = word.to_ascii_lowercase();
    let distance = |candidate: &T| strsim::osa_distance(&word, &candidate.as_ref().to_ascii_lowercase());
    let distances = candidates.into_iter().map(|candidate| (distance(&candidate), candidate));
    distances
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|nearest| nearest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word() {
        let words = ["CNAME", "DNAME", "DNSKEY", "NSEC3PARAM", "MX", "TXT", "tcp-workers"];
        for (word, expected) in [
            ("CNMAE", Some("CNAME")),
            ("cnam", Some("CNAME")),
            ("DNSEKY", Some("DNSKEY")),
            ("NSEC3PRAMA", Some("NSEC3PARAM")),
            ("TXTT", Some("TXT")),
            ("tcp_workers", Some("tcp-workers")),
            ("XY", None),
            ("", None),
            ("WWW", None),
            ("A-VERY-LONG-WORD", None),
        ] {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
    }
}
