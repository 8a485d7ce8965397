"""Azurite: which users have access, and the conditions on which everything rests."""

from __future__ import annotations

import base64

from services.azurite import Azurite
from tests.support.services.azure_services import new_container
from tests.support.services.raw_azure import RawAzure

MISSING = {"if-none-match": "*"}


def test_conditions_are_heeded(azurite: Azurite) -> None:
    _, raw = new_container(azurite)
    block, appended = {"x-ms-blob-type": "BlockBlob"}, {"x-ms-blob-type": "AppendBlob"}
    assert raw.request("PUT", "a", {}, b"first", block | MISSING)[0] == 201
    assert raw.request("PUT", "a", {}, b"other", block | MISSING)[0] == 409
    assert raw.read("a") == b"first"
    assert raw.request("PUT", "b", {}, b"", appended | MISSING)[0] == 201
    at_0 = {"x-ms-blob-condition-appendpos": "0"}
    assert raw.request("PUT", "b", {"comp": "appendblock"}, b"one", at_0)[0] == 201
    assert raw.request("PUT", "b", {"comp": "appendblock"}, b"two", at_0)[0] == 412
    assert raw.read("b") == b"one"


def test_another_key_is_refused(azurite: Azurite) -> None:
    container, _ = new_container(azurite)
    other = base64.b64encode(b"another").decode()
    raw = RawAzure(azurite.endpoint, container, azurite.key_id, other)
    assert raw.request("GET", "a")[0] == 403
