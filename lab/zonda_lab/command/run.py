"""`zonda-lab run` and `zonda-lab plan`. They import slow modules (scipy, matplotlib) themselves."""

import argparse
import contextlib
import datetime
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zonda_lab.errors import HostLostError, LabError
from zonda_lab.experiments import block_design, catalogue
from zonda_lab.experiments.block_design import Start
from zonda_lab.experiments.definition import Experiment
from zonda_lab.load.installed import find_generator
from zonda_lab.measurement.environment import Environment
from zonda_lab.results.folder import Results
from zonda_lab.results.provenance import require_same
from zonda_lab.rig import namespaces
from zonda_lab.run.duration_estimate import estimate_s
from zonda_lab.run.progress import Progress, format_duration
from zonda_lab.servers import InstalledServer
from zonda_lab.servers.installation import find_servers, require_servers

if TYPE_CHECKING:
    from zonda_lab.analysis.block_plan import Prospect

# The options of a run in its manifest.
KEPT = ("experiments", "quick", "servers", "server", "load", "set", "seed", "inventory", "blocks")
NOT_MEASURED = ("sink", "null-primary")  # they answer no queries


def run_experiments(given: argparse.Namespace) -> int:
    """`zonda-lab run`."""
    if not (given.experiments or given.resume):
        help_text = "for example `zonda-lab run --quick E1`; `zonda-lab list` shows all of them"
        raise LabError("no experiment given", help_text)
    if given.resume:
        _require_no_other_option(given)
    now = datetime.datetime.now(datetime.UTC)
    results = Results(given.resume or given.out or Path("results", f"{now:%Y%m%d-%H%M%S}"))
    if given.resume:
        for option, value in results.manifest()["options"].items():
            setattr(given, option, value)
    elif given.servers == "installed":
        given.servers = ",".join(label for label in find_servers(given.server)[0] if label not in NOT_MEASURED)
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


def _require_no_other_option(given: argparse.Namespace) -> None:
    """A run is resumed as it began: other options were ignored, or would make its windows differ."""
    options = {name: f"--{name}" for name in (*KEPT[1:-1], "out", "each")} | {"earlier": "--blocks-from"}
    changed = [option for name, option in options.items() if getattr(given, name) != given.default_of(name)]
    beside = [*given.experiments, *changed]
    if beside:
        raise LabError(
            f"--resume continues a run as it began, so {', '.join(beside)} cannot be given",
            f"`zonda-lab run --resume {given.resume}` alone, or a new run with these options",
        )


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
        long = f"three blocks of each take more than {given.hours:g} hours: leave out levels or servers"
        print(long, file=sys.stderr)
    return 1 if total > given.hours * 3600 else 0


def _measure(
    given: argparse.Namespace,
    results: Results,
    experiments: Sequence[Experiment],
    starts: Sequence[Start],
    environment: Environment,
) -> int:
    from zonda_lab import report
    from zonda_lab.run.runner import Runner, changed_program, manifest

    installed, absent = find_servers(given.server, environment.installed)
    require_servers(_names(given.servers), installed, absent)
    generator = find_generator(given.load)
    environment.equip(generator)
    options = {name: getattr(given, name) for name in KEPT}
    described = manifest(experiments, installed, absent, generator, options, environment)
    if given.resume:
        require_same(results.manifest(), described)
    else:
        results.create(described)
    try:
        length = estimate_s([start for start in starts if start.settings.server.name in installed])
        print(f"{len(starts)} starts, about {format_duration(length)}; load by {generator.name} {generator.version}")
        print(f"results in {results.folder}", flush=True)
        progress = Progress(length)
        changed = partial(changed_program, described, installed, generator, environment)
        Runner(results, installed, generator, progress, environment.network, changed).run(starts)
    except (KeyboardInterrupt, HostLostError):
        print(f"\ncontinue with: zonda-lab run --resume {results.folder}", file=sys.stderr)
        raise
    progress.close()
    print(f"report: {report.write(results.folder)}")
    if not any(record.counts for record in results.records()):
        advice = f"zonda-lab report --disturbed {results.folder}"
        print(f"no window was valid (the report says why); to see the measurements anyway: {advice}")
        return 1
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
    for i, each in enumerate(loaded):
        if blocks := given.blocks.get(each.id):
            loaded[i] = catalogue.load(each.path, given.quick, servers, [*given.set, f"timing.blocks={blocks}"])
    return loaded


def _prospects(given: argparse.Namespace, experiments: Sequence[Experiment]) -> "list[Prospect]":
    """What the block plan needs, with the durations of the servers that are installed."""
    from zonda_lab.analysis import block_plan

    installed, _ = find_servers(getattr(given, "server", []))
    folders = block_plan.kept_folders(given.earlier) if given.earlier else []
    return block_plan.prospects(experiments, folders, lambda each: _block_s(each, installed))


def _block_s(each: Experiment, installed: Mapping[str, InstalledServer]) -> float:
    starts = [start for start in block_design.plan_starts(each, 1) if start.settings.server.name in installed]
    return estimate_s(starts) / each.settings().timing.blocks


def _print_plan(starts: Sequence[Start]) -> int:
    for start in starts:
        print(f"{start.experiment.id:4} block {start.block:2}  {start.treatment.label}  x {len(start.within)} windows")
    print(f"{len(starts)} starts, about {format_duration(estimate_s(list(starts)))}")
    return 0


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]
