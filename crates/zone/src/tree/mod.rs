//! The tree: a persistent B+-tree from keys to values, both plain bytes.
//!
//! Nodes never change: [`Tree::apply`] makes new ones along the touched paths and shares the rest, so that old
//! versions stay whole for as long as somebody holds them. Leaves are blocks of some 3 KiB (see [`block`]).
//! It knows nothing of DNS but that keys are ordered; used by [`crate::Zone`].

pub mod block;
mod build;
mod cursor;
mod edit;
mod prefetch;

use std::sync::Arc;

use block::{Block, Position};
use build::Separator;

pub use block::TreeEntry;
pub use build::TreeBuilder;
pub use cursor::TreeCursor;
pub use edit::TreeEdit;

/// A leaf is closed when its keys and values reach this size, in octets before compression.
/// Leaves of 1, 2 and 4 KiB cost the same memory.
const LEAF_SIZE: usize = 3072;
/// The most children of an inner node. An update copies one node a level, so wide is not free.
const FAN_OUT: usize = 128;
/// The most levels of inner nodes: nodes are split in halves, so six levels hold more leaves than memory does.
const MAX_DEPTH: usize = 6;

/// A leaf: a block, shared between versions.
#[derive(Clone)]
pub(crate) struct Leaf(Arc<[u8]>);

impl Leaf {
    #[inline]
    fn block(&self) -> Block<'_> {
        Block::new(&self.0)
    }
}

/// An inner node.
pub(crate) struct Inner {
    /// A block of separators without values: child `i + 1` holds the keys from separator `i` on.
    /// Empty where there is one child. Shared with the versions before while no child is split.
    separators: Arc<[u8]>,
    children: Children,
}

enum Children {
    Inner(Box<[Arc<Inner>]>),
    Leaf(Box<[Leaf]>),
}

impl Inner {
    /// The index of the child that holds `key`.
    #[inline]
    fn child_index(&self, key: &[u8]) -> usize {
        if self.separators.is_empty() {
            return 0;
        }
        match Block::new(&self.separators).search(key) {
            Position::At(index) | Position::Behind(index) => index + 1,
            Position::Front => 0,
        }
    }

    fn child_count(&self) -> usize {
        match &self.children {
            Children::Inner(nodes) => nodes.len(),
            Children::Leaf(leaves) => leaves.len(),
        }
    }

    fn separator(&self, index: usize) -> Separator {
        let mut key = Vec::new();
        Block::new(&self.separators).entry(index).append_key(&mut key);
        key.into()
    }
}

#[derive(Clone)]
enum Root {
    Empty,
    Leaf(Leaf),
    Inner(Arc<Inner>),
}

/// An immutable ordered map; cloning it is cheap and shares everything.
#[derive(Clone)]
pub struct Tree {
    root: Root,
}

impl Tree {
    /// A tree without entries.
    pub const fn empty() -> Tree {
        Tree { root: Root::Empty }
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let leaf = self.leaf(key)?;
        match leaf.search(key) {
            Position::At(index) => Some(leaf.entry(index).value),
            _ => None,
        }
    }

    /// The leaf that holds `key`, if it is anywhere.
    #[inline]
    fn leaf(&self, key: &[u8]) -> Option<Block<'_>> {
        let mut inner = match &self.root {
            Root::Empty => return None,
            Root::Leaf(leaf) => return Some(leaf.block()),
            Root::Inner(inner) => inner,
        };
        loop {
            let index = inner.child_index(key);
            match &inner.children {
                Children::Inner(nodes) => inner = &nodes[index],
                Children::Leaf(leaves) => return Some(leaves[index].block()),
            }
        }
    }

    /// A cursor at the entry of `key` or, where there is none, at its predecessor.
    #[inline]
    pub fn seek(&self, key: &[u8]) -> TreeCursor<'_> {
        TreeCursor::seek(self, key)
    }

    /// A cursor before the first entry.
    pub fn front(&self) -> TreeCursor<'_> {
        TreeCursor::front(self)
    }

    /// The first entry.
    #[inline]
    pub fn first(&self) -> Option<TreeEntry<'_>> {
        let mut inner = match &self.root {
            Root::Empty => return None,
            Root::Leaf(leaf) => return Some(leaf.block().entry(0)),
            Root::Inner(inner) => inner,
        };
        loop {
            match &inner.children {
                Children::Inner(nodes) => inner = &nodes[0],
                Children::Leaf(leaves) => return Some(leaves[0].block().entry(0)),
            }
        }
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = TreeEntry<'_>> {
        let mut cursor = self.front();
        std::iter::from_fn(move || cursor.next())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        matches!(self.root, Root::Empty)
    }

    /// How many octets the nodes have on the heap, without the allocator's overhead.
    pub fn heap_size(&self) -> usize {
        fn inner_size(inner: &Inner) -> usize {
            size_of::<Inner>()
                + 16
                + inner.separators.len()
                + 16 * (1 + inner.child_count())
                + match &inner.children {
                    Children::Inner(nodes) => nodes.iter().map(|node| inner_size(node)).sum::<usize>(),
                    Children::Leaf(leaves) => leaves.iter().map(|leaf| 16 + leaf.0.len()).sum(),
                }
        }
        match &self.root {
            Root::Empty => 0,
            Root::Leaf(leaf) => 16 + leaf.0.len(),
            Root::Inner(inner) => inner_size(inner),
        }
    }
}
