"""What each operation asks of the service, request by request."""

from __future__ import annotations

import base64
import io
from functools import partial

import pytest

from siltstone.bindings.s3 import joins, proof
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage
from siltstone.bindings.s3.joins import plan_join
from siltstone.bindings.s3.reads import plain_body
from siltstone.core.checksums import crc32c
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkNotFoundError
from tests.support.stubs.read_suite import (  # noqa: F401
    LARGE,
    test_a_read_is_one_get,
    test_a_stat_is_one_head,
)
from tests.support.stubs.s3_stub import Stub


def test_a_small_create_is_one_put(storage: S3ChunkStorage, stub: Stub) -> None:
    storage.create("a/b", [b"one", b"two"])
    (request,) = stub.asked
    assert (request.what, request.key, request.body) == ("PUT", "a/b", b"onetwo")
    assert request.headers["if-none-match"] == "*"
    crc = base64.b64encode(crc32c(b"onetwo").to_bytes(4, "big")).decode()
    assert request.headers["x-amz-checksum-crc32c"] == crc
    assert "x-amz-checksum-crc32" not in request.headers


def test_a_whole_create_is_one_put_however_small_puts_shall_be(stub: Stub) -> None:
    storage = S3ChunkStorage(stub.settings(put_bytes_max=5 * MIB, part_bytes=5 * MIB))
    proof.prove(storage.service)
    stub.asked.clear()
    content = LARGE * 3
    assert len(content) > 5 * MIB
    storage.create_whole("a", [memoryview(content)[: 5 * MIB], content[5 * MIB :]])
    (request,) = stub.asked
    assert (request.what, request.key, request.body) == ("PUT", "a", content)
    assert request.headers["if-none-match"] == "*"
    storage.close()


@pytest.mark.slow
def test_a_create_of_64_mib_is_one_put(storage: S3ChunkStorage, stub: Stub) -> None:
    half = bytes(32 * MIB)
    storage.create("a", [half, half])
    assert stub.whats() == ["PUT"]
    assert len(stub.objects["a"]) == 64 * MIB


def test_a_larger_create_is_its_parts_and_two_more(stub: Stub) -> None:
    storage = S3ChunkStorage(
        stub.settings(put_bytes_max=8 * MIB, part_bytes=5 * MIB, upload_threads=3)
    )
    proof.prove(storage.service)
    stub.asked.clear()
    content = LARGE * 3 + b"end"
    storage.create("a", [memoryview(content)[: 7 * MIB], content[7 * MIB :]])
    assert sorted(stub.whats()) == ["POST?uploadId", "POST?uploads"] + ["PUT?uploadId"] * 4
    assert stub.objects["a"] == content
    assert not stub.uploads
    first, last = stub.asked[0], stub.asked[-1]
    assert first.headers["x-amz-checksum-algorithm"] == "CRC32C"
    assert first.headers["x-amz-checksum-type"] == "FULL_OBJECT"
    assert "if-none-match" not in first.headers
    assert last.headers["if-none-match"] == "*"
    assert last.headers["x-amz-mp-object-size"] == str(len(content))
    whole = base64.b64encode(crc32c(content).to_bytes(4, "big")).decode()
    assert last.headers["x-amz-checksum-crc32c"] == whole
    storage.close()


def test_reads_go_around_the_copies_of_the_sdk_on_one_connection(
    storage: S3ChunkStorage, stub: Stub
) -> None:
    stub.objects["a"] = LARGE
    buffer = bytearray(3 * MIB)
    before = stub.connections
    for offset in (0, 1, 2 * MIB):
        assert storage.read_into("a", offset, buffer) == len(buffer)
        assert buffer == LARGE[offset : offset + len(buffer)]
    assert stub.connections == before
    body = storage.service.client.get_object(Bucket=stub.bucket, Key="a")["Body"]
    assert plain_body(body) is not None
    body.close()
    assert plain_body(io.BytesIO(b"of another SDK")) is None


