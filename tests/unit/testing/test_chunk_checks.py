"""The suite notices a storage that breaks a rule: each lie fails the check for that rule."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siltstone.core.chunk_storage import Buffer, Capabilities
from siltstone.core.errors import ChunkError
from siltstone.core.storage.optional_verbs import PieceError
from siltstone.core.storage.wrapper import WrappedChunkStorage
from siltstone.testing.chunk_checks.stops import StopChecks
from siltstone.testing.chunk_checks.streams import StreamChecks
from siltstone.testing.chunk_checks.subject import at_once
from siltstone.testing.faults.faulty_chunk_storage import Fate
from tests.support.services.local_services import BucketService, StoppableBucket

ROOT = Path(__file__).parents[3]

PROGRAM = """
import fnmatch, json, sys, time
from dataclasses import replace
from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkNotFoundError, Outcome
from siltstone.store.admin.conformance import run_suite

bucket, probes = Bucket(), []

class Lying(MemoryChunkStorage):
    kept = None
    sealed = set()

    @property
    def capabilities(self):
        able = super().capabilities
        return replace(able, overwrite=True) if LIE == "cuts what it overwrites" else able

    def __reduce__(self):
        if LIE == "is copied with nothing in it":
            return Lying, ()
        raise TypeError("no copies")

    def overwrite(self, name, offset, buffers):
        content = bucket.chunks[name.encode()].content
        content[offset:] = b"".join(buffers)

    def immediate_reads(self):
        def read_now(name, offset, buffer):
            try:
                super(Lying, self).read_into(name, offset, buffer)
                return self.stat(name).version
            except Exception:
                return None

        return read_now if LIE == "says that all was read" else None

    def create(self, name, buffers):
        if LIE == "changes the buffers":
            buffers.append(b"x")
        if LIE == "drops zeros at the end":
            buffers = [b"".join(buffers).rstrip(bytes(1))]
        super().create(name, buffers)
        if name in Lying.sealed:
            super().seal(name)

    def create_whole(self, name, buffers):
        match LIE:
            case "shows the half of a whole create":
                whole = b"".join(buffers)
                MemoryChunkStorage.create(self, name, [whole[: len(whole) // 2 + 1]])
                for _ in range(100):
                    time.sleep(0)
                bucket.chunks[name.encode()].content[:] = whole
            case "looks before a whole create":
                if name.encode() in bucket.chunks:
                    super().create_whole(name, buffers)
                for _ in range(100):
                    time.sleep(0)
                with bucket.lock:
                    if name.encode() in bucket.chunks:
                        bucket.remove(name.encode())
                super().create_whole(name, buffers)
            case "takes whole creates of any size":
                super().create(name, buffers)
            case _:
                super().create_whole(name, buffers)

    def sweep_leftovers(self, prefix, age_s):
        if LIE == "sweeps what is whole":
            for found in list(super().list(prefix)):
                super().delete(found.name)
        return 0

    def write(self, name, offset, buffers):
        if LIE == "ignores the offset":
            offset = super().stat(name).length
        super().write(name, offset, buffers)

    def read_into(self, name, offset, buffer):
        if LIE == "fills the whole buffer" and len(buffer):
            buffer[:] = bytes(len(buffer))
        if LIE == "keeps the buffer":
            Lying.kept = memoryview(buffer)
        if LIE == "is short" and len(buffer) > 3:
            buffer = memoryview(buffer)[:-1]
        if LIE == "cuts long reads":
            buffer = memoryview(buffer)[: 1 << 22]
        return super().read_into(name, offset, buffer)

    def stat(self, name):
        found = super().stat(name)
        if LIE == "has one version":
            object.__setattr__(found, "version", "1")
        if LIE == "has a version for each length":
            object.__setattr__(found, "version", str(found.length))
        if LIE == "tells milliseconds":
            object.__setattr__(found, "modified_s", found.modified_s * 1000)
        return found

    def list(self, prefix="", start_after=""):
        if LIE == "lists by a pattern":
            listed = super().list("", start_after)
            return iter([one for one in listed if fnmatch.fnmatchcase(one.name, prefix + "*")])
        if LIE == "counts pages from the beginning":
            return self.paged(prefix, start_after)
        if LIE == "lists what is small":
            return (one for one in super().list(prefix, start_after) if one.length < 1 << 20)
        found = list(super().list(prefix, start_after))
        if LIE == "lists as text":
            found.sort(key=lambda one: one.name.encode("utf-16-be"))
        if LIE == "lists too late":
            found = found[:-1]
        return iter(found)

    def paged(self, prefix, start_after):
        start, page = 0, [None] * 500
        while len(page) == 500:
            page = list(super().list(prefix, start_after))[start : start + 500]
            start += 500
            yield from page

    def delete(self, name):
        if LIE == "deletes a whole folder" and name.encode() in bucket.chunks:
            for found in super().list(name + "/"):
                super().delete(found.name)
        try:
            super().delete(name)
        except ChunkNotFoundError as error:
            if LIE == "deletes what is not there":
                return
            if LIE == "does not know the outcome":
                error.outcome = Outcome.UNKNOWN
            if LIE == "names another chunk":
                error.chunk = "other"
            raise

    def concat(self, target, sources):
        if LIE == "joins 32 at most" and isinstance(sources, list):
            sources = sources[:32]
        super().concat(target, sources)
        if LIE == "takes the sources":
            for name, _ in set(sources):
                super().delete(name)

    def seal(self, name):
        if LIE == "seals a name":
            Lying.sealed.add(name)
        if LIE != "does not seal":
            super().seal(name)

    def close(self):
        if LIE != "does not close":
            super().close()

run_suite(lambda: Lying(bucket), SystemEnvironment(), probes.append, ONLY)
print(json.dumps([probe.name for probe in probes if probe.outcome == "failed"]))
"""


def failing(lie: str, only: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", f"LIE, ONLY = {lie!r}, {only!r}\n{PROGRAM}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: Any = json.loads(ran.stdout)
    return [name.replace(" ", "_") for name in found]


LIES = {
    "changes the buffers": ["create_changes_no_buffer"],
    "ignores the offset": ["a_refused_write_changes_nothing", "storage_and_model_agree"],
    "fills the whole buffer": ["a_refused_read_leaves_the_buffer"],
    "keeps the buffer": ["read_keeps_no_buffer"],
    "is short": ["every_range_of_a_chunk", "storage_and_model_agree"],
    "has one version": ["version_changes_when_another_chunk_takes_the_name"],
    "tells milliseconds": ["time_of_the_last_change_is_in_seconds"],
    "lists as text": ["list_is_in_the_order_of_bytes"],
    "lists too late": ["list_shows_a_chunk_at_once_to_another_client"],
    "deletes what is not there": ["delete_of_one_name_is_won_once", "storage_and_model_agree"],
    "does not know the outcome": ["a_missing_chunk_is_named"],
    "names another chunk": ["a_missing_chunk_is_named"],
    "takes the sources": ["concat_makes_a_copy"],
    "does not seal": ["a_seal_lasts", "write_and_seal_at_once"],
    "does not close": ["close_by_many_at_once"],
    "cuts long reads": ["read_of_much_at_once"],
    "has a version for each length": [
        "version_changes_when_bytes_of_the_same_length_take_the_name",
    ],
    "lists by a pattern": ["list_takes_a_prefix_that_ends_anywhere"],
    "counts pages from the beginning": ["list_of_more_than_a_page"],
    "lists what is small": ["create_of_a_large_chunk"],
    "deletes a whole folder": ["delete_of_a_name_leaves_what_lies_below_it"],
    "joins 32 at most": ["concat_of_many_parts_keeps_their_order"],
    "cuts what it overwrites": ["overwrite_changes_these_bytes_and_no_other"],
    "says that all was read": ["reads_without_waiting_give_what_is_there_or_nothing"],
    "drops zeros at the end": ["create_keeps_every_byte"],
    "seals a name": ["seal_goes_with_its_chunk"],
    "shows the half of a whole create": ["whole_creates_are_seen_wholly_or_not_at_all"],
    "looks before a whole create": [
        "whole_create_of_one_name_is_won_once",
        "whole_create_of_one_name_by_many_clients_is_won_once",
    ],
    "takes whole creates of any size": ["whole_create_refuses_more_than_the_most_bytes"],
    "sweeps what is whole": ["whole_creates_and_sweeps_run_side_by_side"],
    "is copied with nothing in it": ["a_copied_client_works_or_is_refused"],
}


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_noticed_by_its_checks(lie: str) -> None:
    checks = LIES[lie]
    only = " or ".join(f"test_{check}" for check in checks)
    assert sorted(failing(lie, only)) == sorted(checks)


@pytest.mark.slow
def test_nothing_is_wrong_with_the_truth() -> None:
    assert failing("", "buffer or version or seal or model or missing_chunk or close") == []


class HidingStorage(WrappedChunkStorage):
    """It reports no failed delete, and deletes a chunk that it failed to create."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, streams=True, whole=True)

    def delete_many(self, names: Sequence[str]) -> Mapping[str, ChunkError]:
        with suppress(ChunkError):
            super().delete_many(names)
        return {}

    def create_from(self, name: str, length: int, pieces: Iterable[Buffer]) -> None:
        try:
            self.inner.create(name, list(pieces))
        except OSError as error:
            self.inner.delete(name)
            raise PieceError(error) from error

    def create_whole(self, name: str, buffers: Sequence[Buffer]) -> None:
        """Takes the name first: what fails then leaves half of it."""
        self.inner.create(name, [b"".join(buffers)[:1]])
        self.inner.delete(name)
        self.inner.create(name, buffers)


def test_deletes_that_are_said_to_be_done_are_noticed() -> None:
    service = StoppableBucket()
    storage = HidingStorage(service.open())
    with pytest.raises(AssertionError, match="said to be gone"):
        StopChecks().test_delete_many_tells_the_truth(storage, service)


def test_a_streamed_create_that_takes_a_chunk_of_others_away_is_noticed() -> None:
    service = BucketService(wrap=HidingStorage)
    check = "test_streamed_create_whose_pieces_end_in_an_error_leaves_what_has_the_name"
    with pytest.raises(AssertionError):
        getattr(StreamChecks(), check)(service.open(), service)


def test_a_whole_create_that_leaves_a_half_is_noticed() -> None:
    service = StoppableBucket(fate=Fate.TORN)
    storage = HidingStorage(service.open())
    with pytest.raises(AssertionError):
        StopChecks().test_whole_create_tells_the_truth_and_may_be_repeated(storage, service)


def test_threads_that_meet_take_turns_all_the_time() -> None:
    before = sys.getswitchinterval()
    assert at_once([sys.getswitchinterval] * 2) == pytest.approx([1e-6] * 2)
    assert sys.getswitchinterval() == before
