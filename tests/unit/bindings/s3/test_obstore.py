"""Where obstore reads: the same requests, the same meaning of answers, and what is refused."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest
from pydantic import ValidationError

from siltstone.bindings.s3 import proof
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.obstore_reads import RANGE_BYTES_MAX, ObstoreReads
from siltstone.bindings.s3.obstore_runtime import LOST_MAX
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkError,
    ChunkNotFoundError,
    ChunkOffsetError,
    ChunkUnavailableError,
    Outcome,
    SettingsError,
)
from tests.support.stubs.read_suite import (  # noqa: F401
    ANSWERS,
    LARGE,
    open_files,
    test_a_read_is_one_get,
    test_a_read_that_breaks_off_is_no_read,
    test_a_service_that_ignores_ranges_is_noticed,
    test_a_source_that_is_replaced_is_refused,
    test_a_stat_is_one_head,
    test_after_a_fork_the_child_is_told,
    test_another_range_than_was_asked_for_is_refused,
    test_it_cannot_be_pickled,
    test_secrets_are_not_in_its_name,
)
from tests.support.stubs.s3_stub import HTTP_DATE, Reply, Request, Stub, refusal

BY_OBSTORE = {"transport": "obstore"}


@pytest.fixture
def storage(stub: Stub) -> Iterator[S3ChunkStorage]:
    storage = S3ChunkStorage(stub.settings(**BY_OBSTORE))
    proof.prove(storage.service)
    stub.asked.clear()
    yield storage
    storage.close()


@pytest.fixture
def sdk(stub: Stub) -> Iterator[S3ChunkStorage]:
    storage = S3ChunkStorage(stub.settings())
    yield storage
    storage.close()


def by_whom(stub: Stub) -> list[str]:
    return [request.headers["user-agent"].partition("/")[0] for request in stub.asked]


def test_it_reads_and_the_sdk_does_all_else(storage: S3ChunkStorage, stub: Stub) -> None:
    storage.create("a", [bytes(range(100))])
    assert "object_store" not in by_whom(stub)
    stub.asked.clear()
    buffer = bytearray(50)
    assert storage.read_into("a", 60, buffer) == 40
    assert buffer[:40] == bytes(range(60, 100))
    assert storage.stat("a").length == 100
    assert stub.whats() == ["GET", "HEAD"]
    assert by_whom(stub) == ["object_store", "object_store"]


def test_a_change_is_the_sdks_from_first_to_last(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects |= {"a": b"abc", "b": b"abc"}
    storage.concat("c", [("a", 3), ("b", 3)])
    storage.delete("a")
    assert stub.objects == {"b": b"abc", "c": b"abcabc"}
    assert stub.whats().count("HEAD") == 3
    assert "object_store" not in by_whom(stub)


def test_long_ranges_and_keys_that_it_cannot_hold_are_read_by_the_sdk(
    storage: S3ChunkStorage, stub: Stub
) -> None:
    stub.objects["a"] = bytes(RANGE_BYTES_MAX + 1)
    stub.objects["a\x01b"] = b"abc"
    assert storage.read_into("a", 0, bytearray(RANGE_BYTES_MAX + 1)) == RANGE_BYTES_MAX + 1
    assert storage.stat("a\x01b").length == 3
    assert "object_store" not in by_whom(stub)


@pytest.mark.parametrize(
    "name", ["a b", "ü/é", "%41", "a+b", "a?b=c", "a#b", "~", "a&b", "'\"", "a:b@c", "\U0001f4bf"]
)
def test_names_of_all_kinds(storage: S3ChunkStorage, stub: Stub, name: str) -> None:
    storage.create(name, [b"abc"])
    stub.asked.clear()
    buffer = bytearray(3)
    assert storage.read_into(name, 0, buffer) == 3
    assert storage.stat(name).length == 3
    assert by_whom(stub) == ["object_store", "object_store"]


def test_what_is_told_of_a_chunk_is_what_the_sdk_tells(
    storage: S3ChunkStorage, sdk: S3ChunkStorage, stub: Stub
) -> None:
    stub.objects["a"] = b"abc"
    assert storage.stat("a") == sdk.stat("a")


def test_at_the_end(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects["a"] = b"abc"
    assert storage.read_into("a", 3, bytearray(5)) == 0
    assert stub.whats() == ["GET", "HEAD"]
    with pytest.raises(ChunkOffsetError) as caught:
        storage.read_into("a", 4, bytearray(5))
    assert (caught.value.expected, caught.value.actual) == (3, 4)
    with pytest.raises(ChunkNotFoundError):
        storage.read_into("b", 0, bytearray(5))


REDIRECTS = (301, 307)
"""obstore does not tell which one it was."""
READ_ANSWERS = [(status, code) for status, code, *_ in ANSWERS if code and status not in (200, 416)]


@pytest.mark.slow
@pytest.mark.parametrize(("status", "code"), READ_ANSWERS)
def test_an_answer_means_what_it_means_to_the_sdk(
    storage: S3ChunkStorage, sdk: S3ChunkStorage, stub: Stub, status: int, code: str
) -> None:
    """Except how long a throttling service asks to wait, which obstore does not tell."""
    stub.objects["a"] = b"abc"
    errors: list[ChunkError] = []
    for one in (storage, sdk):
        stub.fail("GET", refusal(status, code))
        with pytest.raises(ChunkError) as caught:
            one.read_into("a", 0, bytearray(3))
        errors.append(caught.value)
    ours, theirs = errors
    assert type(ours) is type(theirs)
    assert ours.outcome is theirs.outcome is Outcome.NOT_APPLIED
    if status not in REDIRECTS:
        assert str(ours) == str(theirs)
    assert stub.whats() == ["GET", "GET"]


def test_a_throttling_service_is_asked_once(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects["a"] = b"abc"
    for what, call in (
        ("HEAD", lambda: storage.stat("a")),
        ("GET", lambda: storage.read_into("a", 0, bytearray(3))),
    ):
        stub.asked.clear()
        stub.fail(what, refusal(503, "SlowDown"))
        with pytest.raises(ChunkUnavailableError):
            call()
        assert stub.whats() == [what]


def test_a_head_that_tells_too_little_is_not_believed(storage: S3ChunkStorage, stub: Stub) -> None:
    told = {"content-length": "3", "etag": '"e"', "last-modified": HTTP_DATE}
    for missing in ("etag", "last-modified"):
        left = {name: value for name, value in told.items() if name != missing}
        stub.fail("HEAD", Reply(200, b"", left))
        with pytest.raises(ChunkUnavailableError, match="no answer of the service"):
            storage.stat("a")


def test_variables_of_the_environment_lead_it_nowhere(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "other",
        "AWS_SESSION_TOKEN": "other", "AWS_SKIP_SIGNATURE": "true", "AWS_BUCKET": "other",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true", "AWS_REGION": "elsewhere-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    storage = S3ChunkStorage(stub.settings(**BY_OBSTORE))
    stub.objects["a"] = b"abc"
    assert storage.stat("a").length == 3
    storage.close()
    (request,) = stub.asked
    assert "Credential=id/" in request.headers["authorization"]
    assert "/us-east-1/s3/" in request.headers["authorization"]
    assert "x-amz-security-token" not in request.headers


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"ca_bundle": Path(__file__), "endpoint": "https://h", "insecure": False}, "ca_bundle"),
        ({"path_style": None}, "path_style"),
        ({"bucket": "b--x-s3", "path_style": False}, "directory buckets"),
        ({"transport": "curl"}, "transport"),
    ],
)
def test_what_it_cannot_keep_is_refused(stub: Stub, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        stub.settings(**{**BY_OBSTORE, **more})


def test_without_the_library_it_is_refused(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "siltstone.bindings.s3.obstore_reads", None)
    with pytest.raises(SettingsError, match=r"pip install 'obstore<0\.13,>=0\.12\.1'"):
        S3ChunkStorage(stub.settings(**BY_OBSTORE))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ("https://archive.s3.eu-central-1.amazonaws.com", True)),
        ({"path_style": True}, ("https://s3.eu-central-1.amazonaws.com", False)),
        ({"bucket": "a.b"}, ("https://s3.eu-central-1.amazonaws.com", False)),
        ({"endpoint": "https://h:7", "path_style": False}, ("https://archive.h:7", True)),
        ({"endpoint": "https://h:7", "path_style": True}, ("https://h:7", False)),
    ],
)
def test_where_it_looks_for_the_bucket(options: dict[str, Any], expected: tuple[str, bool]) -> None:
    settings = S3Settings.model_validate(
        {"bucket": "archive", "region": "eu-central-1", "access_key_id": "a",
         "secret_access_key": "b", **BY_OBSTORE, **options}
    )  # fmt: skip
    storage = S3ChunkStorage(settings)
    reads = storage.service._reads
    assert isinstance(reads, ObstoreReads)
    config = reads._store.config
    assert (config["endpoint"], str(config["virtual_hosted_style_request"]).lower()) == (
        expected[0], str(expected[1]).lower()
    )  # fmt: skip
    storage.close()


class Found:
    """An answer as the library passes it on when it does not check it."""

    def __init__(self, found: tuple[int, int], size: int, content: bytes) -> None:
        self.range = found
        self.meta = {"size": size}
        self._content = content

    async def bytes_async(self) -> bytes:
        return self._content


@pytest.mark.parametrize(
    ("found", "size", "content"),
    [
        ((4, 14), 100, bytes(10)),
        ((5, 14), 100, bytes(9)),
        ((5, 16), 100, bytes(11)),
        ((5, 5), 5, b""),
        ((5, 15), 100, bytes(9)),
        ((5, 15), 100, bytes(11)),
    ],
)
def test_what_the_library_found_is_looked_at_again(
    storage: S3ChunkStorage,
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[int, int],
    size: int,
    content: bytes,
) -> None:
    async def get_async(*_: object, **__: object) -> Found:
        return Found(found, size, content)

    monkeypatch.setattr(obstore, "get_async", get_async)
    buffer = bytearray(10)
    with pytest.raises(ChunkUnavailableError, match="another range"):
        storage.read_into("a", 5, buffer)
    assert buffer == bytes(10)


def test_the_library_gives_up_first_so_that_it_is_not_taken_for_deaf(stub: Stub) -> None:
    impatient = S3ChunkStorage(stub.settings(read_timeout_s=0.2, **BY_OBSTORE))
    stub.objects["a"] = b"abc"
    proceed = threading.Event()

    def hang(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        proceed.wait(120)
        return carry_out()

    for _ in range(LOST_MAX):
        stub.fail("GET", hang)
        with pytest.raises(ChunkUnavailableError, match="GenericError"):
            impatient.read_into("a", 0, bytearray(3))
    proceed.set()
    impatient.close()
    # An answer may take longer than that; the library behaves the same in both cases.
    patient = S3ChunkStorage(stub.settings(**BY_OBSTORE))
    assert patient.read_into("a", 0, bytearray(3)) == 3
    assert by_whom(stub) == ["object_store"] * (LOST_MAX + 1)
    patient.close()


def test_no_server_listens(stub: Stub) -> None:
    storage = S3ChunkStorage(stub.settings(endpoint="http://127.0.0.1:1", **BY_OBSTORE))
    with pytest.raises(ChunkUnavailableError):
        storage.stat("a")
    storage.close()


@pytest.mark.parametrize("size", [RANGE_BYTES_MAX, 3 * MIB])
def test_a_large_read_is_of_the_right_bytes(storage: S3ChunkStorage, stub: Stub, size: int) -> None:
    stub.objects["a"] = LARGE
    buffer = bytearray(size)
    assert storage.read_into("a", MIB + 1, buffer) == size
    assert buffer == LARGE[MIB + 1 : MIB + 1 + size]


@pytest.mark.slow
def test_closing_leaves_nothing(stub: Stub) -> None:
    stub.objects["a"] = b"abc"

    def cycle() -> None:
        storage = S3ChunkStorage(stub.settings(**BY_OBSTORE))
        assert storage.stat("a").length == 3
        storage.close()

    cycle()
    gc.collect()
    files = open_files()
    for _ in range(40):
        cycle()
    gc.collect()
    # The stub itself may still be closing its ends.
    assert open_files() <= files + 20
