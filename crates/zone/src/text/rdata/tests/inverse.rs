//! Printing and parsing are inverse, for random octets of every type and for RDATA that is mostly valid.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use wire::rdata::{Form, RdataError, RdataField, check, fields_of, split};
use wire::{NameRef, Rtype};

use super::super::{parse, print};
use super::fields;

/// Parsing the printed text returns the same octets, with a violation if they have one, unless they are not RDATA of the type.
fn assert_inverse(rtype: Rtype, rdata: &[u8]) -> Result<(), TestCaseError> {
    let mut text = String::new();
    print(rtype, rdata, &mut text);
    let mut again = Vec::new();
    let result = parse(rtype, &fields(&text), NameRef::ROOT, &mut again);
    let checked = check(rtype, rdata);
    if let Err(error) = checked {
        prop_assert!(text.starts_with("\\#"), "{rtype} {text} is printed although {error}");
    }
    match checked {
        Ok(()) => prop_assert_eq!(result, Ok(None), "{} {}", rtype, text),
        Err(RdataError::Form(..)) => prop_assert!(matches!(result, Ok(Some(_))), "{rtype} {text}: {result:?}"),
        Err(error) => {
            prop_assert!(result.is_err(), "{rtype} {text} is parsed although {error}");
            return Ok(());
        }
    }
    prop_assert_eq!(again, rdata, "{} {}", rtype, text);
    Ok(())
}

fn any_type() -> impl Strategy<Value = Rtype> {
    prop_oneof![20 => select(Rtype::ALL), 1 => any::<u16>().prop_map(Rtype)]
}

/// RDATA that mostly passes the check of its type.
fn likely(rtype: Rtype) -> impl Strategy<Value = Vec<u8>> {
    let parts: Vec<BoxedStrategy<Vec<u8>>> = fields_of(rtype).iter().map(likely_part).collect();
    parts.prop_map(|parts| parts.concat())
}

fn likely_part(part: &RdataField) -> BoxedStrategy<Vec<u8>> {
    let octets = |len| prop::collection::vec(any::<u8>(), len);
    let string = |len| octets(len).prop_map(|string: Vec<u8>| [&[string.len() as u8], &string[..]].concat());
    let name = || {
        let label =
            prop::collection::vec(any::<u8>(), 1..9).prop_map(|label| [&[label.len() as u8], &label[..]].concat());
        prop::collection::vec(label, 0..4).prop_map(|labels| [labels.concat(), vec![0]].concat())
    };
    let strings = move || prop::collection::vec(string(0..20), 1..4).prop_map(|strings| strings.concat());
    match part.form {
        Form::CompressibleName | Form::Name | Form::PrefixName => name().boxed(),
        Form::Names => prop::collection::vec(name(), 0..3).prop_map(|names| names.concat()).boxed(),
        // Small numbers, so that gateway types, prefix lengths and priorities are often valid.
        Form::U8 | Form::Named8(_) | Form::PrefixLength => {
            select(vec![0, 1, 2, 3, 64, 61, 128, 255]).prop_map(|octet| vec![octet]).boxed()
        }
        Form::Discovery => select(vec![0, 1, 2, 0x83, 4]).prop_map(|octet| vec![octet]).boxed(),
        Form::U16 | Form::Named16(_) | Form::Type => octets(2..3).boxed(),
        Form::U32 | Form::Interval | Form::Time | Form::Addr4 => octets(4..5).boxed(),
        Form::U64 | Form::Locator64 => octets(8..9).boxed(),
        Form::Addr6 => octets(16..17).boxed(),
        Form::Eui(len) => octets(len..len + 1).boxed(),
        Form::CharString | Form::OptionalCharString | Form::Salt | Form::Hash => string(0..30).boxed(),
        Form::CharStrings => strings().boxed(),
        Form::Digits | Form::Decimal => {
            "[+-]?[0-9]{1,6}(\\.[0-9]{0,3})?".prop_map(|text| [&[text.len() as u8], text.as_bytes()].concat()).boxed()
        }
        Form::Tag => "[a-zA-Z0-9]{0,9}".prop_map(|text| [&[text.len() as u8], text.as_bytes()].concat()).boxed(),
        Form::Types(_) => likely_types().boxed(),
        Form::Location => likely_location().boxed(),
        Form::Prefixes => prop::collection::vec(likely_prefix(), 0..4).prop_map(|items| items.concat()).boxed(),
        Form::AddressSuffix => octets(0..17).boxed(),
        Form::Gateway(_) => prop_oneof![octets(0..1), octets(4..5), octets(16..17), name()].boxed(),
        Form::HostIdentity => (octets(1..9), octets(1..9))
            .prop_map(|(identity, key)| [&[identity.len() as u8, 2, 0, key.len() as u8], &identity[..], &key].concat())
            .boxed(),
        Form::SvcParams => likely_params().boxed(),
        Form::AtmAddress => prop_oneof![octets(2..9), "\u{1}[0-9]{1,9}".prop_map(String::into_bytes)].boxed(),
        _ => octets(0..40).boxed(),
    }
}

