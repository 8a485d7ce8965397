"""Whole creates on a real server, with each thing that goes wrong with each call of the SDK for it.

What must hold: the chunk has all bytes or is not there; what was told is true; the same bytes can
be created under the name again; drafts are not listed, and are swept. Before the rename nothing can
have had an effect. A rename whose answer is lost, or that a second NameNode gets to see again, is
recognised.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from services.hdfs import Hdfs
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.core.drafts import DRAFTS
from siltstone.core.errors import (
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkUnavailableError,
    Outcome,
)
from tests.faults.hdfs.faulty_client import FAULTS, FaultyClients, Plan
from tests.support.services.hdfs_services import HdfsService, options_of

NAME = "d/a"
CONTENT = bytes(range(256)) * 400
DEADLINES_S = (0.4, 2.0, 10.0, 50.0)
"""Of the calls that hang; others take milliseconds, or longer where a server has just begun."""
CALLS = ("create", "write", "hsync", "close", "rename")
RENAMES = {
    "fails before": Outcome.UNKNOWN,
    "fails after": "done",
    "hangs before": Outcome.UNKNOWN,
    "hangs after": Outcome.UNKNOWN,
    "panics": Outcome.UNKNOWN,
}
"""What is told where a fault meets the rename; nothing else can have an effect."""


def make(storage: HdfsChunkStorage) -> None:
    storage.create_whole(NAME, [CONTENT[:1_000], CONTENT[1_000:]])


def told(storage: HdfsChunkStorage) -> tuple[str, ChunkError | None]:
    try:
        make(storage)
    except ChunkError as error:
        return error.outcome, error
    return "done", None


def faulty(service: HdfsService, plan: Plan, deadline_s: float | None = None) -> HdfsChunkStorage:
    storage = HdfsChunkStorage(service.settings)
    if deadline_s is not None:
        storage.service._deadline_s = deadline_s
    clients: Any = FaultyClients(storage.service.clients, plan)
    storage.service.clients = clients
    return storage


def drafts(service: HdfsService) -> list[str]:
    return [name for name in service.outside_names() if name.startswith(DRAFTS)]


def check_whole(service: HdfsService) -> None:
    """The chunk can be made again, or is there; nothing else is listed, and a sweep removes it."""
    storage = HdfsChunkStorage(service.settings)
    with suppress(ChunkExistsError):
        make(storage)
    assert service.outside_read(NAME) == CONTENT
    assert [found.name for found in storage.list()] == [NAME]
    storage.sweep_leftovers("d/", 0.0)
    assert service.outside_names() == [NAME]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_one_call_goes_wrong(hdfs: Hdfs, call: str, fault: str) -> None:
    for deadline_s in DEADLINES_S:
        service = HdfsService(server=hdfs)
        service.outside_write("d/other", b"x")  # So the folder is there: each call is made once.
        plan = Plan(call=call, fault=fault)
        storage = faulty(service, plan, deadline_s if fault.startswith("hangs") else None)
        outcome, error = told(storage)
        if plan.happened:
            break
    assert plan.happened, "the fault did not happen"
    assert outcome == (RENAMES[fault] if call == "rename" else Outcome.NOT_APPLIED), error
    found = service.outside_read(NAME)
    assert found in (None, CONTENT)
    if outcome == "done":
        assert found == CONTENT
    if outcome == Outcome.NOT_APPLIED:
        assert found is None
        assert not isinstance(error, ChunkExistsError)
    service.raw.remove("d/other")
    check_whole(service)


PROGRAM = """
import sys
from siltstone.bindings.hdfs.chunk_storage import HdfsChunkStorage
from siltstone.bindings.hdfs.settings import HdfsSettings

storage = HdfsChunkStorage(HdfsSettings.model_validate_json(sys.argv[1]))
for number in range(10_000):
    storage.create_whole(f"k/{number}", [bytes(range(256)) * 400])
    print(number, flush=True)
