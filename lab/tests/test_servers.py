"""Every installed server answers, transfers zones in and out, and stops; the others are skipped with a message."""

import dataclasses
import time
from pathlib import Path

import pytest

from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import PrimarySpec, ServerSpec, Settings, TimingSpec, ZoneSpec
from zonda_lab.load.zonda_load import ZondaLoad
from zonda_lab.measurement.harness import Harness
from zonda_lab.measurement.running_server import Server
from zonda_lab.procedures.startup import NEW_SERIAL
from zonda_lab.rig.process import descendants
from zonda_lab.servers import ADAPTERS, Feature, InstalledServer
from zonda_lab.servers.adapter import at_least
from zonda_lab.servers.config import Access, Endpoint, Remote, ServerConfig, Tsig, Zone, ZonePolicy, with_policy
from zonda_lab.servers.credentials import TSIG, tsig_key
from zonda_lab.zones.zonegen import set_serial

pytestmark = pytest.mark.usefixtures("namespaces")
REAL = [name for name in ADAPTERS if name not in ("echo", "sink", "null-primary")]
ZONES = ZoneSpec("tiny", zones=5, records=0)
TRANSPORTS = ["tcp", "tcp+tsig", "tls", "tls+tsig"]
TRIES = {"yadifa": 3}  # on a busy machine its first transfer sometimes fails; it retries after a minute


def here(name: str) -> InstalledServer:
    try:
        return ADAPTERS[name].installed()
    except LabError as error:
        pytest.skip(str(error).splitlines()[0])


def settings(server: str, **change: object) -> Settings:
    given = {"timing": TimingSpec(finish_s=15.0, ready_s=15.0), **change}
    return Settings(server=ServerSpec(server), zones=ZONES, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*REAL, "echo", "sink"])
def test_a_server_starts_and_answers_for_all_zones(name: str, zonda_load: ZondaLoad) -> None:
    installed = here(name)
    assert installed.version != "unknown"
    with Harness(settings(name), {name: installed}, zonda_load) as harness:
        server = harness.start_server()
        assert 0 < harness.wait_ready(server) < 10
        assert missing(harness, server, 5.0) == 0
        assert server.process.cpu_s() > 0 and server.process.memory().rss_kb > 500
        pids = descendants(server.process.pid)
        assert pids
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", REAL)
def test_a_secondary_transfers_every_zone(name: str, transport: str, zonda_load: ZondaLoad) -> None:
    require_transfers(here(name), here("bind" if "tls" in transport else "nsd"), transport, zonda_load)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("name", ["zonda", "nsd", "knot", "bind"])
def test_zonda_is_the_primary_of_each_secondary(name: str, transport: str, zonda_load: ZondaLoad) -> None:
    primary = dataclasses.replace(here("zonda"), label="primary")
    require_transfers(here(name), primary, transport, zonda_load)


def require_transfers(
    secondary: InstalledServer, primary: InstalledServer, transport: str, zonda_load: ZondaLoad
) -> None:
    """The secondary must get every zone; the test is skipped if one of the two lacks the transport."""
    name, tls, tsig = secondary.label, "tls" in transport, "tsig" in transport
    signed = {Feature.TSIG} if tsig else set()
    into = {Feature.SECONDARY, *signed, *([Feature.XOT_IN] if tls else [])}
    out = {Feature.TRANSFER_OUT, *signed, *([Feature.XOT_OUT] if tls else [])}
    for server, needed in ((secondary, into), (primary, out)):
        if lacking := needed - server.features:
            pytest.skip(f"{server.adapter.name} {server.version} cannot do {lacking.pop().value}")
    spec = PrimarySpec(primary.label, "tls" if tls else "tcp", tsig, addresses=2)
    for _ in range(TRIES.get(name, 1)):
        with Harness(settings(name, primary=spec), {s.label: s for s in (secondary, primary)}, zonda_load) as harness:
            harness.start_primary(harness.zones.zones)
            server = harness.start_server(harness.secondary_zones())
            absent, log = missing(harness, server, 15.0), server.process.tail()
        if not absent:
            return
    pytest.fail(f"{absent} zones never came: {log}")


def missing(harness: Harness, server: Server, seconds: float, serial: int = 0) -> int:
    """How many zones are not answered within that time, with a serial if given."""
    names = [zone.name for zone in server.config.zones][: 1 if serial else None]
    return harness.arrivals(harness.start_probe(names, seconds, serial), server).missing


