import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import Make

from zonda_lab import report
from zonda_lab.analysis.analysis import analyse_metric
from zonda_lab.experiments import catalogue
from zonda_lab.experiments.definition import AnalysisSpec, Claim
from zonda_lab.load.latency_histogram import LatencyHistogram, write_log
from zonda_lab.report.document import Text
from zonda_lab.report.number_format import measured, number
from zonda_lab.report.plot_style import PlotData
from zonda_lab.report.plots import PLOTS
from zonda_lab.report.result_tables import confirming_range
from zonda_lab.report.size import measured_size, size
from zonda_lab.report.validity_tables import without_value
from zonda_lab.results.folder import Results
from zonda_lab.results.window_record import Bound
from zonda_lab.run.runner import described
from zonda_lab.schema import parse

ANALYSIS = {"metric": "cpu_us_per_query", "compare": "server.name"}
VOID = {"meta", "br", "img", "hr", "link", "input", "path", "use", "rect", "circle"}


class Checker(HTMLParser):
    """Checks that elements are closed in order; collects ids and external references."""

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
def page(made: Results) -> Path:
    return report.write(made.folder)


def test_the_page_says_what_the_full_form_leaves_out(made: Results) -> None:
    (entry,) = list(made.manifest()["experiments"].values())[:1]
    spec = parse(AnalysisSpec, ANALYSIS, "test")
    said = size({**entry, "left_out": "more blocks"}, [], spec, None)
    assert said.endswith("; left out: more blocks.")
    assert "zones: without 10,000, 30,000" in size(made.manifest()["experiments"]["E12"], [], spec, None)
    assert "left out" not in size({**entry, "left_out": ""}, [], spec, None)


@pytest.mark.parametrize(
    ("values", "bound", "said"),
    [
        ((3.0, 3.1, 3.2, 3.3), "", "; median minimum detectable effect 11.2%"),
        ((3.0, 3.1, 3.2, 3.3), "at least", "no minimum detectable effect: the values compared are only bounds, or"),
        ((3.0, 3.0, 3.0, 3.0), "", "no minimum detectable effect: the values compared are only bounds, or do not vary"),
    ],
)
def test_the_size_states_the_minimum_detectable_effect_or_why_there_is_none(
    made: Results, make_record: Make, values: tuple[float, ...], bound: Bound, said: str
) -> None:
    """Neither none (E2), nor one of 0 points (E19), nor a range from 0.4 % to more than 1000 %."""
    (entry,) = list(made.manifest()["experiments"].values())[:1]
    records = [
        make_record(block, server=server, answered_qps=value if server != "nsd" else 3.0)
        for block, value in enumerate(values)
        for server in ("nsd", "knot", "zonda")
    ]
    for record in records:
        record.bounds = {"answered_qps": bound} if bound else {}
    plan = AnalysisSpec(metric="answered_qps", compare="server.name", baseline="nsd")
    assert said in size(entry, records, plan, analyse_metric(records, "answered_qps", plan))
    alone = AnalysisSpec(metric="answered_qps", compare="server.name")
    found = size(entry, records, alone, analyse_metric(records, "answered_qps", alone))
    assert "no comparison, so no minimum detectable effect" in found


def test_the_length_of_a_replay_is_that_of_its_windows(make_record: Make) -> None:
    """It must not be the set length, which a replay does not use (E21)."""
    replay = described(catalogue.load(catalogue.find("E21")[0]))
    record = make_record(0, sent_qps=1043.0)
    record.window = [100.0, 110.2]
    said = size(replay, [record], parse(AnalysisSpec, ANALYSIS, "test"), None)
    assert "windows of about 10 s, 1,043 queries per second (root-server-2016.pcap.xz at 6 times its speed)" in said


def test_a_treatment_without_a_valid_window_is_named(make_record: Make) -> None:
    """A server without a valid window during transfers must not be missing without a word (E24)."""
    records = [make_record(0, server=server, answered_share=0.7) for server in ("zonda", "bind")]
    assert without_value(records, "answered_share") == []
    records[1].valid, records[1].reasons = False, ["the server died"]
    text, title = "bind (the server died).", "No valid window of share of queries answered."
    assert without_value(records, "answered_share") == [Text(text, title)]


