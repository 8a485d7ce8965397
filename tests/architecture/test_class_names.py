"""A class name stands for one thing in the whole package."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

from tests.architecture.source_tree import modules

SHARED: Mapping[str, str] = {
    "Checksums": "settings of two bindings, which know nothing of each other",
    "CollectionWriter": "for blocking callers, and its row in a state",
    "Plan": "two published test kits, each with the calls or requests that it lets fail",
    "Service": "the client of each binding, which know nothing of one another",
    "Writer": "public both times: of events, and of appends that may be repeated",
}
"""Names that several classes have, and why."""


def test_a_class_name_stands_for_one_thing() -> None:
    places = _places()
    assert {name: at for name, at in places.items() if len(at) > 1 and name not in SHARED} == {}


def test_names_that_are_shared_still_are() -> None:
    places = _places()
    assert [name for name in SHARED if len(places[name]) < 2] == []


def _places() -> dict[str, list[str]]:
    """The modules that define a public class, by its name."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        if not module.path.startswith("siltstone/"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(module.path)
    return places
