"""Kernel memory of sockets: slab objects and socket buffers, in octets. Run as a program, prints JSON.

The kernel has no account per network namespace, so the lab compares the values before and while connections are open.
Standard library only, because it also runs on remote machines.
"""

import json
import os
from pathlib import Path

# What a TCP connection, its descriptor and its place in a poll set consist of.
CACHES = (
    "TCP",
    "TCPv6",
    "sock_inode_cache",
    "filp",
    "dentry",
    "eventpoll_epi",
    "eventpoll_pwq",
    "ep_head",
    "tcp_bind_bucket",
    "tcp_bind2_bucket",
    "request_sock_TCP",
    "skbuff_head_cache",
    "skbuff_fclone_cache",
    "skbuff_small_head",
    "lsm_file_cache",
    "lsm_inode_cache",
)


def main() -> None:
    """Prints the current values."""
    print(json.dumps({"slab": slab_octets(), "buffers": buffer_octets()}))


def slab_octets(slabinfo: Path = Path("/proc/slabinfo")) -> int | None:
    """Objects in use of the caches of connections; None without root, which the file needs."""
    try:
        lines = [line.split() for line in slabinfo.read_text().splitlines()[2:]]
    except PermissionError:
        return None
    return sum(int(active) * int(size) for name, active, _, size, *_ in lines if name in CACHES)


def buffer_octets(sockstat: Path = Path("/proc/net/sockstat")) -> int:
    """Memory of all TCP socket buffers, which sockstat counts in pages."""
    words = next(line for line in sockstat.read_text().splitlines() if line.startswith("TCP:")).split()
    return os.sysconf("SC_PAGE_SIZE") * int(words[words.index("mem") + 1])


if __name__ == "__main__":
    main()
