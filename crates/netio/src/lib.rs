//! Kernel edges and nearly all unsafe code: batched UDP, stream polling, socket options, pinning, mmap. Knows no DNS.
