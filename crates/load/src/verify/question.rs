//! Whether a message answers a question at all.

use wire::HEADER_LEN;

/// RFC 5452 9.1: an answer repeats the question. One that says no to the whole message may leave it out.
#[inline]
pub(crate) fn is_answer_to(question: &[u8], answer: &[u8]) -> bool {
    match [answer[4], answer[5]] {
        [0, 1] => answer[HEADER_LEN..]
            .get(..question.len())
            .is_some_and(|repeated| repeated == question || is_same_question(repeated, question)),
        [0, 0] => answer[3] & 0x0f != 0 || answer[2] & 0x78 != 0,
        _ => false,
    }
}

/// Names are equal whatever their case (RFC 4343); length octets are below 64 and no letters.
fn is_same_question(repeated: &[u8], question: &[u8]) -> bool {
    let (repeated_name, repeated_rest) = repeated.split_at(repeated.len() - 4);
    let (name, rest) = question.split_at(question.len() - 4);
    repeated_rest == rest && repeated_name.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_repeat_the_question_in_any_case() {
        let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
        let answer = |count: u8, rcode: u8, question: &[u8]| {
            [&[0, 0, 0x80, rcode, 0, count, 0, 0, 0, 0, 0, 0], question].concat()
        };
        assert!(is_answer_to(question, &answer(1, 0, question)));
        assert!(is_answer_to(question, &answer(1, 0, b"\x03wWw\x07EXAMPLE\x00\x00\x01\x00\x01")));
        assert!(!is_answer_to(question, &answer(1, 0, b"\x03www\x07example\x00\x00\x1c\x00\x01")));
        assert!(!is_answer_to(question, &answer(1, 0, &question[..9])));
        assert!(is_answer_to(question, &answer(0, 1, b"")), "FORMERR may come without a question");
        assert!(!is_answer_to(question, &answer(0, 0, b"")));
    }
}
