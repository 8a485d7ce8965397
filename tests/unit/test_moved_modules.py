"""Old names of modules that plugins may import: each still works for one version, and says so."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import siltstone
from siltstone.core.constants import MIB
from siltstone.moved_modules import MOVED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_warns_and_gives_the_same_objects(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is {MOVED[old]} now"):
        before = import_module(old)
    monkeypatch.delitem(sys.modules, old)
    now = import_module(MOVED[old])
    assert before is not now
    assert [name for name in vars(now) if not name.startswith("__")] == [
        name for name in vars(before) if not name.startswith("__")
    ]
    assert all(
        getattr(before, name) is getattr(now, name)
        for name in vars(now)
        if not name.startswith("__")
    )


def test_a_plugin_of_before_is_told_where_it_imports_an_old_name() -> None:
    program = "import siltstone\nfrom siltstone.core.words import MIB\nprint(MIB)\n"
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"{MIB}\n"
    assert "<string>:2: DeprecationWarning: siltstone.core.words is" in ended.stderr


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("siltstone.core.never_was")
    assert siltstone.__name__ == "siltstone"
