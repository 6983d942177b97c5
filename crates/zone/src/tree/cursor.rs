//! Cursors: search, and iteration in both directions.

use super::block::{Block, SearchResult};
use super::tree_entry::TreeEntry;
use super::{Children, Inner, MAX_DEPTH, Node, TreeRef};
use crate::canonical_key::CanonicalKey;

/// A position in a tree: at an entry, before the first or after the last one.
///
/// It keeps its leaf but not the path from the root: most searches stay in one leaf, so stepping to the next leaf searches again.
#[derive(Clone)]
pub struct TreeCursor<'t> {
    tree: TreeRef<'t>,
    block: Option<Block<'t>>,
    /// The index of the entry in the block, plus one; 0 is before the first.
    position: usize,
    exact: bool,
}

/// The inner nodes from the root to a leaf, each with the index of the child on the path, and their number.
type Path<'t> = ([Option<(&'t Inner, usize)>; MAX_DEPTH], usize);

impl<'t> TreeCursor<'t> {
    pub(super) fn front(tree: TreeRef<'t>) -> TreeCursor<'t> {
        TreeCursor { tree, block: tree.leaf(b""), position: 0, exact: false }
    }

    #[inline]
    pub(super) fn seek(tree: TreeRef<'t>, key: &[u8]) -> TreeCursor<'t> {
        let mut cursor = TreeCursor { tree, block: tree.leaf(key), position: 0, exact: false };
        if let Some(block) = cursor.block {
            match block.search(key) {
                SearchResult::Found(index) => (cursor.position, cursor.exact) = (index + 1, true),
                SearchResult::After(index) => cursor.position = index + 1,
                // All keys of this leaf are greater, as separators are shortened: the predecessor is in the preceding leaf.
                SearchResult::BeforeFirst => {
                    cursor.step_leaf(false);
                }
            }
        }
        cursor
    }

    /// Whether the entry has exactly the key of the search.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// A cursor at the entry of `key`, if it exists. Searches the current leaf first: nearby names are mostly in the same leaf.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<TreeCursor<'t>> {
        if let Some(SearchResult::Found(index)) = self.block.map(|block| block.search(key)) {
            return Some(TreeCursor { position: index + 1, exact: true, ..self.clone() });
        }
        Some(self.tree.seek(key)).filter(TreeCursor::is_exact)
    }

    /// The entry at the cursor; `None` before the first and after the last.
    #[inline]
    pub fn entry(&self) -> Option<TreeEntry<'t>> {
        let block = self.block.as_ref()?;
        let index = self.position.checked_sub(1)?;
        (index < block.count()).then(|| block.entry(index))
    }

    /// Moves to the next entry and returns it.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<TreeEntry<'t>> {
        self.exact = false;
        let count = self.block.as_ref()?.count();
        if self.position < count {
            self.position += 1;
        } else if self.position > count || !self.step_leaf(true) {
            self.position = count + 1;
            return None;
        }
        self.entry()
    }

    /// The leaf, and the index of the entry at the cursor: for a loop over all entries, with [`Self::next_leaf`].
    pub(crate) fn leaf(&self) -> Option<(Block<'t>, usize)> {
        Some((self.block?, self.position.saturating_sub(1)))
    }

    /// Moves to the first entry of the next leaf; false if there is none.
    pub(crate) fn next_leaf(&mut self) -> bool {
        self.exact = false;
        self.step_leaf(true)
    }

    /// Moves to the preceding entry and returns it.
    #[inline]
    pub fn prev(&mut self) -> Option<TreeEntry<'t>> {
        self.exact = false;
        if self.position > 1 {
            self.position -= 1;
        } else if self.position == 0 || !self.step_leaf(false) {
            self.position = 0;
            return None;
        }
        self.entry()
    }

    /// Moves to the first entry of the next leaf, or to the last one of the preceding leaf; false if there is none.
    #[cold]
    fn step_leaf(&mut self, forward: bool) -> bool {
        let Some((path, depth)) = self.path() else { return false };
        for (inner, index) in path[..depth].iter().rev().flatten() {
            let next = if forward { index + 1 } else { index.wrapping_sub(1) };
            if next < inner.child_count() {
                let block = edge_leaf(inner, next, forward);
                self.position = if forward { 1 } else { block.count() };
                self.block = Some(block);
                return true;
            }
        }
        false
    }

    /// The path to the current leaf.
    fn path(&self) -> Option<Path<'t>> {
        let Node::Inner(root) = self.tree.root else { return None };
        let mut key = CanonicalKey::new();
        self.block.as_ref()?.entry(0).copy_key(&mut key);
        let (mut path, mut depth): Path<'t> = ([None; MAX_DEPTH], 0);
        let mut inner: &Inner = root;
        loop {
            let index = inner.child_index(key.as_bytes());
            path[depth] = Some((inner, index));
            depth += 1;
            match &inner.children {
                Children::Inner(nodes) => inner = &nodes[index],
                Children::Leaf(_) => return Some((path, depth)),
            }
        }
    }
}

/// The first or last leaf below child `index`.
fn edge_leaf(mut inner: &Inner, mut index: usize, first: bool) -> Block<'_> {
    loop {
        match &inner.children {
            Children::Leaf(leaves) => return leaves[index].block(),
            Children::Inner(nodes) => inner = &nodes[index],
        }
        index = if first { 0 } else { inner.child_count() - 1 };
    }
}
