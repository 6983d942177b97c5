"""The exceptions that the command line prints as one message."""


class LabError(Exception):
    """An error the user can fix: what is wrong and where, details such as the end of a log, and how to fix it."""

    def __init__(self, what: str, help: str = "", detail: str = "") -> None:
        self.what, self.help = what, help or detail
        super().__init__("\n  ".join(filter(None, (what, detail, help and f"help: {help}"))))


class UnsupportedError(LabError):
    """This server, generator or kernel does not support the treatment: it is skipped and the results say why."""


class HostLostError(LabError):
    """A machine of the inventory is unreachable: the run ends and can be resumed."""
