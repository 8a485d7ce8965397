"""What each operation asks of the service, request by request."""

from __future__ import annotations

import pytest

from siltstone.bindings.azure.plugin import siltstone_chunk_storage
from siltstone.core.constants import MIB
from siltstone.core.errors import ChunkAccessDeniedError, ChunkNotFoundError, Outcome
from tests.unit.bindings.azure.conftest import NewCounted


def test_a_create_of_an_append_blob_is_two_requests(counted: NewCounted) -> None:
    here = counted()
    content = bytes(range(256)) * (8 * MIB // 256)
    here.storage.create("a/b", [content[: 3 * MIB], memoryview(content)[3 * MIB :]])
    assert here.whats() == ["PUT", "PUT appendblock"]
    assert here.raw.read("a/b") == content
    assert here.raw.headers("a/b")["x-ms-blob-committed-block-count"] == "1"


def test_a_write_is_a_request_for_each_block(counted: NewCounted) -> None:
    here = counted(block_bytes=MIB)
    here.storage.create("a", [b"x"])
    here.whats()
    here.storage.write("a", 1, [bytes(MIB)])
    assert here.whats() == ["PUT appendblock"]
    here.storage.write("a", 1 + MIB, [bytes(MIB), b"y"])
    assert here.whats() == ["PUT appendblock"] * 2
    here.storage.seal("a")
    assert here.whats() == ["PUT seal"]


@pytest.mark.parametrize("blobs", ["append", "block"])
def test_a_whole_create_is_one_put_of_a_block_blob(counted: NewCounted, blobs: str) -> None:
    here = counted(blobs=blobs, put_bytes_max=MIB, block_bytes=MIB)
    content = bytes(range(256)) * (3 * MIB // 256)
    here.storage.create_whole("a/b", [content[:100], memoryview(content)[100:]])
    assert here.whats() == ["PUT"]
    assert here.raw.read("a/b") == content
    assert here.raw.headers("a/b")["x-ms-blob-type"] == "BlockBlob"


def test_a_whole_create_proves_its_own_kind_of_blobs(counted: NewCounted) -> None:
    here = counted(is_proven=False)
    here.storage.create("a", [b"x"])
    here.whats()
    here.storage.create_whole("b", [b"x"])
    # A create, one that must be refused, and the removal; then the chunk.
    assert here.whats() == ["PUT", "PUT", "DELETE", "PUT"]
    here.storage.create_whole("c", [b"x"])
    assert here.whats() == ["PUT"]
    assert here.raw.names("system/") == []


def test_a_whole_chunk_refuses_what_an_append_blob_takes(counted: NewCounted) -> None:
    here = counted()
    here.storage.create_whole("a", [b"abc"])
    for offset in (3, 0, 9):
        with pytest.raises(ChunkAccessDeniedError, match="does not grow") as caught:
            here.storage.write("a", offset, [b"x"])
        assert caught.value.outcome is Outcome.NOT_APPLIED
    here.storage.seal("a")
    assert here.raw.read("a") == b"abc"
    here.storage.delete("a")
    with pytest.raises(ChunkNotFoundError):
        here.storage.seal("a")


def test_a_create_of_a_block_blob_is_one_put(counted: NewCounted) -> None:
    here = counted(blobs="block")
    here.storage.create("a", [bytes(4 * MIB), bytes(4 * MIB)])
    assert here.whats() == ["PUT"]


def test_a_larger_one_is_its_blocks_and_one_more(counted: NewCounted) -> None:
    here = counted(blobs="block", put_bytes_max=MIB, block_bytes=MIB)
    here.storage.create("a", [bytes(3 * MIB), b"end"])
    whats = here.whats()
    assert whats == ["PUT block"] * 4 + ["PUT blocklist"]
    assert here.raw.read("a") == bytes(3 * MIB) + b"end"


@pytest.mark.slow
def test_a_join_moves_no_bytes(counted: NewCounted) -> None:
    here = counted(blobs="block", block_bytes=1_000)
    names = [f"s/{number}" for number in range(20)]
    for number, name in enumerate(names):
        here.raw.write(name, bytes([number]) * 1_500)
    here.proxy.forget()
    here.storage.concat("t", [(name, 1_200) for name in names])
    # The emulator fetches the sources itself, from the address of the client: through the proxy.
    bodies = sum(r.body_bytes for r in here.proxy.requests if "comp=block&" in r.target)
    assert bodies == 0
    whats = [what for what in here.whats() if what != "GET"]
    assert {what: whats.count(what) for what in whats} == {
        "HEAD": 20, "PUT block": 40, "PUT blocklist": 1,
    }  # fmt: skip
    assert here.raw.read("t") == b"".join(bytes([number]) * 1_200 for number in range(20))


def test_reads_stats_and_deletes_are_one_request(counted: NewCounted) -> None:
    here = counted()
    content = bytes(range(256)) * 40_000
    here.raw.write("a", content)
    buffer = bytearray(3 * MIB)
    assert here.storage.read_into("a", MIB, buffer) == 3 * MIB
    assert buffer == content[MIB : 4 * MIB]
    assert here.whats() == ["GET"]
    assert here.storage.stat("a").length == len(content)
    assert here.whats() == ["HEAD"]
    here.storage.delete("a")
    assert here.whats() == ["DELETE"]
    with pytest.raises(ChunkNotFoundError):
        here.storage.delete("a")
    assert here.whats() == ["DELETE"]


@pytest.mark.slow
def test_many_deletes_are_a_request_for_each_256(counted: NewCounted) -> None:
    here = counted()
    names = [f"d/{number}" for number in range(600)]
    for name in names[::100]:
        here.raw.write(name, b"x")
    here.raw.write("e", b"x")
    assert here.storage.delete_many(names) == {}
    assert here.whats() == ["POST batch"] * 3
    assert here.raw.names() == ["e"]
    assert here.storage.delete_many([]) == {}
    assert here.whats() == []


def test_a_listing_is_a_request_for_each_page(counted: NewCounted) -> None:
    here = counted()
    for number in range(12):
        here.raw.write(f"d/{number:05}", b"x")
    assert len(list(here.storage.list())) == 12
    assert here.whats() == ["GET list"]
    assert [found.name for found in here.storage.list("d/", "d/00009")] == ["d/00010", "d/00011"]
    assert here.whats() == ["GET list"]


def test_opening_is_two_requests(counted: NewCounted) -> None:
    here = counted()
    opened = siltstone_chunk_storage("azure", here.options)
    assert opened is not None
    assert here.whats() == ["GET list", "GET properties"]
    opened.close()


@pytest.mark.parametrize(
    ("blobs", "proof"),
    [
        ("append", ["PUT", "PUT appendblock", "PUT appendblock", "PUT", "DELETE"]),
        ("block", ["PUT", "PUT", "DELETE"]),
    ],
)
def test_the_first_change_of_a_process_costs_a_proof(
    counted: NewCounted, blobs: str, proof: list[str]
) -> None:
    here = counted(is_proven=False, blobs=blobs)
    create = ["PUT", "PUT appendblock"] if blobs == "append" else ["PUT"]
    here.storage.create("a", [b"x"])
    assert here.whats() == proof + create
    here.storage.create("b", [b"x"])
    assert here.whats() == create
    assert here.raw.names() == ["a", "b"]
