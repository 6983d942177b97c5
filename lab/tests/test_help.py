"""`--help` of every command of the three programs."""

import re
import subprocess
import sys

import pytest
from test_real_programs import BUILT

COMMANDS = re.compile(r"^(?:Commands:|  COMMAND)\n((?: .*\n)+)", re.MULTILINE)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("zonda", {"serve", "check", "zone status", "zone freeze", "completions"}),
        ("zonda-load", {"query", "hold", "xfr pull", "xfr serve", "update"}),
        ("zonda-lab", {"run", "doctor", "compare", "zonegen", "keys"}),
    ],
)
def test_every_command_shows_its_help(program: str, expected: set[str]) -> None:
    """An unescaped `%` in a help text of argparse is an error only when that help is printed."""
    if program == "zonda-lab":
        command = [sys.executable, "-m", "zonda_lab"]
    elif BUILT is None:
        pytest.skip("needs zonda and zonda-load: cargo build")
    else:
        command = [str(BUILT / program)]
    assert expected <= shown_below(command)


def shown_below(command: list[str], name: str = "") -> set[str]:
    """The names of all commands below `command`, after printing the help of each."""
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.stderr}"
    assert re.search(r"^usage: ", done.stdout, re.MULTILINE | re.IGNORECASE), command
    listed = COMMANDS.search(done.stdout)
    below = re.findall(r"^ {2,4}([a-z-]+)(?: {2}|\n)", listed[1], re.MULTILINE) if listed else []
    names = {name} - {""}
    for each in set(below) - {"help"}:  # `help` lists the same commands again
        names |= shown_below([*command, each], f"{name} {each}".strip())
    return names
