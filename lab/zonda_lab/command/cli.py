"""The command line: its commands and options, and its exit statuses."""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, get_args, get_type_hints

from zonda_lab import __version__
from zonda_lab.command import commands
from zonda_lab.command import run as running
from zonda_lab.errors import LabError
from zonda_lab.experiments.definition import ZoneSpec
from zonda_lab.zones import zone_shapes
from zonda_lab.zones.trace_zones import TraceZones

EPILOG = """examples:
  zonda-lab doctor                                  is this machine fit for measurements?
  zonda-lab run --quick response-rate               the quick form of one experiment, with a report
  zonda-lab run --quick all                         the quick form of every experiment
  zonda-lab run E12 --servers nsd,knot              the full form, two servers
  zonda-lab run E1 --server new=nsd:/opt/nsd/sbin/nsd --servers nsd,new
  zonda-lab compare results/x:nsd results/x:new     differences and an exit status

exit status: 0 done, 1 done with a bad outcome, 2 undetected (compare only), 64 wrong use or another error, which is
printed, 70 a fault of the lab, with a traceback, 130 interrupted, 141 the reader of the output has gone
"""
# No outcome of a command has these: EX_USAGE and EX_SOFTWARE of sysexits.h, and what shells report for signals.
ERROR, FAULT, INTERRUPTED, BROKEN_PIPE = 64, 70, 130, 141


