"""Large answers are waited for in large parts, and bytes that do not come are not waited for."""

from __future__ import annotations

import random
import socket

import pytest

from siltstone.bindings.s3 import reads
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.reads import STEP_BYTES, WOKEN_AT
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ChunkUnavailableError
from tests.support.stubs.s3_stub import Stub, half_body

CONTENT = random.Random(7).randbytes(5 * MIB + 17)
PATIENT = STEP_BYTES + 2 * WOKEN_AT
"""The smallest read that is waited for in parts."""


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[socket.socket, int]]:
    """Each connection whose wake-up mark was set, and the value that the kernel has."""
    told: list[tuple[socket.socket, int]] = []
    wake_at = reads._wake_at

    def heard(connection: socket.socket, count: int) -> None:
        wake_at(connection, count)
        at = connection.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        told.append((connection, at))

    monkeypatch.setattr(reads, "_wake_at", heard)
    monkeypatch.setattr(reads, "_has_room", lambda connection: True)
    return told


def read(storage: S3ChunkStorage, offset: int, length: int) -> bytes:
    buffer = memoryview(bytearray(length))
    return bytes(buffer[: storage.read_into("a", offset, buffer)])


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 1, 4096])
@pytest.mark.parametrize(
    "length", [1, STEP_BYTES, PATIENT - 1, PATIENT, PATIENT + 1, 3 * MIB - 1, 4 * MIB, 6 * MIB]
)
def test_any_length_comes_whole_on_one_connection(
    stub: Stub,
    storage: S3ChunkStorage,
    woken: list[tuple[socket.socket, int]],
    offset: int,
    length: int,
) -> None:
    stub.objects["a"] = CONTENT
    made = stub.connections
    for _ in range(2):
        assert read(storage, offset, length) == CONTENT[offset : offset + length]
    assert stub.connections <= made + 1
    is_patient = min(length, len(CONTENT) - offset) >= PATIENT
    assert [at for _, at in woken] == ([WOKEN_AT, 1] * 2 if is_patient else [])


def test_a_connection_that_is_slow_to_start_is_told_nothing(
    stub: Stub,
    storage: S3ChunkStorage,
    woken: list[tuple[socket.socket, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stub.objects["a"] = CONTENT
    rooms = iter([False, False, True, False])
    monkeypatch.setattr(reads, "_has_room", lambda connection: next(rooms))
    assert read(storage, 0, 4 * MIB) == CONTENT[: 4 * MIB]
    assert [at for _, at in woken] == [WOKEN_AT, 1], "at its third MiB, and its last"


def test_a_small_buffer_of_the_kernel_is_no_room() -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * KIB)
        assert not reads._has_room(connection)


def test_an_answer_that_breaks_off_while_much_is_to_come_is_heard_of(
    stub: Stub, storage: S3ChunkStorage, woken: list[tuple[socket.socket, int]]
) -> None:
    stub.objects["a"] = CONTENT
    stub.fail("GET", half_body)
    with pytest.raises(ChunkUnavailableError, match="broke off"):
        read(storage, 0, len(CONTENT))
    assert [at for _, at in woken] == [WOKEN_AT]
    assert woken[0][0].fileno() == -1, "it is not used again"
    assert read(storage, 0, len(CONTENT)) == CONTENT
