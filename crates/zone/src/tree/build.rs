//! Bulk loading: builds a tree bottom-up from sorted entries.

use std::sync::Arc;

use super::block::BlockEncoder;
use super::tree_entry::common_len;
use super::{Children, FAN_OUT, Inner, LEAF_SIZE, Leaf, MAX_DEPTH, Root, Tree};

/// Builds leaves from entries in key order.
#[derive(Default)]
pub struct TreeBuilder {
    encoder: BlockEncoder,
    leaves: Vec<(Separator, Leaf)>,
    last_key: Vec<u8>,
    /// The octets of the complete leaves that were encoded here.
    octets: usize,
}

/// A lower bound: at or before the first key of a node, and after all keys of the preceding node.
pub(crate) type Separator = Box<[u8]>;

impl TreeBuilder {
    /// Appends an entry; its key must sort after all others.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.encoder.count() > 0 && self.encoder.size() + key.len() + value.len() > LEAF_SIZE {
            self.close_leaf();
        }
        self.encoder.push(key, value);
    }

    /// The number of complete leaves.
    pub(crate) fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// The octets of the complete leaves that were encoded here.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// Whether [`Self::push_leaf`] would leave no small leaf behind.
    pub(crate) fn is_at_leaf_start(&self) -> bool {
        self.encoder.count() == 0 || self.encoder.size() >= LEAF_SIZE / 2
    }

    /// Appends all entries of a leaf, which must sort after all others, by sharing it.
    pub(crate) fn push_leaf(&mut self, leaf: Leaf) {
        if self.encoder.count() > 0 {
            self.close_leaf();
        }
        let block = leaf.block();
        let mut first = Vec::new();
        block.entry(0).append_key(&mut first);
        let separator = separate(&self.last_key, &first);
        self.last_key.clear();
        block.entry(block.count() - 1).append_key(&mut self.last_key);
        self.leaves.push((separator, leaf));
    }

    /// The leaves in key order.
    pub(crate) fn finish_leaves(self) -> impl Iterator<Item = Leaf> {
        self.into_leaves().0.into_iter().map(|(_, leaf)| leaf)
    }

    /// The tree of all entries.
    pub fn finish(self) -> Tree {
        TreeBuilder::join([self])
    }

    /// The tree of the entries of several builders, whose key ranges are in ascending order.
    pub fn join(builders: impl IntoIterator<Item = TreeBuilder>) -> Tree {
        let mut leaves: Vec<(Separator, Leaf)> = Vec::new();
        let mut last_key = Vec::new();
        for builder in builders {
            let (mut more, last) = builder.into_leaves();
            if let Some((separator, leaf)) = more.first_mut() {
                let mut first = Vec::new();
                leaf.block().entry(0).append_key(&mut first);
                *separator = separate(&last_key, &first);
                last_key = last;
            }
            leaves.append(&mut more);
        }
        Tree { root: build_root(leaves) }
    }

    /// The leaves and the last key.
    pub(super) fn into_leaves(mut self) -> (Vec<(Separator, Leaf)>, Vec<u8>) {
        if self.encoder.count() > 0 {
            self.close_leaf();
        }
        (self.leaves, self.last_key)
    }

    fn close_leaf(&mut self) {
        let separator = separate(&self.last_key, self.encoder.key(0));
        self.last_key.clear();
        self.last_key.extend_from_slice(self.encoder.key(self.encoder.count() - 1));
        let leaf = self.encoder.finish();
        self.octets += leaf.len();
        self.leaves.push((separator, Leaf::of(leaf)));
    }
}

/// The shortest key greater than `last` and not greater than `first`.
pub(super) fn separate(last: &[u8], first: &[u8]) -> Separator {
    let len = (common_len(last, first) + 1).min(first.len());
    first[..len].into()
}

/// Builds levels of inner nodes over `leaves` up to a single root.
pub(super) fn build_root(mut leaves: Vec<(Separator, Leaf)>) -> Root {
    match leaves.len() {
        0 => Root::empty(),
        1 => Root::Leaf(leaves.remove(0).1),
        _ => build_levels(group(leaves, Children::Leaf)),
    }
}

/// Builds levels of inner nodes over `nodes`, at least one, up to a single root.
pub(super) fn build_levels(mut nodes: Vec<(Separator, Arc<Inner>)>) -> Root {
    for _ in 0..MAX_DEPTH {
        if nodes.len() == 1 {
            return Root::Inner(nodes.remove(0).1);
        }
        nodes = group(nodes, Children::Inner);
    }
    unreachable!("{MAX_DEPTH} levels hold more nodes than fit in memory")
}

/// Groups nodes under inner nodes of at most [`FAN_OUT`] children, evenly.
pub(super) fn group<N>(
    nodes: Vec<(Separator, N)>,
    wrap: impl Fn(Box<[N]>) -> Children,
) -> Vec<(Separator, Arc<Inner>)> {
    let count = nodes.len();
    let groups = count.div_ceil(FAN_OUT);
    let mut nodes = nodes.into_iter();
    (0..groups)
        .map(|i| {
            let len = count * (i + 1) / groups - count * i / groups;
            let (separators, children): (Vec<Separator>, Vec<N>) = nodes.by_ref().take(len).unzip();
            inner(separators, wrap(children.into()))
        })
        .collect()
}

fn inner(mut separators: Vec<Separator>, children: Children) -> (Separator, Arc<Inner>) {
    let mut encoder = BlockEncoder::default();
    for separator in &separators[1..] {
        encoder.push(separator, &[]);
    }
    let block = if encoder.count() > 0 { encoder.finish() } else { &[] };
    (separators.swap_remove(0), Arc::new(Inner { separators: block.into(), children }))
}
