from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from zonda_lab import machine, report
from zonda_lab.experiment import catalogue, load
from zonda_lab.hdr import Latency, write_log
from zonda_lab.record import Record, Results
from zonda_lab.report.words import number
from zonda_lab.run import described

VOID = {"meta", "br", "img", "hr", "link", "input", "path", "use", "rect", "circle"}


class Checker(HTMLParser):
    """Every element closed in order; collects ids and all that points outside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._look(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
            self.open.pop()

    def _look(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "xlink:href") and value:
                (self.links if value.startswith("#") else self.outside).append(value)
        assert tag not in ("script", "link", "iframe")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Made-up windows of all kinds of plots: a curve, peaks, lines, boxes, latency, arrivals."""
    folder = tmp_path_factory.mktemp("results")
    chosen = [load(path, quick=True) for path in catalogue() if path.stem[:3] in ("e01", "e02", "e12", "e16", "e21")]
    made = Results(folder / "made")
    servers = {label: {"kind": label, "version": "1.0", "sha256": "0" * 64} for label in ("nsd", "knot")}
    made.create(
        {
            "machine": machine.describe(),
            "generator": {"name": "zonda-load", "version": "0.1"},
            "began": "2026-01-01T00:00:00+00:00",
            "servers": servers,
            "absent": {"zonda": "zonda: no program zonda\n  give its path"},
            "experiments": {e.id: described(e) for e in chosen},
        }
    )
    draw = np.random.default_rng(5)
    for block in range(4):
        for name, speed in (("nsd", 1.0), ("knot", 1.1)):
            for record in windows(block, name, speed, draw, made.folder):
                made.append(record)
    skipped = Record(
        "E16",
        "E16/s",
        0,
        0,
        {"server.name": "bind", "setting": "qdisc fq"},
        skipped="this kernel cannot do qdisc fq",
        valid=False,
    )
    made.append(skipped)
    return made


@pytest.fixture(scope="module")
def page(results: Results) -> Path:
    return report.write(results.folder)


def windows(block: int, name: str, speed: float, draw: np.random.Generator, folder: Path) -> list[Record]:
    def made(experiment: str, treatment: dict[str, str], within: dict[str, str], **metrics: float) -> Record:
        key = f"{experiment}/{block}/{treatment}"
        return Record(
            experiment,
            key,
            block,
            0,
            treatment,
            0,
            within,
            metrics={k: v * draw.lognormal(0, 0.01) for k, v in metrics.items()},
        )

    found = []
    for rate in (20_000, 80_000, 200_000):
        share = min(1.0, 100_000 / speed / rate)
        found.append(
            made("E1", {"server.name": name}, {"traffic.rate": str(rate)}, sent_qps=rate, cpu_us_per_query=3 * speed)
        )
        found[-1].metrics["answered_share"] = share
        found[-1].saturated = [[0.4, "server: thread nsd uses its whole core"]]
    peaks = {f"peak_{goal}_qps": 100_000 / speed for goal in ("100", "9999", "999", "99")}
    found.append(made("E2", {"server.name": name}, {}, **peaks, first_loss_qps=90_000))
    for zones in (250, 1000):
        record = made(
            "E12",
            {"server.name": name, "zones.zones": str(zones)},
            {},
            transfer_s=zones / 1000 * speed,
            zones_per_s=1000 / speed,
        )
        record.detail["arrivals"], record.predictions = (
            [[0.1, 1], [zones / 1000, zones]],
            {"transfer_s": 0.0, "connections_per_s": 470.5},
        )
        found.append(record)
    for setting in ("default", "sack 1 (the default)", "tso_win_divisor 1"):
        for level in ("10 %", "100 %"):
            found.append(
                made(
                    "E16",
                    {"server.name": "bind", "setting": setting},
                    {"load": level},
                    latency_mean_us=200 * speed,
                    answered_qps=50_000,
                )
            )
            found[-1].block = block * 2 + (name == "knot")
    latency = Latency()
    for value in draw.lognormal(4, 0.3, 500):
        latency.add(float(value))
    record = made(
        "E21", {"server.name": name, "traffic.transport": "udp"}, {}, cpu_us_per_query=3.0, answered_share=1.0
    )
    record.files["latency"] = f"hdr/{name}-{block}.hlog"
    write_log(folder / record.files["latency"], 0.0, 1.0, {"intended": latency.encoded(), "actual": latency.encoded()})
    found.append(record)
    invalid = made("E21", {"server.name": name, "traffic.transport": "tcp"}, {}, cpu_us_per_query=3.0)
    invalid.valid, invalid.reasons = False, ["the hypervisor took 5.0% of the CPU time"]
    return [*found, invalid]


