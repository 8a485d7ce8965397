"""docs/soak.md names every file with soak tests and no other; the shares are as it says."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source_tree import ROOT
from tests.support.soak import share_of, shared

ROW = re.compile(r"^\| `(tests/[^`]+\.py)` \| [^|]+ \| [^|]*\d[^|]* \|$", re.MULTILINE)
MARK = "pytest.mark." + "soak"
VARIABLE = re.compile(r"SILTSTONE_SOAK_\w+")


def test_each_soak_is_described() -> None:
    described = ROW.findall((ROOT / "docs/soak.md").read_text())
    marked = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if MARK in path.read_text()
    ]
    assert sorted(described) == sorted(marked)


def test_each_variable_is_described() -> None:
    used = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in VARIABLE.findall(path.read_text())
    }
    assert set(VARIABLE.findall((ROOT / "docs/soak.md").read_text())) == used


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_all_shares_are_all_cases_once(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    cases = [(number, kind) for number in range(50) for kind in "abc"]
    every = []
    for which in range(1, count + 1):
        monkeypatch.setenv("SILTSTONE_SOAK_SHARE", f"{which}/{count}")
        mine = shared(iter(cases))
        assert mine == sorted(mine)
        assert {kind for _, kind in mine} == set("abc")
        every += mine
    assert sorted(every) == cases


def test_without_a_share_all_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SILTSTONE_SOAK_SHARE", raising=False)
    assert shared(range(9)) == list(range(9))
    assert share_of(60) == 60


def test_a_share_of_random_rounds_is_one_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SILTSTONE_SOAK_SHARE", "2/8")
    assert share_of(60) == 7
    assert share_of(3) == 1


@pytest.mark.parametrize("text", ["", "8", "0/8", "9/8", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_share_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SILTSTONE_SOAK_SHARE", text)
    with pytest.raises(ValueError, match="SILTSTONE_SOAK_SHARE"):
        shared([1])
