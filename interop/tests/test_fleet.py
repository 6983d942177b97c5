"""The example fleet survives the loss of each machine, and the health check withdraws the address of an edge that does not answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FLEET = ROOT / "examples/fleet"
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def needs(*programs: str) -> None:
    """Skips the test if a program is missing or namespaces cannot be made."""
    missing = [name for name in programs if not shutil.which(name, path=PATH)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if subprocess.run(["unshare", "--net", "--mount", *user, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces cannot be made here")


@pytest.mark.parametrize("edge", ["zonda", "nsd", "knot", "bind"])
def test_the_fleet_survives_the_loss_of_each_machine(edge: str) -> None:
    needs("ip", "unshare", "openssl")
    command = [sys.executable, str(FLEET / "fleet.py"), "--edge2", edge, "--zonda", str(ROOT / "target/debug/zonda")]
    path = f"{os.environ.get('PEERS', '')}/{edge}/sbin:{PATH}"
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "PATH": path})
    if "is not installed" in done.stderr or "lacks catalog zones" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" s  ") == 15, done.stdout


CHECK = """
set -eu
ip link set lo up
ip link add anycast type bridge
ip link set anycast up
ip address add 127.0.0.53/32 dev lo
announced() { ip -o address show dev anycast | grep -q 198.51.100.53; }
wait_for() { n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 200 ] || { echo "never: $1"; exit 1; }; sleep 0.1; done; }
mkdir "$3/state"
cat > "$3/zonda.toml" <<END
[server]
listen = ["127.0.0.53:53"]
state-dir = "$3/state"
[[zone]]
name = "shop.example"
file = "$2/zones/shop.example.zone"
END
"$1" serve --config "$3/zonda.toml" 2> "$3/log" &
zonda=$!
CHECK_INTERVAL_S=0.1 "$2/anycast-check" shop.example 127.0.0.53 198.51.100.53/32 &
check=$!
wait_for announced
kill -KILL $zonda
wait_for '! announced'
"$1" serve --config "$3/zonda.toml" 2> "$3/log" &
zonda=$!
wait_for announced
kill $check
wait_for '! announced'
kill $zonda
"""


def test_the_health_check_withdraws_the_address_of_an_edge_that_does_not_answer(tmp_path: Path) -> None:
    needs("ip", "unshare", "dig")
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    namespaces = ["unshare", "--net", "--pid", "--fork", "--kill-child", *user]
    command = [*namespaces, "sh", "-c", CHECK, "sh", str(ROOT / "target/debug/zonda"), str(FLEET), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PATH": PATH})
    assert done.returncode == 0, done.stdout + done.stderr


def test_bird_accepts_its_configuration() -> None:
    bird = shutil.which("bird", path=PATH)
    if not bird:
        pytest.skip("not installed: bird (2)")
    done = subprocess.run([bird, "-p", "-c", str(FLEET / "bird.conf")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
