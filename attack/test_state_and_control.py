"""What happens to the state-dir and at the control socket: files removed or damaged, reloads that do not end, odd zone names."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import dns.query
import dns.rcode
import dns.update

from daemon import HOST, TINY_ZONE, Daemon, program

JOURNAL_HEADER = 80  # octets


def script(path: Path, text: str) -> Path:
    """A check-command."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def add_zone(server: Daemon, name: str, more: str) -> None:
    """A zone with a file of its own."""
    path = server.zones / "added.zone"
    path.write_text(TINY_ZONE)
    server.config.write_text(server.config.read_text() + f"[[zone]]\nname = '{name}'\nfile = '{path}'\n{more}\n")


def update(server: Daemon, owner: str) -> dns.rcode.Rcode:
    """The RCODE of an update that adds an address."""
    message = dns.update.UpdateMessage("added.")
    message.add(owner, 60, "A", "192.0.2.1")
    return dns.query.tcp(message, HOST, timeout=30, port=server.port).rcode()


def updated_server(daemon) -> Daemon:
    """A server with a zone that an update has changed."""
    server = daemon()
    add_zone(server, "added", 'allow-update = ["127.0.0.1"]')
    server.start("added")
    assert update(server, "first") == dns.rcode.NOERROR
    return server


def kill(server: Daemon) -> None:
    assert server.process
    server.process.kill()
    server.process.wait()


# ---------- the control socket ----------


def test_reloads_that_wait_for_a_zone_do_not_block_other_clients(daemon, tmp_path):
    server = daemon()
    end = tmp_path / "end"
    command = script(tmp_path / "hangs", f"while [ ! -e '{end}' ]; do sleep 0.05; done")
    add_zone(server, "added", f"check-command = ['{command}']")
    server.start()
    reload = [program(), "reload", "--config", server.config]
    waiting = [subprocess.Popen(reload, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(20)]
    server.wait_until(lambda: server.log.read_text().count("reloading") > 1)
    status = [program(), "zone", "status", "example", "--config", server.config]
    for _ in range(20):
        assert subprocess.run(status, capture_output=True, timeout=30, check=True).stdout.startswith(b"example.: serving")
        time.sleep(0.05)  # time for more of the reloads to begin
    assert all(one.poll() is None for one in waiting), "they wait for the command"
    end.touch()
    assert [one.wait(60) for one in waiting] == [0] * 20


def test_the_name_of_a_zone_is_no_option_of_its_check_command(daemon, tmp_path):
    server = daemon()
    command = script(tmp_path / "prints", f"printf '%s\\n' \"$@\" > '{tmp_path}/arguments'")
    add_zone(server, "-o.added", f"check-command = ['{command}', '{{zone}}', 'zone={{zone}}']")
    server.start("-o.added")
    assert (tmp_path / "arguments").read_text().splitlines() == [r"\045o.added.", "zone=-o.added."]


# ---------- the state-dir ----------


def test_updates_are_not_acknowledged_into_a_journal_that_was_removed(daemon):
    server = updated_server(daemon)
    shutil.rmtree(server.state_dir / "journal")
    assert update(server, "second") == dns.rcode.SERVFAIL
    assert server.ask("second.added.").rcode() == dns.rcode.NXDOMAIN
    assert server.ask("first.added.").rcode() == dns.rcode.NOERROR
    assert "a file of the journal was removed" in server.log_text()
    assert "no change is acknowledged until this works again" in server.log_text()


def test_damage_of_the_newest_journal_file_is_reported(daemon):
    server = updated_server(daemon)
    kill(server)
    journal = max((server.state_dir / "journal").glob("journal-*"))
    with journal.open("r+b") as file:
        file.write(os.urandom(JOURNAL_HEADER))
    server.start("added")
    assert "the header of the newest journal file is damaged" in server.log_text()
    assert journal.name in server.log_text()
    assert update(server, "second") == dns.rcode.NOERROR


def test_a_damaged_list_of_frozen_zones_does_not_prevent_the_start(daemon):
    server = updated_server(daemon)
    kill(server)
    (server.state_dir / "frozen-zones").write_bytes(b"\xff\xfe\x00\nadded.\n")
    server.start("added")
    assert update(server, "second") == dns.rcode.REFUSED, "the zone is frozen"
