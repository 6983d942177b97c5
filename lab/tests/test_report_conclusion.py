import pytest
from conftest import NOISE, Make

from zonda_lab.analysis.analysis import analyse_metric, measured_for
from zonda_lab.analysis.claims import ClaimCheck, check_claim
from zonda_lab.experiments.definition import AnalysisSpec, Claim, Published
from zonda_lab.experiments.metrics import words
from zonda_lab.report.conclusion import conclusion, verdict
from zonda_lab.report.document import Table
from zonda_lab.report.number_format import minimum_effects
from zonda_lab.report.result_tables import EchoReference, measured_here, metric_tables
from zonda_lab.report.size import size
from zonda_lab.results.window_record import WindowRecord

ANALYSIS = AnalysisSpec(metric="cpu_us_per_query", compare="server.name", baseline="nsd")


def records(make: Make, blocks: int, **speed: float) -> list[WindowRecord]:
    return [
        make(block, server=name, cpu_us_per_query=3.0 * factor * NOISE[(block + len(name)) % 8])
        for block in range(blocks)
        for name, factor in {"nsd": 1.0, **speed}.items()
    ]


def test_conclusion_lists_significant_and_equivalent_levels(make_record: Make) -> None:
    found = analyse_metric(records(make_record, 8, knot=1.3, zonda=1.0), "cpu_us_per_query", ANALYSIS)
    text = conclusion(found, [], ANALYSIS)
    assert text.startswith(
        "Server CPU time per answer, as a ratio to nsd (n = 8 starts). Significantly different: knot 1.3"
    )
    assert "Equivalent within 2.0%: zonda." in text


def test_two_starts_give_medians_without_comparison(make_record: Make) -> None:
    found = analyse_metric(records(make_record, 2, knot=2.0), "cpu_us_per_query", ANALYSIS)
    text = conclusion(found, [], ANALYSIS)
    assert "different:" not in text and "Fewer than 3 starts per treatment: differences may be due to chance." in text
    assert "nsd: 3" in text and "knot: 5.99" in text


def test_conclusion_without_valid_window() -> None:
    assert conclusion(None, [], ANALYSIS) == "No result: no window was valid."


def test_a_claim_is_checked_for_each_server(make_record: Make) -> None:
    claim = Claim("it takes 3 µs", "3 µs", "cpu_us_per_query", low=2.8, high=3.2)
    done = check_claim(records(make_record, 5, knot=2.0), claim)
    assert [(each.condition, each.outcome, each.n) for each in done] == [
        ("nsd", "confirmed", 5),
        ("knot", "refuted", 5),
    ]
    text = conclusion(analyse_metric(records(make_record, 5, knot=2.0), "cpu_us_per_query", ANALYSIS), done, ANALYSIS)
    assert (
        "Published claim: it takes 3 µs (3 µs). Measured here: nsd: 3.006 µs (2.983 – 3.021), confirmed; knot: 6"
        in text
    )


def test_published_peak_is_compared_with_best_window_of_each_start(make_record: Make) -> None:
    windows = [
        make_record(block, within={"traffic.rate": str(rate)}, answered_qps=min(rate, 150) * 1000)
        for block in range(3)
        for rate in (100, 200)
    ]
    cell = measured_for(windows, Published("peak", "140,000 answers per second", "answered_qps"))[0]
    assert (cell.label, cell.median, len(cell.values)) == ("nsd", 150_000, 3)
    said = measured_here(Published("peak", "140,000 answers per second", "answered_qps"), windows)
    assert said.endswith("q/s (n = 3, best window of each start)")
    single = [make_record(block, answered_qps=150_000.0) for block in range(3)]
    assert measured_here(Published("peak", "x", "answered_qps"), single).endswith("q/s (n = 3)")


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        (["confirmed", "confirmed"], "confirmed"),
        (["confirmed", "refuted"], "1 confirmed, 1 refuted"),
        (["confirmed", "refuted", "withheld"], "1/3 confirmed, 1/3 refuted"),
        (["refuted", "refuted", "inconclusive", "not testable here"], "2 refuted, 1 inconclusive"),
        (["not testable here", "not testable here"], "not testable here"),
        (["not testable here", "not measured"], "not measured"),
        (["not testable here", "inconclusive"], "1 inconclusive, 1 not testable"),
        ([], "measured; no published claim"),
    ],
)
def test_a_verdict_has_at_most_five_words(make_record: Make, outcomes: list[str], words: str) -> None:
    found = analyse_metric(records(make_record, 5, knot=2.0), "cpu_us_per_query", ANALYSIS)
    checks = [ClaimCheck(Claim("x", "y", "lost"), 1.0, n=5, decided=outcome) for outcome in outcomes]
    checks = [
        ClaimCheck(Claim("x", "y", "lost", untestable="x"), None)
        if check.decided == "not testable here"
        else ClaimCheck(check.claim, None)
        if check.decided == "not measured"
        else check
        for check in checks
    ]
    assert verdict(checks, found) == words and len(words.split()) <= 5
    assert verdict([], None) == "not measured"


