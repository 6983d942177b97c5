//! Matches the question of a response.

use wire::HEADER_LEN;

/// Whether a response repeats the question (RFC 5452 9.1). An error response may leave it out.
#[inline]
pub(crate) fn matches_question(question: &[u8], response: &[u8]) -> bool {
    match [response[4], response[5]] {
        [0, 1] => response[HEADER_LEN..]
            .get(..question.len())
            .is_some_and(|repeated| repeated == question || is_same_question(repeated, question)),
        [0, 0] => response[3] & 0x0f != 0 || response[2] & 0x78 != 0,
        _ => false,
    }
}

/// Compares names in any case (RFC 4343); length octets are below 64, so they are no letters.
fn is_same_question(repeated: &[u8], question: &[u8]) -> bool {
    let (repeated_name, repeated_rest) = repeated.split_at(repeated.len() - 4);
    let (name, rest) = question.split_at(question.len() - 4);
    repeated_rest == rest && repeated_name.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_repeat_the_question_in_any_case() {
        let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
        let response = |count: u8, rcode: u8, question: &[u8]| {
            [&[0, 0, 0x80, rcode, 0, count, 0, 0, 0, 0, 0, 0], question].concat()
        };
        assert!(matches_question(question, &response(1, 0, question)));
        assert!(matches_question(question, &response(1, 0, b"\x03wWw\x07EXAMPLE\x00\x00\x01\x00\x01")));
        assert!(!matches_question(question, &response(1, 0, b"\x03www\x07example\x00\x00\x1c\x00\x01")));
        assert!(!matches_question(question, &response(1, 0, &question[..9])));
        assert!(matches_question(question, &response(0, 1, b"")), "FORMERR without a question");
        assert!(!matches_question(question, &response(0, 0, b"")));
    }
}
