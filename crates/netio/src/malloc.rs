//! Keeping glibc's heaps small: by default it keeps much free memory, and lets threads share heaps (mallopt(3), malloc_trim(3)).

/// Allocations of at least this size, in octets, are mapped separately (M_MMAP_THRESHOLD).
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD: libc::c_int = 128 << 10;

/// More heaps than there are ever threads (M_ARENA_MAX); one that is not used takes no memory.
#[cfg(target_env = "gnu")]
const MAX_HEAPS: libc::c_int = 4096;

/// Adapts the heaps to the loading of zones. Call once, before any thread is started. Does nothing with other C libraries.
///
/// * Freeing a large block unmaps it at once. By default glibc raises the size from which it maps blocks up to 32 MiB when such
///   blocks are freed; the large blocks of zone loading would then fragment the heaps.
/// * Each thread has a heap of its own, and a new thread takes that of one that has ended: threads that build a zone fill what
///   those that parsed it left. By default there are 8 heaps per processor; on small machines all are taken at startup, and heaps
///   that are shared are never passed on.
pub fn configure_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; glibc locks its own state.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
        libc::mallopt(libc::M_ARENA_MAX, MAX_HEAPS);
    }
}

/// Returns free pages of all heaps to the kernel. Takes milliseconds per gigabyte: call it after a load, never on the query path.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; glibc locks its own state.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    const BLOCK_LEN: usize = 16 << 10;
    const PAGE: usize = 4096;

    /// Whether the page in the middle of a block, which is free or not, is in memory.
    fn is_resident(block: usize) -> bool {
        let page = (block + BLOCK_LEN / 2) / PAGE * PAGE;
        let mut state = 0;
        // SAFETY: the call writes one octet to `state`, and touches no page of the process.
        let result = unsafe { libc::mincore(page as *mut libc::c_void, PAGE, &raw mut state) };
        result == 0 && state & 1 == 1
    }

    #[test]
    fn freed_memory_is_returned() {
        configure_heaps();
        let blocks: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; BLOCK_LEN]).collect();
        // Every second block stays allocated, so that the heap cannot just shrink at its end.
        let (freed, kept): (Vec<_>, Vec<_>) = blocks.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
        let freed: Vec<usize> = freed.into_iter().map(|(_, block)| block.as_ptr().addr()).collect();
        let resident = || freed.iter().filter(|&&block| is_resident(block)).count();
        let before = resident();
        trim();
        let after = resident();
        assert!(
            before > 2000 && after < 100,
            "{before} of {} pages of freed blocks in memory, then {after}",
            freed.len()
        );
        drop(kept);
    }
}
