"""The commands of the lab's documents have the options that the command line has."""

import shlex
from pathlib import Path

import pytest

from zonda_lab.command.cli import parser

LAB = Path(__file__).parents[1]


def typed(document: Path) -> list[list[str]]:
    """The arguments of each zonda-lab command in a code block."""
    lines = [line for block in document.read_text().split("```")[1::2] for line in block.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines if "zonda-lab " in line.split("#")[0]]
    return [found[1:] for found in words if found[0].endswith("zonda-lab")]


@pytest.mark.parametrize(("name", "least"), [("README.md", 18), ("records/README.md", 4)])
def test_every_command_of_a_document_can_be_parsed(name: str, least: int) -> None:
    commands = typed(LAB / name)
    assert len(commands) >= least
    for command in commands:
        parser().parse_args(command)


def test_an_option_that_does_not_exist_is_detected() -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "E1", "--no-such-option"])