def test_a_treatment_to_which_the_primary_metric_does_not_apply_is_no_fault(make_record: Make) -> None:
    """Connections that close at once have no memory: that is no missing window (E18)."""
    records = [
        make_record(0, server=server, clients=clients, **({"bytes_per_connection": 3.0} if clients == "idle" else {}))
        for server in ("zonda", "nsd")
        for clients in ("idle", "that reset", "handshakes")
    ]
    said = "Server memory per idle connection does not apply to: that reset; handshakes."
    assert without_value(records, "bytes_per_connection") == [Text(said, "Not measured.")]
    records[-1].metrics["bytes_per_connection"] = 3.0
    said = "Server memory per idle connection does not apply to: that reset; zonda, handshakes."
    assert without_value(records, "bytes_per_connection") == [Text(said, "Not measured.")]


def test_windows_without_a_set_length_state_none() -> None:
    """Those of E7 last as long as loading, two seconds of queries and reloading do, not the setting of 10 s."""
    memory, queries = (described(catalogue.load(catalogue.find(name)[0])) for name in ("E7", "E1"))
    assert measured_size(memory, []) == "3 blocks" and measured_size(queries, []) == "3 blocks; windows of 10 s"


def test_the_page_is_complete_and_self_contained(page: Path) -> None:
    checker = Checker()
    checker.feed(page.read_text())
    assert checker.open == []
    assert checker.outside == []
    assert {link[1:] for link in checker.links} <= set(checker.ids)
    assert not re.search(r"url\((?!#)|@import", page.read_text())


def test_every_experiment_has_plots_tables_and_a_result(page: Path) -> None:
    text = page.read_text()
    for name in ("E1-curve", "E2-peaks", "E12-transfer_s", "E12-arrivals", "E16-cpu_us_per_query-boxes", "E21-latency"):
        assert (page.parent / "figures" / f"{name}.svg").read_text().startswith("<svg")
    for part in (
        "140,000 to 160,000 answers per second",  # published
        "the server&#x27;s thread nsd uses its whole core",
        "this kernel cannot do qdisc fq",
        "the hypervisor took 5.0% of the CPU time",
        "p Games-Howell",
        "tcp_sack = 1 lowers latency by 1.5 % at full load",
        "Not measured:</strong> bind: no program bind.",
        "zones transferred per second, with a connection each",
        "470",
    ):
        assert part in text, part
    assert text.count("<svg") >= 8


def test_the_latency_plot_has_a_line_for_each_level(make_record: Make, tmp_path: Path) -> None:
    """Histograms of all levels must not be merged into one line."""
    records = [make_record(0, within={"traffic.rate": rate}, latency_p50_us=50.0) for rate in ("1000", "2000")]
    histogram = LatencyHistogram()
    histogram.add(50.0)
    write_log(tmp_path / "a.hlog", 0.0, 1.0, {"intended": histogram.encoded()})
    for record in records:
        record.files["latency"] = "a.hlog"
    analysis = AnalysisSpec(metric="latency_p50_us", compare="server.name", x="traffic.rate")
    (figure,) = PLOTS["latency"](PlotData("E1", records, analysis, tmp_path))
    assert "offered rate 1,000 q/s" in figure.svg and "offered rate 2,000 q/s" in figure.svg


def test_ids_of_plots_are_unique(page: Path) -> None:
    text = page.read_text()
    bodies = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    for body in bodies:
        defined = set(re.findall(r'<(?:path|clipPath|g)[^>]* id="(m[0-9a-f]{8,}|p[0-9a-f]{8,})"', body))
        used = set(re.findall(r'(?:xlink:href="#|url\(#)([mp][0-9a-f]{8,})', body))
        assert used <= defined


def test_markdown_has_the_same_content(page: Path) -> None:
    text = page.with_suffix(".md").read_text()
    assert text.startswith("# DNS measurements")
    assert "**Only on the HTML page.** Omnibus tests, all pairs." in text and "p Tukey" not in text  # 60 % of its size
    for figure in re.findall(r"\]\((figures/[^)]+)\)", text):
        assert (page.parent / figure).exists()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 60


def test_disturbed_windows_count_only_on_request_and_the_page_says_so(made: Results, page: Path) -> None:
    assert "Do not quote." not in page.read_text()
    for disturbed in (True, False):
        text = report.write(made.folder, disturbed).read_text()
        assert ("Do not quote." in text) == disturbed
        assert ("8 of 16 windows are valid" in text) != disturbed
        late = "Latency is excluded from 8 valid windows; most frequent reason: the generator was 2,000 µs off"
        assert (late in text) == ("Windows whose latencies are excluded (8)" in text) == (not disturbed)


