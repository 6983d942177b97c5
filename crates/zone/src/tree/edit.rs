//! Applying edits: a new version of the tree that shares all unchanged nodes with the old one.

use std::sync::Arc;

use super::build::{Separator, TreeBuilder, build_levels, build_root, group};
use super::{Children, Inner, LEAF_SIZE, Leaf, Node, Root, Tree, TreeRef};

/// One change: the new value of a key, or its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEdit {
    /// The key.
    pub key: Box<[u8]>,
    /// The new value; `None` removes the entry.
    pub value: Option<Box<[u8]>>,
}

/// Adjacent leaves smaller than this, in octets, are merged.
const SMALL_LEAF: usize = LEAF_SIZE / 3;

impl TreeRef<'_> {
    /// The tree after `edits`, which must be sorted by key without duplicates. The cost depends on the edits, not on the tree.
    pub fn apply(self, edits: &[TreeEdit]) -> Tree {
        debug_assert!(edits.is_sorted_by(|a, b| a.key < b.key), "edits are sorted, without duplicate keys");
        if edits.is_empty() {
            return self.to_tree();
        }
        let root = match self.root {
            Node::Leaf(_) if self.is_empty() => build_root(rewrite_leaf(None, edits)),
            Node::Leaf(leaf) => build_root(rewrite_leaf(Some(leaf), edits)),
            Node::Inner(inner) => match rewrite(inner, edits) {
                nodes if nodes.is_empty() => Root::empty(),
                nodes => collapse(build_levels(nodes)),
            },
        };
        Tree { root }
    }

    /// The tree with another value of its first entry, which it must have.
    pub(crate) fn with_first_value(self, value: Box<[u8]>) -> Tree {
        let mut key = Vec::new();
        self.first().expect("the tree is not empty").append_key(&mut key);
        self.apply(&[TreeEdit { key: key.into(), value: Some(value) }])
    }
}

/// Removes top levels that have a single child.
fn collapse(mut root: Root) -> Root {
    loop {
        root = match &root {
            Root::Inner(inner) if inner.child_count() == 1 => match &inner.children {
                Children::Inner(nodes) => Root::Inner(nodes[0].clone()),
                Children::Leaf(leaves) => Root::Leaf(leaves[0].clone()),
            },
            _ => return root,
        };
    }
}

/// The replacements of `inner`: none if it became empty, several if it was split.
fn rewrite(inner: &Inner, edits: &[TreeEdit]) -> Vec<(Separator, Arc<Inner>)> {
    match &inner.children {
        Children::Inner(nodes) => match rewrite_children(inner, nodes, edits, |node, edits| rewrite(node, edits)) {
            Rewritten::InPlace(nodes) => same_shape(inner, Children::Inner(nodes)),
            Rewritten::Reshaped(nodes) => group(nodes, Children::Inner),
        },
        Children::Leaf(leaves) => {
            match rewrite_children(inner, leaves, edits, |leaf, edits| rewrite_leaf(Some(leaf), edits)) {
                Rewritten::InPlace(leaves) if !leaves.iter().any(Leaf::is_small) => {
                    same_shape(inner, Children::Leaf(leaves))
                }
                Rewritten::InPlace(leaves) => group(merge_small(with_separators(inner, leaves)), Children::Leaf),
                Rewritten::Reshaped(leaves) => group(merge_small(leaves), Children::Leaf),
            }
        }
    }
}

/// The children of a node after its edits.
enum Rewritten<N> {
    /// One for each old one: the separators still hold.
    InPlace(Box<[N]>),
    /// At least one child was split or became empty.
    Reshaped(Vec<(Separator, N)>),
}

fn same_shape(inner: &Inner, children: Children) -> Vec<(Separator, Arc<Inner>)> {
    vec![(Separator::default(), Arc::new(Inner { separators: inner.separators.clone(), children }))]
}

