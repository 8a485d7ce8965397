"""A success with the right status that tells nothing is no answer of the service."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from siltstone.bindings.azure.chunk_storage import AzureChunkStorage
from siltstone.core.errors import ChunkUnavailableError, Outcome
from siltstone.testing.http_faults import Answer, Rule
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
