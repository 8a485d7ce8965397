"""What clients of remote services share: bodies, deadlines, parallel calls, checks."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.core.constants import Buffer
from siltstone.core.errors import (
    ChunkNameError,
    ChunkOffsetError,
    ChunkUnavailableError,
    ClosedError,
)
from siltstone.core.remote.body import BLOCK_BYTES, SMALL_BYTES, Body, cut, pieces, sendable
from siltstone.core.remote.deadline import Deadline, DeadlineError
from siltstone.core.remote.proofs import SCRATCH, Proofs
from siltstone.core.remote.ranges import RangeRead
from siltstone.core.remote.remote_client import RemoteClient
from siltstone.core.remote.sources import looked_at

LENGTHS = st.lists(st.sampled_from([0, 1, 7, SMALL_BYTES - 1, SMALL_BYTES, BLOCK_BYTES + 3]))


def made(lengths: list[int]) -> list[bytes]:
    return [bytes([index % 251]) * length for index, length in enumerate(lengths)]


def sent(body: bytes | Body) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join(iter(lambda: bytes(body.read(1 << 20)), b""))


@pytest.mark.slow
@given(LENGTHS)
def test_what_is_sent_is_what_was_given_as_often_as_it_is_read(lengths: list[int]) -> None:
    buffers = made(lengths)
    whole = b"".join(buffers)
    body = sendable(buffers, len(whole), Deadline(30.0))
    assert len(body) == len(whole)
    assert sent(body) == whole
    if isinstance(body, Body):
        assert body.tell() == len(whole)
        assert body.read(1) == b""
        body.seek(-len(whole), io.SEEK_CUR)
        assert sent(body) == whole
        body.seek(0)
        assert body.read() == whole


@pytest.mark.slow
@given(LENGTHS, st.sampled_from([1 << 10, SMALL_BYTES + 1, 1 << 20]))
def test_pieces_are_equal_but_for_the_last(lengths: list[int], step: int) -> None:
    buffers = made(lengths)
    whole = b"".join(buffers)
    cut = [b"".join(piece) for piece in pieces(buffers, len(whole), step)]
    assert b"".join(cut) == whole
    assert all(len(piece) == step for piece in cut[:-1])
    assert not cut or 0 < len(cut[-1]) <= step


def test_large_buffers_are_not_copied() -> None:
    large = bytearray(BLOCK_BYTES)
    body = sendable([b"small", large], 5 + len(large), Deadline(30.0))
    assert isinstance(body, Body)
    assert body.read(1) == b"small"
    view = body.read(1)
    large[0] = 9
    assert view[0] == 9


def test_a_body_ends_at_its_deadline() -> None:
    body = Body([b"some"], Deadline(0.0))
    with pytest.raises(DeadlineError):
        body.read(1)


@pytest.mark.parametrize("start", range(0, 12))
def test_any_range_of_buffers_is_cut_out(start: int) -> None:
    buffers: list[Buffer] = [b"ab", b"", bytearray(b"cdefg"), memoryview(b"hijk")]
    for length in range(12 - start):
        found = cut(buffers, start, length)
        assert b"".join(found) == b"abcdefghijk"[start : start + length]


class Client(RemoteClient):
    sockets_closed = 0

    def _close_sockets(self) -> None:
        self.sockets_closed += 1


@pytest.fixture
def client() -> Iterator[Client]:
    client = Client("test", folder="a/b/", deadline_s=30.0, threads=2)
    yield client
    client.close()


def test_keys_are_the_folder_and_the_name(client: Client) -> None:
    assert client.key("c/d", "create") == "a/b/c/d"
    assert client.name("a/b/c/d") == "c/d"
    assert client.key("x" * 1020, "create") == "a/b/" + "x" * 1020
    with pytest.raises(ChunkNameError, match="too long after the prefix"):
        client.key("x" * 1021, "create")


def test_calls_run_side_by_side_and_answer_in_order(client: Client) -> None:
    both = threading.Barrier(2, timeout=30)

    def call(number: int) -> int:
        both.wait()
        return number

    assert client.side_by_side([lambda: call(1), lambda: call(2)]) == [1, 2]


def test_after_a_failure_no_call_begins() -> None:
    client = Client("test", folder="", deadline_s=30.0, threads=1)
    begun: list[int] = []

    def fail() -> None:
        begun.append(0)
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        client.side_by_side([lambda: begun.append(1), fail, *[lambda: begun.append(2)] * 100])
    assert begun == [1, 0]
    client.close()


def test_what_is_raised_is_what_failed_whichever_thread_is_the_first() -> None:
    client = Client("test", folder="", deadline_s=30.0, threads=8)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def fail() -> int:
        raise OSError("broken")

    try:
        for _ in range(200):
            with pytest.raises(OSError, match="broken"):
                client.side_by_side([lambda: 1, fail, lambda: 1, fail] * 4)
    finally:
        sys.setswitchinterval(interval)
        client.close()


def test_after_a_failure_calls_in_progress_are_waited_for(client: Client) -> None:
    ended: list[int] = []
    proceed = threading.Event()

    def fail() -> None:
        proceed.set()
        raise OSError("broken")

    def wait() -> None:
        proceed.wait(30)
        ended.append(1)

    before = threading.active_count()
    with pytest.raises(OSError, match="broken"):
        client.side_by_side([wait, fail, *[lambda: None] * 100])
    assert ended == [1]
    assert threading.active_count() - before < 10


def test_a_closed_client_refuses_everything(client: Client) -> None:
    client.side_by_side([lambda: 1, lambda: 2])
    client.close()
    client.close()
    assert client.sockets_closed == 1
    with pytest.raises(ClosedError):
        client.key("a", "stat")
    with pytest.raises(ClosedError):
        client.side_by_side([lambda: 1, lambda: 2])


def test_a_forked_process_is_told_and_leaves_the_sockets_alone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(ClosedError, match="after a fork"):
        client.key("a", "stat")
    client.close()
    assert client.sockets_closed == 0


def test_every_source_is_looked_at_once_and_must_be_long_enough(client: Client) -> None:
    seen: list[tuple[str, str]] = []

    def look(name: str, key: str) -> int:
        seen.append((name, key))
        return 5

    sources = [("x", 5), ("y", 1), ("x", 2)]
    assert looked_at(client, sources, look, lambda length: length) == {"x": 5, "y": 5}
    assert sorted(seen) == [("x", "a/b/x"), ("y", "a/b/y")]
    with pytest.raises(ChunkOffsetError) as caught:
        looked_at(client, [*sources, ("y", 6)], look, lambda length: length)
    assert (caught.value.chunk, caught.value.expected, caught.value.actual) == ("y", 5, 6)


def test_a_proof_is_made_again_until_it_succeeds_and_then_no_more() -> None:
    proofs, folders = Proofs(), []

    def prove(folder: str) -> None:
        folders.append(folder)
        if len(folders) == 1:
            raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        proofs.make_sure(("a",), prove)
    for _ in range(2):
        proofs.make_sure(("a",), prove)
    assert len(set(folders)) == 2
    assert all(folder.startswith(SCRATCH) and folder.endswith("/") for folder in folders)
    proofs.take(("b", None))
    proofs.make_sure(("b", None), prove)
    assert len(folders) == 2
    proofs.forget()
    proofs.make_sure(("b", None), prove)
    assert len(folders) == 3


@pytest.mark.parametrize(
    ("status", "content_range", "content_length", "count"),
    [
        (206, "bytes 2-5/9", "4", 4),
        (206, "bytes 2-5/*", "4", 4),
        (206, "bytes 2-3/4", "2", 2),
        (206, "bytes 2-3/9", "2", None),
        (206, "bytes 2-3/*", "2", None),
        (206, "bytes 1-4/9", "4", None),
        (206, "bytes 2-6/9", "5", None),
        (206, "bytes 2-5/9", "3", None),
        (206, "", "4", None),
        (200, "bytes 2-5/9", "4", None),
    ],
)
def test_an_answer_is_the_range_that_was_asked_for_or_an_error(
    status: int, content_range: str, content_length: str, count: int | None
) -> None:
    asked = RangeRead(
        name="x", key="k", operation="read_into", offset=2, length=4, deadline=Deadline(30.0)
    )
    assert asked.header == "bytes=2-5"
    if count is not None:
        assert asked.answered_count(status, content_range, content_length) == count
        return
    with pytest.raises(ChunkUnavailableError, match="another range"):
        asked.answered_count(status, content_range, content_length)
