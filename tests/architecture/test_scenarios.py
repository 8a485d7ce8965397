"""Every scenario has its row, and every test that a row names is there."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source_tree import ROOT

PAGE = ROOT / "tests" / "scenarios.md"
NUMBERS = [
    *map(str, range(1, 148)),
    *(f"COL{number}" for number in range(1, 34)),
    *(f"KEY{number}" for number in range(1, 36)),
]
ROW = re.compile(r"^\| *((?:COL|KEY)?\d+) *\| *(.+?) *\| *(.+?) *\|$", re.MULTILINE)
TEST = re.compile(r"`([\w./-]+\.py)::(\w+)`")
NO_TEST = ("moot: ",)


def rows() -> list[tuple[str, str, str]]:
    """Number, scenario, and the tests or the rule in its last column."""
    return ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_every_scenario_has_one_row() -> None:
    assert [number for number, _, _ in rows()] == NUMBERS
    scenarios = [scenario for _, scenario, _ in rows()]
    assert len(set(scenarios)) == len(scenarios)


def test_every_row_names_a_test_or_a_rule() -> None:
    bare = [
        number
        for number, _, answer in rows()
        if not TEST.search(answer) and not answer.startswith(NO_TEST)
    ]
    assert bare == []


@pytest.mark.parametrize(("number", "answer"), [(row[0], row[2]) for row in rows()])
def test_every_named_test_exists(number: str, answer: str) -> None:
    missing = [
        f"{path}::{name}"
        for path, name in TEST.findall(answer)
        if not (ROOT / path).is_file()
        or not re.search(
            rf"^ *(?:async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE
        )
    ]
    assert missing == [], f"scenario {number}"
