"""The run of value segments whose compaction is worth most."""

from __future__ import annotations

from siltstone.objects.scores import ValueUse, best_run


def uses(*percents: int, first: int = 1) -> list[ValueUse]:
    return [ValueUse(first + place, 100, percent) for place, percent in enumerate(percents)]


def chosen(*groups: list[ValueUse], run_max: int = 8) -> list[int]:
    return [use.number for use in best_run(groups, run_max=run_max)]


def test_nothing_is_worth_it_where_most_is_needed() -> None:
    assert chosen() == []
    assert chosen(uses(31)) == []
    assert chosen(uses(30)) == []
    assert chosen(uses(*[70] * 8)) == []
    assert chosen(uses(*[100] * 20)) == []


def test_one_segment_is_worth_it_below_thirty_percent_and_eight_below_seventy() -> None:
    assert chosen(uses(29)) == [1]
    assert chosen(uses(*[69] * 8)) == list(range(1, 9))
    assert chosen(uses(*[69] * 7)) == []


def test_the_run_with_the_lowest_need_for_its_length_is_taken() -> None:
    assert chosen(uses(90, 0, 90)) == [2]
    assert chosen(uses(90, 5, 5, 90)) == [2, 3]
    assert chosen(uses(100, 20, 20, 20, 100)) == [2, 3, 4]


def test_a_run_has_neighbours_alone() -> None:
    assert chosen(uses(40, 40), uses(40, 40, first=9)) == []
    assert chosen(uses(35, 35, 35, 35)) == [1, 2, 3, 4]
    assert chosen(uses(35, 35), uses(20, first=9)) == [9]


def test_a_run_is_no_longer_than_it_may_be() -> None:
    assert chosen(uses(*[10] * 9)) == list(range(1, 9))
    assert chosen(uses(*[10] * 9), run_max=3) == [1, 2, 3]
    assert chosen(uses(10, 29), run_max=1) == [1]
