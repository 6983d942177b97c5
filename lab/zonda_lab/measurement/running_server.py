"""A server that the lab has started."""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from zonda_lab.rig.process import Program
from zonda_lab.servers import Feature, InstalledServer
from zonda_lab.servers.config import ServerConfig


@dataclass
class Server:
    """A running server."""

    installed: InstalledServer
    config: ServerConfig
    process: Program
    first_answer_s: float = 0.0
    sockets: list[dict[str, Any]] = field(default_factory=list)

    @property
    def checked(self) -> bool:
        """Whether its answers can be checked; those of an echo cannot."""
        return Feature.ZONES in self.installed.features

    @contextlib.contextmanager
    def paused(self, seconds: float, after_s: float = 0.0) -> Iterator[None]:
        """Stops the main process for some seconds of the block, so that its queues and buffers fill."""

        def pause() -> None:
            time.sleep(after_s)
            self.process.signal(signal.SIGSTOP)
            time.sleep(seconds)
            self.process.signal(signal.SIGCONT)

        pausing = threading.Thread(target=pause) if seconds else None
        if pausing:
            pausing.start()
        try:
            yield
        finally:
            if pausing:
                pausing.join()
