//! "Did you mean ...": the known word nearest to a mistyped one. For messages only.

/// The candidate that differs from `word` by one typing mistake, or by two if the word is long; case does not count.
pub(super) fn nearest<T: AsRef<[u8]>>(word: &[u8], candidates: impl IntoIterator<Item = T>) -> Option<T> {
    // No mnemonic or directive is longer than 10 octets; this bounds the work.
    if word.len() > 12 {
        return None;
    }
    let allowed = match word.len() {
        0..=2 => return None,
        3..=5 => 1,
        _ => 2,
    };
    let distances = candidates.into_iter().map(|candidate| (distance(word, candidate.as_ref()), candidate));
    distances.filter(|(distance, _)| *distance <= allowed).min_by_key(|(distance, _)| *distance).map(|found| found.1)
}

/// How many octets must be put in, left out, replaced, or swapped with their neighbour.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let same = |i: usize, j: usize| a[i].eq_ignore_ascii_case(&b[j]);
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut row = vec![i + 1; b.len() + 1];
        for j in 0..b.len() {
            row[j + 1] = (last[j] + usize::from(!same(i, j))).min(row[j] + 1).min(last[j + 1] + 1);
            if i > 0 && j > 0 && same(i, j - 1) && same(i - 1, j) {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_word() {
        let words = ["CNAME", "DNAME", "DNSKEY", "NSEC3PARAM", "MX", "TXT"];
        for (word, expected) in [
            ("CNMAE", Some("CNAME")),
            ("cnam", Some("CNAME")),
            ("DNSEKY", Some("DNSKEY")),
            ("NSEC3PRAMA", Some("NSEC3PARAM")),
            ("TXTT", Some("TXT")),
            ("XY", None),
            ("WWW", None),
            ("A-VERY-LONG-WORD", None),
        ] {
            assert_eq!(nearest(word.as_bytes(), words), expected, "{word}");
        }
    }

    #[test]
    fn distances() {
        for (a, b, steps) in [("", "", 0), ("a", "", 1), ("ab", "BA", 1), ("abc", "axc", 1), ("kitten", "sitting", 3)] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), steps, "{a} {b}");
        }
    }
}
