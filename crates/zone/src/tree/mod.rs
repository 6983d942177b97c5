//! A persistent (copy-on-write) B+-tree from byte-string keys to byte-string values. It knows no DNS; used by [`crate::Zone`].
//!
//! | node | contents | size |
//! | --- | --- | --- |
//! | leaf | a [`block`] of sorted keys with their values | about 3 KiB |
//! | inner node | a [`block`] of separator keys, and pointers to its children | up to 128 children |
//!
//! Nodes are immutable. [`Tree::apply`] copies the nodes on the paths from the root to the changed leaves and shares all others
//! with the old version, which stays valid for as long as it is referenced.

pub mod block;
mod build;
mod compare;
mod cursor;
mod edit;
mod prefetch;
mod shared_leaf;
mod tree_entry;
mod validate;

use std::sync::Arc;

use block::{Block, SearchResult};
use build::Separator;

pub use build::TreeBuilder;
pub use cursor::TreeCursor;
pub use edit::TreeEdit;
pub use tree_entry::TreeEntry;
pub(crate) use validate::{LeafError, LeafLoader};

/// The most octets of keys and values in a leaf, before the common prefix is removed; a single larger entry gets a leaf of its own.
/// Leaves of 1, 2 and 4 KiB take the same memory per record.
const LEAF_SIZE: usize = 3072;
/// The most children of an inner node. An update copies one node per level, so a higher fan-out costs more per update.
const FAN_OUT: usize = 128;
/// The most levels of inner nodes. Split nodes are at least half full, so six levels hold more leaves than fit in memory.
const MAX_DEPTH: usize = 6;

/// A leaf: a block, shared between versions of the tree.
#[derive(Clone)]
pub(crate) struct Leaf(Arc<[u8]>);

impl Leaf {
    /// The entries.
    #[inline]
    pub(crate) fn block(&self) -> Block<'_> {
        Block::new(&self.0)
    }
}

/// An inner node.
pub(crate) struct Inner {
    /// A block of separator keys without values: all keys in child `i + 1` are at or after separator `i`, those in child `i` before.
    /// Empty for a single child. Shared with older versions until a child is split or removed.
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
            SearchResult::Found(index) | SearchResult::After(index) => index + 1,
            SearchResult::BeforeFirst => 0,
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

/// The empty tree is a leaf without octets: a variant of its own would make every zone larger.
#[derive(Clone)]
enum Root {
    Leaf(Leaf),
    Inner(Arc<Inner>),
}

/// An immutable ordered map. A clone shares all nodes.
#[derive(Clone)]
pub struct Tree {
    root: Root,
}

impl Root {
    fn empty() -> Root {
        Root::Leaf(Leaf(Arc::default()))
    }

    fn is_empty(&self) -> bool {
        matches!(self, Root::Leaf(leaf) if leaf.0.is_empty())
    }
}

impl Tree {
    /// The empty tree.
    pub fn empty() -> Tree {
        Tree { root: Root::empty() }
    }

    /// The value of `key`.
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let leaf = self.leaf(key)?;
        match leaf.search(key) {
            SearchResult::Found(index) => Some(leaf.entry(index).value),
            _ => None,
        }
    }

    /// The leaf whose key range includes `key`; `None` in an empty tree.
    #[inline]
    fn leaf(&self, key: &[u8]) -> Option<Block<'_>> {
        let mut inner = match &self.root {
            Root::Leaf(leaf) => return (!leaf.0.is_empty()).then(|| leaf.block()),
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

    /// A cursor at the entry of `key`, or at its predecessor if there is none.
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
            Root::Leaf(leaf) => return (!leaf.0.is_empty()).then(|| leaf.block().entry(0)),
            Root::Inner(inner) => inner,
        };
        loop {
            match &inner.children {
                Children::Inner(nodes) => inner = &nodes[0],
                Children::Leaf(leaves) => return Some(leaves[0].block().entry(0)),
            }
        }
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl Iterator<Item = TreeEntry<'_>> {
        let mut cursor = self.front();
        std::iter::from_fn(move || cursor.next())
    }

    /// All leaves in key order, as encoded blocks.
    pub(crate) fn leaves(&self) -> Vec<Arc<[u8]>> {
        fn collect(inner: &Inner, out: &mut Vec<Arc<[u8]>>) {
            match &inner.children {
                Children::Inner(nodes) => nodes.iter().for_each(|node| collect(node, out)),
                Children::Leaf(leaves) => out.extend(leaves.iter().map(|leaf| leaf.0.clone())),
            }
        }
        let mut leaves = Vec::new();
        match &self.root {
            Root::Leaf(leaf) => leaves.extend((!leaf.0.is_empty()).then(|| leaf.0.clone())),
            Root::Inner(inner) => collect(inner, &mut leaves),
        }
        leaves
    }

    /// Whether the tree has no entries.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// Whether the tree is a single leaf, or empty.
    pub(crate) fn is_leaf(&self) -> bool {
        matches!(self.root, Root::Leaf(_))
    }

    /// The heap size of all nodes in octets, without allocator overhead.
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
            root if root.is_empty() => 0,
            Root::Leaf(leaf) => 16 + leaf.0.len(),
            Root::Inner(inner) => inner_size(inner),
        }
    }
}
