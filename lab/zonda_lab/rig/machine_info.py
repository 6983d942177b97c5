"""Describes the machine for the manifest. Run as a program, prints JSON."""

import hashlib
import json
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SYSCTLS = (
    "net.core.rmem_max",
    "net.core.rmem_default",
    "net.core.wmem_max",
    "net.core.somaxconn",
    "net.core.netdev_max_backlog",
    "net.core.default_qdisc",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_congestion_control",
    "fs.file-max",
    "fs.nr_open",
    "kernel.sched_autogroup_enabled",
)


def describe() -> dict[str, Any]:
    """Hardware, kernel and settings, without host and user names."""
    return {
        "cpu": _matched(r"^model name\s*:\s*(.+)$", "/proc/cpuinfo", platform.machine()),
        "cpus": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "hypervisor": "hypervisor" in _read("/proc/cpuinfo"),
        "kernel": platform.release(),
        "system": _matched(r'^PRETTY_NAME="?([^"\n]+)', "/etc/os-release", platform.system()),
        "python": platform.python_version(),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or "unknown",
        "mitigations": _mitigations(),
        "root": "in a user namespace" if "ZONDA_LAB_IN_USER_NAMESPACE" in os.environ else "yes",
        "sysctl": {key: " ".join(_read(f"/proc/sys/{key.replace('.', '/')}").split()) for key in SYSCTLS},
    }


def source_version(folder: Path = HERE) -> str:
    """The git commit of the tree of this folder, with `-dirty` if a tracked file differs from it, or `unknown`."""
    asked: list[str | Path] = ["git", "-C", folder, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def source_digest() -> str:
    """SHA-256 of the files of this package: two trees with uncommitted changes have the same commit."""
    found, package = hashlib.sha256(), Path(__file__).resolve().parents[1]
    for path in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".css")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def _matched(pattern: str, path: str, otherwise: str) -> str:
    match = re.search(pattern, _read(path), re.MULTILINE)
    return match[1] if match else otherwise


def _mitigations() -> list[str]:
    folder = Path("/sys/devices/system/cpu/vulnerabilities")
    states = {path.name: _read(str(path)).strip() for path in sorted(folder.glob("*"))}
    return [f"{name}: {state}" for name, state in states.items() if state.startswith("Mitigation")]


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    print(json.dumps(describe()))
