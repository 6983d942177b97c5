//! Giving memory back to the kernel: glibc keeps what was freed unless it is told otherwise.

/// Serves every allocation of at least this size, in octets, from a map of its own.
#[cfg(target_env = "gnu")]
const MMAP_THRESHOLD: libc::c_int = 256 << 10;

/// Fixes the size from which allocations are maps of their own, which freeing gives back at once.
///
/// glibc raises that size by itself to as much as 32 MiB after the first large block is freed; the many large blocks
/// of loading a zone would then leave holes in the heap. Call once, at the start. Does nothing with other libraries.
pub fn fix_mmap_threshold() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers; glibc locks its own state.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    }
}

/// Gives free pages of all heaps back to the kernel. Takes milliseconds a gigabyte: for after a load, never for a query.
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
    fn freed_memory_goes_back() {
        fix_mmap_threshold();
        let before = resident_pages();
        let mut blocks: Vec<Vec<u8>> = (0..4096).map(|_| vec![1; 16 << 10]).collect();
        // Every second block stays for a while, so that the heap cannot simply be cut at its end.
        let mut number = 0;
        blocks.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        let holey = resident_pages();
        trim();
        let given_back = holey.saturating_sub(resident_pages());
        assert!(holey > before + 8192 && given_back > 4096, "{before} pages, {holey} in use, {given_back} given back");
        drop(blocks);
    }
}