def test_the_page_is_whole_and_needs_nothing_else(page: Path) -> None:
    checker = Checker()
    checker.feed(page.read_text())
    assert checker.open == []
    assert checker.outside == []
    assert {link[1:] for link in checker.links} <= set(checker.ids)
    assert not re.search(r"url\((?!#)|@import", page.read_text())


def test_every_experiment_has_its_plots_tables_and_verdicts(page: Path) -> None:
    text = page.read_text()
    for name in ("E1-curve", "E2-peaks", "E12-transfer_s", "E12-arrivals", "E16-latency_mean_us-boxes", "E21-latency"):
        assert (page.parent / "figures" / f"{name}.svg").read_text().startswith("<svg")
    for part in (
        "140,000 to 160,000 answers a second",  # published
        "server: thread nsd uses its whole core",
        "this kernel cannot do qdisc fq",
        "the hypervisor took 5.0% of the CPU time",
        "p Games-Howell",
        "tcp_sack = 1 lowers latency by 1.5 % at full load",
        "Not measured:",
        "connections_per_s",
        "470",
    ):
        assert part in text, part
    assert text.count("<svg") >= 8


def test_ids_of_several_plots_do_not_clash(page: Path) -> None:
    text = page.read_text()
    bodies = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for body in bodies:
        defined = set(re.findall(r'<(?:path|clipPath|g)[^>]* id="(m[0-9a-f]{8,}|p[0-9a-f]{8,})"', body))
        used = set(re.findall(r'(?:xlink:href="#|url\(#)([mp][0-9a-f]{8,})', body))
        assert used <= defined


def test_markdown_has_the_same_content(page: Path) -> None:
    text = page.with_suffix(".md").read_text()
    assert text.startswith("# DNS measurements")
    for figure in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (page.parent / figure).exists()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 60


def test_disturbed_windows_count_only_if_asked_for_and_the_page_says_so(results: Results, page: Path) -> None:
    assert "Not fit to be quoted." not in page.read_text()
    for disturbed in (True, False):
        text = report.write(results.folder, disturbed).read_text()
        assert ("Not fit to be quoted." in text) == disturbed
        assert ("8 of 16 windows are valid" in text) != disturbed


def test_numbers_are_short() -> None:
    assert [number(value) for value in (0.0, 0.0123456, 3.14159, 123.456, 1_234_567.8, float("inf"))] == [
        "0",
        "0.0123",
        "3.14",
        "123",
        "1,234,568",
        "∞",
    ]


def test_a_real_browser_shows_it(page: Path, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("needs chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--virtual-time-budget=2000"]
    shown = subprocess.run(
        [browser, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=50, check=True
    ).stdout
    assert shown.count("<svg") == page.read_text().count("<svg")
    assert "E16 Kernel settings for TCP" in shown
    shot = tmp_path / "shot.png"
    subprocess.run(
        [browser, *flags, f"--screenshot={shot}", "--window-size=1100,2000", page.as_uri()],
        capture_output=True,
        timeout=50,
        check=True,
    )
    assert shot.stat().st_size > 50_000
