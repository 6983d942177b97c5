"""The command line. Commands import slow modules (scipy, matplotlib) themselves."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from zonda_lab import __version__, block_design, experiment, load_generator, namespaces, schema, zone_shapes, zonegen
from zonda_lab.block_design import Start
from zonda_lab.duration_estimate import estimate_s
from zonda_lab.environment import Environment
from zonda_lab.errors import HostLostError, LabError
from zonda_lab.experiment import Experiment, ExperimentDefinition, ZoneSpec
from zonda_lab.progress import Progress, format_duration
from zonda_lab.provenance import require_same
from zonda_lab.results import Results
from zonda_lab.servers import ADAPTERS, Adapter, InstalledServer
from zonda_lab.trace_zones import TraceZones

if TYPE_CHECKING:
    from zonda_lab.block_plan import Prospect

EPILOG = """examples:
  zonda-lab doctor                                  is this machine fit for measurements?
  zonda-lab run --quick response-rate               the quick form of one experiment, with a report
  zonda-lab run --quick all                         the quick form of every experiment
  zonda-lab run E12 --servers nsd,knot              the full form, two servers
  zonda-lab run E1 --server new=nsd:/opt/nsd/sbin/nsd --servers nsd,new
  zonda-lab compare results/x:nsd results/x:new     differences and an exit status
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; user errors print one message and return status 2."""
    given = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        status: int = given.command(given)
    except LabError as error:
        print(f"zonda-lab: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"zonda-lab: {error.strerror}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nzonda-lab: interrupted; all processes have been stopped", file=sys.stderr)
        return 130
    return status


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(
        prog="zonda-lab",
        description="Reruns published DNS experiments against any authoritative server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"zonda-lab {__version__}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    _command(commands, "list", list_experiments, "list the experiments, their questions and durations")
    _add_run_options(_command(commands, "run", run_experiments, "run experiments and write a report"))
    report_ = _command(commands, "report", build_report, "rebuild the report from the records")
    report_.add_argument("results", type=Path)
    report_.add_argument(
        "--disturbed", action="store_true", help="include windows disturbed by other programs; the report says so"
    )
    kept = _command(
        commands, "keep", keep_results, "store each experiment of a run in a small folder and write an index"
    )
    kept.add_argument("results", type=Path)
    kept.add_argument("target", type=Path, metavar="FOLDER", help="target folder; in this repository lab/records")
    doctor = _command(
        commands, "doctor", examine, "check whether this machine is fit for measurements, and measure its limits"
    )
    doctor.add_argument("--inventory", metavar="FILE", help="check the machines in this inventory instead")
    compared = _command(
        commands,
        "compare",
        compare_results,
        "compare B with A; exit status 0: no metric worse by more than the margin, 1: worse, 2: undetected",
    )
    compared.add_argument("a", metavar="A", help="RESULTS or RESULTS:SERVER")
    compared.add_argument("b", metavar="B", help="RESULTS or RESULTS:SERVER")
    compared.add_argument(
        "--margin", type=float, default=0.02, help="largest loss that is acceptable, relative (default 0.02)"
    )
    _zonegen_parser(
        _command(commands, "zonegen", generate_zones, "write synthetic zones; the same options give identical files")
    )
    planned = _command(commands, "plan", plan_blocks, "plan blocks by the power calculation, and the duration of a run")
    planned.add_argument(
        "experiments", nargs="+", metavar="EXPERIMENT", help="number (E1), range (E1-E20), name or file"
    )
    _add_plan_options(planned, "--from")
    planned.add_argument("--hours", type=float, default=6.0, help="limit of all experiments together (default 6)")
    planned.add_argument("--servers", default="", metavar="A,B", help="measure these servers")
    planned.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a setting")
    past = _command(commands, "history", show_history, "show where committed results changed between recordings")
    past.add_argument("folder", type=Path, nargs="?", default=Path("lab/records"), help="default: lab/records")
    servers = _command(commands, "servers", show_servers, "list installed servers, and how to install the others")
    servers.add_argument("--install", nargs="*", metavar="SERVER", help="install these (default: all) with apt-get")
    keys = _command(commands, "keys", show_keys, "list every key of an experiment file")
    keys.add_argument("--inventory", action="store_true", help="list the keys of an inventory instead")
    return top


def _add_run_options(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "experiments",
        nargs="*",
        metavar="EXPERIMENT",
        help="number (E1), range (E1-E20), name, TOML file or `all`; default with --resume: those of the resumed run",
    )
    run.add_argument("--quick", action="store_true", help="run the quick form: fewer levels, shorter windows")
    run.add_argument("--out", type=Path, help="folder for the results (default: results/DATE-TIME)")
    run.add_argument("--resume", type=Path, metavar="RESULTS", help="continue an interrupted run")
    run.add_argument(
        "--servers",
        default="",
        metavar="A,B",
        help="measure these servers instead of those in the file; `installed`: all of this machine",
    )
    run.add_argument(
        "--server", action="append", default=[], metavar="LABEL=[KIND:]PATH", help="add a server by path; repeatable"
    )
    run.add_argument("--load", default="", metavar="PROGRAM", help="load generator: zonda-load, dnsperf or a path")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a setting, for example timing.blocks=20",
    )
    _add_plan_options(run, "--blocks-from")
    run.set_defaults(blocks={})
    run.add_argument("--inventory", metavar="FILE", help="run on the machines in this inventory, over SSH")
    run.add_argument("--seed", type=int, default=1, help="seed for the random order of treatments")
    run.add_argument(
        "--dry-run", action="store_true", help="print the planned starts and the estimated duration, then exit"
    )


def _add_plan_options(command: argparse.ArgumentParser, option: str) -> None:
    command.add_argument(
        option,
        dest="earlier",
        type=Path,
        metavar="RESULTS",
        help="plan blocks for the effect of each experiment, with the variance of these earlier results",
    )
    command.add_argument(
        "--each", type=float, default=1.0, metavar="HOURS", help="limit of one planned experiment (default 1)"
    )


def list_experiments(_: argparse.Namespace) -> int:
    """`zonda-lab list`."""
    for path in experiment.catalogue():
        full, quick = experiment.load(path), experiment.load(path, quick=True)
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
        given.servers = ",".join(label for label in find_servers(given.server)[0] if label != "null")
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
    from zonda_lab import doctor, report
    from zonda_lab.run import Runner, manifest

    installed, absent = find_servers(given.server, environment.installed)
    _require_servers(_names(given.servers), installed, absent)
    generator = load_generator.find_generator(given.load)
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
    from zonda_lab import doctor

    if given.inventory:
        from zonda_lab.fleet.doctor import examine as examine_fleet

        findings = examine_fleet(Path(given.inventory), load_generator.find_generator())
    else:
        namespaces.enter_user_namespace()
        findings = doctor.examine(load_generator.find_generator())
    for finding in findings:
        print(f"{finding.state:7} {finding.what}" + (f"\n{'':8}help: {finding.help}" if finding.help else ""))
    return 1 if any(finding.state == doctor.BAD for finding in findings) else 0


def compare_results(given: argparse.Namespace) -> int:
    """`zonda-lab compare`."""
    from zonda_lab import compare

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
    from zonda_lab import block_plan

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
    from zonda_lab import history
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
        return _install(given.install)
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


def find_servers(
    given: Sequence[str], find: Callable[[Adapter, str, Path | None], InstalledServer] = Adapter.installed
) -> tuple[dict[str, InstalledServer], dict[str, str]]:
    """The installed servers by label, and for each other server the reason why it is missing."""
    installed: dict[str, InstalledServer] = {}
    absent: dict[str, str] = {}
    for name, adapter in ADAPTERS.items():
        try:
            installed[name] = find(adapter, "", None)
        except LabError as error:
            absent[name] = str(error)
    for text in given:
        label, _, where = text.partition("=")
        kind, _, path = where.rpartition(":")
        kind = kind or label
        if not where or kind not in ADAPTERS:
            raise LabError(f"--server {text}: unknown server kind `{kind}`", schema.suggestion(kind, ADAPTERS))
        installed[label] = find(ADAPTERS[kind], label, Path(path))
        absent.pop(label, None)
    return installed, absent


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
    paths = dict.fromkeys(path for word in given.experiments for path in experiment.find(word))
    loaded = [experiment.load(path, given.quick, servers, given.set) for path in paths]
    return [
        experiment.load(each.path, given.quick, servers, [*given.set, f"timing.blocks={given.blocks[each.id]}"])
        if each.id in given.blocks
        else each
        for each in loaded
    ]


def _prospects(given: argparse.Namespace, experiments: Sequence[Experiment]) -> list[Prospect]:
    """What the block plan needs, with the durations of the servers that are installed."""
    from zonda_lab import block_plan

    installed, _ = find_servers(getattr(given, "server", []))
    folders = block_plan.kept_folders(given.earlier) if given.earlier else []
    return block_plan.prospects(experiments, folders, lambda each: _block_s(each, installed))


def _block_s(each: Experiment, installed: Mapping[str, InstalledServer]) -> float:
    starts = [start for start in block_design.plan_starts(each, 1) if start.settings.server.name in installed]
    return estimate_s(starts) / each.settings().timing.blocks


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _require_servers(names: Sequence[str], installed: Mapping[str, InstalledServer], absent: Mapping[str, str]) -> None:
    """Servers named on the command line must be installed; missing servers of an experiment file are skipped."""
    for name in names:
        if name in absent:
            raise LabError(*absent[name].split("\n  help: ", 1))
        if name not in installed:
            raise LabError(f"--servers: no server `{name}`", schema.suggestion(name, installed))


def _print_plan(starts: Sequence[Start]) -> int:
    for start in starts:
        print(f"{start.experiment.id:4} block {start.block:2}  {start.treatment.label}  x {len(start.within)} windows")
    print(f"{len(starts)} starts, about {format_duration(estimate_s(list(starts)))}")
    return 0


def _install(names: Sequence[str]) -> int:
    """Installs the Debian packages. Some start their server at once; stopping it is left to the user."""
    wanted = names or [name for name, adapter in ADAPTERS.items() if adapter.package]
    unknown = [name for name in wanted if name not in ADAPTERS or not ADAPTERS[name].package]
    if unknown:
        raise LabError(
            f"no package for {unknown[0]}", schema.suggestion(unknown[0], [n for n, a in ADAPTERS.items() if a.package])
        )
    packages = [package for name in wanted for package in ADAPTERS[name].package.split()]
    command = [
        *(["sudo"] if os.geteuid() else []),
        "apt-get",
        "install",
        "--yes",
        "--no-install-recommends",
        *packages,
        "dnsperf",
    ]
    print(" ".join(command), flush=True)
    return subprocess.run(command, check=False).returncode


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got `{text}`")
    return int(text)


def _zonegen_parser(command: argparse.ArgumentParser) -> None:
    shapes, signed = (get_args(get_type_hints(ZoneSpec)[field]) for field in ("shape", "signed"))
    described = zone_shapes.SHAPES | {"trace": TraceZones}
    shape_help = "; ".join(f"{name}: {shape.__doc__}" for name, shape in described.items())
    command.add_argument("shape", choices=shapes, help=shape_help.replace("%", "%%"))
    command.add_argument("--trace", default="", metavar="CAPTURE", help="for the shape trace: pcap or pcapng file")
    command.add_argument("--zones", type=_count, default=1, help="number of zones")
    command.add_argument("--records", type=_count, default=1000, help="records per zone; for root and tld: delegations")
    command.add_argument(
        "--signed", choices=signed, default="no", help="sign with Ed25519, and the denial of existence"
    )
    command.add_argument("--seed", type=int, default=1, help="seed of the random generator")
    command.add_argument("--out", type=Path, help="output folder (default: the cache of the lab)")


def _command(commands: Any, name: str, function: Any, what: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = commands.add_parser(name, help=what, description=what)
    added.set_defaults(command=function)
    return added


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
