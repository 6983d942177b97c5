"""The one exception that the command line turns into one clear message."""

from __future__ import annotations


class LabError(Exception):
    """Something the user can mend: says what is wrong, where, and the mend."""

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(f"{what}\n  {mend}" if mend else what)


class UnsupportedError(LabError):
    """A treatment that this server, generator or kernel cannot do: skipped, with the reason in the results."""


class HostLostError(LabError):
    """A machine of the inventory cannot be reached (any more): ends the run, which can be resumed."""
