"""The page of the benchmarks keeps what a run did not measure."""

from __future__ import annotations

from bench import __main__ as command
from bench.figure import PER_SECOND, Figure
from bench.report import page, section

ORDER = ("first", "second", "third")


def made(name: str, value: float) -> str:
    figure = Figure(
        what=f"{name} thing", peer="peer", unit=PER_SECOND, ours=[value], theirs=[1.0], goal=0.5
    )
    return section(name, f"The {name}", {"date": f"day {value}"}, [figure])


def test_a_run_writes_its_own_sections_and_keeps_the_others() -> None:
    old = page("", ORDER, {"third": made("third", 3.0), "first": made("first", 1.0)}, 5)
    new = page(old, ORDER, {"first": made("first", 7.0), "second": made("second", 2.0)}, 5)
    assert new == page(
        "",
        ORDER,
        {"first": made("first", 7.0), "second": made("second", 2.0), "third": made("third", 3.0)},
        5,
    )
    assert "day 1.0" in old
    assert "≥ 0.5" in old
    assert "`python -m bench first`" in old
    assert "day 1.0" not in new
    assert page(new, ORDER, {}, 5) == new


def test_the_page_that_is_there_is_understood() -> None:
    text = command.PAGE.read_text(encoding="utf-8")
    assert page(text, command.PARTS, {}, 5) == text
