"""What both ways to read from S3 must pass, with the fixtures of the module that imports it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.core.constants import MIB
from siltstone.core.errors import (
    ChunkAccessDeniedError,
    ChunkError,
    ChunkExistsError,
    ChunkNameError,
    ChunkNotFoundError,
    ChunkStorageFullError,
    ChunkThrottledError,
    ChunkUnavailableError,
    ClosedError,
    Outcome,
)
from tests.support.stubs.s3_stub import Reply, Request, Stub, broken, half_body, refusal

NOT, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN


ANSWERS: list[tuple[int, str, type[ChunkError], Outcome]] = [
    (301, "PermanentRedirect", ChunkAccessDeniedError, NOT),
    (307, "TemporaryRedirect", ChunkAccessDeniedError, NOT),
    (400, "AuthorizationHeaderMalformed", ChunkAccessDeniedError, NOT),
    (400, "BadDigest", ChunkUnavailableError, NOT),
    (400, "XAmzContentChecksumMismatch", ChunkUnavailableError, NOT),
    (400, "ExpiredToken", ChunkAccessDeniedError, NOT),
    (400, "InvalidToken", ChunkAccessDeniedError, NOT),
    (400, "EntityTooSmall", ChunkUnavailableError, NOT),
    (400, "KeyTooLongError", ChunkNameError, NOT),
    (400, "RequestTimeout", ChunkUnavailableError, NOT),
    (400, "SomethingNew", ChunkUnavailableError, NOT),
    (401, "Unauthorized", ChunkAccessDeniedError, NOT),
    (403, "AccessDenied", ChunkAccessDeniedError, NOT),
    (403, "403", ChunkAccessDeniedError, NOT),
    (403, "InvalidAccessKeyId", ChunkAccessDeniedError, NOT),
    (403, "SignatureDoesNotMatch", ChunkAccessDeniedError, NOT),
    (403, "RequestTimeTooSkewed", ChunkAccessDeniedError, NOT),
    (403, "QuotaExceeded", ChunkStorageFullError, NOT),
    (404, "404", ChunkNotFoundError, NOT),
    (404, "NoSuchKey", ChunkNotFoundError, NOT),
    (404, "NoSuchBucket", ChunkUnavailableError, NOT),
    (404, "NoSuchUpload", ChunkUnavailableError, NOT),
    (404, "XAdminUserNotFound", ChunkAccessDeniedError, NOT),
    (405, "MethodNotAllowed", ChunkUnavailableError, NOT),
    (409, "ConditionalRequestConflict", ChunkUnavailableError, NOT),
    (409, "ObjectParentIsFile", ChunkNameError, NOT),
    (412, "PreconditionFailed", ChunkExistsError, NOT),
    (412, "412", ChunkExistsError, NOT),
    (416, "InvalidRange", ChunkUnavailableError, NOT),
    (429, "TooManyRequests", ChunkThrottledError, NOT),
    (429, "", ChunkThrottledError, NOT),
    (500, "InternalError", ChunkUnavailableError, UNKNOWN),
    (501, "NotImplemented", ChunkUnavailableError, UNKNOWN),
    (502, "", ChunkUnavailableError, UNKNOWN),
    (503, "SlowDown", ChunkThrottledError, NOT),
    (503, "SlowDownWrite", ChunkThrottledError, NOT),
    (503, "ServiceUnavailable", ChunkThrottledError, UNKNOWN),
    (503, "", ChunkThrottledError, UNKNOWN),
    (504, "", ChunkUnavailableError, UNKNOWN),
    (507, "InsufficientStorage", ChunkStorageFullError, NOT),
    (507, "XMinioStorageFull", ChunkStorageFullError, NOT),
    (200, "InternalError", ChunkUnavailableError, UNKNOWN),
    (200, "PreconditionFailed", ChunkExistsError, NOT),
    (200, "Strange", ChunkUnavailableError, UNKNOWN),
]


def test_a_source_that_is_replaced_is_refused(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects |= {"s": bytes(6 * MIB), "z": b"small"}

    def replace(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        stub.objects["s"] = b"x" * 6 * MIB
        return carry_out()

    stub.fail("PUT?uploadId", replace)
    with pytest.raises(ChunkUnavailableError, match="replaced"):
        storage.concat("t", [("s", 6 * MIB)])

    def replace_small(_: Request, carry_out: Callable[[], Reply]) -> Reply:
        stub.objects["z"] = b"SMALL"
        return carry_out()

    stub.fail("GET", replace_small)
    with pytest.raises(ChunkUnavailableError, match="replaced"):
        storage.concat("t", [("z", 3), ("z", 2)])
    assert "t" not in stub.objects


@pytest.mark.slow
@pytest.mark.parametrize("fault", [broken, half_body, refusal(500, "InternalError")])
@pytest.mark.parametrize("length", [1_000, 3 * MIB])
def test_a_read_that_breaks_off_is_no_read(
    storage: S3ChunkStorage, stub: Stub, fault: Any, length: int
) -> None:
    stub.objects["s"] = bytes(range(250)) * (length // 250)
    stub.fail("GET", fault)
    buffer = bytearray(len(stub.objects["s"]))
    with pytest.raises(ChunkUnavailableError) as caught:
        storage.read_into("s", 0, buffer)
    assert caught.value.outcome is NOT
    assert storage.read_into("s", 0, buffer) == len(buffer)
    assert buffer == stub.objects["s"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Range": "bytes 0-9/100"},
        {"Content-Range": "bytes 5-9/100"},
        {"Content-Range": "bytes 5-24/100"},
        {"Content-Range": "nonsense"},
        {},
    ],
)
def test_another_range_than_was_asked_for_is_refused(
    storage: S3ChunkStorage, stub: Stub, headers: dict[str, str]
) -> None:
    stub.objects["s"] = bytes(100)
    stub.fail("GET", Reply(206, bytes(10), headers))
    with pytest.raises(ChunkUnavailableError, match="another range"):
        storage.read_into("s", 5, bytearray(10))


def test_a_service_that_ignores_ranges_is_noticed(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects["s"] = b"0123456789"
    stub.fail("GET", *[Reply(200, b"0123456789")] * 2)
    with pytest.raises(ChunkUnavailableError, match="another range"):
        storage.read_into("s", 5, bytearray(3))
    with pytest.raises(ChunkUnavailableError, match="another range"):
        storage.read_into("s", 0, bytearray(20))


def test_it_cannot_be_pickled(storage: S3ChunkStorage) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(storage)


def test_secrets_are_not_in_its_name(storage: S3ChunkStorage) -> None:
    assert repr(storage) == "S3ChunkStorage(bucket='bucket', prefix='')"


def test_after_a_fork_the_child_is_told(stub: Stub, storage: S3ChunkStorage) -> None:
    stub.objects["a"] = b"abc"
    storage.stat("a")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        said = "nothing"
        try:
            storage.stat("a")
        except ClosedError as error:
            said = str(error)
        finally:
            storage.close()
            os.write(write, said.encode())
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert b"belongs to the process that opened it" in pipe.read()
    os.waitpid(child, 0)
    assert storage.stat("a").length == 3


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


LARGE = bytes(range(256)) * (5 * MIB // 256)


def test_a_read_is_one_get(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects["a"] = LARGE
    buffer = bytearray(3 * MIB)
    assert storage.read_into("a", MIB, buffer) == 3 * MIB
    assert buffer == LARGE[MIB : 4 * MIB]
    assert stub.whats() == ["GET"]
    assert stub.asked[0].headers["range"] == f"bytes={MIB}-{4 * MIB - 1}"


def test_a_stat_is_one_head(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects["a"] = b"abc"
    assert storage.stat("a").length == 3
    assert stub.whats() == ["HEAD"]
