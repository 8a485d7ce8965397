"""What fake-gcs-server does other than the service, one row each, so that a fixed one shows.

The stub is asked the same and answers as documented, so this also holds the stub to its word. What
the server does right is asserted too where the binding relies on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from services.fake_gcs import FakeGcs
from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage
from siltstone.core.errors import CapabilityError
from siltstone.testing.chunk_checks.subject import at_once
from tests.support.services.gcs_services import new_bucket, settings
from tests.support.services.raw_gcs import RawGcs
from tests.support.stubs.gcs_stub import Stub
from tests.support.stubs.gcs_stub_server import StubServer, serving

Ask = Callable[[RawGcs], int]


@dataclass(frozen=True, kw_only=True)
class Row:
    """A question.

    Attributes:
        name: what it is about.
        ask: asks it in a bucket with the objects ``one`` and ``two``; returns the status.
        documented: what the service answers.
        fake: what the server answers; the same where it is right.
    """

    name: str
    ask: Ask
    documented: int
    fake: int


STALE = "1"


def upload(raw: RawGcs, key: str, query: str, **told: str) -> int:
    border = "border-of-parts"
    metadata = json.dumps({"name": key, **told})
    body = (
        f"--{border}\r\nContent-Type: application/json\r\n\r\n{metadata}\r\n"
        f"--{border}\r\nContent-Type: application/octet-stream\r\n\r\nnew\r\n--{border}--\r\n"
    )
    kind = f'multipart/related; boundary="{border}"'
    path = f"/upload{raw.path()}?uploadType=multipart&{query}"
    return raw.ask("POST", path, body.encode(), kind=kind)[0]


def compose(raw: RawGcs, target: str, query: str, *sources: str, generation: str = "") -> int:
    pin = {"generation": generation} if generation else {}
    told = {
        "sourceObjects": [{"name": source, **pin} for source in sources],
        "destination": {"contentType": "application/octet-stream"},
    }
    return raw.ask("POST", f"{raw.path(target)}/compose?{query}", json.dumps(told).encode())[0]


def stat(raw: RawGcs, key: str, query: str) -> int:
    return raw.ask("GET", f"{raw.path(key)}?{query}")[0]


def delete(raw: RawGcs, key: str, query: str) -> int:
    return raw.ask("DELETE", f"{raw.path(key)}?{query}")[0]


NEW = "ifGenerationMatch=0"
OTHER = f"ifGenerationMatch={STALE}"
ROWS = (
    Row(
        name="a create of what exists",
        ask=lambda raw: upload(raw, "one", NEW),
        documented=412,
        fake=412,
    ),
    Row(
        name="an upload over another generation",
        ask=lambda raw: upload(raw, "one", OTHER),
        documented=412,
        fake=412,
    ),
    Row(
        name="an upload with a wrong checksum",
        ask=lambda raw: upload(raw, "new", NEW, crc32c="AAAAAA=="),
        documented=400,
        fake=400,
    ),
    Row(
        name="a look at a generation that is gone",
        ask=lambda raw: stat(raw, "one", f"generation={STALE}"),
        documented=404,
        fake=404,
    ),
    Row(
        name="a deletion of what is not there",
        ask=lambda raw: delete(raw, "gone", ""),
        documented=404,
        fake=404,
    ),
    Row(
        name="a deletion of another generation",
        ask=lambda raw: delete(raw, "one", OTHER),
        documented=412,
        fake=200,
    ),
    Row(
        name="a join onto what exists",
        ask=lambda raw: compose(raw, "one", NEW, "two"),
        documented=412,
        fake=200,
    ),
    Row(
        name="a join of a generation that is gone",
        ask=lambda raw: compose(raw, "new", NEW, "one", generation=STALE),
        documented=404,
        fake=200,
    ),
    Row(
        name="a join of what is not there",
        ask=lambda raw: compose(raw, "new", NEW, "gone"),
        documented=404,
        fake=500,
    ),
    Row(
        name="a join of 33",
        ask=lambda raw: compose(raw, "new", NEW, *["one"] * 33),
        documented=400,
        fake=400,
    ),
)


def filled(raw: RawGcs) -> RawGcs:
    raw.write("one", b"1")
    raw.write("two", b"2")
    return raw


@pytest.fixture(scope="module")
def stub_server() -> Iterator[StubServer]:
    with serving() as server:
        yield server


@pytest.fixture
def on_stub(stub_server: StubServer) -> RawGcs:
    stub = stub_server.use(Stub())
    return filled(RawGcs(stub.endpoint, stub.bucket))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_stub_answers_as_documented(on_stub: RawGcs, row: Row) -> None:
    assert row.ask(on_stub) == row.documented


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_server_answers_as_known(fake_gcs_server: FakeGcs, row: Row) -> None:
    assert row.ask(filled(new_bucket(fake_gcs_server.endpoint))) == row.fake


def test_one_of_many_creates_wins_on_the_server(fake_gcs_server: FakeGcs) -> None:
    raw = new_bucket(fake_gcs_server.endpoint)
    found = at_once([lambda: upload(raw, "new", NEW)] * 16)
    assert sorted(map(str, found)) == ["200"] + ["412"] * 15


def test_one_of_many_joins_wins_on_the_stub_alone(
    on_stub: RawGcs, fake_gcs_server: FakeGcs
) -> None:
    found = at_once([lambda: compose(on_stub, "new", NEW, "one")] * 16)
    assert sorted(map(str, found)) == ["200"] + ["412"] * 15
    raw = filled(new_bucket(fake_gcs_server.endpoint))
    assert at_once([lambda: compose(raw, "new", NEW, "one")] * 16) == [200] * 16


def test_the_proof_refuses_the_server(fake_gcs_server: FakeGcs) -> None:
    """A proof of creates alone would not."""
    raw = new_bucket(fake_gcs_server.endpoint)
    storage = GcsChunkStorage(settings(fake_gcs_server.endpoint, raw.bucket))
    with pytest.raises(CapabilityError, match="a join could overwrite a chunk"):
        storage.create("a", [b"x"])
    assert raw.keys() == []
    storage.close()
