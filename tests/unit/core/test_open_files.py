"""What counts as a lack of descriptors, and what follows from it."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkUnavailableError, Outcome, StoreError
from siltstone.core.open_files import (
    ChunkOpenFilesError,
    chunk_lack,
    gave_back,
    is_lack,
    may_give_back,
    with_descriptor,
)
from siltstone.core.remote.answers import no_answer
from siltstone.core.storage.async_storage import AsyncChunkStorage
from siltstone.core.storage.call_stats import CallLimits
from siltstone.core.storage.circuit_breaker import Circuit, CircuitLimits, CircuitState
from siltstone.metadata.index_errors import translation

LIMITS = CircuitLimits(failures_max=3, probe_s=5.0)
LACK = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


class Keeper:
    """Counts how often it is asked to give descriptors back."""

    def __init__(self) -> None:
        self.asked = 0

    def give_back(self) -> None:
        self.asked += 1


def wrapped(error: Exception) -> Exception:
    """Wrapped as by a library: once as the cause, once as the context."""
    try:
        try:
            raise error
        except Exception as inner:
            raise ConnectionError("no connection") from inner
    except ConnectionError:
        try:
            raise RuntimeError("the service could not be reached")
        except RuntimeError as outer:
            return outer


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_lack_is_known_however_it_is_wrapped(number: int) -> None:
    assert is_lack(OSError(number, os.strerror(number)))
    assert is_lack(wrapped(OSError(number, "")))


def test_a_lack_is_known_by_the_words_of_other_languages() -> None:
    assert is_lack(Exception("error sending request: Too many open files (os error 24)"))
    assert is_lack(Exception("IO error: While open a file: /x/000012.sst: Too many open files"))


def test_other_errors_are_no_lack_and_nothing_is_given_back_for_them() -> None:
    keeper = Keeper()
    may_give_back(keeper)
    for error in (OSError(errno.EIO, "x"), ValueError("x"), wrapped(OSError(errno.ENOENT, "x"))):
        assert not is_lack(error)
        assert not gave_back(error)
    assert keeper.asked == 0


def test_what_was_kept_is_given_back_once_and_the_call_made_again() -> None:
    keeper = Keeper()
    may_give_back(keeper)
    answers = iter([LACK, None])

    def call() -> str:
        if error := next(answers):
            raise error
        return "done"

    assert with_descriptor(call) == "done"
    assert keeper.asked == 1
    answers = iter([LACK, LACK, None])
    with pytest.raises(OSError, match="Too many open files"):
        with_descriptor(call)


def test_a_probe_that_was_not_sent_leaves_the_circuit_as_it_was() -> None:
    circuit = Circuit(LIMITS)
    circuit.unsent(0.0)
    assert circuit.state is CircuitState.CLOSED
    for _ in range(3):
        circuit.unanswered(0.0)
    circuit.sent(5.0)
    circuit.unsent(6.0)
    assert not circuit.admits(10.9)
    assert circuit.admits(11.0), "and the pause is as long as before"
    circuit.sent(11.0)
    circuit.answered()
    assert circuit.admits(11.0)


def test_calls_without_a_descriptor_open_no_circuit_and_count_as_no_silence() -> None:
    def lacking(_: ChunkStorage) -> None:
        raise chunk_lack(chunk="a", operation="read_into", outcome=Outcome.NOT_APPLIED)

    async def body() -> None:
        environment = SystemEnvironment()
        storage = AsyncChunkStorage(
            MemoryChunkStorage(), environment, limits=CallLimits(slow_s=60.0, circuit=LIMITS)
        )
        try:
            for _ in range(10):
                with pytest.raises(ChunkOpenFilesError):
                    await storage.run("read_into", "a", lacking)
            assert not storage.silent
            assert storage.watch.recent().count == 10
            assert storage.watch.recent().unanswered == 0
            await storage.create("a", [b"x"])
        finally:
            await storage.close()
            await asyncio.to_thread(environment.close)

    asyncio.run(body())


def test_a_service_that_could_not_be_reached_for_want_of_a_descriptor_is_not_blamed() -> None:
    told = no_answer(
        "a", "create", changes=True, unsent=True, cause=wrapped(LACK), error="ConnectionError"
    )
    assert isinstance(told, ChunkOpenFilesError)
    assert told.outcome is Outcome.NOT_APPLIED
    assert "ulimit -n" in str(told)
    other = no_answer(
        "a", "create", changes=True, unsent=True, cause=OSError("refused"), error="ConnectionError"
    )
    assert type(other) is ChunkUnavailableError


def test_an_index_without_a_descriptor_is_neither_damaged_nor_open_elsewhere() -> None:
    for said in (
        "IO error: While open a file for lock: /x/LOCK: Too many open files",
        "Invalid argument: incompatible: IO error: While open /x/CURRENT: Too many open files",
    ):
        error = translation(Exception(said), Path("/x"))
        assert type(error) is StoreError
        assert "ulimit -n" in str(error)