def test_numbers_have_three_digits_without_a_known_resolution() -> None:
    values = (0.0, 0.0123456, 3.14159, 123.456, 1_234_567.8, float("inf"), float("nan"))
    assert [number(value) for value in values] == ["0", "0.0123", "3.14", "123", "1,230,000", "∞", "–"]


@pytest.mark.parametrize(
    ("value", "low", "high", "bound", "text"),
    [
        (271_740.3, 268_532.1, 279_638.9, "", "272,000 (269,000 – 280,000)"),  # was printed with six digits
        (92_681.0, 75_934.0, 111_903.0, "", "93,000 (76,000 – 112,000)"),
        (3.01234, 3.00891, 3.01777, "", "3.0123 (3.0089 – 3.0178)"),
        (1.41, 1.374, 1.461, "", "1.410 (1.374 – 1.461)"),
        (5000.0, 5000.0, 5000.0, "", "5,000 (5,000 – 5,000)"),
        (16_368.3, 16_368.3, 16_368.3, "", "16,368 (16,368 – 16,368)"),  # had six digits, too
        (0.863219, 0.863219, 0.863219, "", "0.8632 (0.8632 – 0.8632)"),
        (8.0141, 8.0092, float("inf"), "at least", "at least 8.01 (≥ 8.01)"),
        (2.0, float("nan"), float("nan"), "", "2"),
        (0.74, 0.0, float("inf"), "unknown", "unknown, as both values are only bounds"),
        (2.29, 0.0, float("inf"), "", "2.29 (unbounded)"),  # was `(0 – ∞)`
        (0.99983009, 0.9998300967, 0.9998301013, "", "0.9998 (0.9998 – 0.9998)"),  # was printed with ten digits
        (1.0, 0.9999998, 1.0, "", "1 (1 – 1)"),  # was 1.00000 (1.00000 – 1.00000)
    ],
)
def test_digits_follow_from_the_interval(value: float, low: float, high: float, bound: str, text: str) -> None:
    assert measured(value, low, high, bound) == text


def test_the_unit_stands_after_the_value() -> None:
    assert measured(3.0, 2.9, 3.1, unit="µs") == "3.00 µs (2.90 – 3.10)"


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ({"low": 1.05, "high": 1.17}, "1.05 – 1.17"),
        ({"low": 0.999, "high": 1.001}, "0.9990 – 1.0010"),
        ({"low": 12_000.0, "high": 17_000.0}, "12,000 – 17,000"),
        ({"low": 1.2}, "at least 1.2"),
        ({"high": 0.2}, "at most 0.2"),
        ({"shape": "linear"}, "exponent 0.90 – 1.10"),
        ({"shape": "falling"}, "exponent at most -0.05"),
        ({"order": ["nsd", "bind"]}, ""),
        ({"untestable": "it needs a card"}, ""),
    ],
)
def test_a_claim_shows_the_range_that_confirms_it(claim: dict[str, object], text: str) -> None:
    assert confirming_range(Claim("it is so", "111 ± 3 %", "transfer_s", **claim)) == text  # type: ignore[arg-type]


LOOK = """<script>addEventListener("load", () => {
  const shown = [...document.querySelectorAll("svg, table")].filter(element => !element.closest("details"));
  const boxes = shown.map(element => element.getBoundingClientRect());
  document.body.dataset.empty = boxes.filter(box => box.width < 50 || box.height < 20).length;
  document.body.dataset.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  document.body.dataset.fetched = performance.getEntriesByType("resource").length;
});</script>"""


@pytest.mark.parametrize("width", [500, 1100])
def test_a_browser_renders_the_page(page: Path, tmp_path: Path, width: int) -> None:
    """Plots and tables have a size, nothing is fetched or overflows the width, and the console is empty."""
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not installed (help: apt-get install chromium)")
    looked = tmp_path / "page.html"
    looked.write_text(page.read_text().replace("</body>", f"{LOOK}</body>"))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--virtual-time-budget=2000"]
    offline = ["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", f"--window-size={width},2000"]
    done = subprocess.run(
        [browser, *flags, *offline, "--dump-dom", looked.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.count("<svg") == page.read_text().count("<svg") > 8
    found = dict(re.findall(r'data-(empty|wide|fetched)="(-?\d+)"', done.stdout))
    assert found == {"empty": "0", "wide": "0", "fetched": "0"}
    assert "CONSOLE" not in done.stderr