fn likely_types() -> impl Strategy<Value = Vec<u8>> {
    let window = |number| {
        prop::collection::vec(any::<u8>(), 1..6)
            .prop_map(move |bitmap| [&[number, bitmap.len() as u8], &bitmap[..]].concat())
    };
    (window(0), window(1), prop_oneof![Just(Vec::new()), window(255), window(0)])
        .prop_map(|(a, b, c)| [a, b, c].concat())
}

fn likely_location() -> impl Strategy<Value = Vec<u8>> {
    let size = || (0..=10u8, 0..=9u8).prop_map(|(digit, power)| digit << 4 | power);
    let angle = |limit: u32| (1 << 31) - limit * 3_600_000..=(1u32 << 31) + limit * 3_600_000 + 1;
    (0..=1u8, size(), size(), size(), angle(90), angle(180), any::<u32>()).prop_map(
        |(version, a, b, c, latitude, longitude, altitude)| {
            let numbers = [latitude, longitude, altitude].map(u32::to_be_bytes).concat();
            [&[version, a, b, c], &numbers[..]].concat()
        },
    )
}

fn likely_prefix() -> impl Strategy<Value = Vec<u8>> {
    (0..=3u8, 0..=33u8, any::<bool>(), prop::collection::vec(any::<u8>(), 0..6)).prop_map(
        |(family, prefix, negated, address)| {
            [&[0, family, prefix, u8::from(negated) << 7 | address.len() as u8], &address[..]].concat()
        },
    )
}

fn likely_params() -> impl Strategy<Value = Vec<u8>> {
    let values = vec![
        vec![],
        vec![0, 1],
        vec![0, 4, 0, 7],
        vec![2, b'h', b'2'],
        vec![1, b',', 2, b'\\', b'"', 1, 0],
        vec![192, 0, 2, 1],
        vec![0x20; 16],
        b"/dns-query{?dns}".to_vec(),
    ];
    let param = |keys: std::ops::Range<u16>| {
        (keys, select(values.clone()))
            .prop_map(|(key, value)| [&key.to_be_bytes()[..], &[0, value.len() as u8], &value].concat())
    };
    let all = (param(0..2), param(1..4), param(3..6), param(5..8), param(8..65535));
    (all, any::<u8>()).prop_map(|((a, b, c, d, e), which)| {
        [a, b, c, d, e]
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| which >> bit & 1 != 0)
            .flat_map(|(_, param)| param)
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_octets(rtype in any_type(), rdata in prop::collection::vec(any::<u8>(), 0..60)) {
        assert_inverse(rtype, &rdata)?;
    }

    #[test]
    fn likely_octets((rtype, rdata) in any_type().prop_flat_map(|rtype| (Just(rtype), likely(rtype)))) {
        assert_inverse(rtype, &rdata)?;
    }

    #[test]
    fn likely_octets_with_a_mistake(
        (rtype, rdata) in any_type().prop_flat_map(|rtype| (Just(rtype), likely(rtype))),
        place in any::<Index>(),
        octet in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut rdata = rdata;
        if !rdata.is_empty() {
            let place = place.index(rdata.len());
            rdata[place] = octet;
            if cut {
                rdata.truncate(place);
            }
        }
        assert_inverse(rtype, &rdata)?;
    }

    /// Parsing random fields never panics; parsed RDATA passes the check or has a violation, and is printed and parsed again.
    #[test]
    fn random_text(rtype in any_type(), text in "([0-9a-zA-Z+/=.:@!-]{1,8}|\"[^\"\\\\\n]{0,9}\"|\\\\[0-9]{0,4}|[0-9]{1,3})( ([0-9]{1,5}|[a-zA-Z.:=,-]{1,9}|AA==|\\.|A|\"[a-z ]*\")){0,8}") {
        let mut rdata = Vec::new();
        if let Ok(violation) = parse(rtype, &fields(&text), NameRef::ROOT, &mut rdata) {
            prop_assert!(violation.is_some() || check(rtype, &rdata) == Ok(()), "{rtype} {text}");
            assert_inverse(rtype, &rdata)?;
        }
    }

    /// `split` covers every octet once, or ends with one error.
    #[test]
    fn split_is_complete(rtype in any_type(), rdata in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut at = 0;
        let mut walk = split(rtype, &rdata);
        while let Some(Ok((_, place))) = walk.next() {
            prop_assert_eq!(place.start, at);
            at = place.end;
        }
        prop_assert!(at == rdata.len() || check(rtype, &rdata).is_err());
        prop_assert!(walk.next().is_none());
    }
}
