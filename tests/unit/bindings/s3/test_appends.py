"""Directory buckets: appends, listings without an order, and the contract as a whole.

The stub stands for the service here: no server that runs on this machine appends.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from siltstone.bindings.s3 import chunk_storage
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.core.chunk_storage import ChunkStorage
from siltstone.core.errors import CapabilityError, ChunkUnavailableError, Outcome
from siltstone.testing.chunk_checks.lists import ListChecks
from siltstone.testing.chunk_checks.writes import CreateChecks, WriteChecks
from siltstone.testing.chunk_storage_contract import ChunkService, ChunkStorageContract
from tests.support.stubs.s3_stub import Stub, lost_reply, refusal, running

BUCKET = "store--use1-az4--x-s3"


@pytest.fixture
def express() -> Iterator[Stub]:
    with running(Stub(BUCKET)) as stub:
        yield stub


class ExpressService:
    def __init__(self, stub: Stub) -> None:
        self.stub = stub

    def open(self) -> ChunkStorage:
        return S3ChunkStorage(self.stub.settings(append="directory-bucket"))

    def outside_read(self, name: str) -> bytes | None:
        return self.stub.objects.get(name)

    def outside_names(self) -> list[str]:
        return list(self.stub.objects)

    def outside_write(self, name: str, content: bytes) -> None:
        self.stub.objects[name] = content


class DirectoryBucket:
    missing = frozenset({"seal"})

    @pytest.fixture
    def service(self, express: Stub, monkeypatch: pytest.MonkeyPatch) -> ChunkService:
        monkeypatch.setattr(chunk_storage, "CONCAT_SOURCES_MAX", 40)
        return ExpressService(express)


class TestDirectoryBucket(DirectoryBucket, CreateChecks, WriteChecks, ListChecks):
    """What differs from other buckets; the rest is the same code."""


@pytest.mark.soak
class TestDirectoryBucketWholly(DirectoryBucket, ChunkStorageContract):
    """All of it."""


def test_an_append_is_one_put(express: Stub) -> None:
    storage = S3ChunkStorage(express.settings(append="directory-bucket"))
    storage.create("a", [b"one"])
    express.asked.clear()
    storage.write("a", 3, [b"two"])
    (request,) = express.asked
    assert request.what == "PUT"
    assert request.headers["x-amz-write-offset-bytes"] == "3"
    assert "x-amz-checksum-crc32c" in request.headers
    assert express.objects == {"a": b"onetwo"}
    storage.close()


@pytest.mark.parametrize("kind", ["overwrites", "refuses", "ignores"])
def test_a_bucket_that_does_not_append_is_refused(express: Stub, kind: str) -> None:
    express.appends = False
    if kind == "refuses":
        express.fail("PUT", lambda _, carry_out: carry_out(), lambda _, carry_out: carry_out(),
                     lambda _, carry_out: carry_out(), refusal(400, "InvalidRequest"))  # fmt: skip
    storage = S3ChunkStorage(express.settings(append="directory-bucket"))
    with pytest.raises(CapabilityError, match=r"s3\.append"):
        storage.create("a", [b"x"])
    assert express.objects == {}
    storage.close()


def test_an_append_without_an_answer_is_unknown(express: Stub) -> None:
    storage = S3ChunkStorage(express.settings(append="directory-bucket"))
    storage.create("a", [b"one"])
    express.fail("PUT", lost_reply)
    with pytest.raises(ChunkUnavailableError) as caught:
        storage.write("a", 3, [b"two"])
    assert caught.value.outcome is Outcome.UNKNOWN
    assert express.objects == {"a": b"onetwo"}
    storage.close()


def test_too_many_appends(express: Stub) -> None:
    storage = S3ChunkStorage(express.settings(append="directory-bucket"))
    storage.create("a", [b"one"])
    express.fail("PUT", refusal(400, "TooManyParts"))
    with pytest.raises(ValueError, match="many"):
        storage.write("a", 3, [b"two"])
    storage.close()


def test_a_directory_bucket_that_is_written_once(express: Stub) -> None:
    storage = S3ChunkStorage(express.settings())
    assert not storage.capabilities.append
    storage.create("b/2", [b"x"])
    storage.create("b/10", [b"x"])
    assert [found.name for found in storage.list("b/1")] == ["b/10"]
    assert [found.name for found in storage.list("b", "b/10")] == ["b/2"]
    storage.close()
