//! Returning free memory to the kernel: by default glibc keeps much of it (mallopt(3), malloc_trim(3)).

/// Allocations of at least this size, in octets, are mapped separately (M_MMAP_THRESHOLD).
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD: libc::c_int = 128 << 10;

/// Fixes the size from which allocations are mapped separately, so that freeing unmaps them at once.
///
/// By default glibc raises this size up to 32 MiB when large blocks are freed; the large blocks of zone loading would then fragment
/// the heap. Call once, at startup. Does nothing with other C libraries.
pub fn fix_mmap_threshold() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; glibc locks its own state.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
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
        fix_mmap_threshold();
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
