"""Adapters of other packages."""

from pathlib import Path

import pytest

from zonda_lab.errors import LabError
from zonda_lab.servers import find_adapters
from zonda_lab.servers.config import Endpoint, ServerConfig

MODULE = """
from zonda_lab.servers import Adapter

class MyDns(Adapter):
    name, program, config_file = "mydns", "mydnsd", "mydns.conf"

    def files(self, config):
        return {self.config_file: f"listen {config.endpoint.plain}"}
"""
ENTRY_POINTS = """
[zonda_lab.servers]
mydns = mydns_lab:MyDns
missing = mydns_lab:Missing
renamed = mydns_lab:MyDns
nsd = mydns_lab:MyDns
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with four entry points, of which one is good."""
    (tmp_path / "mydns_lab.py").write_text(MODULE)
    metadata = tmp_path / "mydns_lab-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mydns-lab\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_another_package_adds_an_adapter(package: Path) -> None:
    adapter = find_adapters()["mydns"]
    config = ServerConfig(package / "made", Endpoint("192.0.2.1"), ())
    adapter.prepare(config)
    assert (package / "made/mydns.conf").read_text() == "listen 192.0.2.1@53"
    assert adapter.command(Path("/bin/mydnsd"), config) == [Path("/bin/mydnsd"), package / "made/mydns.conf"]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "why"), [("missing", "has no attribute 'Missing'"), ("renamed", "not an Adapter with the name renamed")]
)
def test_an_adapter_that_cannot_be_loaded_says_why(name: str, why: str) -> None:
    with pytest.raises(LabError, match=f"{name}: no adapter: .*{why}"):
        find_adapters()[name].installed()


@pytest.mark.usefixtures("package")
def test_the_adapters_of_the_lab_are_not_replaced() -> None:
    assert type(find_adapters()["nsd"]).__module__ == "zonda_lab.servers.nsd"
