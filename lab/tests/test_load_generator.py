import json
from pathlib import Path
from typing import Any

import pytest

from zonda_lab.errors import LabError, UnsupportedError
from zonda_lab.experiments.definition import ChangeSpec, TrafficSpec
from zonda_lab.load import installed
from zonda_lab.load.dnsperf import Dnsperf, count_unexpected_rcodes
from zonda_lab.load.generator import QueryJob
from zonda_lab.load.installed import find_generator
from zonda_lab.load.latency_histogram import LatencyHistogram, read_log, write_log
from zonda_lab.load.result import LoadResult, merge_results
from zonda_lab.load.zonda_load import ZondaLoad, require_zonda_load
from zonda_lab.measurement.load_runner import part_of
from zonda_lab.rig.namespaces import SOURCES
from zonda_lab.servers.config import Certificate, Endpoint, Tsig
from zonda_lab.zones.workload import Workload

WORK = Workload(Path("/q"), Path("/e"), {"NOERROR": 0.6, "NXDOMAIN": 0.4})
DNSPERF = """Statistics:

  Queries sent:         30000
  Queries completed:    29990 (99.97%)
  Queries lost:         10 (0.03%)

  Response codes:       NOERROR 17990 (59.99%), NXDOMAIN 12000 (40.01%)
  Average packet size:  request 30, response 80
  Run time (s):         3.000100
  Queries per second:   9996.333456

  Average Latency (s):  0.000150 (min 0.000020, max 0.009000)
  Latency StdDev (s):   0.000050

Connection Statistics:

  Reconnections:        0

  Average Latency (s):  0.000400 (min 0.000100, max 0.002000)
"""


def job(seconds: float = 3.0, **traffic: object) -> QueryJob:
    return QueryJob(TrafficSpec(**traffic), 10_000.0, Endpoint("10.53.0.2"), WORK, seconds)  # type: ignore[arg-type]


@pytest.fixture
def dnsperf(tmp_path: Path) -> Dnsperf:
    program = tmp_path / "dnsperf"
    program.write_text("#!/bin/sh\necho Version 2.10.0\n")
    program.chmod(0o755)
    return Dnsperf(program)


def test_dnsperf_output_is_parsed(dnsperf: Dnsperf) -> None:
    assert dnsperf.version == "2.10.0"
    found = dnsperf.parse(DNSPERF, job(transport="tcp"))
    assert (found.sent, found.answered, found.scheduled, found.wrong) == (30_000, 29_990, 30_000, 0)
    assert found.latency_mean_us == pytest.approx(150)
    assert found.connect_mean_us == pytest.approx(400)
    assert found.handshakes == 20
    assert found.rcodes == {"NOERROR": 17_990, "NXDOMAIN": 12_000}
    with pytest.raises(LabError, match="dnsperf printed no result"):
        dnsperf.parse("Error: no", job())


@pytest.mark.parametrize(
    "traffic",
    [
        {"transport": "quic"},
        {"sources": 2},
        {"queries_per_connection": 1},
        {"dnssec_ok": 0.5},
        {"tcp_share": 0.1},
        {"arrivals": "poisson"},
        {"capture": "root.pcap"},
        {"resumption": True},
        {"fast_open": True},
        {"client_idle_s": 1.0},
        {"burst": 8},
        {"ramp": 2.0},
    ],
)
def test_unsupported_dnsperf_options_are_reported_before_the_run(dnsperf: Dnsperf, traffic: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError, match="dnsperf does not support"):
        dnsperf.query(job(**traffic))


def test_unexpected_rcodes_are_counted() -> None:
    expected = {"NOERROR": 0.6, "NXDOMAIN": 0.4}
    assert count_unexpected_rcodes({"NOERROR": 6000, "NXDOMAIN": 4000}, expected) == 0
    assert count_unexpected_rcodes({"NOERROR": 6050, "NXDOMAIN": 3950}, expected) == 0  # one sigma
    assert count_unexpected_rcodes({"NOERROR": 5900, "NXDOMAIN": 4000, "SERVFAIL": 100}, expected) == 100
    assert count_unexpected_rcodes({"NOERROR": 10_000}, expected) == 8000


