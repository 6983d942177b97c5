//! Prefetching of leaves: in a zone larger than the CPU caches a lookup mostly waits for memory, and the waits of several lookups
//! can overlap. The benchmark `respond` measures the gain.
#![allow(unsafe_code)]

use super::{Children, Inner, Node, TreeRef};

/// How many cache lines of a leaf are prefetched: header, heads and offsets of about 100 entries.
const LINES: usize = 12;
const LINE_LEN: usize = 64;

impl TreeRef<'_> {
    /// Whether the tree has at least two levels of inner nodes: more than 128 leaves, too large for the innermost caches.
    #[inline]
    pub fn is_deep(self) -> bool {
        matches!(self.root, Node::Inner(inner) if matches!(inner.children, Children::Inner(_)))
    }

    /// Prefetches the start of the leaf whose key range includes `key`, without waiting for it.
    #[inline]
    pub fn prefetch(self, key: &[u8]) {
        let Node::Inner(root) = self.root else { return };
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
        // SAFETY: a prefetch has no visible effect and never faults; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    // Other architectures have no stable intrinsic.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
