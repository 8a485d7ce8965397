"""Strings of the package use plain words (after, while, another owner), not home-made ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.architecture.source_tree import modules

HOME_MADE: Final = re.compile(r"\b(behind|beside|nobody|somebody|whoever|anew|can not)\b", re.I)

EXCEPTIONS: Mapping[str, str] = {
    "siltstone/container/health/monitor.py": "a clock that is behind: the usual word for it",
    "siltstone/pipelines/event_starts.py": "names an argument",
    "siltstone/pipelines/verify_copy.py": "names a status that users see",
    "siltstone/pipelines/verify_export.py": "defines a status that users see",
    "siltstone/segments/read_ahead.py": "names an argument",
}
"""Modules that contain one of the words anyway, and why."""


def test_strings_use_plain_words() -> None:
    assert [where for path, where in _places() if path not in EXCEPTIONS] == []


def test_exceptions_are_still_needed() -> None:
    assert set(EXCEPTIONS) <= {path for path, _ in _places()}


def _places() -> Iterator[tuple[str, str]]:
    """The strings with such a word, each with its module; a docstring is one too."""
    for module in modules():
        if not module.path.startswith("siltstone/"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for match in HOME_MADE.finditer(node.value):
                    yield module.path, f"{module.path}:{node.lineno}: {match.group()}"
