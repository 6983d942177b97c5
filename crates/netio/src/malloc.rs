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

    fn resident_pages() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("procfs");
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("the second number")
    }

    #[test]
    fn freed_memory_is_returned() {
        configure_heaps();
        let before = resident_pages();
        let mut blocks: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; 16 << 10]).collect();
        // Every second block stays allocated, so that the heap cannot just shrink at its end.
        let mut number = 0;
        blocks.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        let holey = resident_pages();
        trim();
        let returned = holey.saturating_sub(resident_pages());
        assert!(holey > before + 8192 && returned > 4096, "{before} pages, {holey} in use, {returned} returned");
        drop(blocks);
    }
}