def summary(**own: object) -> str:
    total = {"type": "stats_sum", "since": 0, "until": 2_000_000_000, "queries": 100, "responses": 99}
    return "\n".join(json.dumps(line) for line in ({"runid": "1", "type": "header"}, {**total, "zonda": own})) + "\n"


def test_zonda_load_output_is_parsed(zonda_load: ZondaLoad) -> None:
    latency = LatencyHistogram()
    for _ in range(99):
        latency.add(100.0)
    latency.add(1_000_000.0)
    text = summary(scheduled=100, wrong=2, schedule_error={"p99": 5000}, latency_intended=latency.encoded())
    found = zonda_load.parse(text, job())
    assert (found.sent, found.answered, found.wrong, found.scheduled) == (100, 99, 2, 100)
    assert found.schedule_error_p99_us == 5.0
    assert LatencyHistogram(found.latency_intended).percentile(50) == pytest.approx(100, rel=0.002)
    assert LatencyHistogram(found.latency_intended).percentile(100) == pytest.approx(1_000_000, rel=0.002)
    with pytest.raises(LabError, match="printed no result"):
        zonda_load.parse('{"type": "header"}\n{"type": "stats_su', job())


def test_the_command_lines_are_those_of_the_contract(zonda_load: ZondaLoad) -> None:
    line = list(map(str, zonda_load.query(job(sources=100, dnssec_ok=0.5, tcp_share=0.1, arrivals="poisson"))))
    for part in (
        "--rate 10000 --arrivals poisson",
        "--sources 100 --source-prefix 10.64.0.0/12",
        "--do 0.5",
        "--tcp-share 0.1",
    ):
        assert part in " ".join(line)
    closed = " ".join(map(str, zonda_load.query(job(loop="closed", transport="tcp", fast_open=True))))
    assert "--outstanding 200" in closed and "--rate" not in closed and closed.endswith("--fast-open")
    quic = " ".join(map(str, zonda_load.query(job(loop="closed", transport="quic", sources=2, resumption=True))))
    assert "quic --server 10.53.0.2 --port 0 --queries /q --expect /e --outstanding 200 --connections 20" in quic
    assert quic.endswith("--edns 1232 --resume --sources 2 --source-prefix 10.64.0.0/12")
    key = Tsig("k.", "hmac-sha256", "AA==")
    pull = zonda_load.pull(Endpoint("10.53.0.2"), "tcp", Path("/z"), key)
    assert "xfr pull --server 10.53.0.2 --port 53 --transport tcp --zones /z --tsig hmac-sha256:k.:AA==" in " ".join(
        map(str, pull)
    )


def test_a_peak_search_has_the_arrivals_of_the_experiment(zonda_load: ZondaLoad) -> None:
    """It must not have constant ones, whatever is asked for."""
    found = " ".join(map(str, zonda_load.find_peak(job(arrivals="poisson"), ["99"], 0.03)))
    assert "--rate 10000 --arrivals poisson --seconds 3 --find-peak 99 --resolution 3" in found


@pytest.mark.parametrize(
    ("traffic", "parts"),
    [
        ({"loop": "closed", "outstanding": 5, "connections": 20}, [(5_000.0, 3, 10), (5_000.0, 2, 10)]),
        ({"outstanding": 1, "connections": 3}, [(5_000.0, 1, 2), (5_000.0, 1, 1)]),
    ],
)
def test_players_share_the_load_equally(traffic: dict[str, Any], parts: list[tuple[float, int, int]]) -> None:
    """All of the load is shared, not only the rate."""
    found = [part_of(job(**traffic), i, 2) for i in range(2)]
    assert [(part.rate, part.traffic.outstanding, part.traffic.connections) for part in found] == parts


@pytest.mark.parametrize(
    ("traffic", "why"),
    [
        ({"capture": "root.pcap"}, "each of the 2 players would replay the whole capture"),
        ({"loop": "closed", "outstanding": 1}, "2 players cannot share traffic.outstanding = 1"),
        ({"connections": 1}, "2 players cannot share traffic.connections = 1"),
    ],
)
def test_players_skip_what_they_cannot_share(traffic: dict[str, Any], why: str) -> None:
    """A capture must not be sent once by each player."""
    with pytest.raises(UnsupportedError, match=why):
        part_of(job(**traffic), 0, 2)
    assert part_of(job(**traffic), 0, 1).traffic == job(**traffic).traffic


