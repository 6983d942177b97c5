//! Comparing two trees: nodes that both share are skipped, so that the cost depends on what differs.

use std::cmp::Ordering;
use std::sync::Arc;

use super::block::Block;
use super::tree_entry::TreeEntry;
use super::{Children, FAN_OUT, Inner, Node, TreeRef};

impl<'t> TreeRef<'t> {
    /// Calls `visit`, in key order, with the entries that are not in nodes shared by both trees: with both entries of the same key, or
    /// with that of one tree alone. The values may be equal. Visits shared nodes as well unless `skips_shared`.
    pub fn compare(
        self,
        other: TreeRef<'t>,
        skips_shared: bool,
        mut visit: impl FnMut(Option<TreeEntry<'t>>, Option<TreeEntry<'t>>),
    ) {
        let (mut ours, mut theirs) = (TreeWalk::new(self), TreeWalk::new(other));
        let mut key = Vec::new();
        loop {
            if skips_shared {
                skip_shared(&mut ours, &mut theirs);
            }
            let (mut our, mut their) = (ours.entry(), theirs.entry());
            let order = match (&our, &their) {
                (None, None) => return,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(our), Some(their)) => {
                    key.clear();
                    their.append_key(&mut key);
                    our.cmp_key(&key)
                }
            };
            our = our.filter(|_| order.is_le());
            their = their.filter(|_| order.is_ge());
            visit(our, their);
            our.is_some().then(|| ours.advance());
            their.is_some().then(|| theirs.advance());
        }
    }
}

/// Skips nodes that both trees share, and opens others, until at least one walk is inside a leaf or both are at different leaves.
fn skip_shared(ours: &mut TreeWalk<'_>, theirs: &mut TreeWalk<'_>) {
    while ours.position == 0 && theirs.position == 0 {
        let (Some(our), Some(their)) = (ours.pending.last(), theirs.pending.last()) else { return };
        let (our_height, their_height) = (our.height, their.height);
        if our.node.is_same(their.node) {
            ours.pending.pop();
            theirs.pending.pop();
        } else if our_height.max(their_height) == 0 {
            return;
        } else {
            // The higher node first: shared nodes are at the same height.
            (our_height >= their_height).then(|| ours.open());
            (their_height >= our_height).then(|| theirs.open());
        }
    }
}

/// A walk over a tree that can skip nodes.
struct TreeWalk<'t> {
    /// The nodes not yet visited, the next one last.
    pending: Vec<Pending<'t>>,
    /// How many entries of the next node, a leaf, were visited.
    position: usize,
}

#[derive(Clone, Copy)]
struct Pending<'t> {
    node: Node<'t>,
    /// The number of levels below it.
    height: usize,
}

impl Node<'_> {
    fn is_same(self, other: Node<'_>) -> bool {
        match (self, other) {
            (Node::Inner(a), Node::Inner(b)) => Arc::ptr_eq(a, b),
            (Node::Leaf(a), Node::Leaf(b)) => Arc::ptr_eq(&a.0, &b.0),
            _ => false,
        }
    }
}

impl<'t> TreeWalk<'t> {
    fn new(tree: TreeRef<'t>) -> TreeWalk<'t> {
        let root = match tree.root {
            Node::Leaf(_) if tree.is_empty() => None,
            node @ Node::Leaf(_) => Some(Pending { node, height: 0 }),
            node @ Node::Inner(inner) => Some(Pending { node, height: height(inner) }),
        };
        let mut pending = Vec::with_capacity(2 * FAN_OUT);
        pending.extend(root);
        TreeWalk { pending, position: 0 }
    }

    /// Replaces the next node by its children, unless it is a leaf.
    fn open(&mut self) {
        let Some(Pending { node: Node::Inner(inner), height }) = self.pending.last().copied() else { return };
        self.pending.pop();
        let height = height - 1;
        match &inner.children {
            Children::Inner(nodes) => {
                self.pending.extend(nodes.iter().rev().map(|node| Pending { node: Node::Inner(node), height }));
            }
            Children::Leaf(leaves) => {
                self.pending.extend(leaves.iter().rev().map(|leaf| Pending { node: Node::Leaf(leaf), height }));
            }
        }
    }

    /// The next entry.
    fn entry(&mut self) -> Option<TreeEntry<'t>> {
        self.block().map(|block| block.entry(self.position))
    }

    fn block(&mut self) -> Option<Block<'t>> {
        loop {
            match self.pending.last()?.node {
                Node::Leaf(leaf) => return Some(leaf.block()),
                Node::Inner(_) => self.open(),
            }
        }
    }

    /// Moves past the next entry.
    fn advance(&mut self) {
        self.position += 1;
        if self.block().is_some_and(|block| block.count() == self.position) {
            self.pending.pop();
            self.position = 0;
        }
    }
}

/// The number of levels below an inner node.
fn height(inner: &Inner) -> usize {
    match &inner.children {
        Children::Leaf(_) => 1,
        Children::Inner(nodes) => 1 + nodes.first().map_or(0, |node| height(node)),
    }
}
