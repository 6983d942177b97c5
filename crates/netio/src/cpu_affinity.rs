//! CPU affinity of threads (sched_setaffinity(2)).

use crate::checked;
use std::io;

/// A set of CPUs as the kernel has it: a bit for each, in words.
type CpuSet = Vec<libc::c_ulong>;

const BITS: usize = libc::c_ulong::BITS as usize;
/// Words of the first set passed to the kernel: 1024 CPUs.
const FIRST_WORDS: usize = 1024 / BITS;
/// The most CPUs of a set; Linux can be built for 8192.
const MAX_CPUS: usize = 1 << 20;

/// The CPUs that the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = read_set(FIRST_WORDS, |set| {
        // SAFETY: `set` lives through the call and has the size passed; thread 0 is the calling one.
        checked(unsafe { libc::sched_getaffinity(0, size_of_val(set), set.as_mut_ptr().cast()) })
    })?;
    Ok((0..set.len() * BITS).filter(|cpu| set[cpu / BITS] >> (cpu % BITS) & 1 == 1).collect())
}

/// Pins the calling thread to one CPU.
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    if cpu >= MAX_CPUS {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set: CpuSet = vec![0; cpu / BITS + 1];
    set[cpu / BITS] = 1 << (cpu % BITS);
    // SAFETY: `set` lives through the call and has the size passed; thread 0 is the calling one.
    checked(unsafe { libc::sched_setaffinity(0, size_of_val(&set[..]), set.as_ptr().cast()) })?;
    Ok(())
}

/// Has `read` fill a set, which grows until the kernel accepts it: EINVAL says that the host may have more CPUs.
fn read_set(words: usize, mut read: impl FnMut(&mut [libc::c_ulong]) -> io::Result<libc::c_int>) -> io::Result<CpuSet> {
    let mut set: CpuSet = vec![0; words];
    loop {
        match read(&mut set) {
            Ok(_) => return Ok(set),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && set.len() * BITS < MAX_CPUS => {
                set = vec![0; (2 * set.len()).max(1)];
            }
            Err(error) => return Err(error),
        }
    }
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

    /// A kernel for 5,000 CPUs refuses smaller sets; one with another error, or that refuses all sizes, is not asked for ever.
    #[test]
    fn a_set_grows_until_the_kernel_accepts_it() {
        let mut sizes = Vec::new();
        let mut kernel = |limit: usize, error: i32| {
            sizes.clear();
            let set = read_set(FIRST_WORDS, |set| {
                sizes.push(set.len() * BITS);
                if sizes.last() < Some(&limit) { Err(io::Error::from_raw_os_error(error)) } else { Ok(8) }
            });
            (set.is_ok(), sizes.clone())
        };
        assert_eq!(kernel(5000, libc::EINVAL), (true, vec![1024, 2048, 4096, 8192]));
        assert_eq!(kernel(5000, libc::EPERM), (false, vec![1024]));
        let (accepted, sizes) = kernel(usize::MAX, libc::EINVAL);
        assert!(!accepted && sizes.last() == Some(&MAX_CPUS), "{sizes:?}");
    }
}