def test_commands_contain_tsig_key_and_ca_if_configured(zonda_load: ZondaLoad, tmp_path: Path) -> None:
    there = Endpoint("10.53.0.2")
    key, vouching = Tsig("k.", "hmac-sha256", "AA=="), Certificate(Path("/crt"), Path("/key"), "here.test")
    unsigned, signed = (zonda_load.update(there, "a.test.", 5.0, 1.0, tsig) for tsig in (None, key))
    assert signed == [*unsigned, "--tsig", "hmac-sha256:k.:AA=="]
    held = helping(tmp_path, "--transport <tcp|tls>").hold(
        there, TrafficSpec(transport="tls", sources=3), ChangeSpec(10, 5.0, 2.0), authority=vouching
    )
    assert " --connections 10 --rate 5 --seconds 2 --probe-ms 10 --probe-port 53 " in " ".join(map(str, held))
    sources = ["--sources", "3", "--source-prefix", SOURCES]
    assert held[-8:] == [*sources, "--ca", Path("/crt"), "--tls-name", "here.test"]


def test_unsupported_generator_options_are_skipped(tmp_path: Path) -> None:
    old = helping(tmp_path, "--transport <udp|tcp>")
    with pytest.raises(UnsupportedError, match="query does not support --transport tls"):
        old.query(job(transport="tls"))
    with pytest.raises(UnsupportedError, match="query does not support --resume"):
        old.query(job(transport="tcp", resumption=True))
    with pytest.raises(UnsupportedError, match=r"zonda-load quic has no traffic\.tcp-share"):
        old.query(job(transport="quic", tcp_share=0.5))
    with pytest.raises(UnsupportedError, match="no open loop over new connections"):
        old.query(job(transport="quic", queries_per_connection=1))
    with pytest.raises(UnsupportedError, match="dnsperf can only send queries"):
        require_zonda_load(Dnsperf(old.program))


def helping(folder: Path, *options: str) -> ZondaLoad:
    """A load generator whose help has these options."""
    program = folder / "zonda-load"
    program.write_text("#!/bin/sh\n" + "".join(f"echo '  {option}'\n" for option in options))
    program.chmod(0o755)
    return ZondaLoad(program)


def test_results_of_players_are_merged() -> None:
    latency = LatencyHistogram()
    for _ in range(9):
        latency.add(100.0)
    one = LoadResult(10, 9, 2.0, 10.0, rcodes={"NOERROR": 9}, latency_mean_us=100.0, latency_intended=latency.encoded())
    two = LoadResult(30, 27, 2.1, 30.0, rcodes={"NOERROR": 20, "NXDOMAIN": 7}, latency_mean_us=200.0, invalid=["late"])
    total = merge_results([one, two])
    assert (total.sent, total.answered, total.seconds, total.scheduled) == (40, 36, 2.1, 40.0)
    assert total.rcodes == {"NOERROR": 29, "NXDOMAIN": 7}
    assert total.latency_mean_us == pytest.approx(175.0)
    assert total.latency_intended == "" and total.invalid == ["player 2: late"]
    assert LatencyHistogram(merge_results([one, one]).latency_intended).count == 18


def test_means_of_players_are_weighted_by_their_counts() -> None:
    """The mean connection latency must not be the largest of the players' means."""
    one = LoadResult(100, 100, 2.0, latency_mean_us=100.0, connect_mean_us=100.0, handshakes=30)
    two = LoadResult(100, 100, 2.0, connect_mean_us=500.0, handshakes=10)
    idle = LoadResult(0, 0, 2.0)
    total = merge_results([one, two, idle])
    assert total.connect_mean_us == pytest.approx(200.0) and total.handshakes == 40
    assert total.latency_mean_us == pytest.approx(100.0)  # of the players that report one
    assert merge_results([idle, idle]).connect_mean_us is None


