"""The commands of `zonda-lab`. They import slow modules (scipy, matplotlib) themselves."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zonda_lab import schema
from zonda_lab.errors import HostLostError, LabError
from zonda_lab.experiments import block_design, catalogue
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import Experiment, ExperimentDefinition, ZoneSpec
from zonda_lab.load.installed import find_generator
from zonda_lab.measurement.environment import Environment
from zonda_lab.results.folder import Results
from zonda_lab.results.provenance import require_same
from zonda_lab.rig import namespaces
from zonda_lab.run.duration_estimate import estimate_s
from zonda_lab.run.progress import Progress, format_duration
from zonda_lab.servers import ADAPTERS, InstalledServer
from zonda_lab.servers.installation import find_servers, install, require_servers
from zonda_lab.zones import zonegen

if TYPE_CHECKING:
    from zonda_lab.analysis.block_plan import Prospect


def list_experiments(_: argparse.Namespace) -> int:
    """`zonda-lab list`."""
    for path in catalogue.files():
        full, quick = catalogue.load(path), catalogue.load(path, quick=True)
        definition = full.definition
        times = " / ".join(format_duration(estimate_s(block_design.plan_starts(size, 1))) for size in (quick, full))
        print(f"{definition.id:4} {definition.name:22} {definition.title}")
        print(f"{'':27} {definition.question}\n{'':27} quick / full: {times}")
    return 0


def run_experiments(given: argparse.Namespace) -> int:
    """`zonda-lab run`."""
    if not (given.experiments or given.resume):
        raise LabError(
            "no experiment given", "for example `zonda-lab run --quick E1`; `zonda-lab list` shows all of them"
        )
    results = Results(
        given.resume or given.out or Path("results") / f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}"
    )
    if given.resume:
        for option, value in results.manifest()["options"].items():
            setattr(given, option, value)
    elif given.servers == "installed":
        given.servers = ",".join(label for label in find_servers(given.server)[0] if label != "sink")
    experiments = _experiments(given)
    if given.earlier and not given.resume:
        plans = [prospect.plan(given.each * 3600) for prospect in _prospects(given, experiments)]
        given.blocks = {plan.experiment: plan.blocks for plan in plans}
        experiments = _experiments(given)
    starts = [start for each in experiments for start in block_design.plan_starts(each, given.seed)]
    if given.dry_run:
        return _print_plan(starts)
    with contextlib.ExitStack() as machines:
        return _measure(given, results, experiments, starts, _environment(given.inventory, machines))


def _measure(
    given: argparse.Namespace,
    results: Results,
    experiments: Sequence[Experiment],
    starts: Sequence[Start],
    environment: Environment,
) -> int:
    from zonda_lab import report
    from zonda_lab.doctor import machine as doctor
    from zonda_lab.run.runner import Runner, manifest

    installed, absent = find_servers(given.server, environment.installed)
    require_servers(_names(given.servers), installed, absent)
    generator = find_generator(given.load)
    environment.equip(generator)
    kept = ("experiments", "quick", "servers", "server", "load", "set", "seed", "inventory", "blocks")
    options = {name: getattr(given, name) for name in kept}
    described = manifest(experiments, installed, absent, generator, options, environment)
    if given.resume:
        require_same(results.manifest(), described)
    else:
        results.create({**described, "limits": doctor.limits(generator, environment)})
    try:
        length = estimate_s([start for start in starts if start.settings.server.name in installed])
        print(f"{len(starts)} starts, about {format_duration(length)}; load by {generator.name} {generator.version}")
        print(f"results in {results.folder}", flush=True)
        progress = Progress(length)
        Runner(results, installed, generator, progress, environment.network).run(starts)
    except (KeyboardInterrupt, HostLostError):
        print(f"\ncontinue with: zonda-lab run --resume {results.folder}", file=sys.stderr)
        raise
    progress.close()
    print(f"report: {report.write(results.folder)}")
    if not any(record.counts for record in results.records()):
        print(
            f"no window was valid (the report says why); to see the measurements anyway: "
            f"zonda-lab report --disturbed {results.folder}"
        )
        return 1
    return 0


def build_report(given: argparse.Namespace) -> int:
    """`zonda-lab report`."""
    from zonda_lab import report

    print(report.write(given.results, given.disturbed))
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

    done = compare.compare(compare.Side.parse(given.a), compare.Side.parse(given.b), given.margin)
    for line in done.metrics:
        effect, levels = line.effect, ", ".join(line.levels.values())
        change = "a value is zero, so no ratio"
        if effect:
            interval = f"({effect.low - 1:+.1%} to {effect.high - 1:+.1%})"
            change = f"{effect.ratio - 1:+.1%} {interval}, p {effect.p:.3f}, n {effect.n}"
        print(f"{line.decision:14} {line.experiment} {line.metric} {levels}: {change}")
    if not done.interleaved:
        print("note: the two were not measured in the same blocks, so drift of the machine can appear as a difference")
    print(done.summary)
    return done.status


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


def plan_blocks(given: argparse.Namespace) -> int:
    """`zonda-lab plan`."""
    from zonda_lab.analysis import block_plan

    given.quick, given.blocks = False, {}
    plans = block_plan.within(_prospects(given, _experiments(given)), given.each * 3600, given.hours * 3600)
    for done in plans:
        print(f"{done.experiment:4} {format_duration(done.seconds):>14}  {done.summary}")
    total = sum(done.seconds for done in plans)
    print(f"{len(plans)} experiments, about {format_duration(total)}")
    if total > given.hours * 3600:
        print(
            f"three blocks of each take more than {given.hours:g} hours: leave out levels or servers", file=sys.stderr
        )
    return 1 if total > given.hours * 3600 else 0


def show_history(given: argparse.Namespace) -> int:
    """`zonda-lab history`."""
    from zonda_lab.analysis import history
    from zonda_lab.report.number_format import measured, number

    series = history.read(given.folder)
    for each in series:
        print(f"{each.experiment} {each.metric} {each.label}: {' → '.join(number(p.median) for p in each.points)}")
        for change in each.changes:
            effect = change.effect
            ratio = measured(effect.ratio, effect.low, effect.high)
            print(f"     changed at {change.at.commit[:12]} ({change.at.began[:10]}): {ratio}, p {effect.p:.3f}")
    count = sum(len(each.changes) for each in series)
    print(f"{len(series)} series of at least two comparable recordings, {count} changes")
    return 0


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


def _environment(inventory: str | None, machines: contextlib.ExitStack) -> Environment:
    """This machine, or the machines of an inventory, which stay connected until `machines` is closed."""
    if inventory is None:
        namespaces.enter_user_namespace()
        return Environment()
    from zonda_lab.fleet import read
    from zonda_lab.fleet.network import Fleet

    fleet = machines.enter_context(Fleet(read(Path(inventory))))
    fleet.connect()
    return fleet


def _experiments(given: argparse.Namespace) -> list[Experiment]:
    servers = _names(given.servers)
    paths = dict.fromkeys(path for word in given.experiments for path in catalogue.find(word))
    loaded = [catalogue.load(path, given.quick, servers, given.set) for path in paths]
    return [
        catalogue.load(each.path, given.quick, servers, [*given.set, f"timing.blocks={given.blocks[each.id]}"])
        if each.id in given.blocks
        else each
        for each in loaded
    ]


def _prospects(given: argparse.Namespace, experiments: Sequence[Experiment]) -> list[Prospect]:
    """What the block plan needs, with the durations of the servers that are installed."""
    from zonda_lab.analysis import block_plan

    installed, _ = find_servers(getattr(given, "server", []))
    folders = block_plan.kept_folders(given.earlier) if given.earlier else []
    return block_plan.prospects(experiments, folders, lambda each: _block_s(each, installed))


def _block_s(each: Experiment, installed: Mapping[str, InstalledServer]) -> float:
    starts = [start for start in block_design.plan_starts(each, 1) if start.settings.server.name in installed]
    return estimate_s(starts) / each.settings().timing.blocks


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _print_plan(starts: Sequence[Start]) -> int:
    for start in starts:
        print(f"{start.experiment.id:4} block {start.block:2}  {start.treatment.label}  x {len(start.within)} windows")
    print(f"{len(starts)} starts, about {format_duration(estimate_s(list(starts)))}")
    return 0
