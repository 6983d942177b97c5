"""The state-dir is damaged, or its zones cannot be served for a while: what was acknowledged comes back, and nothing wrong is served."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from contextlib import suppress
from pathlib import Path

import dns.exception
import dns.rcode
import pytest

from daemon import START_TIMEOUT_S, TINY_ZONE, Daemon, repeated

FLIPS = 6


def server_with_added_zone(daemon) -> Daemon:
    """A server whose zone `added.` was added and updated, and where another one was added and removed."""
    server = daemon()
    for name in ("added", "removed"):
        (server.zones / f"{name}.zone").write_text(TINY_ZONE)
    template = f"[template.more]\nfile = '{server.zones}/{{name}}.zone'\nallow-update = ['127.0.0.1']\nkeep-versions = 9\n"
    server.configure(template)
    server.start()
    for words in (("add", "removed.", "--template", "more"), ("add", "added.", "--template", "more"), ("remove", "removed.")):
        assert server.run("zone", *words).returncode == 0
    # An added zone is loaded after the reply.
    server.wait_until(lambda: server.ask("added.", "SOA").rcode() == dns.rcode.NOERROR)
    assert server.update("added.", "first") == dns.rcode.NOERROR
    return server


def start_without(server: Daemon, name: str) -> None:
    """Starts it, and stops it once it has removed from the journal what no zone needs."""
    server.start()
    assert server.ask(name, "SOA").rcode() == dns.rcode.REFUSED
    server.wait_until(lambda: "ready" in server.log.read_text())
    server.stop()


@pytest.mark.parametrize("what", ["file", "template"])
def test_updates_of_an_added_zone_survive_a_start_without_it(daemon, what: str):
    server = server_with_added_zone(daemon)
    server.kill()
    path = server.state_dir / "added-zones" if what == "file" else server.config
    aside = path.with_name("aside")
    path.rename(aside)
    if what == "file":
        path.mkdir()
    else:
        path.write_text(aside.read_text().partition("[template.more]")[0])
    start_without(server, "added.")
    if what == "file":
        path.rmdir()
    aside.replace(path)
    server.start("added")
    assert server.ask("first.added.").answer, server.log_text()


def test_added_zones_are_served_although_their_file_cannot_be_rewritten(daemon):
    """As on a full disk: the new file would need the name of a folder."""
    server = server_with_added_zone(daemon)
    server.kill()
    (server.state_dir / ".added-zones.new").mkdir()
    server.start("added")
    assert server.ask("first.added.").answer, server.log_text()
    added = server.run("zone", "add", "removed.", "--template", "more")
    assert added.returncode == 1 and "not saved" in added.stderr + added.stdout
    (server.state_dir / ".added-zones.new").rmdir()
    # The server tries again every 10 s.
    deadline = time.monotonic() + 20
    while "- removed." in (text := (server.state_dir / "added-zones").read_text()) or "+ removed." not in text:
        assert time.monotonic() < deadline, server.log_text()
        time.sleep(0.1)
    server.kill()
    server.start("added")
    assert server.ask("removed.", "SOA").rcode() == dns.rcode.NOERROR


def versions(server: Daemon, rounds: int) -> list[set[str]]:
    """The names in each version after the first of `added.`, each round in a journal file of its own; the server is not running then."""
    names, found = {"first"}, []
    for number in range(rounds):
        if number > 0:
            server.start("added")
        names = names | {f"n{number}"}
        assert server.update("added.", f"n{number}") == dns.rcode.NOERROR
        found.append(names)
        server.kill()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("how", ["two are swapped", "one is missing", "one is there twice", "one is empty"])
def test_of_wrong_journal_files_only_sound_versions_are_served(daemon, how: str):
    server = server_with_added_zone(daemon)
    expected = versions(server, rounds=4)
    files = sorted((server.state_dir / "journal").glob("journal-*"))
    match how:
        case "two are swapped":
            octets = [file.read_bytes() for file in files[1:3]]
            files[1].write_bytes(octets[1])
            files[2].write_bytes(octets[0])
        case "one is missing":
            files[2].unlink()
        case "one is there twice":
            shutil.copy(files[1], files[3])
        case "one is empty":
            files[2].write_bytes(b"")
    server.start("added")
    served = {owner for owner in expected[-1] if server.ask(f"{owner}.added.").answer}
    assert served in expected
    assert served == expected[-1] or "damaged" in server.log.read_text()
    assert server.update("added.", "after") == dns.rcode.NOERROR
    server.kill()
    server.start("added")
    assert server.ask("after.added.").answer


@pytest.mark.slow
def test_kills_while_versions_are_rolled_back_take_no_serial_back(daemon):
    server = server_with_added_zone(daemon)
    latest, numbers = 0, itertools.count()

    def send() -> None:
        with suppress(OSError, EOFError, dns.exception.DNSException):
            server.update("added.", f"n{next(numbers)}")

    with repeated(send):
        for number in range(30):
            server.run("zone", "rollback", "added.")
            before, latest = latest, server.serial("added.")
            assert latest >= before
            if number % 10 == 9:
                server.kill()
                server.start("added")
                assert server.serial("added.") >= latest, server.log_text()
    assert "panicked" not in server.log.read_text()


def flipped(path: Path, at: int) -> None:
    """Changes one bit of a file."""
    octets = bytearray(path.read_bytes())
    octets[at] ^= 1 << at % 8
    path.write_bytes(octets)


@pytest.mark.slow
def test_flipped_bits_of_the_journal_are_never_served(daemon):
    server = server_with_added_zone(daemon)
    for number in range(3):
        assert server.update("added.", f"n{number}") == dns.rcode.NOERROR
    assert server.run("zone", "rollback", "added.").returncode == 0
    server.kill()
    good = server.state_dir.with_name("good")
    shutil.copytree(server.state_dir, good, ignore=shutil.ignore_patterns("control.sock"))
    journal = max((good / "journal").glob("journal-*"))
    owners = {"@", "added.", "www", "first", "n0", "n1", "n2"}
    for at in random.Random(1).sample(range(journal.stat().st_size), FLIPS):
        shutil.rmtree(server.state_dir)
        shutil.copytree(good, server.state_dir)
        flipped(server.state_dir / "journal" / journal.name, at)
        server.start("added")
        words = server.log.read_text()
        assert "damaged" in words or "its last write to the journal is incomplete" in words, at
        text = server.run("zone", "export", "added.").stdout
        served = {line.split()[0].removesuffix(".added.") for line in text.splitlines() if line[0] not in "$;"}
        assert served <= owners, (at, text)
        assert server.update("added.", "after") == dns.rcode.NOERROR, at
        server.kill()
        server.start("added")
        assert server.ask("after.added.").answer, at
        server.kill()


# ---------- images in files of their own ----------

BIG_ZONE = TINY_ZONE + "".join(f"h{number} A 10.{number >> 16}.{number >> 8 & 255}.{number & 255}\n" for number in range(140_000))


def server_with_image_file(daemon) -> tuple[Daemon, Path]:
    """A server that was killed, whose zone `added.` was updated once, and the file with its image."""
    server = daemon({"added": BIG_ZONE})
    server.configure("allow-update = ['127.0.0.1']\n")
    server.start("added")
    assert server.update("added.", "first") == dns.rcode.NOERROR
    server.kill()
    (image,) = (server.state_dir / "journal").glob("image-" + 8 * "[0-9]")
    return server, image


def test_a_length_in_a_damaged_image_takes_no_memory(daemon):
    server, image = server_with_image_file(daemon)
    with image.open("r+b") as file:
        file.write((2**32 - 1).to_bytes(4, "little"))
        file.truncate(2**32 + 8)  # a hole: it takes no room
    server.start("added")
    assert f"{image.name}: the image is damaged" in server.log.read_text()
    peak = next(line for line in Path(f"/proc/{server.pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 500_000, peak


@pytest.mark.slow
def test_damaged_images_are_reported_and_the_file_is_served(daemon):
    server, image = server_with_image_file(daemon)
    good = image.read_bytes()
    places = random.Random(2).sample(range(len(good)), FLIPS // 2)
    for at in [0, *places]:
        flipped(image, at)
        if at == places[0]:
            os.truncate(image, at)
        server.start("added")
        assert "the image is damaged" in server.log.read_text(), at
        server.wait_until(lambda: server.ask("www.added.").answer)
        assert not server.ask("first.added.").answer, "it was lost with the image"
        assert server.update("added.", "first") == dns.rcode.NOERROR
        server.kill()
        server.start("added")
        assert server.ask("first.added.").answer, at
        server.kill()
        (image,) = (server.state_dir / "journal").glob("image-" + 8 * "[0-9]")


@pytest.mark.slow
def test_an_image_that_cannot_be_removed_does_not_stop_compaction(daemon):
    """Each start leaves a journal file; with more than eight, the oldest are compacted."""
    server = server_with_added_zone(daemon)
    (server.state_dir / "journal" / "image-00000099").mkdir()
    versions(server, rounds=11)
    assert len(list((server.state_dir / "journal").glob("journal-*"))) < 11
    server.start("added")
    assert server.log.read_text().count("cannot be removed") == 1


def test_an_image_that_may_not_be_opened_is_not_given_up(daemon):
    """Somebody gave it a second name. The updates in it must not be lost for that."""
    server, image = server_with_image_file(daemon)
    other = server.state_dir / "other"
    other.hardlink_to(image)
    server.start(wait_for=None)
    assert server.process.wait(START_TIMEOUT_S) == 1
    log = server.log.read_text()
    assert f"{image.name}: cannot be opened" in log, log
    assert "belongs to another user, or has several names" in log
    other.unlink()
    server.start("added")
    assert server.ask("first.added.").answer