def test_the_mean_latency_of_players_is_that_of_all_latencies() -> None:
    """Late answers and time-outs are part of a mean, so its weight must not be the answers in the window."""
    results = []
    for answered, us in ((10, 100.0), (100, 300.0)):
        latency = LatencyHistogram()
        for _ in range(100):
            latency.add(us)
        mean = {"latency_mean_us": us, "latency_intended": latency.encoded()}
        results.append(LoadResult(100, answered, 2.0, late_answers=100 - answered, **mean))
    assert merge_results(results).latency_mean_us == pytest.approx(200.0)
    for result in results:  # another generator's
        result.latency_intended = ""
    assert merge_results(results).latency_mean_us == pytest.approx(200.0)


def test_the_rates_of_a_ramp_are_those_of_all_players() -> None:
    """They must not be those of the first player."""
    one, two = LoadResult(20, 20, 2.0, ramp=[(100.0, 1.0), (200.0, 1.0)]), LoadResult(30, 25, 2.0)
    two.ramp = [(100.0, 1.0), (300.0, 0.5), (400.0, 0.5)]
    assert merge_results([one, two]).ramp == [(200.0, 1.0), (500.0, 0.7)]
    assert merge_results([one, LoadResult(10, 10, 2.0)]).ramp == []


def test_a_ramp_has_the_results_of_each_part(zonda_load: ZondaLoad) -> None:
    ramp = job(ramp=3.0)
    assert ramp.mean_rate == 20_000
    line = " ".join(map(str, zonda_load.query(ramp)))
    assert "--rate 10000 --arrivals constant --ramp-to 30000 --seconds 3" in line
    assert "--interval 0.142857 --timeout-ms 1000" in line
    for steady in (job(), job(ramp=3.0, loop="closed"), job(ramp=3.0, capture="root.pcap")):
        assert not steady.is_ramp and steady.mean_rate == 10_000
    part = {"type": "stats_periodic", "since": 0, "until": 500_000_000, "queries": 1000, "timeouts": 0}
    parts = [part] * 2 + [{**part, "queries": 2000}] + [part] * 6 + [{**part, "queries": 0, "timeouts": 20}]
    found = zonda_load.parse("".join(f"{json.dumps(each)}\n" for each in parts) + summary(), ramp).ramp
    assert found[1:4] == [(2000.0, 1.0), (4000.0, 0.99), (2000.0, 1.0)] and len(found) == 9


def test_histogram_logs_round_trip(tmp_path: Path) -> None:
    latency = LatencyHistogram()
    latency.add(250.0)
    write_log(tmp_path / "x.hlog", 1.7e9, 2.0, {"intended": latency.encoded(), "actual": latency.encoded()})
    found = read_log(tmp_path / "x.hlog")
    assert set(found) == {"intended", "actual"}
    assert found["intended"].percentile(50) == pytest.approx(250, rel=0.002)
    assert found["actual"].count == 1


def test_the_mean_is_that_of_the_library() -> None:
    latency = LatencyHistogram()
    assert latency.mean == 0.0
    for value in (0.4, 55.0, 55.0, 1234.5, 1_000_000.0):
        latency.add(value)
    assert latency.mean == pytest.approx(latency.histogram.get_mean_value() / 1000, rel=1e-9)


def test_a_missing_generator_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LabError, match="load generator `dnsperf` not found"):
        find_generator("dnsperf")


def test_dnsperf_is_used_only_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without zonda-load, a run must not fall back to closed loops without the latencies of its experiments."""
    monkeypatch.setattr(installed, "zonda_load", lambda: None)
    monkeypatch.setattr(installed, "_program", Path)
    monkeypatch.delenv("ZONDA_LOAD", raising=False)
    with pytest.raises(LabError, match=r"zonda-load not found\n  help: build it .*--load dnsperf"):
        find_generator()


def test_a_replay_keeps_ports_and_changes_queries(tmp_path: Path) -> None:
    old = ("--transport <udp|tcp>", "--idle-timeout <SECONDS>")
    replay = job(capture="root.pcap", client_ports=True, dnssec_ok=1.0, transport="tcp", client_idle_s=10.0)
    words = [str(word) for word in helping(tmp_path, *old, "--client-ports").query(replay)]
    for option in (["--client-ports"], ["--do", "1"], ["--idle-timeout", "10"], ["--pcap", "root.pcap"]):
        at = words.index(option[0])
        assert words[at : at + len(option)] == option
    with pytest.raises(UnsupportedError, match="--client-ports"):
        helping(tmp_path, *old).query(replay)
