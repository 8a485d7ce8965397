"""Checks of clients that are copied: by pickle, and into a child process."""

# ruff: noqa: D102 - the name of a check is its sentence

from __future__ import annotations

import copy
import os
import pickle
import signal
import warnings
from collections.abc import Callable

import pytest

from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import SiltstoneError
from siltstone.testing.chunk_checks.subject import ChunkService, ChunkSubject, fill, names, read

CHILD_S = 60
REFUSED = (TypeError, AttributeError, NotImplementedError, pickle.PicklingError)
"""What Python raises for what cannot be copied."""


class ProcessChecks(ChunkSubject):
    """A copy of a client works, or is refused with an error; it never does half of it."""

    @pytest.mark.parametrize("how", ["pickle", "copy"])
    def test_a_copied_client_works_or_is_refused(self, storage: ChunkStorage, how: str) -> None:
        fill(storage, "a", content=[b"abc"])
        try:
            other = (
                pickle.loads(pickle.dumps(storage)) if how == "pickle" else copy.deepcopy(storage)
            )
        except REFUSED:
            pass
        else:
            assert read(other, "a") == b"abc"
            other.close()
        assert read(storage, "a") == b"abc"

    def test_a_child_process_opens_a_client_of_its_own(
        self, storage: ChunkStorage, service: ChunkService
    ) -> None:
        fill(storage, "a", content=[b"abc"])

        def look_at_it() -> None:
            own = service.open()
            assert read(own, "a") == b"abc"
            assert names(own) == ["a"]
            own.close()

        assert in_child(look_at_it) == 0
        assert read(storage, "a") == b"abc"
        fill(storage, "b")

    def test_a_client_in_a_child_process_works_or_is_refused(self, storage: ChunkStorage) -> None:
        content = bytes(range(256)) * 100
        fill(storage, "a", content=[content])
        read(storage, "a")

        def look_at_it() -> None:
            try:
                assert read(storage, "a") == content
            except SiltstoneError:
                return

        assert in_child(look_at_it) == 0
        assert read(storage, "a") == content

    def test_a_child_process_does_not_close_the_client_of_its_parent(
        self, storage: ChunkStorage
    ) -> None:
        fill(storage, "a", content=[b"abc"])
        assert in_child(storage.close) == 0
        for _ in range(3):
            assert read(storage, "a") == b"abc"
        fill(storage, "b")


def in_child(call: Callable[[], object]) -> int:
    """Run ``call`` in a forked process; return its exit code, 1 when the call raised."""
    return ended_child(begun_child(call))


def begun_child(call: Callable[[], object]) -> int:
    """Begin to run ``call`` in a forked process; return the process's number."""
    if not hasattr(os, "fork"):
        pytest.skip("no processes can be forked here")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forks while there are threads
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(CHILD_S)  # A child that hangs ends so.
            call()
            code = 0
        finally:
            os._exit(code)
    return child


def ended_child(child: int) -> int:
    """Wait for a process; return its exit code, below 0 when it was killed."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
