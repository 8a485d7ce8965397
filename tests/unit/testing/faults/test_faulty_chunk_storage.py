"""The four fates of a call, the counting, and the hooks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.testing.faults.faulty_chunk_storage import (
    Fate,
    FaultyChunkStorage,
    StorageCall,
    fail_number,
)


@pytest.mark.parametrize(
    ("fate", "outcome", "applied"),
    [
        (Fate.DONE, None, True),
        (Fate.REFUSED, Outcome.NOT_APPLIED, False),
        (Fate.LOST_REPLY, Outcome.UNKNOWN, True),
        (Fate.LOST_CALL, Outcome.UNKNOWN, False),
    ],
)
def test_fates(fate: Fate, outcome: Outcome | None, applied: bool) -> None:
    inner = MemoryChunkStorage()
    faulty = FaultyChunkStorage(inner, fail_number(1, fate))
    if outcome is None:
        faulty.create("a", [b"x"])
    else:
        with pytest.raises(ChunkUnavailableError, match=fate.value) as caught:
            faulty.create("a", [b"x"])
        assert caught.value.outcome is outcome
        assert (caught.value.chunk, caught.value.operation) == ("a", "create")
    assert [chunk.name for chunk in inner.list()] == (["a"] if applied else [])


@pytest.mark.parametrize(
    ("fate", "outcome", "applied"),
    [
        (Fate.REFUSED, Outcome.NOT_APPLIED, False),
        (Fate.LOST_REPLY, Outcome.UNKNOWN, True),
        (Fate.LOST_CALL, Outcome.UNKNOWN, False),
        (Fate.TORN, Outcome.UNKNOWN, False),
    ],
)
def test_a_whole_create_has_every_fate_and_is_never_torn(
    fate: Fate, outcome: Outcome, *, applied: bool
) -> None:
    inner = MemoryChunkStorage()
    faulty = FaultyChunkStorage(inner, fail_number(1, fate, "create"))
    with pytest.raises(ChunkUnavailableError, match=fate.value) as caught:
        faulty.create_whole("a", [b"first", b"second"])
    assert caught.value.outcome is outcome
    assert [chunk.length for chunk in inner.list()] == ([11] if applied else [])
    assert faulty.calls == [StorageCall(number=1, operation="create", name="a")]


CALLS: dict[str, Callable[[ChunkStorage], object]] = {
    "create": lambda storage: storage.create("new", [b"x"]),
    "write": lambda storage: storage.write("a", 3, [b"x"]),
    "read_into": lambda storage: storage.read_into("a", 0, bytearray(1)),
    "stat": lambda storage: storage.stat("a"),
    "list": lambda storage: list(storage.list("a")),
    "delete": lambda storage: storage.delete("a"),
    "concat": lambda storage: storage.concat("new", [("a", 1)]),
    "seal": lambda storage: storage.seal("a"),
    "used_space": lambda storage: storage.used_space(),
    "free_space": lambda storage: storage.free_space(),
}


@pytest.mark.parametrize("operation", CALLS)
def test_every_operation_can_fail(operation: str) -> None:
    inner = MemoryChunkStorage()
    inner.create("a", [b"abc"])
    faulty = FaultyChunkStorage(inner, lambda call: Fate.LOST_REPLY)
    with pytest.raises(ChunkUnavailableError):
        CALLS[operation](faulty)
    assert [call.operation for call in faulty.calls] == [operation]


def test_calls_are_counted_and_the_chosen_one_fails() -> None:
    faulty = FaultyChunkStorage(MemoryChunkStorage(), fail_number(2, Fate.REFUSED, "write"))
    faulty.create("a", [b"x"])
    faulty.write("a", 1, [b"x"])
    with pytest.raises(ChunkUnavailableError):
        faulty.write("a", 2, [b"x"])
    faulty.write("a", 2, [b"x"])
    assert faulty.calls == [
        StorageCall(number=1, operation="create", name="a"),
        StorageCall(number=2, operation="write", name="a"),
        StorageCall(number=3, operation="write", name="a"),
        StorageCall(number=4, operation="write", name="a"),
    ]


def test_every_call_of_a_run_can_be_the_one_that_fails() -> None:
    def run(storage: ChunkStorage) -> None:
        storage.create("a", [b"x"])
        storage.write("a", 1, [b"y"])
        storage.delete("a")

    clean = FaultyChunkStorage(MemoryChunkStorage())
    run(clean)
    for call in clean.calls:
        faulty = FaultyChunkStorage(MemoryChunkStorage(), fail_number(call.number, Fate.LOST_CALL))
        with pytest.raises(ChunkUnavailableError, match=f"number={call.number}"):
            run(faulty)
        assert len(faulty.calls) == call.number


def test_hooks_see_the_state_before_and_after() -> None:
    inner = MemoryChunkStorage()
    seen: list[tuple[str, str, str, int]] = []

    def look(when: str, operation: str, name: str) -> None:
        seen.append((when, operation, name, inner.used_space()))

    faulty = FaultyChunkStorage(
        inner,
        before=lambda operation, name: look("before", operation, name),
        after=lambda operation, name: look("after", operation, name),
    )
    faulty.create("a", [b"abc"])
    assert seen == [("before", "create", "a", 0), ("after", "create", "a", 3)]


def test_a_hook_may_raise_which_kills_the_caller_before_the_call() -> None:
    class KilledError(BaseException):
        pass

    def kill(operation: str, name: str) -> None:
        raise KilledError

    inner = MemoryChunkStorage()
    with pytest.raises(KilledError):
        FaultyChunkStorage(inner, before=kill).create("a", [b"x"])
    assert inner.used_space() == 0
