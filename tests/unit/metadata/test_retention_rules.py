"""Which rule is in force for a name, and which segments rules cover, against plain loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.records.retention_row import RetentionRow, RetentionScope
from siltstone.metadata.retention_rules import RetentionRules
from siltstone.metadata.rows import Rows

WORDS = st.text("ab/é", max_size=4)


@dataclass
class Names:
    """The two reads of ``Rows`` over a list of names."""

    names: list[str]

    def find(self, name: str) -> int | None:
        return self.names.index(name) if name in self.names else None

    def segments(self, prefix: str, start_after: str, limit: int) -> list[tuple[str, int]]:
        found = [
            (name, self.names.index(name))
            for name in sorted(self.names, key=str.encode)
            if name.startswith(prefix) and name.encode() > start_after.encode()
        ]
        return found[:limit]


RULES = st.dictionaries(st.tuples(st.sampled_from(RetentionScope), WORDS), st.integers(0, 99)).map(
    lambda rules: [
        RetentionRow(scope=scope, name=name, bytes_max=size)
        for (scope, name), size in rules.items()
        if name or scope is RetentionScope.PREFIX
    ]
)


def _in_force(rules: list[RetentionRow], name: str) -> RetentionRow | None:
    own = [r for r in rules if r.scope is RetentionScope.SEGMENT and r.name == name]
    prefixes = [r for r in rules if r.scope is RetentionScope.PREFIX and name.startswith(r.name)]
    return next(iter(own), max(prefixes, key=lambda row: len(row.name), default=None))


@pytest.mark.slow
@given(RULES, st.lists(WORDS, unique=True))
def test_the_own_rule_counts_else_the_longest_prefix(
    rules: list[RetentionRow], names: list[str]
) -> None:
    for name in names:
        assert RetentionRules(rules).rule_of(name) == _in_force(rules, name)


@pytest.mark.slow
@given(RULES, st.lists(WORDS, unique=True), st.integers(1, 4))
def test_pages_show_every_segment_with_a_rule_once_in_order(
    rules: list[RetentionRow], names: list[str], limit: int
) -> None:
    rows = cast("Rows", Names(names))
    found: list[str] = []
    last = ""
    while page := list(RetentionRules(rules).segments(rows, last, limit)):
        assert len(page) <= limit
        found += [name for name, _ in page]
        last = found[-1]
    wanted = [name for name in names if name and _in_force(rules, name) is not None]
    assert found == sorted(wanted, key=str.encode)
