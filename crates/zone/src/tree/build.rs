//! Building a tree from the bottom up, from entries that come in order.

use std::sync::Arc;

use super::block::{Encoder, common_len};
use super::{Children, FAN_OUT, Inner, LEAF_SIZE, Leaf, MAX_DEPTH, Root, Tree};

/// Takes entries in the order of their keys and packs them into leaves.
#[derive(Default)]
pub struct TreeBuilder {
    encoder: Encoder,
    leaves: Vec<(Separator, Leaf)>,
    last_key: Vec<u8>,
}

/// A key at or before the first one of a node and behind all of the node before it.
pub(crate) type Separator = Box<[u8]>;

impl TreeBuilder {
    /// Adds an entry; its key must sort behind all before it.
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.encoder.count() > 0 && self.encoder.size() + key.len() + value.len() > LEAF_SIZE {
            self.close_leaf();
        }
        self.encoder.push(key, value);
    }

    /// The tree of all entries.
    pub fn finish(self) -> Tree {
        TreeBuilder::join([self])
    }

    /// The tree of what several builders took, each a range of keys behind that of the one before.
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
        Tree { root: grow(leaves) }
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
        self.leaves.push((separator, Leaf(self.encoder.finish().into())));
    }
}

/// The shortest key that is greater than `last` and not greater than `first`.
pub(super) fn separate(last: &[u8], first: &[u8]) -> Separator {
    let len = (common_len(last, first) + 1).min(first.len());
    first[..len].into()
}

/// Stacks inner nodes over leaves until there is one root.
pub(super) fn grow(mut leaves: Vec<(Separator, Leaf)>) -> Root {
    match leaves.len() {
        0 => Root::Empty,
        1 => Root::Leaf(leaves.remove(0).1),
        _ => grow_inner(group(leaves, Children::Leaf)),
    }
}

/// Stacks inner nodes over inner nodes until there is one root; there must be at least one.
pub(super) fn grow_inner(mut nodes: Vec<(Separator, Arc<Inner>)>) -> Root {
    for _ in 0..MAX_DEPTH {
        if nodes.len() == 1 {
            return Root::Inner(nodes.remove(0).1);
        }
        nodes = group(nodes, Children::Inner);
    }
    unreachable!("{MAX_DEPTH} levels hold more nodes than memory does")
}

/// Makes inner nodes of at most [`FAN_OUT`] children, as even as can be.
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
    let mut encoder = Encoder::default();
    for separator in &separators[1..] {
        encoder.push(separator, &[]);
    }
    let block = if encoder.count() > 0 { encoder.finish() } else { &[] };
    (separators.swap_remove(0), Arc::new(Inner { separators: block.into(), children }))
}
