"""Requests of a keyspace that wait for a batch hold no more than a bound; others stand in line."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from siltstone.container.models.segments import CommitResult
from siltstone.core.errors import BackPressureError
from siltstone.objects.batch import Waiting
from siltstone.objects.changes import object_key, put_request
from siltstone.objects.request_queue import REQUEST_BYTES, RequestQueue, request_bytes
from siltstone.objects.value_segments import RollLimits
from tests.support.container.container_world import World
from tests.support.objects.space_check import look
from tests.support.objects.space_world import NAMES, open_owner

pytestmark = pytest.mark.virtual_time

SIZE = REQUEST_BYTES + 500


def waiting(name: str) -> Waiting:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request = put_request(object_key("o", "b", name), bytes(500))
    return Waiting(request, future, request_bytes(request))


def names(queue: RequestQueue) -> str:
    """The keys of what is taken, oldest first, each of which is given away."""
    found = ""
    while queue:
        found += queue.popleft().request.key.key.decode()  # type: ignore[union-attr]
    return found


def told(one: Waiting) -> object:
    return type(one.future.exception()) if one.future.done() else None


async def test_what_is_beyond_the_bound_is_taken_when_there_is_room_and_in_order() -> None:
    queue = RequestQueue("photos", 30.0, bound=2 * SIZE)
    for name in "abcde":
        queue.append(waiting(name))
    assert (len(queue), len(list(queue)), queue.held_bytes) == (2, 5, 2 * SIZE)
    assert queue.is_long
    assert queue.popleft().request.key.key == b"a"  # type: ignore[union-attr]
    assert (len(queue), queue.held_bytes) == (2, 2 * SIZE)
    queue.append(waiting("f"))
    assert names(queue) == "bcdef"
    assert (queue.held_bytes, queue.is_long) == (0, False)


async def test_what_stands_in_line_for_too_long_is_refused_and_no_other() -> None:
    queue = RequestQueue("photos", 30.0, bound=SIZE)
    taken, first = waiting("a"), waiting("b")
    queue.append(taken)
    queue.append(first)
    await asyncio.sleep(20)
    second = waiting("c")
    queue.append(second)
    await asyncio.sleep(11)
    assert (told(taken), told(first), told(second)) == (None, BackPressureError, None)
    assert names(queue) == "ac"
    await asyncio.sleep(60)
    assert told(second) is None


async def test_what_was_put_back_is_the_first_again_whatever_room_there_is() -> None:
    queue = RequestQueue("photos", 30.0, bound=2 * SIZE)
    before = [waiting(name) for name in "ab"]
    for name in "cde":
        queue.append(waiting(name))
    queue.put_back(before)
    assert (len(queue), queue.held_bytes) == (4, 4 * SIZE)
    assert names(queue) == "abcde"


async def test_a_caller_in_line_that_went_away_takes_no_room() -> None:
    queue = RequestQueue("photos", 30.0, bound=SIZE)
    gone = waiting("b")
    for each in (waiting("a"), gone, waiting("c")):
        queue.append(each)
    gone.future.cancel()
    assert names(queue) == "ac"


async def test_what_was_forgotten_is_not_refused_later() -> None:
    queue = RequestQueue("photos", 30.0, bound=SIZE)
    each = waiting("b")
    queue.append(waiting("a"))
    queue.append(each)
    queue.clear()
    await asyncio.sleep(60)
    assert (told(each), len(queue), queue.held_bytes) == (None, 0, 0)


async def test_puts_beyond_the_bound_fail_without_a_trace_while_the_log_is_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bounds = RequestQueue.__init__.__defaults__
    assert bounds == (64 * 2**20,)
    monkeypatch.setattr(RequestQueue.__init__, "__defaults__", (20_000,))
    async with World() as world:
        opened = await open_owner(world)
        await opened.make()
        photos = await opened.keyspace(RollLimits())
        commit = opened.store.commit

        async def slow(*arguments: Any) -> CommitResult:
            await asyncio.sleep(100)
            return await commit(*arguments)

        monkeypatch.setattr(opened.store, "commit", slow)
        first = photos.put("b", "first", b"")
        await asyncio.sleep(1)  # it is in flight, and the next batch fills
        puts = [photos.put("b", f"k{number:02}", bytes(3_000_000)) for number in range(12)]
        results = await asyncio.gather(first, *puts, return_exceptions=True)
        refused = [isinstance(result, BackPressureError) for result in results]
        assert refused == sorted(refused), "the first ones are taken"
        assert 2 < refused.index(True) < 8
        done = [result for result in results if not isinstance(result, BaseException)]
        assert [result.sqn for result in done] == list(range(1, len(done) + 1))
        assert done[0].pause
        seen = await look(opened.store, NAMES)
        assert len(seen.objects) == len(done)
        again = await photos.put("b", "next", b"")
        assert again.sqn == len(done) + 1
        assert not again.pause