"""
"""Makes chunks until it is killed. The SDK allows no fork, so this is a process of its own."""


def test_a_killed_process_leaves_whole_chunks_and_burns_no_name(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)
    told = json.dumps(options_of(hdfs, service.path))
    with subprocess.Popen([sys.executable, "-c", PROGRAM, told], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        made = [int(child.stdout.readline()) for _ in range(20)]
        child.kill()
        made += [int(line) for line in child.stdout.read().splitlines()]
    storage = HdfsChunkStorage(service.settings)
    assert made == list(range(len(made)))
    listed = {found.name: found.length for found in storage.list()}
    assert {f"k/{number}" for number in made} <= set(listed)
    assert set(listed.values()) == {len(CONTENT)}
    last = f"k/{len(made)}"
    with suppress(ChunkExistsError):
        storage.create_whole(last, [CONTENT])
    assert service.outside_read(last) == CONTENT
    storage.sweep_leftovers("k/", 0.0)
    assert drafts(service) == []


class Renaming:
    """Clients of which one does something around the first rename, or does not answer reads."""

    def __init__(self, real: Any, rename: Callable[[Callable[[], None]], None]) -> None:
        self._real = real
        self._rename = rename
        self.renames = 0
        self.silent_reads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def reader(self) -> Any:
        real, outer = self._real.reader(), self

        class Reader:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def rename(self, *arguments: Any) -> None:
                outer.renames += 1
                if outer.renames == 1:
                    outer._rename(lambda: real.rename(*arguments))
                else:
                    real.rename(*arguments)

            def read(self, path: str) -> Any:
                if outer.silent_reads:
                    outer.silent_reads -= 1
                    raise OSError("Connection reset by peer")
                return real.read(path)

        return Reader()


def renaming(
    service: HdfsService, rename: Callable[[Callable[[], None]], None]
) -> tuple[HdfsChunkStorage, Renaming]:
    storage = HdfsChunkStorage(service.settings)
    clients: Any = Renaming(storage.service.clients, rename)
    storage.service.clients = clients
    return storage, clients


@pytest.mark.parametrize("error", [FileNotFoundError, FileExistsError])
def test_a_rename_that_a_second_namenode_gets_again_is_recognised(
    hdfs: Hdfs, error: type[Exception]
) -> None:
    def resent(rename: Callable[[], None]) -> None:
        rename()
        raise error("the second answer")

    service = HdfsService(server=hdfs)
    service.outside_write("d/other", b"x")
    storage, clients = renaming(service, resent)
    make(storage)
    assert clients.renames == 1
    assert service.outside_read(NAME) == CONTENT
    assert drafts(service) == []


def test_a_renamed_chunk_that_cannot_be_read_at_once_is_read_again(hdfs: Hdfs) -> None:
    def resent(rename: Callable[[], None]) -> None:
        rename()
        clients.silent_reads = 3
        raise FileExistsError("the second answer")

    service = HdfsService(server=hdfs)
    service.outside_write("d/other", b"x")
    storage, clients = renaming(service, resent)
    make(storage)
    assert clients.silent_reads == 0
    assert service.outside_read(NAME) == CONTENT


def test_a_rename_whose_effect_cannot_be_seen_is_unknown(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)
    service.outside_write("d/other", b"x")

    def gone_elsewhere(rename: Callable[[], None]) -> None:
        rename()
        service.raw.remove(NAME)  # Another client is faster than the answer.
        raise OSError("Connection reset by peer")

    storage, _ = renaming(service, gone_elsewhere)
    with pytest.raises(ChunkUnavailableError, match="draft") as caught:
        make(storage)
    assert caught.value.outcome is Outcome.UNKNOWN


def test_the_bytes_of_another_caller_are_not_taken_for_our_own(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)

    def overtaken(rename: Callable[[], None]) -> None:
        make(HdfsChunkStorage(service.settings))
        rename()

    storage, _ = renaming(service, overtaken)
    with pytest.raises(ChunkExistsError) as caught:
        make(storage)
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert service.outside_names() == [NAME]


def test_a_draft_that_is_swept_on_its_way_makes_no_chunk(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)
    other = HdfsChunkStorage(service.settings)

    def swept(rename: Callable[[], None]) -> None:
        assert other.sweep_leftovers("e/", 0.0) == 0
        assert other.sweep_leftovers("d/", 3_600.0) == 0
        assert other.sweep_leftovers("d/", 0.0) == 1
        rename()

    storage, _ = renaming(service, swept)
    with pytest.raises(ChunkUnavailableError, match="sweep") as caught:
        make(storage)
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert service.outside_names() == []


def test_the_folder_of_the_chunk_is_made_and_one_that_goes_is_made_again(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)

    def removed(rename: Callable[[], None]) -> None:
        service.raw.remove("d/other")
        service.raw.remove("d")
        rename()

    service.outside_write("d/other", b"x")
    storage, clients = renaming(service, removed)
    make(storage)
    assert clients.renames == 2
    check_whole(service)


def test_the_name_of_the_drafts_is_reserved(hdfs: Hdfs) -> None:
    storage = HdfsChunkStorage(HdfsService(server=hdfs).settings)
    for name in (DRAFTS, f"{DRAFTS}/a"):
        for call in (storage.stat, storage.delete, storage.seal):
            with pytest.raises(ChunkNameError):
                call(name)
        with pytest.raises(ChunkNameError):
            storage.create(name, [b"x"])


def test_a_name_below_a_chunk_is_refused_and_leaves_no_draft(hdfs: Hdfs) -> None:
    service = HdfsService(server=hdfs)
    storage = HdfsChunkStorage(service.settings)
    make(storage)
    with pytest.raises(ChunkError) as caught:
        storage.create_whole(f"{NAME}/b", [b"x"])
    assert caught.value.outcome is Outcome.NOT_APPLIED
    assert service.outside_names() == [NAME]