/// Pairs each child with its separator; that of the first child is left empty, as the caller knows it.
fn with_separators<N>(inner: &Inner, children: Box<[N]>) -> Vec<(Separator, N)> {
    let separator = |index: usize| index.checked_sub(1).map_or(Separator::default(), |at| inner.separator(at));
    children.into_iter().enumerate().map(|(index, child)| (separator(index), child)).collect()
}

/// Applies to each child the edits in its key range; children without edits are shared.
fn rewrite_children<N: Clone>(
    inner: &Inner,
    children: &[N],
    mut edits: &[TreeEdit],
    rewrite: impl Fn(&N, &[TreeEdit]) -> Vec<(Separator, N)>,
) -> Rewritten<N> {
    let mut changed: Vec<(usize, Vec<(Separator, N)>)> = Vec::new();
    while let Some(edit) = edits.first() {
        let index = inner.child_index(&edit.key);
        let is_last = index + 1 == children.len();
        let upper = if is_last { None } else { Some(inner.separator(index)) };
        let mine = upper.map_or(edits.len(), |upper| edits.partition_point(|edit| edit.key < upper));
        let (now, later) = edits.split_at(mine);
        changed.push((index, rewrite(&children[index], now)));
        edits = later;
    }
    let mut nodes = children.to_vec();
    if changed.iter().all(|(_, nodes)| nodes.len() == 1) {
        for (index, mut with) in changed {
            nodes[index] = with.remove(0).1;
        }
        return Rewritten::InPlace(nodes.into());
    }
    let mut nodes: Vec<_> = with_separators(inner, nodes.into()).into_iter().map(|node| vec![node]).collect();
    for (index, mut with) in changed {
        // The first replacement keeps the separator of the old child.
        if let Some((separator, _)) = with.first_mut() {
            *separator = std::mem::take(&mut nodes[index][0].0);
        }
        nodes[index] = with;
    }
    Rewritten::Reshaped(nodes.into_iter().flatten().collect())
}

/// The replacements of `leaf`: its entries merged with the edits.
fn rewrite_leaf(leaf: Option<&Leaf>, edits: &[TreeEdit]) -> Vec<(Separator, Leaf)> {
    let mut builder = TreeBuilder::default();
    let mut edits = edits.iter().peekable();
    let mut key = Vec::new();
    let block = leaf.map(Leaf::block);
    for entry in block.iter().flat_map(|block| (0..block.count()).map(|index| block.entry(index))) {
        key.clear();
        entry.append_key(&mut key);
        while let Some(edit) = edits.next_if(|edit| *edit.key < *key) {
            push(&mut builder, edit);
        }
        match edits.next_if(|edit| *edit.key == *key) {
            Some(edit) => push(&mut builder, edit),
            None => builder.push(&key, entry.value),
        }
    }
    edits.for_each(|edit| push(&mut builder, edit));
    builder.into_leaves().0
}

fn push(builder: &mut TreeBuilder, edit: &TreeEdit) {
    if let Some(value) = &edit.value {
        builder.push(&edit.key, value);
    }
}

impl Leaf {
    fn is_small(&self) -> bool {
        self.0.len() < SMALL_LEAF
    }
}

/// Merges adjacent leaves that are both small.
fn merge_small(leaves: Vec<(Separator, Leaf)>) -> Vec<(Separator, Leaf)> {
    let mut out: Vec<(Separator, Leaf)> = Vec::with_capacity(leaves.len());
    for (separator, leaf) in leaves {
        match out.last_mut() {
            Some((_, last)) if last.is_small() && leaf.is_small() => *last = merge(last, &leaf),
            _ => out.push((separator, leaf)),
        }
    }
    out
}

fn merge(left: &Leaf, right: &Leaf) -> Leaf {
    let mut encoder = super::block::BlockEncoder::default();
    let mut key = Vec::new();
    for block in [left.block(), right.block()] {
        for entry in (0..block.count()).map(|index| block.entry(index)) {
            key.clear();
            entry.append_key(&mut key);
            encoder.push(&key, entry.value);
        }
    }
    Leaf::of(encoder.finish())
}
