"""What applications and plugins import is recorded in ``public_names.txt``, and stays.

A new name is added there on purpose; one that is to be removed first works for a version, with a
warning.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import siltstone

RECORD = Path(__file__).with_name("public_names.txt")


def recorded() -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for line in RECORD.read_text(encoding="utf-8").splitlines():
        if line.endswith(":"):
            names[line.removesuffix(":")] = here = []
        else:
            here.append(line.strip())
    return names


def test_the_names_of_the_package_are_those_on_record() -> None:
    assert sorted(siltstone.__all__) == recorded()["siltstone"]


@pytest.mark.parametrize("path", [path for path in recorded() if path != "siltstone"])
def test_a_path_for_authors_of_plugins_has_its_names(path: str) -> None:
    module = import_module(path)
    assert [name for name in recorded()[path] if not hasattr(module, name)] == []
