//! Which processors a thread runs on.

use crate::checked;
use std::io;
use std::mem;

/// The processors that the calling thread may run on, ascending.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut set = empty_set();
    // SAFETY: `set` lives through the call and has the size told; thread 0 is the calling one.
    checked(unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set) })?;
    // SAFETY: the numbers stay below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Keeps the calling thread on one processor.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = empty_set();
    // SAFETY: the number is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` lives through the call and has the size told; thread 0 is the calling one.
    checked(unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) })?;
    Ok(())
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: an array of integers, for which zero is a value and means no processor.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_processor() {
        let last = *allowed_cpus().expect("readable").last().expect("at least one processor");
        let pinned =
            std::thread::spawn(move || pin_thread(last).and_then(|()| allowed_cpus())).join().expect("no panic");
        assert_eq!(pinned.expect("pinning to an allowed processor"), [last]);
        assert!(pin_thread(usize::MAX).is_err());
    }
}
