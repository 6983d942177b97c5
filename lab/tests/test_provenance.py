from typing import Any

import pytest

from zonda_lab.errors import LabError
from zonda_lab.results.folder import require_same

GENERATOR = {"name": "zonda-load", "version": "0.1"}
BEFORE: dict[str, Any] = {
    "source": "0123456",
    "generator": GENERATOR,
    "servers": {"nsd": {"version": "4.6.1", "sha256": "a" * 64}, "knot": {"version": "3.2", "sha256": "b" * 64}},
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"source": "0123456-dirty"}, "began at commit 0123456, and this tree is 0123456-dirty"),
        ({"generator": {"name": "zonda-load", "version": "0.2"}}, "with zonda-load 0.1, and this is zonda-load 0.2"),
        ({"servers": {"nsd": {"version": "4.6.1", "sha256": "c" * 64}}}, "nsd is another program"),
    ],
)
def test_a_run_is_not_resumed_with_something_else(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        require_same(BEFORE, {**BEFORE, **changed})


def test_a_run_is_resumed_with_the_same_programs() -> None:
    require_same(BEFORE, BEFORE)
    require_same(BEFORE, {**BEFORE, "servers": {"nsd": BEFORE["servers"]["nsd"]}})  # knot is no longer installed
