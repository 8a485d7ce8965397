"""Every call of an adoption meets every fault; no object in place goes that has to stay.

What may fail: one call to long-term storage or the log while objects are adopted, dropped, released
or finalised; the owner dies there. What must hold: the segments get all of it once; an object that
is kept is as it was; one that was finalised goes when nothing needs it, and no other one does.
"""

from __future__ import annotations

import pytest

from siltstone.container.container import Container
from siltstone.container.models.imports import ImportedChunk, ImportMode, ImportOutput
from tests.support.container.imported_chunks import found
from tests.support.faults.failing_calls import (
    DAYS_S,
    Mortal,
    Operation,
    a_source,
    open_chunk,
    play_every,
    play_some,
)
from tests.support.model.container_model import ModelSegment

SAMPLE = 4
"""Runs of each operation without ``soak``."""
START = 7
FAILED_DELETE_S = 70
"""After a call that failed, the collector waits a minute before it tries the next time."""

Objects = dict[str, bytes]


def put(life: Mortal, sums: bool, *lengths: int) -> tuple[Objects, list[ImportedChunk]]:
    """Objects that another program puts there."""
    storage = life.world.new_storage()
    objects = {f"old/{length}": life.data(length) for length in lengths}
    return objects, [found(storage, *each, sums=sums) for each in objects.items()]


async def adopted(life: Mortal, session: str, output: ImportOutput, data: bytes) -> None:
    async def step(container: Container) -> None:
        await container.imports.open(session, lifetime_s=DAYS_S, adoption="old")
        await container.imports.commit(session, [output])

    await life.do(step)
    known = life.model.segments.get(output.segment)
    if output.mode is ImportMode.APPEND and known is not None:
        known.data += data
        return
    life.model.segments[output.segment] = ModelSegment(
        data=bytearray(output.start) + data, start=output.start, sealed=output.is_sealed
    )


def objects_are(life: Mortal, wanted: Objects) -> None:
    storage = life.world.new_storage()
    assert life.world.names("old/") == sorted(wanted)
    for name, data in wanted.items():
        buffer = bytearray(len(data) + 1)
        assert buffer[: storage.read_into(name, 0, buffer)] == data, f"{name} was changed"


async def cleaned(life: Mortal) -> None:
    for _ in range(2):
        await life.flush()
        await life.wait(FAILED_DELETE_S)
        await life.sweep()


async def adopt_and_release(life: Mortal) -> None:
    first, chunks = put(life, True, 900, 1_300)
    await adopted(
        life,
        "one",
        ImportOutput(segment="new", chunks=tuple(chunks), start=START, sealed=False),
        b"".join(first.values()),
    )
    second, chunks = put(life, False, 20, 400)
    await adopted(
        life,
        "two",
        ImportOutput(segment="a", chunks=tuple(chunks), mode=ImportMode.APPEND),
        b"".join(second.values()),
    )
    await life.append("a", 50)
    await life.delete("new")
    await cleaned(life)
    objects_are(life, first | second)
    await life.do(lambda c: c.adoptions.release("old"))
    await cleaned(life)
    objects_are(life, first | second)
    again = ImportedChunk(name="old/900", length=900, sums=None)
    await adopted(life, "three", ImportOutput(segment="again", chunks=(again,)), first["old/900"])
    await cleaned(life)
    objects_are(life, first | second)


async def adopt_and_finalise(life: Mortal) -> None:
    first, chunks = put(life, True, 900, 1_300)
    await adopted(
        life,
        "one",
        ImportOutput(segment="source", chunks=tuple(chunks), mode=ImportMode.REPLACE),
        b"".join(first.values()),
    )
    second, chunks = put(life, False, 20)
    await adopted(life, "two", ImportOutput(segment="new", chunks=tuple(chunks)), second["old/20"])
    await life.delete("new")
    await cleaned(life)
    objects_are(life, first | second)
    await life.do(lambda c: c.adoptions.finalise("old"))
    await cleaned(life)
    objects_are(life, first)
    await life.truncate("source", 1_000)
    await cleaned(life)
    del first["old/900"]
    objects_are(life, first)


OPERATIONS = {
    "adopt and release": Operation(before=open_chunk, act=adopt_and_release),
    "adopt and release in slices": Operation(before=open_chunk, act=adopt_and_release, slices=1),
    "adopt and finalise": Operation(before=a_source, act=adopt_and_finalise),
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_some_calls_fail(name: str) -> None:
    play_some(name, OPERATIONS[name], SAMPLE)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_call_fails(name: str) -> None:
    play_every(OPERATIONS[name])
