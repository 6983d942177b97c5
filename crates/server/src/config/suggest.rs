//! "Did you mean": the candidate nearest to a word that is not known.

/// Longer words are nobody's slip, and the comparison is quadratic.
const MAX_WORD_LEN: usize = 64;

/// The candidate nearest to `word`, if it is near enough to be meant.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.len() > MAX_WORD_LEN {
        return None;
    }
    let word = word.to_lowercase().replace('_', "-");
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(slips, _)| *slips <= allowed)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped { rows[i - 2][j - 2] + 1 } else { usize::MAX };
                replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(swap)
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_mended_and_strangers_are_not() {
        let keys = ["listen", "workers", "tcp-workers", "state-dir"];
        for (slip, meant) in [
            ("lisen", Some("listen")),
            ("litsen", Some("listen")),
            ("Listen", Some("listen")),
            ("tcp_workers", Some("tcp-workers")),
            ("worker", Some("workers")),
            ("statedir", Some("state-dir")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(slip, keys), meant, "{slip}");
        }
    }
}
