"""Each failure prints one message and leaves no process or file behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import small_experiment

from zonda_lab import scratch as folders
from zonda_lab.command import cli
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import ServerSpec, Settings, TimingSpec, ZoneSpec
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.measurement.harness import Harness
from zonda_lab.rig import namespaces, process
from zonda_lab.servers import ADAPTERS
from zonda_lab.servers.config import Zone
from zonda_lab.zones import zonegen

Lab = Callable[..., "subprocess.CompletedProcess[str]"]
LIMIT_S = 300.0
PROGRAMS = 3  # of a lab in a window: telemetry, server, generator


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(small_experiment())
    return path


def test_a_toml_error_names_the_line(lab: Lab, small: Path) -> None:
    small.write_text(small_experiment(rate="= 200"))
    done = lab("run", str(small))
    assert done.returncode == cli.ERROR and len(done.stderr.splitlines()) == 2
    assert f"at line {small.read_text().splitlines().index('rate = = 200') + 1}," in done.stderr


def test_missing_permission_for_namespaces_is_one_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], small: Path
) -> None:
    """Neither root nor a user namespace: one message, with the setting to change."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delenv(namespaces.INSIDE, raising=False)
    refused = subprocess.CompletedProcess([], 1, "", "unshare: unshare failed: Operation not permitted")
    monkeypatch.setattr(namespaces.subprocess, "run", lambda *_, **__: refused)
    assert cli.main(["run", str(small), "--out", str(small.parent / "out")]) == cli.ERROR
    printed = capsys.readouterr().err
    assert printed.startswith("zonda-lab: not root, and no user namespace available: unshare: unshare failed")
    assert "run as root, or allow user namespaces" in printed
    assert not (small.parent / "out").exists()


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("name", ["zonda", "nsd", "knot", "bind"])
def test_an_unreadable_zone_is_reported_with_the_log_of_the_server(
    name: str, tmp_path: Path, zonda_load: ZondaLoad
) -> None:
    """The message names the server and shows its log; no process is left."""
    try:
        installed = ADAPTERS[name].installed()
    except LabError as error:
        pytest.skip(str(error).splitlines()[0])
    broken = tmp_path / "broken.zone"
    broken.write_text("this is no zone\n")
    settings = Settings(server=ServerSpec(name), zones=ZoneSpec("tiny", records=0), timing=TimingSpec(ready_s=1.5))
    opened = Harness(settings, {name: installed}, zonda_load)
    message = r"server (did not answer for zone0\.test\. within|ended with status)[^\n]*\n  its log ends"
    with pytest.raises(LabError, match=message), opened as staged:
        server = staged.start_server([Zone("zone0.test.", broken)])
        pids = process.descendants(server.process.pid)
        staged.wait_ready(server)
    assert not opened.folder.exists()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def lab_in_the_middle(small: Path, generator: ZondaLoad, scratch: Path, seconds: float) -> subprocess.Popen[str]:
    """A lab whose server and load generator run, in a window of so many seconds."""
    small.write_text(small_experiment(seconds=seconds))
    scratch.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "zonda_lab", "run", str(small), "--out", "out", "--load", str(generator.program)]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    lab = subprocess.Popen(
        command, cwd=small.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )

    def is_in_a_window() -> bool:
        assert lab.poll() is None
        is_recording = (small.parent / "out" / "records.jsonl").exists()
        return is_recording and any(scratch.glob("*/load0.log")) and len(process.descendants(lab.pid)) >= PROGRAMS

    wait_until(is_in_a_window)
    return lab


def wait_until(true: Callable[[], bool]) -> None:
    """Waits longer than anything takes on the slowest machine."""
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.usefixtures("namespaces")
def test_a_killed_lab_leaves_no_process_and_the_next_removes_its_files(
    small: Path, zonda_load: ZondaLoad, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    lab = lab_in_the_middle(small, zonda_load, scratch, seconds=2 * LIMIT_S)
    below = process.descendants(lab.pid)
    lab.send_signal(signal.SIGKILL)
    lab.communicate(timeout=LIMIT_S)
    wait_until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in below))
    assert list(scratch.glob("zonda-lab-*"))
    monkeypatch.setattr(folders.tempfile, "gettempdir", lambda: str(scratch))
    with folders.scratch_folder() as mine:
        assert list(scratch.glob("zonda-lab-*")) == [mine]


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_continues_with_resume(
    small: Path, zonda_load: ZondaLoad, tmp_path: Path, lab: Lab, number: signal.Signals
) -> None:
    broken_off = lab_in_the_middle(small, zonda_load, tmp_path / "scratch", seconds=3.0)
    broken_off.send_signal(number)
    _, printed = broken_off.communicate(timeout=LIMIT_S)
    assert broken_off.returncode == cli.INTERRUPTED and "Traceback" not in printed
    assert "interrupted; all processes have been stopped" in printed
    assert "continue with: zonda-lab run --resume out" in printed
    assert not list((tmp_path / "scratch").glob("zonda-lab-*"))
    small.write_text(small_experiment())
    refused = lab("run", "--resume", "out")
    assert refused.returncode == cli.ERROR, refused.stderr
    assert "T1.settings.timing.seconds: 3.0, then 0.5" in refused.stderr
    small.write_text(small_experiment(seconds=3.0))
    done = lab("run", "--resume", "out")
    assert "report: out/report.html" in done.stdout, done.stderr
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 2


def test_a_folder_in_use_is_not_stale_whatever_its_process_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lab in a container must not remove the folders of another, whose process it cannot see, from a shared cache."""
    no_process = 2**22 + 1  # beyond the highest process id (proc(5))
    monkeypatch.setattr(os, "getpid", lambda: no_process)
    with folders.scratch_folder(tmp_path) as first, folders.scratch_folder(tmp_path) as second:
        assert {*tmp_path.iterdir()} == {first, second}
    (tmp_path / f"zonda-lab-{no_process}-of-a-killed-lab").mkdir()
    folders.remove_stale_folders(tmp_path)
    assert not list(tmp_path.iterdir())


KILLED = """
import os, pathlib, signal, sys
from zonda_lab.experiments.definition import ZoneSpec
from zonda_lab.zones import zonegen
die = lambda _: os.kill(os.getpid(), signal.SIGKILL)
zonegen.generate(ZoneSpec("tld", records=10_000), pathlib.Path(sys.argv[1]), die)
"""


def test_zones_that_a_killed_lab_wrote_in_part_are_removed(tmp_path: Path) -> None:
    """Their folders must not stay in the cache: gigabytes for each large zone."""
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL and list(tmp_path.rglob("*.zone"))
    made = zonegen.generate(ZoneSpec("tiny", zones=3, records=0), tmp_path)
    assert all(zone.file and zone.file.exists() for zone in made.zones)
    assert len(list(tmp_path.rglob("*.zone"))) == len(made.zones) == 3