@pytest.mark.slow
def test_calls_one_after_the_other_share_a_connection(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects["a"] = LARGE
    stub.connections = 0
    for number in range(3):
        storage.create(f"{number}", [LARGE[: number * MIB + 10]])
        for offset, length in ((0, len(LARGE)), (0, 10), (len(LARGE) - 5, 10), (len(LARGE), 10)):
            storage.read_into("a", offset, bytearray(length))
        assert list(storage.list())
        storage.delete(f"{number}")
    assert stub.connections <= 1


@pytest.mark.parametrize(
    ("count", "requests"), [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (2_500, 3)]
)
def test_a_listing_is_a_request_for_each_1000(
    storage: S3ChunkStorage, stub: Stub, count: int, requests: int
) -> None:
    stub.objects = {f"d/{number:05}": b"x" for number in range(count)}
    assert [found.name for found in storage.list()] == sorted(stub.objects)
    assert stub.whats() == ["GET?list-type"] * requests


def test_a_delete_is_a_head_and_a_delete(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects["a"] = b"abc"
    storage.delete("a")
    assert stub.whats() == ["HEAD", "DELETE"]
    stub.asked.clear()
    with pytest.raises(ChunkNotFoundError):
        storage.delete("a")
    assert stub.whats() == ["HEAD"]


@pytest.mark.parametrize(("count", "requests"), [(1_000, 1), (1_001, 2)])
def test_bulk_deletion_is_a_request_for_each_1000(
    storage: S3ChunkStorage, stub: Stub, count: int, requests: int
) -> None:
    names = [f"d/{number:05}" for number in range(count)]
    stub.objects = dict.fromkeys(names[1:], b"x") | {"other": b"y"}
    assert storage.delete_many(names) == {}
    assert stub.objects == {"other": b"y"}
    assert stub.whats() == ["POST?delete"] * requests


def test_a_name_that_xml_cannot_hold_is_deleted_alone(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects = {"a\x01b": b"x", "c": b"y"}
    assert storage.delete_many(["a\x01b", "c", "gone"]) == {}
    assert stub.objects == {}
    assert sorted(stub.whats()) == ["DELETE", "POST?delete"]


@pytest.mark.slow
def test_a_join_of_large_chunks_moves_no_data(
    storage: S3ChunkStorage, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of four bytes count as large here: a thousand real ones would fill the memory."""
    monkeypatch.setattr(joins, "plan_join", partial(plan_join, least=4))
    names = [f"s/{number:04}" for number in range(1_000)]
    stub.objects = dict.fromkeys(names, b"abcd")
    kept = dict(stub.objects)
    storage.concat("t", [(name, 4) for name in names])
    whats = stub.whats()
    assert {what: whats.count(what) for what in whats} == {
        "HEAD": 1_000, "POST?uploads": 1, "PUT?uploadId": 1_000, "POST?uploadId": 1,
    }  # fmt: skip
    copies = [request for request in stub.asked if request.what == "PUT?uploadId"]
    assert sum(len(request.body) for request in copies) == 0
    assert all("x-amz-copy-source-if-match" in request.headers for request in copies)
    assert stub.objects.pop("t") == 1_000 * b"abcd"
    assert stub.objects == kept


def test_a_join_reads_only_what_is_too_small(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects = {"a": LARGE, "b": b"small", "c": LARGE * 2, "d": b"end"}
    sources = [(name, len(content)) for name, content in stub.objects.items()]
    storage.concat("t", sources)
    assert stub.objects["t"] == LARGE + b"small" + LARGE * 2 + b"end"
    parts = [request for request in stub.asked if request.what == "PUT?uploadId"]
    assert sum(len(request.body) for request in parts) == 5 * MIB
    for request in stub.asked:
        assert not [name for name in request.headers if name.startswith("x-amz-checksum")]
        if request in parts:
            assert ("content-md5" in request.headers) == bool(request.body)


def test_a_join_of_small_chunks_is_one_put(storage: S3ChunkStorage, stub: Stub) -> None:
    stub.objects = {"a": b"one", "b": b"two"}
    storage.concat("t", [("a", 3), ("b", 2)])
    assert stub.objects["t"] == b"onetw"
    assert sorted(stub.whats()) == ["GET", "GET", "HEAD", "HEAD", "PUT"]
    assert stub.asked[-1].headers["if-none-match"] == "*"


def test_the_first_change_of_a_process_costs_a_proof(stub: Stub) -> None:
    for _ in range(2):
        storage = S3ChunkStorage(stub.settings())
        storage.create(f"{len(stub.asked)}", [b"x"])
        storage.close()
    assert stub.whats() == ["PUT", "PUT", "DELETE", "PUT", "PUT"]
    assert not [key for key in stub.objects if key.startswith("system/")]