def test_many_conditions_of_a_claim_are_counted(make_record: Make) -> None:
    """A result must not be a sentence of up to twenty clauses."""
    found = analyse_metric(records(make_record, 5, knot=2.0), "cpu_us_per_query", ANALYSIS)
    claim = Claim("it takes 3 µs", "3 µs", "cpu_us_per_query", low=2.8, high=3.2)
    checks = [ClaimCheck(claim, value, value, value, 5, f"zones {value:g}") for value in (3.0, 3.0, 9.0, 9.0, 9.0)]
    said = "Measured here: of 5 conditions refuted in 3, confirmed in 2; see the table of claims."
    assert conclusion(found, checks, ANALYSIS).endswith(said)


def test_limit_programs_do_not_stand_beside_published_servers(make_record: Make) -> None:
    """Echo must not stand in the row of a published order of servers (E1)."""
    windows = [
        make_record(block, server=s, answered_qps=9_000.0) for s in ("nsd", "echo", "sink") for block in range(3)
    ]
    assert "echo" not in (said := measured_here(Published("NSD", "1", "answered_qps"), windows)) and "sink" not in said


def test_bounds_have_no_coefficient_of_variation(make_record: Make) -> None:
    """Where the generator is the limit, a rate says nothing of the variation of the server (E2, E4)."""
    windows = [make_record(block, answered_qps=9_000.0 + block) for block in range(3)]
    windows[1].bounds = {"answered_qps": "at least"}
    found = analyse_metric(windows, "answered_qps", AnalysisSpec(metric="answered_qps", compare="server.name"))
    table = next(p for p in metric_tables(found, ANALYSIS, EchoReference(windows)) if isinstance(p, Table))
    assert dict(zip(table.head, table.rows[0], strict=True))["coefficient of variation"] == "–"


def test_a_published_figure_without_a_metric_says_where_the_report_has_it() -> None:
    """It must not say “see below” where nothing follows."""
    assert measured_here(Published("x", "y", here="see the claims"), []) == "see the claims"
    assert measured_here(Published("x", "y"), []) == "not measured"


def test_a_baseline_of_several_words_is_in_quotes(make_record: Make) -> None:
    """Without quotes it says “as a ratio to a core each”."""
    windows = [
        make_record(block, placement=level, cpu_us_per_query=3.0 * NOISE[block])
        for block in range(5)
        for level in ("a core each", "free, both", "shared")
    ]
    analysis = AnalysisSpec(metric="cpu_us_per_query", compare="placement", baseline="a core each")
    text = conclusion(analyse_metric(windows, "cpu_us_per_query", analysis), [], analysis)
    assert "as a ratio to “a core each” (n = 5 starts)" in text and "nsd, “free, both”; nsd, shared" in text


def test_inconclusive_is_not_the_same_as_no_verdict(make_record: Make) -> None:
    """Those without enough starts, of values that are only bounds, and of unequal shares must not be one number."""
    costs = {"nsd": 1.0, "knot": 1.02, "bind": 3.0, "zonda": 2.0, "yadifa": 1.5}
    windows = records(make_record, 4, **costs)
    for window in windows:
        server = window.treatment["server.name"]
        window.metrics["cpu_us_per_query"] *= 1 + 0.1 * (window.block % 2) * (server in ("knot", "yadifa"))
        window.metrics["answered_share"] = 0.9 if server == "bind" else 1.0
        window.bounds = {"cpu_us_per_query": "at most"} if server == "zonda" else {}
    found = analyse_metric(windows, "cpu_us_per_query", ANALYSIS)
    median = minimum_effects(found.detectable)
    text = conclusion(found, [], ANALYSIS)
    assert f" Inconclusive: knot ({median})." in text
    assert " No verdict: bind; zonda (1 only bounds, 1 unequal shares answered)." in text
    entry = {"settings": {"timing": {"blocks": 4, "seconds": 1.0}}, "timing": {"blocks": 4, "seconds": 1.0}}
    entry |= {"procedure": "memory", "zones": {"zones": 1, "records": 1}, "factors": {}, "within": {}, "levels": {}}
    entry["settings"]["zones"] = entry["zones"]
    assert f"; {median};" in size(entry, windows, ANALYSIS, found)  # the two lines had medians of other comparisons


def test_the_primary_is_not_mistaken_for_the_server() -> None:
    """`zonda, nsd, tuned` does not say which is which (E25)."""
    levels = {"server.name": "zonda", "primary.name": "nsd", "server.settings": "tuned", "zones.zones": "30000"}
    assert words(levels) == "zonda, primary nsd, tuned, zones 30,000"