@pytest.mark.parametrize("name", REAL)
def test_a_changed_zone_is_served_after_a_reload(name: str, zonda_load: ZondaLoad) -> None:
    installed = here(name)
    with Harness(settings(name), {name: installed}, zonda_load) as harness:
        zones = harness.changeable_zones()
        server = harness.start_server(zones)
        harness.wait_ready(server)
        time.sleep(1.1)  # some servers compare file times in whole seconds
        assert zones[0].file is not None
        set_serial(zones[0].file, NEW_SERIAL)
        harness.reload(server)
        assert missing(harness, server, 10.0, NEW_SERIAL) == 0, server.process.tail()


@pytest.mark.parametrize("tsig", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("name", REAL)
def test_updates_are_signed_if_the_experiment_sets_tsig(name: str, tsig: bool, zonda_load: ZondaLoad) -> None:
    """Updates with the key of the experiment succeed; if it has a key, updates without it fail."""
    installed = here(name)
    if lacking := {Feature.UPDATE, Feature.TSIG} - installed.features:
        pytest.skip(f"{name} {installed.version} cannot do {lacking.pop().value}")
    asked = settings(name, primary=PrimarySpec(tsig=tsig), timing=TimingSpec(seconds=0.1, ready_s=15.0))
    with Harness(asked, {name: installed}, zonda_load) as harness:
        server = harness.start_server(harness.changeable_zones(), updates=True)
        harness.wait_ready(server)

        def done(key: Tsig | None) -> float:
            update = zonda_load.update(server.config.endpoint, server.config.zones[0].name, 20.0, 0.2, key)
            result = harness.load.command(update, 1.0)
            return result.rcodes.get("NOERROR", 0) / result.sent

        assert done(server.config.tsig) == 1.0
        assert done(None) == (0.0 if tsig else 1.0)


@pytest.mark.parametrize("name", REAL)
def test_the_configuration_contains_every_value_of_the_server_config(name: str, tmp_path: Path) -> None:
    """Each value of the server config is in one of the files."""
    folder = tmp_path
    key = TSIG if Feature.TSIG in ADAPTERS[name].features("99.9") else None
    secondary = ZonePolicy((Remote("10.53.1.9", 5399),), notified_by=(Access(),))
    zones = Zone("a.test.", folder / "a.zone"), Zone("b.test.", policy=secondary)
    config = ServerConfig(
        directory=folder,
        endpoint=Endpoint("10.53.0.2"),
        zones=with_policy(zones, transfer=(Access(key),), notify=(Remote("10.53.0.99", 5398),)),
        workers=3,
        tcp_clients=777,
        more_addresses=("10.53.0.3",),
        options=("# an option of its own",),
    )
    text = "".join(ADAPTERS[name].files(config).values())
    for value in (
        "10.53.0.2",
        "10.53.0.3",
        "a.test",
        "a.zone",
        "b.test",
        "10.53.1.9",
        "5399",
        "3",
        "1554" if name == "nsd" else "777",
        "10.53.0.99",
        "5398",
        "# an option",
    ):
        assert value in text, value
    if config.tsig:
        assert config.tsig.secret in text
    silent = dataclasses.replace(config, zones=with_policy(config.zones, notify=()))
    assert "10.53.0.99" not in "".join(ADAPTERS[name].files(silent).values())


def written(name: str, folder: Path, zones: list[Zone]) -> str:
    """The configuration of a server with these zones."""
    return "".join(ADAPTERS[name].files(ServerConfig(folder, Endpoint("10.53.0.2"), tuple(zones))).values())


@pytest.mark.parametrize(("name", "line"), [("bind", "allow-transfer"), ("knot", "acl: [")])
def test_what_all_zones_share_is_written_once(name: str, line: str, tmp_path: Path) -> None:
    """Rights for each of a million zones would take memory and time that are not those of the zones."""
    zones = [Zone(f"z{number}.test.", tmp_path / "zone") for number in range(3)]
    assert written(name, tmp_path, zones).count(line) == 1
    zones[0] = zones[0].changed(transfer=(Access(TSIG),))
    assert written(name, tmp_path, zones).count(line) == len(zones)


@pytest.mark.parametrize("name", ["zonda", "nsd", "knot", "bind"])
def test_each_zone_may_have_rights_of_its_own(name: str, tmp_path: Path) -> None:
    keys = [tsig_key(f"key{number}.test.") for number in range(2)]
    text = written(
        name, tmp_path, [Zone(f"of.{key.name}", tmp_path / "zone").changed(transfer=(Access(key),)) for key in keys]
    )
    for key in keys:
        assert key.secret in text and text.replace(f"of.{key.name}", "").count(key.name) == 2, "the key, and who has it"


def test_versions_are_compared_by_their_numbers() -> None:
    assert at_least("9.18.49-1~deb12u3-Debian", 9, 18) and at_least("9.20.1", 9, 18) and at_least("4.10", 4, 4)
    assert not at_least("9.16.3", 9, 18) and not at_least("unknown", 1)
