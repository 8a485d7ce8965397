"""A success with the right status but without content is no answer of the service."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.testing.faults.http_faults import Answer, Rule
from tests.unit.bindings.azure.conftest import NewCounted

CASES: dict[str, tuple[str, str, int, Callable[[AzureChunkStorage], None]]] = {
    "create": ("append", "/new$", 201, lambda storage: storage.create("new", [b"x"])),
    "append": ("append", "comp=appendblock", 201, lambda storage: storage.write("one", 1, [b"x"])),
    "seal": ("append", "comp=seal", 200, lambda storage: storage.seal("one")),
    "put": ("block", "/new$", 201, lambda storage: storage.create("new", [b"x"])),
    "commit": ("block", "comp=blocklist", 201, lambda storage: storage.concat("new", [("one", 1)])),
}


@pytest.mark.parametrize("name", CASES)
def test_an_empty_success_is_unknown(counted: NewCounted, name: str) -> None:
    blobs, target, status, call = CASES[name]
    here = counted(blobs=blobs)
    here.storage.create("one", [b"x"])
    here.proxy.plan(Rule(fault=Answer(status=status), method="PUT", target=target))
    with pytest.raises(ChunkUnavailableError) as caught:
        call(here.storage)
    assert here.proxy.is_used_up
    assert caught.value.outcome is Outcome.UNKNOWN
    assert here.raw.read("new") is None


@pytest.mark.parametrize("left_out", ["Name", "Content-Length", "Etag", "Last-Modified"])
def test_a_listing_that_leaves_something_out_is_no_answer(
    counted: NewCounted, left_out: str
) -> None:
    facts = "<Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>x</Etag>"
    properties = f"<Properties>{facts}<Content-Length>1</Content-Length></Properties>"
    blob = f"<Blob><Name>a</Name>{properties}</Blob>".replace(f"{left_out}>", "Other>")
    page = f"<EnumerationResults><Blobs>{blob}</Blobs><NextMarker/></EnumerationResults>"
    here = counted()
    answer = Answer(status=200, headers={"Content-Type": "application/xml"}, body=page.encode())
    here.proxy.plan(Rule(fault=answer, method="GET", target="comp=list"))
    with pytest.raises(ChunkUnavailableError, match="no whole answer"):
        list(here.storage.list())


def test_a_failure_without_a_code_is_an_error_and_nothing_else(
    counted: NewCounted, caplog: pytest.LogCaptureFixture
) -> None:
    here = counted()
    here.proxy.plan(Rule(fault=Answer(status=502)))
    with pytest.raises(ChunkUnavailableError, match="status=502"):
        list(here.storage.list())
    assert here.proxy.is_used_up
    assert caplog.messages == []
