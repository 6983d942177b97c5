//! The pages of the program itself: code and constants, mapped from its file.

use std::ffi::c_void;

/// Unmaps the pages of code and constants, which return from the page cache as they are used.
///
/// The code of a start and of a reload, more than half of what is mapped then, would otherwise count as memory of the process for as
/// long as it runs. Costs a minor page fault for each group of pages that is used again, some dozens: call it after a load, with
/// [`crate::malloc::trim`].
pub fn unmap_unused() {
    // SAFETY: the callback has the required type, and no data is passed to it.
    unsafe { libc::dl_iterate_phdr(Some(unmap_segments), std::ptr::null_mut()) };
}

/// Unmaps the segments of one object that are never written; dl_iterate_phdr(3) ends as it returns 1: the program is the first object.
unsafe extern "C" fn unmap_segments(
    object: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    _data: *mut c_void,
) -> libc::c_int {
    // SAFETY: the C library passes a valid object, whose program headers live as long as it is loaded.
    let (base, headers) = unsafe {
        let object = &*object;
        (object.dlpi_addr as usize, std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()))
    };
    // SAFETY: sysconf(3) takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    // Segments with relocated data are writable here, even if they are protected later.
    for segment in headers.iter().filter(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W == 0)
    {
        let start = base + segment.p_vaddr as usize;
        let (start, end) = (start / page * page, (start + segment.p_memsz as usize).next_multiple_of(page));
        // SAFETY: the range is a private mapping of the program's file that was never written, so that the kernel reads the same
        // contents again. The result does not matter: the pages stay mapped if that fails.
        unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_DONTNEED) };
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resident kilobytes of the mappings of the program's file.
    fn program_kb() -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("procfs");
        let program = std::env::current_exe().expect("procfs").display().to_string();
        let mut is_program = false;
        let mut total = 0;
        for line in maps.lines() {
            if let Some(kb) = line.strip_prefix("Rss:").filter(|_| is_program) {
                total += kb.trim().trim_end_matches(" kB").parse::<usize>().expect("a number");
            } else if line.split(' ').next().is_some_and(|range| range.contains('-')) {
                is_program = line.ends_with(&program);
            }
        }
        total
    }

    #[test]
    fn unused_pages_of_the_program_are_unmapped() {
        // Far more than the code that other tests use again at the same time.
        static CONSTANTS: [u8; 4 << 20] = [1; 4 << 20];
        let sum = || std::hint::black_box(&CONSTANTS).iter().map(|&octet| usize::from(octet)).sum::<usize>();
        assert_eq!(sum(), CONSTANTS.len());
        let before = program_kb();
        unmap_unused();
        let after = program_kb();
        assert!(after + (3 << 10) < before, "{after} of {before} kB");
        assert_eq!(sum(), CONSTANTS.len(), "the pages return");
    }
}
