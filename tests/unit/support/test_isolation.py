"""The check of transactions finds each anomaly that it names and no other."""

from __future__ import annotations

import pytest

from tests.support.oracles.isolation import End, Transaction, anomalies


def made(
    name: str,
    reads: dict[str, str | None],
    writes: str = "",
    *,
    end: End = End.COMMITTED,
    time: tuple[int, int | None] = (0, None),
) -> Transaction:
    return Transaction(
        name=name,
        reads=reads,
        writes=frozenset(writes),
        end=end,
        began=time[0],
        ended=time[1],
    )


FIRST = made("1", {"x": None, "y": None}, "xy")

FINE = {
    "nothing": [],
    "one after the other": [FIRST, made("2", {"x": "1"}, "x"), made("3", {"x": "2", "y": "1"})],
    "an unknown one that was seen": [
        made("1", {"x": None}, "x", end=End.UNKNOWN),
        made("2", {"x": "1"}),
    ],
    "an unknown one that had no effect": [
        FIRST,
        made("2", {"x": "1"}, "x", end=End.UNKNOWN),
        made("3", {"x": "1"}, "x"),
    ],
    "a refused one that read anything": [FIRST, made("2", {"x": "7"}, "x", end=End.REFUSED)],
    "a read that began before": [
        made("1", {"x": None}, "x", time=(1, 3)),
        made("2", {"x": None}, time=(2, 9)),
    ],
}

WRONG = {
    "lost update": [FIRST, made("2", {"x": "1"}, "x"), made("3", {"x": "1"}, "x")],
    "aborted read": [made("1", {"x": None}, "x", end=End.REFUSED), made("2", {"x": "1"})],
    "unwritten read": [FIRST, made("2", {"z": "1"})],
}

CYCLES = {
    "write skew": [
        FIRST,
        made("2", {"x": "1", "y": "1"}, "x"),
        made("3", {"x": "1", "y": "1"}, "y"),
    ],
    "half of an update": [
        FIRST,
        made("2", {"x": "1", "y": "1"}, "xy"),
        made("3", {"x": "2", "y": "1"}),
    ],
    "both see one another": [
        FIRST,
        made("2", {"x": "1", "y": "3"}, "x"),
        made("3", {"y": "1", "x": "2"}, "y"),
    ],
    "two orders of two updates": [
        FIRST,
        made("2", {"x": "1"}, "x"),
        made("3", {"y": "1"}, "y"),
        made("4", {"x": "2", "y": "1"}),
        made("5", {"x": "1", "y": "3"}),
    ],
    "an old read": [
        made("1", {"x": None}, "x", time=(1, 2)),
        made("2", {"x": None}, time=(3, 4)),
    ],
    "an old read through others": [
        made("1", {"x": None}, "x", time=(1, 2)),
        made("2", {"y": None}, "y", time=(3, 4)),
        made("3", {"y": "2", "x": None}, time=(3, 9)),
    ],
    "an unknown one that was seen": [
        FIRST,
        made("2", {"x": "1", "y": "1"}, "x", end=End.UNKNOWN),
        made("3", {"x": "1", "y": "1"}, "y"),
        made("4", {"x": "2"}),
    ],
}


@pytest.mark.parametrize("name", FINE)
def test_what_some_order_explains(name: str) -> None:
    assert anomalies(FINE[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_by_itself(name: str) -> None:
    assert {found.kind for found in anomalies(WRONG[name])} == {name}


@pytest.mark.parametrize("name", CYCLES)
def test_cycles(name: str) -> None:
    (found,) = anomalies(CYCLES[name])
    assert found.kind == "cycle"
    assert len(found.transactions) > 1
    assert len(set(found.transactions)) == len(found.transactions)


@pytest.mark.slow
def test_a_long_history_is_no_deep_recursion() -> None:
    several = [made("0", {"x": None}, "x", time=(0, 1))]
    several += [
        made(f"{n}", {"x": f"{n - 1}"}, "x", time=(2 * n, 2 * n + 1)) for n in range(1, 5_000)
    ]
    assert anomalies(several) == []
    several.append(made("late", {"x": "17"}, time=(20_000, None)))
    assert [found.kind for found in anomalies(several)] == ["cycle"]
