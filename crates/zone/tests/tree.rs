//! Property tests of the tree with a `BTreeMap` as the model: random entries, edits and searches.

use std::collections::BTreeMap;

use proptest::prelude::*;
use zone::tree::{Tree, TreeBuilder, TreeEdit, TreeEntry};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key_of(entry: TreeEntry<'_>) -> Vec<u8> {
    let mut key = Vec::new();
    entry.append_key(&mut key);
    key
}

fn build(model: &Model) -> Tree {
    let mut builder = TreeBuilder::default();
    model.iter().for_each(|(key, value)| builder.push(key, value));
    builder.finish()
}

fn edits(changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Vec<TreeEdit> {
    let edit = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| TreeEdit {
        key: key.as_slice().into(),
        value: value.as_ref().map(|value| value.as_slice().into()),
    };
    changes.iter().map(edit).collect()
}

fn check(tree: &Tree, model: &Model, probes: &[Vec<u8>]) {
    let tree = tree.as_ref();
    let all: Vec<_> = tree.iter().map(|entry| (key_of(entry), entry.value.to_vec())).collect();
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(all, expected);
    assert_eq!(tree.is_empty(), model.is_empty());
    for probe in probes {
        assert_eq!(tree.get(probe), model.get(probe).map(Vec::as_slice));
        let mut cursor = tree.seek(probe);
        let at = model.range(..=probe.clone()).next_back();
        assert_eq!(cursor.entry().map(key_of).as_ref(), at.map(|(key, _)| key));
        assert_eq!(cursor.is_exact(), model.contains_key(probe));
        let after = model.range::<[u8], _>((std::ops::Bound::Excluded(&probe[..]), std::ops::Bound::Unbounded)).next();
        assert_eq!(cursor.next().map(key_of).as_ref(), after.map(|(key, _)| key));
        assert_eq!(cursor.prev().map(key_of).as_ref(), at.map(|(key, _)| key));
        let before = model.range(..probe.clone()).next_back();
        let mut cursor = tree.seek(probe);
        if cursor.is_exact() {
            assert_eq!(cursor.prev().map(key_of).as_ref(), before.map(|(key, _)| key));
        }
    }
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-c]{0,6}".prop_map(String::into_bytes),
        2 => (0u32..5000).prop_map(|n| format!("host{n}\0").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..40), 1 => prop::collection::vec(any::<u8>(), 0..9000)]
}

/// Miri is about a hundred times slower.
const SLOWNESS: usize = if cfg!(miri) { 24 } else { 1 };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96 / SLOWNESS as u32))]
    #[test]
    fn behaves_like_a_btreemap(
        first in prop::collection::btree_map(keys(), values(), 0..400 / SLOWNESS),
        changes in prop::collection::vec(prop::collection::btree_map(keys(), prop::option::of(values()), 0..200 / SLOWNESS), 0..4),
        probes in prop::collection::vec(keys(), 0..60),
    ) {
        let mut model = first;
        let mut tree = build(&model);
        check(&tree, &model, &probes);
        for change in changes {
            let (old, old_model) = (tree.clone(), model.clone());
            tree = tree.as_ref().apply(&edits(&change));
            for (key, value) in change {
                match value {
                    Some(value) => { model.insert(key, value); }
                    None => { model.remove(&key); }
                }
            }
            check(&tree, &model, &probes);
            check(&old, &old_model, &[]);
        }
        let all = model.keys().map(|key| (key.clone(), None)).collect();
        check(&tree.as_ref().apply(&edits(&all)), &Model::new(), &probes);
    }

    #[test]
    fn joined_builders_make_one_tree(
        model in prop::collection::btree_map(keys(), values(), 0..400 / SLOWNESS),
        cut in keys(),
    ) {
        let (mut low, mut high) = (TreeBuilder::default(), TreeBuilder::default());
        for (key, value) in &model {
            if *key < cut { low.push(key, value) } else { high.push(key, value) }
        }
        let probes: Vec<_> = model.keys().cloned().chain([cut]).collect();
        check(&TreeBuilder::join([low, high]), &model, &probes);
    }
}
