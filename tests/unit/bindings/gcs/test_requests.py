"""What each operation asks of the service, request by request."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from siltstone.bindings.gcs import proof as proving
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.core.checksums import crc32c, crc_text
from siltstone.core.constants import KIB, MIB
from siltstone.core.errors import ChunkNotFoundError
from tests.support.stubs.gcs_stub import Stub

LARGE = bytes(range(256)) * (MIB // 256)


def test_a_small_create_is_one_request(storage: GcsChunkStorage, stub: Stub) -> None:
    storage.create("a/b", [b"one", b"two"])
    (request,) = stub.asked
    assert request.what == "create"
    assert request.query["ifGenerationMatch"] == "0"
    told = json.loads(request.body.split(b"\r\n\r\n")[1].split(b"\r\n--")[0])
    assert told["name"] == "a/b"
    assert told["crc32c"] == crc_text(crc32c(b"onetwo"))
    assert stub.contents() == {"a/b": b"onetwo"}


def test_a_whole_create_is_one_request_however_small_puts_shall_be(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(put_bytes_max=MIB, piece_bytes=512 * KIB))
    proving.prove(storage.service)
    stub.asked.clear()
    storage.create_whole("a", [LARGE, LARGE])
    (request,) = stub.asked
    assert request.what == "create"
    assert request.query["ifGenerationMatch"] == "0"
    assert stub.contents() == {"a": LARGE + LARGE}
    storage.close()


@pytest.mark.slow
def test_a_create_of_64_mib_is_one_request(storage: GcsChunkStorage, stub: Stub) -> None:
    half = LARGE * 32
    storage.create("a", [half, half])
    assert stub.whats() == ["create"]
    assert stub.contents() == {"a": half + half}


def test_a_larger_create_is_its_pieces_and_one_more(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(put_bytes_max=MIB, piece_bytes=512 * KIB))
    proving.prove(storage.service)
    stub.asked.clear()
    content = LARGE + LARGE + b"end"
    storage.create("a", [memoryview(content)[: 700 * KIB], content[700 * KIB :]])
    assert stub.whats() == ["begin"] + ["piece"] * 5
    first, last = stub.asked[0], stub.asked[-1]
    assert first.query["ifGenerationMatch"] == "0"
    assert json.loads(first.body)["crc32c"] == crc_text(crc32c(content))
    assert last.headers["content-range"] == f"bytes {2 * MIB}-{2 * MIB + 2}/{2 * MIB + 3}"
    assert stub.contents() == {"a": content}
    assert not stub.uploads
    storage.close()


def test_what_the_service_did_not_keep_of_a_piece_is_sent_again(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(put_bytes_max=1, piece_bytes=512 * KIB))
    proving.prove(storage.service)
    stub.asked.clear()
    stub.kept = [256 * KIB, 512 * KIB, 100]
    storage.create("a", [LARGE])
    assert stub.whats() == ["begin"] + ["piece"] * 4
    assert stub.contents() == {"a": LARGE}
    storage.close()


def test_a_read_is_one_request(storage: GcsChunkStorage, stub: Stub) -> None:
    stub.store("a", LARGE)
    buffer = bytearray(MIB // 2)
    assert storage.read_into("a", 1_000, buffer) == MIB // 2
    assert buffer == LARGE[1_000 : 1_000 + MIB // 2]
    assert storage.read_into("a", MIB - 3, buffer) == 3
    assert stub.whats() == ["read", "read"]
    assert stub.asked[0].headers["range"] == f"bytes=1000-{MIB // 2 + 999}"


def test_reads_use_one_connection(storage: GcsChunkStorage, stub: Stub) -> None:
    stub.store("a", LARGE)
    for _ in range(5):
        storage.read_into("a", 0, bytearray(MIB))
        storage.stat("a")
    adapter: Any = storage.service.session.get_adapter(stub.endpoint)
    pools = adapter.poolmanager.pools
    assert [pools[key].num_connections for key in pools.keys()] == [1]  # noqa: SIM118


def test_stat_and_delete_are_one_request(storage: GcsChunkStorage, stub: Stub) -> None:
    stub.store("a", b"abc")
    assert storage.stat("a").length == 3
    storage.delete("a")
    with pytest.raises(ChunkNotFoundError):
        storage.delete("a")
    assert stub.whats() == ["stat", "delete", "delete"]


def test_the_generation_is_the_version(storage: GcsChunkStorage, stub: Stub) -> None:
    first = stub.store("a", b"abc").generation
    assert storage.stat("a").version == str(first)
    second = stub.store("a", b"abc").generation
    (listed,) = storage.list()
    assert listed == storage.stat("a")
    assert listed.version == str(second)


@pytest.mark.parametrize(
    ("count", "requests"), [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (2_500, 3)]
)
def test_a_listing_is_a_request_for_each_1000(
    storage: GcsChunkStorage, stub: Stub, count: int, requests: int
) -> None:
    for number in range(count):
        stub.store(f"d/{number:05}", b"x")
    assert [found.name for found in storage.list()] == sorted(stub.objects)
    assert stub.whats() == ["list"] * requests


def test_a_listing_begins_after_a_name(storage: GcsChunkStorage, stub: Stub) -> None:
    for name in ("a", "b", "b0", "c"):
        stub.store(name, b"x")
    assert [found.name for found in storage.list("", "b")] == ["b0", "c"]
    assert stub.asked[0].query["startOffset"] == "b"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "joins"), [(1, 1), (32, 1), (33, 2), (64, 3), (65, 3), (1_000, 33), (1_024, 33)]
)
def test_a_join_moves_no_data(storage: GcsChunkStorage, stub: Stub, count: int, joins: int) -> None:
    names = [f"s/{number:04}" for number in range(count)]
    for name in names:
        stub.store(name, name.encode())
    kept = stub.contents()
    storage.concat("t", [(name, len(name)) for name in names])
    between = max(joins - 1, 0)
    counts = Counter(stub.whats())
    assert counts == Counter({"stat": count, "compose": joins, "delete": between})
    assert stub.contents() == kept | {"t": "".join(names).encode()}
    for request in stub.asked:
        if request.what == "compose":
            assert request.query["ifGenerationMatch"] == "0"
            assert all("generation" in s for s in json.loads(request.body)["sourceObjects"])
        if request.what == "delete":
            assert int(request.query["ifGenerationMatch"])


def test_a_join_reads_only_what_is_shortened(stub: Stub) -> None:
    storage = GcsChunkStorage(stub.settings(put_bytes_max=4))
    proving.prove(storage.service)
    for name, content in {"a": b"whole", "b": b"shortened", "c": b"end"}.items():
        stub.store(name, content)
    stub.asked.clear()
    storage.concat("t", [("a", 5), ("b", 6), ("c", 3)])
    assert stub.contents()["t"] == b"wholeshorteend"
    assert sorted(stub.objects) == ["a", "b", "c", "t"]
    assert Counter(stub.whats()) == {
        "stat": 3, "read": 2, "create": 2, "compose": 1, "delete": 2,
    }  # fmt: skip
    reads = [request for request in stub.asked if request.what == "read"]
    assert [request.headers["range"] for request in reads] == ["bytes=0-3", "bytes=4-5"]
    assert all("generation" in request.query for request in reads)
    storage.close()


def test_the_first_change_of_a_process_costs_a_proof(stub: Stub) -> None:
    for _ in range(2):
        storage = GcsChunkStorage(stub.settings())
        storage.create(f"{len(stub.asked)}", [b"x"])
        storage.close()
    proof = ["create", "create", "compose", "compose", "delete", "delete"]
    assert stub.whats() == [*proof, "create", "create"]
    assert not [key for key in stub.objects if key.startswith("system/")]
