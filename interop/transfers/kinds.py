"""The servers of transfer tests: options that only these tests need, and their control programs."""

from __future__ import annotations

from zonda_lab.servers.bind import CONTROL_FILE
from zonda_lab.servers.config import Zone
from zonda_lab.servers.nsd import pattern_of

from servers import HOST
from transfers.server import TransferServer


class ZondaTransfers(TransferServer):
    name = "zonda"

    def reload_zone(self, zone: Zone) -> None:
        self.reload_config()

    def reload_config(self) -> None:
        self.control("reload")

    def retransfer(self, zone: str) -> None:
        self.control("zone", "retransfer", zone)

    def control(self, *command: str) -> str:
        return self.run("zonda", *command, "--config", str(self.config_path))


class NsdTransfers(TransferServer):
    name, programs_needed = "nsd", ("nsd-control",)
    options = ("rrl-ratelimit: 0", "refuse-any: no")

    def reload_zone(self, zone: Zone) -> None:
        self.control("reload", zone.name)

    def reload_config(self) -> None:
        self.control("reconfig")

    def retransfer(self, zone: str) -> None:
        self.control("force_transfer", zone)

    def flush(self) -> None:
        self.control("write")

    def add_member(self, zone: str) -> None:
        self.control("addzone", zone, pattern_of(zone))

    def remove_member(self, zone: str) -> None:
        self.control("delzone", zone)

    def control(self, *command: str) -> str:
        return self.run("nsd-control", "-c", str(self.config_path), *command)


class KnotTransfers(TransferServer):
    name, programs_needed = "knot", ("knotc",)
    # By default Knot gives up a primary, to which it forwards an update, after 5 s: too soon on a busy machine.
    options = ("tcp-io-timeout: 10000", "tcp-remote-io-timeout: 10000", "background-workers: 2")

    def reload_zone(self, zone: Zone) -> None:
        self.control("-b", "zone-reload", zone.name)

    def reload_config(self) -> None:
        self.control("reload")

    def retransfer(self, zone: str) -> None:
        self.control("zone-retransfer", zone)

    def control(self, *command: str) -> str:
        return self.run("knotc", "-s", str(self.folder / "control"), *command)


class BindTransfers(TransferServer):
    name, programs_needed = "bind", ("rndc",)
    options = (
        "session-keyfile none",
        "empty-zones-enable no",
        "max-records-per-type 0",
        "check-names secondary ignore",
        "check-integrity no",
        "masterfile-format text",
        "notify-delay 0",
        "min-refresh-time 1",
        "min-retry-time 1",
        "serial-query-rate 100",
        "ixfr-from-differences yes",
        "max-ixfr-ratio unlimited",
        "max-journal-size unlimited",
    )

    def reload_zone(self, zone: Zone) -> None:
        self.control("reload", zone.name)

    def reload_config(self) -> None:
        self.control("reconfig")

    def retransfer(self, zone: str) -> None:
        self.control("retransfer", zone)

    def control(self, *command: str) -> str:
        return self.run("rndc", "-s", HOST, "-p", str(self.config.control_port), "-k", str(self.folder / CONTROL_FILE), *command)
