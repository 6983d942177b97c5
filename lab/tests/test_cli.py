import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zonda_lab.command import cli, run
from zonda_lab.results.window_record import WindowRecord
from zonda_lab.run.progress import Progress, format_duration
from zonda_lab.servers import ADAPTERS, InstalledServer
from zonda_lab.servers.installation import find_servers

Lab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "E99"), "no experiment `E99`"),
        (("run", "--quick"), "no experiment given"),
        (("run", "."), "no experiment `.`"),
        (("run", "/bin/true.toml/"), "no experiment `/bin/true.toml/`"),
        (("run", "missing.toml"), "missing.toml: no such experiment file"),
        (("run", "E1", "--set", "timing.bloks=1"), "unknown key `bloks`\n  help: did you mean `blocks`?"),
        (("run", "E1", "--set", "timing.blocks=0"), "timing: blocks must be 1 or more, is 0"),
        (("run", "E1", "--set", "timing.seconds=nan"), "timing: seconds must be 0.01 or more, is nan"),
        (("run", "E1", "--set", "timing.seconds=-1"), "timing: seconds must be 0.01 or more, is -1"),
        (("run", "E1", "--set", "timing.warm-up-s=inf"), "timing: warm-up-s must be 0 or more, is inf"),
        (("run", "E1", "--set", "traffic.sources=0"), "traffic: sources must be 1 or more, is 0"),
        (("run", "E1", "--set", "timing"), "--set timing: no `=`"),
        (("run", "E1", "--server", "x=nds:/bin/true"), "unknown server kind `nds`\n  help: did you mean `nsd`?"),
        (("run", "E1", "--server", "nsd=/no/such/nsd"), "nsd: no program /no/such/nsd"),
        (("run", "E1", "--servers", "ecko"), "--servers: no server `ecko`\n  help: did you mean `echo`?"),
        (("run", "E1", "--load", "/no/such/load"), "load generator `/no/such/load` not found"),
        (
            ("run", "--resume", "nowhere", "E1", "--quick"),
            "--resume continues a run as it began, so E1, --quick cannot",
        ),
        (
            ("run", "--resume", "x", "--out", "y", "--set", "a=1", "--load", "z"),
            "so --load, --set, --out cannot be given",
        ),
        (("run", "--resume", "nowhere", "--blocks-from", "x"), "so --blocks-from cannot be given"),
        (("run", "--resume", "nowhere"), "nowhere contains no results"),
        (("report", "nowhere"), "nowhere contains no results"),
        (("compare", "a", "b"), "a contains no results"),
        (("servers", "--install", "echo"), "no package for echo"),
    ],
)
def test_user_errors_print_one_message_and_return_one_status(
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == cli.ERROR
    printed = capsys.readouterr().err
    assert printed.startswith("zonda-lab: ") and message in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--zones=0", "--records=-5", "--records=many"])
def test_zonegen_rejects_empty_zones(option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["zonegen", "tld", option, "--out", str(tmp_path / "zones")])
    assert ended.value.code == cli.ERROR and "expected an integer of at least 1" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_status_2_means_undetected_only(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option of `compare` must not end with the status of an undetected difference."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["compare", "a", "--no-such-option"])
    assert ended.value.code == cli.ERROR
    assert "usage: zonda-lab compare" in capsys.readouterr().err


def test_an_unexpected_error_is_no_verdict(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its status must not be 1, which `compare` returns for "worse"."""

    def fails(_: object) -> int:
        raise ZeroDivisionError("unexpected")

    monkeypatch.setattr(cli.commands, "compare_results", fails)
    assert cli.main(["compare", "a", "b"]) == cli.FAULT == 70
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback") and printed.endswith("ZeroDivisionError: unexpected\n")


def test_a_reader_that_goes_away_gets_no_verdict(tmp_path: Path) -> None:
    """The status must not be 0, which `compare` returns for "not worse"."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    for arguments in (["keys"], ["zonegen", "tiny", "--out", str(tmp_path)]):  # more, and less, than a buffer holds
        command = [sys.executable, "-m", "zonda_lab", *arguments]
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment, check=False)
        assert done.returncode == cli.BROKEN_PIPE and done.stderr == ""
    os.close(writer)


def test_list_shows_every_experiment_with_its_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list"]) == 0
    printed = capsys.readouterr().out
    assert len(re.findall(r"^E\d+ ", printed, re.MULTILINE)) == 35
    assert printed.count("quick / full:") == 35


def test_a_dry_run_measures_nothing(lab: Lab, tmp_path: Path) -> None:
    done = lab("run", "--quick", "E1", "--dry-run")
    assert done.returncode == 0 and "block  0" in done.stdout and re.search(r"\d+ starts, about", done.stdout)
    assert list(tmp_path.iterdir()) == []


def test_installed_servers_are_all_that_answer_queries(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The null primary must not be among them."""
    names = ("zonda", "nsd", "echo", "sink", "null-primary")
    found = {name: InstalledServer(name, ADAPTERS[name], Path("/bin/true"), "1.0") for name in names}
    monkeypatch.setattr(run, "find_servers", lambda _: (found, {}))
    assert cli.main(["run", "E1", "--servers", "installed", "--dry-run"]) == 0
    starts = re.findall(r"^E1 +block +0 +(\w[\w-]*)", capsys.readouterr().out, re.MULTILINE)
    assert {*starts} == {"zonda", "nsd", "echo"}


def test_keys_lists_every_experiment_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["keys"]) == 0
    assert "timing.blocks\n    repetitions of every treatment" in capsys.readouterr().out


def test_zonegen_writes_to_the_out_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["zonegen", "tiny", "--zones", "3", "--out", str(tmp_path / "zones")]) == 0
    assert "6 records" in capsys.readouterr().out
    assert len(list((tmp_path / "zones").rglob("*.zone"))) == 3


def test_an_uncreatable_folder_is_one_error_message(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "zones").write_text("in the way")
    assert cli.main(["zonegen", "tiny", "--out", str(tmp_path / "zones")]) == cli.ERROR
    assert capsys.readouterr().err.startswith("zonda-lab: ")


def test_two_builds_of_one_server_have_two_labels(tmp_path: Path) -> None:
    program = tmp_path / "nsd"
    program.write_text("#!/bin/sh\necho NSD version 4.9.9\n")
    program.chmod(0o755)
    installed, _ = find_servers([f"new=nsd:{program}"])
    assert (installed["new"].adapter.name, installed["new"].version) == ("nsd", "4.9.9")


def test_progress_scales_the_remaining_time_by_past_durations(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(100.0)
    progress.begin("E1 nsd", 50.0)
    progress.began -= 100.0  # the first half took twice its time
    progress.window(WindowRecord("E1", "s", 0, 0, {}, valid=False, reasons=["a reason"]))
    progress.end()
    assert progress.left_s() == pytest.approx(100.0, rel=0.01)
    progress.close()
    assert "E1 nsd: invalid: a reason" in capsys.readouterr().err
    assert format_duration(245) == "4 min 05 s" and format_duration(9.6) == "10 s"
