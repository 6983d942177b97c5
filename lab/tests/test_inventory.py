from pathlib import Path
from types import SimpleNamespace

import pytest

from zonda_lab.command import cli
from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import RigSpec, Settings
from zonda_lab.fleet import Inventory, read
from zonda_lab.fleet.inventory import HostSpec
from zonda_lab.fleet.network import FleetNetwork
from zonda_lab.fleet.remote_host import ClockOffset, Exchange, RemoteHost, drift_ppm, estimate
from zonda_lab.schema import reference
from zonda_lab.telemetry.series import Telemetry, with_clients

GOOD = """
[programs]
zonda-load = "upload"
[server]
ssh = "root@server"
address = "10.0.0.2"
identity = "key"
[[player]]
ssh = "player"
address = "10.0.0.3"
programs = { nsd = "/opt/nsd" }
"""


def written(folder: Path, text: str) -> Path:
    (folder / "key").write_text("")
    (folder / "lab.toml").write_text(text)
    return folder / "lab.toml"


def test_hosts_have_names_absolute_paths_and_shared_programs(tmp_path: Path) -> None:
    inventory = read(written(tmp_path, GOOD))
    assert [spec.name for spec in inventory.hosts] == ["server", "player1"]
    assert inventory.server.identity == str(tmp_path / "key")
    assert inventory.player[0].programs == {"zonda-load": "upload", "nsd": "/opt/nsd"}
    assert inventory.server.cpus is None and inventory.primary is None


def test_the_inventory_in_the_readme_is_valid(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text().partition("## Several machines")[2]
    inventory = read(written(tmp_path, text.partition("```toml\n")[2].partition("```")[0]))
    assert [spec.address for spec in inventory.hosts] == ["10.0.0.2", "10.0.0.11", "10.0.0.12"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[programs]", "[program]", "lab.toml: unknown key `program`\n  help: did you mean `programs`?"),
        (
            'identity = "key"',
            'identiy = "key"',
            "lab.toml: server: unknown key `identiy`\n  help: did you mean `identity`?",
        ),
        ('identity = "key"', 'identity = "kee"', "lab.toml: server: identity: no file "),
        ('ssh = "player"\n', "", "lab.toml: player[0]: `ssh` is missing\n  help: it is SSH destination"),
        ("[[player]]", "[primary]", "lab.toml: `player` is missing"),
        ("10.0.0.3", "10.0.0", "lab.toml: player1: address is '10.0.0'\n  help: it must be an IPv4 address"),
        ("10.0.0.3", "::1", "lab.toml: player1: address is '::1'"),
        ("[programs]", 'work = "lab"\n[programs]', "lab.toml: work is 'lab'\n  help: it must be an absolute path"),
        ('ssh = "player"', 'ssh = "player"\nname = "server"', "lab.toml: two machines are called server"),
        ('ssh = "player"', 'ssh = "player"\nsources = "10.1"', "lab.toml: player1: sources is '10.1'"),
        ('ssh = "player"', 'ssh = "player"\ncpus = ["a"]', "lab.toml: player[0]: cpus[0] must be an integer"),
        ("[programs]", "[programs", "lab.toml: Expected"),
    ],
)
def test_every_error_names_its_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(LabError) as caught:
        read(written(tmp_path, GOOD.replace(old, new)))
    assert message in str(caught.value)


def test_a_missing_inventory_is_one_error_message(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--inventory", "/no/such/lab.toml"]) == cli.ERROR
    assert capsys.readouterr().err.endswith("/no/such/lab.toml: no such inventory\n")


def test_every_key_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(documentation for _, _, _, documentation in reference(Inventory))
    assert cli.main(["keys", "--inventory"]) == 0
    printed = capsys.readouterr().out
    assert "server.known-hosts\n" in printed and "work\n    folder of the lab" in printed


def exchanges(offset_s: float, delays: list[tuple[float, float]]) -> list[Exchange]:
    """Round trips with these delays in seconds there and back, one every 10 ms."""
    return [
        Exchange(sent := 100 + i / 100, sent + there + offset_s, sent + there + back)
        for i, (there, back) in enumerate(delays)
    ]


def test_the_clock_offset_is_within_its_uncertainty_on_asymmetric_paths() -> None:
    """The shortest delays in each direction bound it, even if no single round trip has both."""
    clock = estimate(exchanges(5.0, [(0.001, 0.009), (0.009, 0.002), (0.004, 0.004)]))
    assert abs(clock.offset_s - 5.0) <= clock.uncertainty_s
    assert clock.uncertainty_s == pytest.approx(0.0015) and clock.round_trip_s == pytest.approx(0.008)


def test_a_clock_that_jumps_while_it_is_read_is_rejected() -> None:
    with pytest.raises(LabError, match="a clock went wrong"):
        estimate([*exchanges(5.0, [(0.001, 0.001)]), *exchanges(5.1, [(0.001, 0.001)])])


def test_drift_has_an_uncertainty() -> None:
    drift, uncertain = drift_ppm(ClockOffset(1.0, 0.0001, 0.001), ClockOffset(1.0005, 0.0001, 0.001), 10.0)
    assert drift == pytest.approx(50) and uncertain == pytest.approx(20)


def test_client_counters_are_the_sum_over_players() -> None:
    def telemetry(end: str, *lost: tuple[float, int]) -> Telemetry:
        return Telemetry({}, [{"t": at, "net": {end: {"Udp.RcvbufErrors": count}}} for at, count in lost])

    joined = with_clients(
        telemetry("server", (10, 0), (20, 0), (30, 0)),
        [telemetry("client", (9, 1), (21, 5)), telemetry("client", (15, 2))],
    )
    assert [sample["net"]["client"].get("Udp.RcvbufErrors", 0) for sample in joined.samples] == [1, 3, 7]


@pytest.mark.parametrize(
    ("inventory", "is_server", "cpus", "pin"),
    [
        (None, True, [2], ["taskset", "-c", "2"]),
        ([0, 1, 3], True, [0, 1, 3], ["taskset", "-c", "0,1,3"]),
        ([0, 1, 3], False, [0, 1, 3], ["taskset", "-c", "0,1,3"]),
        (None, False, [0, 1, 2, 3], []),
        ([], True, [0, 1, 2, 3], []),
    ],
)
def test_the_cpus_of_the_inventory_replace_those_of_the_experiment(
    inventory: list[int] | None, is_server: bool, cpus: list[int], pin: list[str]
) -> None:
    host = RemoteHost.__new__(RemoteHost)
    host.spec, host.facts = HostSpec("root@server", "10.0.0.2", cpus=inventory), {"cpus": 4}
    host._pinned = is_server
    assert (list(host.cpus_of([2])), host._pin([2]), host._pin([])) == (cpus, pin, [])


@pytest.mark.parametrize(
    ("rig", "what"),
    [
        (RigSpec(queues=2), "receive queues"),
        (RigSpec(rps_cpus=[0]), "RPS"),
        (RigSpec(qdisc="fq"), "a queueing discipline"),
        (RigSpec(delay_ms=0.1), "a delay"),
        (RigSpec(loss_percent=0.1), "packet loss"),
    ],
)
def test_what_only_namespaces_can_have_is_refused_on_real_machines(rig: RigSpec, what: str, tmp_path: Path) -> None:
    fleet = SimpleNamespace(inventory=read(written(tmp_path, GOOD)), server=None, primary=None, players=[None])
    with pytest.raises(UnsupportedError, match=f"{what} is set in namespaces only\n  help: run this without an inv"):
        FleetNetwork(fleet, Settings(rig=rig)).__enter__()  # type: ignore[arg-type]
