"""The commands of `zonda-lab` but `run` and `plan`. They import slow modules (scipy, matplotlib) themselves."""

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zonda_lab import schema
from zonda_lab.errors import LabError
from zonda_lab.experiments import block_design, catalogue
from zonda_lab.experiments.definition import ExperimentDefinition, ZoneSpec
from zonda_lab.load.installed import find_generator
from zonda_lab.results.conditions import listed
from zonda_lab.results.folder import Results
from zonda_lab.rig import namespaces
from zonda_lab.run.duration_estimate import estimate_s
from zonda_lab.run.progress import format_duration
from zonda_lab.servers import ADAPTERS
from zonda_lab.servers.installation import find_servers, install
from zonda_lab.zones import zonegen

if TYPE_CHECKING:
    from zonda_lab.analysis.compare import MetricComparison
    from zonda_lab.analysis.history import Point


def list_experiments(_: argparse.Namespace) -> int:
    """`zonda-lab list`."""
    for path in catalogue.files():
        full, quick = catalogue.load(path), catalogue.load(path, quick=True)
        definition = full.definition
        times = " / ".join(format_duration(estimate_s(block_design.plan_starts(size, 1))) for size in (quick, full))
        print(f"{definition.id:4} {definition.name:22} {definition.title}")
        print(f"{'':27} {definition.question}\n{'':27} quick / full: {times}")
    return 0


def build_report(given: argparse.Namespace) -> int:
    """`zonda-lab report`."""
    from zonda_lab import report
    from zonda_lab.report import committed

    is_committed = committed.is_committed(given.results)
    print(committed.rebuild(given.results) if is_committed else report.write(given.results, given.disturbed))
    return 0


def keep_results(given: argparse.Namespace) -> int:
    """`zonda-lab keep`."""
    from zonda_lab.report.committed import keep

    kept, left = keep(Results(given.results), given.target)
    for folder in kept:
        print(folder)
    if left:
        print(f"not stored, because no window was valid: {', '.join(left)}", file=sys.stderr)
    return 1 if left else 0


def examine(given: argparse.Namespace) -> int:
    """`zonda-lab doctor`."""
    from zonda_lab.doctor import machine as doctor

    if given.inventory:
        from zonda_lab.doctor.fleet import examine as examine_fleet

        findings = examine_fleet(Path(given.inventory), find_generator())
    else:
        namespaces.enter_user_namespace()
        findings = doctor.examine(find_generator())
    for finding in findings:
        print(f"{finding.state:7} {finding.what}" + (f"\n{'':8}help: {finding.help}" if finding.help else ""))
    return 1 if any(finding.state == doctor.BAD for finding in findings) else 0


def compare_results(given: argparse.Namespace) -> int:
    """`zonda-lab compare`."""
    from zonda_lab.analysis import compare

    sides = compare.Side.parse(given.a), compare.Side.parse(given.b)
    different = compare.condition_differences(*sides)
    if different and not given.across_conditions:
        help_text = "measure both under the same conditions, or compare them nevertheless with --across-conditions"
        raise LabError(f"the conditions of A and B differ: {listed(different)}", help_text)
    done = compare.compare(*sides, given.margin)
    for line in done.metrics:
        print(f"{line.decision:14} {line.experiment} {line.metric} {', '.join(line.levels.values())}: {_change(line)}")
    if different:
        print(f"note: the conditions of A and B differ: {listed(different)}")
    if others := compare.circumstance_differences(*sides):
        print(f"note: a difference may also be that of kernel or load generator: {listed(others)}")
    if not done.interleaved:
        print("note: the two were not measured in the same blocks, so drift of the machine can appear as a difference")
    print(done.summary)
    return done.status


def _change(line: "MetricComparison") -> str:
    """How B differs from A: a percentage, or points of a share."""
    from zonda_lab.experiments.metrics import METRICS
    from zonda_lab.report.number_format import effect_text, p_value

    effect, absolute = line.effect, METRICS[line.metric].margin
    if not (line.a.values and line.b.values):
        return f"not measured in {'B' if line.a.values else 'A'}"
    if effect is None:
        return "a value is not positive, so no ratio"
    change = f"{effect.ratio - 1:+.1%} ({effect.low - 1:+.1%} to {effect.high - 1:+.1%})"
    p = f"p {p_value(effect.p)}, n {effect.n}" if effect.p else f"the same change in all {effect.n} starts"
    return f"{effect_text(effect, absolute) if absolute else change}, {p}"


def generate_zones(given: argparse.Namespace) -> int:
    """`zonda-lab zonegen`."""
    spec = ZoneSpec(given.shape, given.zones, given.records, given.signed, given.seed, given.trace)
    live = sys.stderr.isatty()

    def progress(records: int) -> None:
        if live:
            print(f"\r{records:,} records", end="", file=sys.stderr)

    made = zonegen.generate(spec, given.out, progress)
    print(f"\r{made.records:,} records, {made.bytes / 1e6:,.1f} MB in {len(made.zones)} zones: {made.zones[0].file}")
    return 0


def show_history(given: argparse.Namespace) -> int:
    """`zonda-lab history`."""
    from zonda_lab.analysis import history
    from zonda_lab.report.number_format import measured, number, p_value

    series = history.read(given.folder)
    for each in series:
        mixed = each.mixed
        medians = [f"{'*' if i in mixed else ''}{number(point.median)}" for i, point in enumerate(each.points)]
        print(f"{each.experiment} {each.metric} {each.label}: {' → '.join(medians)}")
        for i, differences in mixed.items():
            print(f"     * at {_recording(each.points[i])}: {listed(differences)}")
        for change in each.changes:
            effect = change.effect
            ratio = measured(effect.ratio, effect.low, effect.high)
            p = "too few recordings for a p value" if math.isnan(effect.p) else f"p {p_value(effect.p)}"
            print(f"     changed at {_recording(change.at)}: {ratio}, {p}")
    count = sum(len(each.changes) for each in series)
    print(f"{len(series)} series of at least two comparable recordings, {count} changes")
    return 0


def _recording(point: "Point") -> str:
    """The commit and the day of a recording."""
    return f"{point.commit[:12]} ({point.began[:10]})"


def show_servers(given: argparse.Namespace) -> int:
    """`zonda-lab servers`."""
    if given.install is not None:
        return install(given.install)
    installed, absent = find_servers([])
    for name in ADAPTERS:
        server = installed.get(name)
        print(f"{name:8} {f'{server.version}  {server.program}' if server else absent[name]}")
    return 0


def show_keys(given: argparse.Namespace) -> int:
    """`zonda-lab keys`."""
    from zonda_lab.fleet import Inventory

    for key, kind, default, documentation in schema.reference(Inventory if given.inventory else ExperimentDefinition):
        print(f"{key}\n    {documentation} ({kind}{f', default {default}' if default not in ('', '{}', '[]') else ''})")
    return 0
