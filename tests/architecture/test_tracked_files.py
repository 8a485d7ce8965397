"""What must not be in any file that git keeps.

The patterns are written so that they do not match their own text.
"""

from __future__ import annotations

import re

import pytest

from tests.architecture.source_tree import tracked_lines

REGISTRIES = (
    r"(pypi|pythonhosted|npmjs|crates|maven|golang|debian)\.(org|io)"
    r"|repo1?\.maven\.|(index-url|find-links|trusted-host)[ =]+\S*[/.]"
)
"""Where packages come from is for each machine to say, so that a mirror needs no change here."""

MACHINE_PATHS = r"(?<![\w.$})])/(home|root|Users|work|opt/wheels)/\w"
"""Paths that exist on one machine only."""

OUTSIDE = r"\.\./(\.\./)*sha[r]ed\b"
"""Papers next to the repository, which a clone does not have."""

UNFINISHED = r"\b(TO[D]O|FIX[M]E|XX[X])\b(?!\(#\d+\))"
"""Unfinished work is an issue; a mark in the code names it: ``(#12)`` after the word."""


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(REGISTRIES, id="package registry"),
        pytest.param(MACHINE_PATHS, id="path of one machine"),
        pytest.param(OUTSIDE, id="path outside the repository"),
        pytest.param(UNFINISHED, id="unfinished work without an issue"),
    ],
)
def test_no_tracked_file_holds(pattern: str) -> None:
    forbidden = re.compile(pattern)
    found = [
        f"{place}: {line.strip()}" for place, line in tracked_lines() if forbidden.search(line)
    ]
    assert found == []
