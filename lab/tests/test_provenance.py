from pathlib import Path
from typing import Any

import pytest

from zonda_lab.errors import LabError
from zonda_lab.results.provenance import require_same
from zonda_lab.rig import machine_info

GENERATOR = {"name": "zonda-load", "version": "0.1", "sha256": "d" * 64}
MACHINE = {"cpu": "x", "cpus": 2, "kernel": "6.1", "sysctl": {"net.core.rmem_max": "4194304"}}
PLAYER = {**MACHINE, "clock": {"offset_s": 0.1}}
BEFORE: dict[str, Any] = {
    "source": "0123456",
    "source_sha256": "e" * 64,
    "generator": GENERATOR,
    "servers": {"nsd": {"version": "4.6.1", "sha256": "a" * 64}, "knot": {"version": "3.2", "sha256": "b" * 64}},
    "experiments": {"E1": {"settings": {"timing": {"blocks": 8, "seconds": 5.0}}, "claims": []}},
    "machine": MACHINE,
    "machines": {"player1": PLAYER},
}


def experiment(**timing: float) -> dict[str, Any]:
    return {"E1": {"settings": {"timing": {"blocks": 8, "seconds": 5.0, **timing}}, "claims": ()}}


@pytest.mark.parametrize(
    ("changed", "message", "advice"),
    [
        ({"source": "0123456-dirty"}, "began at commit 0123456, and this tree is 0123456-dirty", "git worktree add"),
        ({"source_sha256": "f" * 64}, "the files of the lab differ from when the run began, both .* 0123456", "undo"),
        (
            {"generator": {**GENERATOR, "version": "0.2"}},
            r"with zonda-load 0.1 \(d{12}\), and this is zonda-load 0.2 \(d{12}\)",
            "build the load generator of that commit",
        ),
        (
            {"generator": {**GENERATOR, "sha256": "0" * 64}},
            r"0.1 \(d{12}\), and this is zonda-load 0.1 \(0{12}\)",
            "build",
        ),
        ({"servers": {"nsd": {"version": "4.6.1", "sha256": "c" * 64}}}, "nsd is another program", "install that"),
        ({"experiments": experiment(seconds=1.0)}, "E1.settings.timing.seconds: 5.0, then 1.0", "restore the exp"),
        ({"experiments": {**experiment(), "E2": {}}}, "E2: not set, then {}", "restore the exp"),
        ({"machine": {**MACHINE, "kernel": "6.5"}}, "machine.kernel: 6.1, then 6.5", "resume on the machine"),
        ({"machines": {}}, "player1: .* then not set", "resume on the machine"),
        (
            {"machine": {**MACHINE, "sysctl": {"net.core.rmem_max": "1"}}},
            "machine.sysctl.net.core.rmem_max: 4194304, then 1",
            "restore that setting",
        ),
    ],
)
def test_a_run_is_not_resumed_with_something_else(changed: dict[str, Any], message: str, advice: str) -> None:
    with pytest.raises(LabError, match=message) as refused:
        require_same(BEFORE, {**BEFORE, **changed})
    assert advice in refused.value.help and "begin a new run" in refused.value.help


def test_a_run_is_resumed_with_the_same_programs() -> None:
    require_same(BEFORE, BEFORE)
    require_same(BEFORE, {**BEFORE, "servers": {"nsd": BEFORE["servers"]["nsd"]}})  # knot is not measured
    require_same(BEFORE, {**BEFORE, "experiments": experiment()})  # a tuple is stored as a list
    require_same(BEFORE, {**BEFORE, "machines": {"player1": {**PLAYER, "clock": {"offset_s": 0.2}}}})


MEASURED: dict[str, Any] = {
    **BEFORE,
    "experiments": {
        "E1": {
            "settings": {"primary": {"name": "bind"}},
            "levels": {"server.name": ["nsd"], "kind": ["a"]},
            "factors": {"server.name": ["nsd", "yadifa"], "kind": {"a": {"primary": {"name": "pdns"}}}},
        }
    },
}


@pytest.mark.parametrize("label", ["nsd", "bind", "pdns", "echo"])
def test_a_run_is_resumed_with_all_servers_that_it_measures(label: str) -> None:
    """A server that was removed or installed meanwhile would have windows in some blocks only."""
    server = {"version": "1", "sha256": "c" * 64}
    without = {name: found for name, found in MEASURED["servers"].items() if name != label}
    one, other = ({**MEASURED, "servers": servers} for servers in (without, {**without, label: server}))
    with pytest.raises(LabError, match=f"{label} was not installed when the run began"):
        require_same(one, other)
    with pytest.raises(LabError, match=f"{label} is no longer installed"):
        require_same(other, one)
    require_same(MEASURED, {**MEASURED, "servers": {**MEASURED["servers"], "yadifa": server}})  # not measured


def test_a_run_before_the_digests_is_not_resumed_without_them() -> None:
    old = {name: value for name, value in BEFORE.items() if name != "source_sha256"}
    with pytest.raises(LabError, match="the files of the lab differ"):
        require_same(old, BEFORE)
    with pytest.raises(LabError, match=r"zonda-load 0.1 \(digest not recorded\)"):
        require_same({**BEFORE, "generator": {"name": "zonda-load", "version": "0.1"}}, BEFORE)


def test_the_digest_of_the_lab_is_that_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "rig" / "machine_info.py"
    module.parent.mkdir()
    module.write_text("a = 1\n")
    monkeypatch.setattr(machine_info, "__file__", str(module))
    before = machine_info.source_digest()
    (tmp_path / "rig" / "machine_info.pyc").write_text("made by Python")
    assert machine_info.source_digest() == before
    module.write_text("a = 2\n")
    assert machine_info.source_digest() != before
