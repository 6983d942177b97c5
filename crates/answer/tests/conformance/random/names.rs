//! Names from few labels: many are equal, ancestors of each other, or differ only in case.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::Name;

use crate::oracle::zone::join;

/// Possible apexes; those without a zone are ordinary names.
pub const APEXES: [&str; 6] = [".", "z.", "a.z.", "b.a.z.", "*.z.", "\\000\\..y."];

/// Labels, one after another, in wire form: the front of a name.
pub type Front = Vec<u8>;

/// One label in wire form.
pub fn labels() -> impl Strategy<Value = Front> {
    prop_oneof![
        10 => Just(b"\x01a".to_vec()),
        8 => Just(b"\x01b".to_vec()),
        2 => Just(b"\x01c".to_vec()),
        2 => Just(b"\x01B".to_vec()),
        4 => Just(b"\x01*".to_vec()),
        1 => Just(b"\x01\x00".to_vec()),
        1 => Just(b"\x01\x01".to_vec()),
        1 => Just(b"\x03a.b".to_vec()),
        1 => Just(b"\x02\\\xff".to_vec()),
        1 => Just([&[63], [b'l'; 63].as_slice()].concat()),
    ]
}

/// Up to three labels, mostly one or two.
pub fn fronts() -> impl Strategy<Value = Front> {
    prop_oneof![2 => 0..1usize, 6 => 1..2usize, 4 => 2..3usize, 1 => 3..4usize]
        .prop_flat_map(|count| vec(labels(), count))
        .prop_map(|labels| labels.concat())
}

/// A name in or near one of the zones.
pub fn names() -> impl Strategy<Value = Name> {
    (fronts(), proptest::sample::select(APEXES.as_slice()))
        .prop_map(|(front, apex)| join(&front, &name(apex)).expect("three long labels and an apex fit"))
}

/// The name with the case of those letters inverted whose bit is set.
pub fn with_case(name: &Name, bits: u64) -> Name {
    let turn = |(at, &octet): (usize, &u8)| {
        let flip = octet.is_ascii_alphabetic() && bits >> (at % 64) & 1 == 1;
        if flip { octet ^ 0x20 } else { octet }
    };
    // Length octets are at most 63, so never letters.
    let wire: Vec<u8> = name.wire().iter().enumerate().map(turn).collect();
    Name::from_wire(&wire).expect("the same name in another case")
}

/// A name of this file's constants.
pub fn name(text: &str) -> Name {
    text.parse().expect("a constant of the tests")
}
