//! CPU affinity of threads (sched_setaffinity(2)).

use crate::checked;
use std::io;
use std::mem;

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut set = empty_set();
    // SAFETY: `set` lives through the call and has the size passed; thread 0 is the calling one.
    checked(unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set) })?;
    // SAFETY: the numbers stay below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Pins the calling thread to one CPU.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = empty_set();
    // SAFETY: the number is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` lives through the call and has the size passed; thread 0 is the calling one.
    checked(unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) })?;
    Ok(())
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: an array of integers, for which zero is a value and means no CPU.
    unsafe { mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_cpu() {
        let last = *allowed_cpus().expect("readable").last().expect("at least one CPU");
        let pinned =
            std::thread::spawn(move || pin_thread(last).and_then(|()| allowed_cpus())).join().expect("no panic");
        assert_eq!(pinned.expect("pinning to an allowed CPU"), [last]);
        assert!(pin_thread(usize::MAX).is_err());
    }
}