class Parser(argparse.ArgumentParser):
    """A parser whose errors have the status of all errors; that of argparse is 2, which means undetected here."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the error."""
        self.print_usage(sys.stderr)
        self.exit(ERROR, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; user errors print one message and return status 64."""
    try:
        given = parser().parse_args(arguments)
        signal.signal(signal.SIGTERM, _interrupt)
        status: int = given.command(given)
        sys.stdout.flush()
    except LabError as error:
        print(f"zonda-lab: {error}", file=sys.stderr)
        return ERROR
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        print(f"zonda-lab: {error.strerror}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        print("\nzonda-lab: interrupted; all processes have been stopped", file=sys.stderr)
        return INTERRUPTED
    except Exception:
        traceback.print_exc()  # Python itself would exit with 1, which `compare` returns for "worse"
        return FAULT
    return status


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = Parser(
        prog="zonda-lab",
        description="Reruns published DNS experiments against any authoritative server.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"zonda-lab {__version__}")
    added = top.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], what: str) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = added.add_parser(name, help=what, description=what)
        made.set_defaults(command=function)
        return made

    command("list", commands.list_experiments, "list the experiments, their questions and durations")
    _add_run_options(command("run", running.run_experiments, "run experiments and write a report"))
    report = command("report", commands.build_report, "rebuild the report from the records")
    report.add_argument("results", type=Path)
    what = "include windows disturbed by other programs; the report says so"
    report.add_argument("--disturbed", action="store_true", help=what)
    what = "store each experiment of a run in a small folder and write an index"
    kept = command("keep", commands.keep_results, what)
    kept.add_argument("results", type=Path)
    kept.add_argument("target", type=Path, metavar="FOLDER", help="target folder; in this repository lab/records")
    what = "check whether this machine is fit for measurements, and measure its limits"
    doctor = command("doctor", commands.examine, what)
    doctor.add_argument("--inventory", metavar="FILE", help="check the machines in this inventory instead")
    what = "compare B with A; exit status 0: no metric worse by more than the margin, 1: worse, 2: undetected"
    compared = command("compare", commands.compare_results, what)
    compared.add_argument("a", metavar="A", help="RESULTS or RESULTS:SERVER")
    compared.add_argument("b", metavar="B", help="RESULTS or RESULTS:SERVER")
    what = "largest loss that is acceptable, relative (default 0.02)"
    compared.add_argument("--margin", type=float, default=0.02, help=what)
    what = "compare results of different settings, machines or load generators; it prints what differs"
    compared.add_argument("--across-conditions", action="store_true", help=what)
    what = "write synthetic zones; the same options give identical files"
    _add_zone_options(command("zonegen", commands.generate_zones, what))
    what = "plan blocks by the power calculation, and the duration of a run"
    planned = command("plan", running.plan_blocks, what)
    what = "number (E1), range (E1-E20), name or file"
    planned.add_argument("experiments", nargs="+", metavar="EXPERIMENT", help=what)
    _add_plan_options(planned, "--from")
    planned.add_argument("--hours", type=float, default=6.0, help="limit of all experiments together (default 6)")
    _add_selection(planned)
    past = command("history", commands.show_history, "show where committed results changed between recordings")
    past.add_argument("folder", type=Path, nargs="?", default=Path("lab/records"), help="default: lab/records")
    servers = command("servers", commands.show_servers, "list installed servers, and how to install the others")
    servers.add_argument("--install", nargs="*", metavar="SERVER", help="install these (default: all) with apt-get")
    keys = command("keys", commands.show_keys, "list every key of an experiment file")
    keys.add_argument("--inventory", action="store_true", help="list the keys of an inventory instead")
    return top


def _add_run_options(run: argparse.ArgumentParser) -> None:
    what = "number (E1), range (E1-E20), name, TOML file or `all`"
    run.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=what)
    run.add_argument("--quick", action="store_true", help="run the quick form: fewer levels, shorter windows")
    run.add_argument("--out", type=Path, help="folder for the results (default: results/DATE-TIME)")
    run.add_argument("--resume", type=Path, metavar="RESULTS", help="continue an interrupted run, with its options")
    _add_selection(run, "; `installed`: all of this machine")
    what = "add a server by path; repeatable"
    run.add_argument("--server", action="append", default=[], metavar="LABEL=[KIND:]PATH", help=what)
    run.add_argument("--load", default="", metavar="PROGRAM", help="load generator: zonda-load, dnsperf or a path")
    _add_plan_options(run, "--blocks-from")
    run.set_defaults(blocks={}, default_of=run.get_default)
    run.add_argument("--inventory", metavar="FILE", help="run on the machines in this inventory, over SSH")
    run.add_argument("--seed", type=int, default=1, help="seed for the random order of treatments")
    what = "print the planned starts and the estimated duration, then exit"
    run.add_argument("--dry-run", action="store_true", help=what)


def _add_selection(command: argparse.ArgumentParser, more: str = "") -> None:
    what = f"measure these servers instead of those in the file{more}"
    command.add_argument("--servers", default="", metavar="A,B", help=what)
    what = "override a setting, for example timing.blocks=20"
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=what)


def _add_plan_options(command: argparse.ArgumentParser, option: str) -> None:
    what = "plan blocks for the effect of each experiment, with the variance of these earlier results"
    command.add_argument(option, dest="earlier", type=Path, metavar="RESULTS", help=what)
    what = "limit of one planned experiment (default 1)"
    command.add_argument("--each", type=float, default=1.0, metavar="HOURS", help=what)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, got `{text}`")
    return int(text)


def _add_zone_options(command: argparse.ArgumentParser) -> None:
    shapes, signed = (get_args(get_type_hints(ZoneSpec)[field]) for field in ("shape", "signed"))
    described = zone_shapes.SHAPES | {"trace": TraceZones}
    shape_help = "; ".join(f"{name}: {shape.__doc__}" for name, shape in described.items())
    command.add_argument("shape", choices=shapes, help=shape_help.replace("%", "%%"))
    command.add_argument("--trace", default="", metavar="CAPTURE", help="for the shape trace: pcap or pcapng file")
    command.add_argument("--zones", type=_count, default=1, help="number of zones")
    command.add_argument("--records", type=_count, default=1000, help="records per zone; for root and tld: delegations")
    what = "sign with Ed25519, and the denial of existence"
    command.add_argument("--signed", choices=signed, default="no", help=what)
    command.add_argument("--seed", type=int, default=1, help="seed of the random generator")
    command.add_argument("--out", type=Path, help="output folder (default: the cache of the lab)")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
