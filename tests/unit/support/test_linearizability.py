"""The search for an order of calls finds one exactly where a search of all orders does."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.oracles.linearizability import Call, search


def register(state: int, call: Call) -> int | None:
    """A place for a number: ``("write", n)`` returns nothing, ``("read",)`` returns the number."""
    if call.what[0] == "write":
        return int(call.what[1])
    return state if call.ended is None or call.answer == state else None


def write(value: int, began: int, ended: int | None) -> Call:
    return Call(what=("write", value), began=began, ended=ended)


def read(value: int, began: int, ended: int | None) -> Call:
    return Call(what=("read",), answer=value, began=began, ended=ended)


@pytest.mark.parametrize(
    ("calls", "fine"),
    [
        ([], True),
        ([write(1, 0, 1), read(1, 2, 3)], True),
        ([write(1, 0, 1), read(0, 2, 3)], False),
        ([write(1, 0, 3), read(0, 1, 2)], True),
        ([write(1, 0, 5), read(1, 1, 2), read(0, 3, 4)], False),
        ([write(1, 0, None), read(0, 1, 2), read(1, 3, 4)], True),
        ([write(1, 0, None), read(1, 1, 2), read(0, 3, 4)], False),
        ([write(1, 2, None), read(1, 0, 1)], False),
    ],
)
def test_known_histories(calls: list[Call], fine: bool) -> None:
    assert (search(calls, 0, register).order is not None) == fine


@st.composite
def histories(draw: st.DrawFn) -> list[Call]:
    count = draw(st.integers(0, 5))
    times = draw(st.permutations(range(2 * count)))
    calls = []
    for number in range(count):
        began, ended = sorted(times[2 * number : 2 * number + 2])
        end = None if draw(st.integers(0, 4)) == 0 else ended
        make = draw(st.sampled_from([write, read]))
        calls.append(make(draw(st.integers(0, 2)), began, end))
    return calls


def explained(calls: list[Call]) -> bool:
    """The same answer, by trying every order of every choice of unknown calls."""
    certain = [call for call in calls if call.ended is not None]
    unknown = [call for call in calls if call.ended is None]
    for choice in range(2 ** len(unknown)):
        chosen = [call for number, call in enumerate(unknown) if choice >> number & 1]
        for order in permutations(certain + chosen):
            late = (
                one
                for number, one in enumerate(order)
                for two in order[:number]
                if one.ended is not None and one.ended < two.began
            )
            if next(late, None) is None and runs(order):
                return True
    return False


def runs(order: tuple[Call, ...]) -> bool:
    state: int | None = 0
    for call in order:
        if state is None:
            return False
        state = register(state, call)
    return state is not None


@pytest.mark.slow
@settings(max_examples=300)
@given(histories())
def test_it_agrees_with_a_search_of_all_orders(calls: list[Call]) -> None:
    found = search(calls, 0, register).order
    assert (found is not None) == explained(calls)
    if found is not None:
        assert runs(found)
        assert {call.began for call in calls if call.ended is not None} <= {c.began for c in found}


def test_a_search_has_an_end() -> None:
    calls = [write(number, number, None) for number in range(40)] + [read(99, 50, 51)]
    with pytest.raises(TimeoutError):
        search(calls, 0, register, steps_max=1_000)
