"""What happens to the state-dir and at the control socket: files removed or damaged, reloads that do not end, odd zone names."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import dns.rcode
import pytest

from daemon import TINY_ZONE, Daemon, program, repeated

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
    server.configure(f"[[zone]]\nname = '{name}'\nfile = '{path}'\n{more}\n")


def updated_server(daemon) -> Daemon:
    """A server with a zone that an update has changed."""
    server = daemon()
    add_zone(server, "added", 'allow-update = ["127.0.0.1"]')
    server.start("added")
    assert server.update("added.", "first") == dns.rcode.NOERROR
    return server


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
    for _ in range(20):
        assert server.run("zone", "status", "example").stdout.startswith("example.: serving")
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
    assert server.update("added.", "second") == dns.rcode.SERVFAIL
    assert server.ask("second.added.").rcode() == dns.rcode.NXDOMAIN
    assert server.ask("first.added.").rcode() == dns.rcode.NOERROR
    check_place_is_reported_once(server)


def check_place_is_reported_once(server: Daemon) -> None:
    log = server.log.read_text()
    assert log.count("no change is acknowledged until this works again") == 1, log
    assert "was moved away or removed while zonda was using it" in log
    assert "put the folder back" in log
    assert log.count(" ERROR ") == 1, log


@pytest.mark.parametrize("what", ["journal", "state-dir"])
def test_updates_are_not_acknowledged_into_a_folder_that_was_moved_away(daemon, what: str):
    """A restart would find no folder, and create another one."""
    server = updated_server(daemon)
    path = server.state_dir / "journal" if what == "journal" else server.state_dir
    moved = path.with_name("moved")
    path.rename(moved)
    for number in range(3):
        assert server.update("added.", f"moved{number}") == dns.rcode.SERVFAIL
        assert server.ask(f"moved{number}.added.").rcode() == dns.rcode.NXDOMAIN
        assert server.ask("first.added.").rcode() == dns.rcode.NOERROR
    check_place_is_reported_once(server)
    moved.rename(path)
    server.wait_until(lambda: server.update("added.", "back") == dns.rcode.NOERROR)
    assert "the journal can be written again" in server.log_text()
    server.kill()
    server.start("added")
    for owner in ("first", "back"):
        assert server.ask(f"{owner}.added.").answer, owner


def test_updates_are_not_acknowledged_if_another_folder_is_in_the_place_of_the_journal(daemon):
    server = updated_server(daemon)
    journal = server.state_dir / "journal"
    journal.rename(journal.with_name("moved"))
    journal.mkdir(mode=0o700)
    assert server.update("added.", "second") == dns.rcode.SERVFAIL
    assert "was replaced while zonda was running" in server.log_text()
    assert server.ask("first.added.").answer


def test_damage_of_the_newest_journal_file_is_reported(daemon):
    server = updated_server(daemon)
    server.kill()
    journal = max((server.state_dir / "journal").glob("journal-*"))
    with journal.open("r+b") as file:
        file.write(os.urandom(JOURNAL_HEADER))
    server.start("added")
    assert "the header of the newest journal file is damaged" in server.log_text()
    assert journal.name in server.log_text()
    assert server.update("added.", "second") == dns.rcode.NOERROR


def test_a_damaged_list_of_frozen_zones_does_not_prevent_the_start(daemon):
    server = updated_server(daemon)
    server.kill()
    (server.state_dir / "frozen-zones").write_bytes(b"\xff\xfe\x00\nadded.\n")
    server.start("added")
    assert server.update("added.", "second") == dns.rcode.REFUSED, "the zone is frozen"


# ---------- other versions, and zones that change under an update ----------


def crc32c(octets: bytes) -> int:
    """CRC-32C (RFC 3720 B.4)."""
    value = 0xFFFFFFFF
    for octet in octets:
        value ^= octet
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_a_journal_of_a_later_version_is_left_alone(daemon):
    server = updated_server(daemon)
    server.kill()
    path = max((server.state_dir / "journal").glob("journal-*"))
    octets = bytearray(path.read_bytes())
    for start in (0, JOURNAL_HEADER // 2):
        octets[start + 8 : start + 12] = (99).to_bytes(4, "little")
        octets[start + 36 : start + 40] = crc32c(bytes(octets[start : start + 36])).to_bytes(4, "little")
    path.write_bytes(octets)
    server.start(wait_for=None)
    assert server.process and server.process.wait(30) != 0
    assert "format version 99" in server.log_text()
    assert path.read_bytes() == octets


def test_updates_of_a_zone_that_comes_and_goes_are_all_answered(daemon):
    server = daemon()
    without = server.config.read_text()
    add_zone(server, "added", 'allow-update = ["127.0.0.1"]')
    with_zone = server.config.read_text()
    server.start("added")
    answers: list[dns.rcode.Rcode] = []
    with repeated(lambda: answers.append(server.update("added.", f"n{len(answers)}")), threads=4):
        for text in [without, with_zone] * 15:
            server.config.write_text(text)
            assert server.reload().returncode == 0
    expected = {dns.rcode.NOERROR, dns.rcode.NOTAUTH, dns.rcode.SERVFAIL, dns.rcode.REFUSED}
    assert set(answers) <= expected, set(answers)
    server.wait_until(lambda: server.update("added.", "last") == dns.rcode.NOERROR)
    assert server.ask("last.added.").answer
    assert "panicked" not in server.log.read_text()


def test_kills_while_the_journal_is_compacted_lose_no_update(daemon):
    """Each start leaves a small segment; with more than eight, the oldest are compacted at the next start."""
    server = updated_server(daemon)
    acknowledged = ["first"]
    for number in range(24):
        server.kill()
        server.start("added")
        missing = [owner for owner in acknowledged if not server.ask(f"{owner}.added.").answer]
        assert not missing, server.log_text()
        if server.update("added.", f"n{number}") == dns.rcode.NOERROR:
            acknowledged.append(f"n{number}")
        time.sleep(0.002 * (number % 7))  # so that the kill comes at different steps
    assert len(acknowledged) > 20
    assert len(list((server.state_dir / "journal").glob("journal-*"))) < 20, "it was compacted"


# ---------- the state-dir changes while the server runs ----------


def adding_server(daemon) -> Daemon:
    """A server that zones can be added to, with the first one."""
    server = daemon()
    for name in ("first", "second", "third"):
        (server.zones / f"{name}.zone").write_text(TINY_ZONE)
    server.configure(f"[template.added]\nfile = '{server.zones}/{{name}}.zone'\n")
    server.start()
    assert server.run("zone", "add", "first.", "--template", "added").returncode == 0
    return server


def added(server: Daemon) -> set[str]:
    """Which of the added zones are served after a restart."""
    server.stop()
    server.start()
    names = ["first.", "second.", "third."]
    return {name for name in names if server.ask(name, "SOA").rcode() == dns.rcode.NOERROR}


@pytest.mark.parametrize("how", ["removed", "moved away", "replaced"])
def test_zones_are_not_added_to_a_file_that_is_gone(daemon, how: str):
    server = adding_server(daemon)
    path = server.state_dir / "added-zones"
    match how:
        case "removed":
            path.unlink()
        case "moved away":
            path.rename(path.with_name("elsewhere"))
        case "replaced":
            new = path.with_name("new")
            new.write_text("")
            new.chmod(0o600)
            new.rename(path)
    acknowledged = {f"{name}." for name in ("second", "third") if server.run("zone", "add", f"{name}.", "--template", "added").returncode == 0}
    assert acknowledged, "one of them at the latest"
    assert added(server) == acknowledged | {"first."}, server.log_text()


def test_a_state_dir_that_is_moved_away_stops_no_answers(daemon):
    server = updated_server(daemon)
    moved = server.state_dir.with_name("moved")
    server.state_dir.rename(moved)
    for number in range(3):
        server.update("added.", f"moved{number}")  # the folder is still open: they may succeed
        assert server.ask("first.added.").answer
    acknowledged = [f"moved{number}" for number in range(3) if server.ask(f"moved{number}.added.").answer]
    moved.rename(server.state_dir)
    server.wait_until(lambda: server.update("added.", "back") == dns.rcode.NOERROR)
    server.kill()
    server.start("added")
    for owner in ["first", *acknowledged, "back"]:
        assert server.ask(f"{owner}.added.").answer, owner


def test_journal_files_that_are_cut_while_zonda_runs_are_no_reason_to_lose_the_zone(daemon):
    server = updated_server(daemon)
    for path in (server.state_dir / "journal").glob("journal-*"):
        os.truncate(path, JOURNAL_HEADER + 10)
    answers = [server.update("added.", f"n{number}") for number in range(3)]
    assert server.ask("first.added.").answer, "it is served from memory"
    server.stop()
    server.start("added")
    assert "damaged" in server.log.read_text() or server.ask("first.added.").answer, server.log_text()
    assert server.ask("www.added.").answer, answers
    assert server.update("added.", "last") == dns.rcode.NOERROR


def test_a_second_server_does_not_use_the_same_state_dir(daemon):
    server = updated_server(daemon)
    second = subprocess.run([program(), "serve", "--config", server.config], capture_output=True, text=True, timeout=30, check=False)
    assert second.returncode != 0
    assert server.update("added.", "second") == dns.rcode.NOERROR
    assert server.run("zone", "status", "added.").returncode == 0, "the control socket is still there"
    server.kill()
    server.start("added")
    assert server.ask("second.added.").answer


def test_a_state_dir_that_others_may_write_to_later_is_reported_at_the_next_start(daemon):
    server = updated_server(daemon)
    server.kill()
    (server.state_dir / "journal").chmod(0o777)
    server.start(wait_for=None)
    assert server.process and server.process.wait(30) != 0
    assert "can be changed by others" in server.log_text()
