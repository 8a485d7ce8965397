"""Events leave in the order in which they came, in batches within their bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.errors import AppendTooLargeError
from siltstone.store.handles.event_buffer import EVENT_BYTES, DurableEvents, EventBuffer

BOUND = 1_000
BATCH = 100
EVENT_MAX = 150


class _Wakes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def _buffer(wake: _Wakes, *, bound: int = BOUND) -> EventBuffer:
    return EventBuffer(
        "a", bound_bytes=bound, batch_bytes=BATCH, event_bytes_max=EVENT_MAX, wake=wake
    )


@pytest.mark.slow
@given(steps=st.lists(st.one_of(st.integers(0, 200), st.just("take"))))
def test_a_buffer_is_a_bounded_queue(steps: list[int | str]) -> None:
    wake = _Wakes()
    buffer = _buffer(wake)
    held: list[bytes] = []
    sending: list[bytes] = []
    appended = b""
    wakes = 0
    idle = True
    for number, step in enumerate(steps):
        if isinstance(step, int):
            event = bytes([number % 256]) * step
            if step > EVENT_MAX:
                with pytest.raises(AppendTooLargeError):
                    buffer.add(event)
                continue
            size = sum(map(len, held)) + EVENT_BYTES * len(held)
            fits = not held or size + step + EVENT_BYTES <= BOUND
            assert buffer.has_room(step) is fits
            taken = buffer.add(event)
            assert (taken is not None) is fits
            if fits:
                assert taken == buffer.written_count - 1
                held.append(event)
                wakes += idle
                idle = False
        else:
            if sending:
                durable = buffer.landed(len(appended))
                first = buffer.durable_count - len(sending)
                lengths = tuple(map(len, sending))
                assert durable == DurableEvents(first=first, offset=len(appended), lengths=lengths)
                appended += b"".join(sending)
                assert buffer.end == durable.end == len(appended)
                del held[: len(sending)]
            batch = buffer.take()
            sending = batch or []
            idle = batch is None
            assert sending == held[: len(sending)]
            assert bool(sending) is bool(held)
            assert len(sending) <= 1 or len(b"".join(sending)) <= BATCH
        assert buffer.pending() == held
        assert wake.count == wakes


def test_offsets_follow_without_a_gap() -> None:
    durable = DurableEvents(first=3, offset=1_000, lengths=(5, 0, 7))
    assert list(durable.offsets()) == [1_000, 1_005, 1_005]
    assert durable.end == 1_012


def test_what_was_refused_is_not_taken_and_what_is_held_stays() -> None:
    buffer = _buffer(_Wakes())
    buffer.add(b"kept")
    buffer.refuse(lambda: ValueError("no more"))
    with pytest.raises(ValueError, match="no more"):
        buffer.add(b"late")
    assert buffer.has_room(BOUND), "a waiter for room has to be told"
    assert buffer.pending() == [b"kept"]
    assert buffer.take() == [b"kept"]


def test_one_event_above_the_bound_is_taken_alone() -> None:
    buffer = _buffer(_Wakes(), bound=1)
    assert buffer.add(b"large") == 0
    assert buffer.add(b"") is None
