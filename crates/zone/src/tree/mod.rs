//! A persistent (copy-on-write) B+-tree from byte-string keys to byte-string values. It knows no DNS; used by [`crate::Zone`].
//!
//! | node | contents | size |
//! | --- | --- | --- |
//! | leaf | a [`block`] of sorted keys with their values | about 3 KiB |
//! | inner node | a [`block`] of separator keys, and pointers to its children | up to 128 children |
//!
//! Nodes are immutable. [`TreeRef::apply`] copies the nodes on the paths from the root to the changed leaves and shares all others
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

/// The empty tree is a leaf without octets: a variant of its own would make the tree larger.
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

/// A borrowed tree. Who has the only leaf of a tree has the tree.
#[derive(Clone, Copy)]
pub struct TreeRef<'t> {
    root: Node<'t>,
}

#[derive(Clone, Copy)]
enum Node<'t> {
    Inner(&'t Arc<Inner>),
    Leaf(&'t Leaf),
}

impl Root {
    fn empty() -> Root {
        Root::Leaf(Leaf(Arc::default()))
    }
}

impl Tree {
    /// The empty tree.
    pub fn empty() -> Tree {
        Tree { root: Root::empty() }
    }

    /// Borrows the tree.
    #[inline]
    pub fn as_ref(&self) -> TreeRef<'_> {
        let root = match &self.root {
            Root::Leaf(leaf) => Node::Leaf(leaf),
            Root::Inner(inner) => Node::Inner(inner),
        };
        TreeRef { root }
    }

    /// The only leaf, if there is no other node; that of an empty tree has no octets.
    pub(crate) fn only_leaf(&self) -> Option<&Leaf> {
        match &self.root {
            Root::Leaf(leaf) => Some(leaf),
            Root::Inner(_) => None,
        }
    }
}

impl Leaf {
    /// The tree that has no other node.
    #[inline]
    pub(crate) fn as_tree(&self) -> TreeRef<'_> {
        TreeRef { root: Node::Leaf(self) }
    }
}

impl<'t> TreeRef<'t> {
    /// The tree, which shares all nodes.
    pub fn to_tree(self) -> Tree {
        let root = match self.root {
            Node::Leaf(leaf) => Root::Leaf(leaf.clone()),
            Node::Inner(inner) => Root::Inner(inner.clone()),
        };
        Tree { root }
    }

    /// The value of `key`.
    pub fn get(self, key: &[u8]) -> Option<&'t [u8]> {
        let leaf = self.leaf(key)?;
        match leaf.search(key) {
            SearchResult::Found(index) => Some(leaf.entry(index).value),
            _ => None,
        }
    }

    /// The leaf whose key range includes `key`; `None` in an empty tree.
    #[inline]
    fn leaf(self, key: &[u8]) -> Option<Block<'t>> {
        let mut inner = match self.root {
            Node::Leaf(leaf) => return (!leaf.0.is_empty()).then(|| leaf.block()),
            Node::Inner(inner) => inner,
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
    pub fn seek(self, key: &[u8]) -> TreeCursor<'t> {
        TreeCursor::seek(self, key)
    }

    /// A cursor before the first entry.
    pub fn front(self) -> TreeCursor<'t> {
        TreeCursor::front(self)
    }

    /// The first entry.
    #[inline]
    pub fn first(self) -> Option<TreeEntry<'t>> {
        let mut inner = match self.root {
            Node::Leaf(leaf) => return (!leaf.0.is_empty()).then(|| leaf.block().entry(0)),
            Node::Inner(inner) => inner,
        };
        loop {
            match &inner.children {
                Children::Inner(nodes) => inner = &nodes[0],
                Children::Leaf(leaves) => return Some(leaves[0].block().entry(0)),
            }
        }
    }

    /// All entries in key order.
    pub fn iter(self) -> impl Iterator<Item = TreeEntry<'t>> {
        let mut cursor = self.front();
        std::iter::from_fn(move || cursor.next())
    }

    /// All leaves in key order, as encoded blocks.
    pub(crate) fn leaves(self) -> Vec<Arc<[u8]>> {
        fn collect(inner: &Inner, out: &mut Vec<Arc<[u8]>>) {
            match &inner.children {
                Children::Inner(nodes) => nodes.iter().for_each(|node| collect(node, out)),
                Children::Leaf(leaves) => out.extend(leaves.iter().map(|leaf| leaf.0.clone())),
            }
        }
        let mut leaves = Vec::new();
        match self.root {
            Node::Leaf(leaf) => leaves.extend((!leaf.0.is_empty()).then(|| leaf.0.clone())),
            Node::Inner(inner) => collect(inner, &mut leaves),
        }
        leaves
    }

    /// Whether the tree has no entries.
    pub fn is_empty(self) -> bool {
        matches!(self.root, Node::Leaf(leaf) if leaf.0.is_empty())
    }

    /// The heap size of all nodes in octets, without allocator overhead.
    pub fn heap_size(self) -> usize {
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
        match self.root {
            Node::Leaf(_) if self.is_empty() => 0,
            Node::Leaf(leaf) => 16 + leaf.0.len(),
            Node::Inner(inner) => inner_size(inner),
        }
    }
}
