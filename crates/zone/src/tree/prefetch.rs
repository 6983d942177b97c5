//! Fetching a leaf before it is searched: in a zone that is larger than the caches the wait for memory is most of what a
//! lookup costs, and the waits of several lookups can overlap. The benchmark `respond` shows what it is worth.
#![allow(unsafe_code)]

use super::{Children, Inner, Root, Tree};

/// Of a leaf the cache lines that a search begins with: header, heads and offsets of some 100 entries.
const LINES: usize = 12;
const LINE_LEN: usize = 64;

impl Tree {
    /// Whether it has two levels of inner nodes or more: some hundred leaves, more than caches near the processor keep.
    #[inline]
    pub fn is_deep(&self) -> bool {
        matches!(&self.root, Root::Inner(inner) if matches!(inner.children, Children::Inner(_)))
    }

    /// Has the processor fetch the beginning of the leaf that holds `key`; does not wait for it.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        let Root::Inner(root) = &self.root else { return };
        let mut inner: &Inner = root;
        loop {
            let index = inner.child_index(key);
            match &inner.children {
                Children::Inner(nodes) => inner = &nodes[index],
                Children::Leaf(leaves) => {
                    return leaves[index].0.chunks(LINE_LEN).take(LINES).for_each(prefetch_line);
                }
            }
        }
    }
}

#[inline]
fn prefetch_line(line: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see and never faults; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    // Elsewhere the compiler has no stable way to say it.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
