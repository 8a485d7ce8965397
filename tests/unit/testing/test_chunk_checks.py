"""The suite notices a storage that breaks a rule: each lie fails the check that is for it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import json, sys
from siltstone.bindings.memory.bucket import Bucket
from siltstone.bindings.memory.chunk_storage import MemoryChunkStorage
from siltstone.core.environment import SystemEnvironment
from siltstone.core.errors import ChunkNotFoundError, Outcome
from siltstone.store.conformance import run_suite

bucket, probes = Bucket(), []

class Lying(MemoryChunkStorage):
    kept = None

    def create(self, name, buffers):
        if LIE == "changes the buffers":
            buffers.append(b"x")
        super().create(name, buffers)

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
        return super().read_into(name, offset, buffer)

    def stat(self, name):
        found = super().stat(name)
        if LIE == "has one version":
            object.__setattr__(found, "version", "1")
        if LIE == "tells milliseconds":
            object.__setattr__(found, "modified_s", found.modified_s * 1000)
        return found

    def list(self, prefix="", start_after=""):
        found = list(super().list(prefix, start_after))
        if LIE == "lists as text":
            found.sort(key=lambda one: one.name.encode("utf-16-be"))
        if LIE == "lists too late":
            found = found[:-1]
        return iter(found)

    def delete(self, name):
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
        super().concat(target, sources)
        if LIE == "takes the sources":
            for name, _ in set(sources):
                super().delete(name)

    def seal(self, name):
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
