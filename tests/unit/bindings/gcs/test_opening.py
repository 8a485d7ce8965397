"""What is noticed before any work relies on the service."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from siltstone.bindings.gcs.chunk_storage import GcsChunkStorage, open_bucket
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkUnavailableError,
    SettingsError,
)
from siltstone.core.storage.optional_verbs import create_whole
from tests.support.stubs.gcs_stub import Reply, Stub, broken, refusal


def test_opening_is_one_request_and_writes_nothing(stub: Stub) -> None:
    open_bucket(stub.settings(prefix="a/b")).close()
    assert stub.whats() == ["list"]
    assert stub.asked[0].query["prefix"] == "a/b/"
    assert stub.asked[0].query["maxResults"] == "1"


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (refusal(404, "notFound"), SettingsError, "there is no bucket 'bucket'"),
        (refusal(301, "", location="http://127.0.0.1:1/"), ChunkAccessDeniedError, "elsewhere"),
        (refusal(401, "authError"), ChunkAccessDeniedError, "credentials"),
        (refusal(403, "forbidden"), ChunkAccessDeniedError, "code=forbidden"),
        (refusal(403, "accountDisabled"), ChunkAccessDeniedError, "no billing account"),
        (refusal(429, "rateLimitExceeded"), ChunkUnavailableError, "fewer"),
        (refusal(503, "backendError"), ChunkUnavailableError, "fewer"),
        (broken, ChunkUnavailableError, "no whole answer"),
        (Reply(200, b"<html>hello</html>"), ChunkUnavailableError, "answer"),
        (Reply(200, b"{}"), ChunkUnavailableError, "no answer of the service"),
    ],
)
def test_what_is_wrong_with_the_bucket_is_said(
    stub: Stub, answer: Any, kind: type[Exception], said: str
) -> None:
    stub.fail("list", answer)
    with pytest.raises(kind, match=said):
        open_bucket(stub.settings())
    assert len(stub.asked) == 1, "nothing is sent again, also not elsewhere"


def test_a_bucket_that_is_not_there(stub: Stub) -> None:
    with pytest.raises(SettingsError, match="there is no bucket 'other'"):
        open_bucket(stub.settings(bucket="other"))
    storage = GcsChunkStorage(stub.settings(bucket="other", unsafe_without_preconditions=True))
    for call in (lambda: storage.create("a", [b"x"]), lambda: storage.stat("a")):
        with pytest.raises(ChunkUnavailableError, match="bucket does not exist"):
            call()
    storage.close()


def test_a_wrong_endpoint(stub: Stub) -> None:
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        open_bucket(stub.settings(endpoint="http://127.0.0.1:1"))


def test_no_credentials(stub: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none-such"))
    with pytest.raises(SettingsError, match="there are no credentials"):
        open_bucket(stub.settings(anonymous=False))
    key = tmp_path / "key.json"
    key.write_text('{"private_key": "canary"}', encoding="utf-8")
    with pytest.raises(SettingsError, match="no service account's key") as caught:
        open_bucket(stub.settings(credentials_file=key))
    assert "canary" not in str(caught.value)
    assert not stub.asked


def test_a_token_goes_with_each_request_and_is_never_shown(
    stub: Stub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password canary-netrc\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    # Variables for emulators do not lead elsewhere.
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    settings = stub.settings(token="canary-token")
    storage = open_bucket(settings)
    storage.create("a", [b"x"])
    storage.read_into("a", 0, bytearray(1))
    sent = {request.headers["authorization"] for request in stub.asked}
    assert sent == {"Bearer canary-token"}
    stub.fail("stat", refusal(401, "authError", "canary-token is wrong"))
    with pytest.raises(ChunkAccessDeniedError) as caught:
        storage.stat("a")
    assert stub.whats().count("stat") == 1
    for text in (str(caught.value), repr(storage), repr(settings), settings.model_dump_json()):
        assert "canary" not in text
    storage.close()


def test_a_proxy_of_the_environment_is_used_as_it_was_at_opening(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ChunkUnavailableError, match="could not be reached"):
        open_bucket(stub.settings())
    assert not stub.asked
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    storage = open_bucket(stub.settings())
    monkeypatch.delenv("NO_PROXY")
    assert storage.used_space() == 0
    storage.close()


@pytest.mark.parametrize("ignored", ["create", "compose", "source", "delete"])
def test_a_service_that_ignores_a_condition_is_refused(stub: Stub, ignored: str) -> None:
    stub.heeded -= {ignored}
    storage = GcsChunkStorage(stub.settings())
    for _ in range(2):
        with pytest.raises(CapabilityError, match="unsafe_without_preconditions"):
            storage.create("a", [b"x"])
    with pytest.raises(CapabilityError):
        storage.concat("t", [("a", 1)])
    assert stub.objects == {}
    storage.close()


def test_a_proof_that_fails_is_tried_again(stub: Stub) -> None:
    stub.fail("create", broken, refusal(503, "backendError"))
    storage = GcsChunkStorage(stub.settings())
    for _ in range(2):
        with pytest.raises(ChunkUnavailableError):
            storage.create("a", [b"x"])
    storage.create("a", [b"x"])
    assert stub.contents() == {"a": b"x"}
    storage.close()


def test_the_risk_can_be_taken(stub: Stub) -> None:
    stub.heeded.clear()
    storage = GcsChunkStorage(stub.settings(unsafe_without_preconditions=True))
    storage.create("a", [b"x"])
    assert stub.whats() == ["stat", "create"]
    with pytest.raises(ChunkExistsError):
        storage.create("a", [b"y"])
    with pytest.raises(ChunkExistsError):
        storage.concat("a", [("a", 1)])
    assert not storage.capabilities.whole
    for call in (storage.create_whole, partial(create_whole, storage)):
        with pytest.raises(CapabilityError):
            call("d", [b"x"])
    assert stub.contents() == {"a": b"x"}
    storage.close()


def test_readers_need_no_right_to_write(stub: Stub) -> None:
    stub.store("a", b"abc")
    stub.fail("create", *[refusal(403, "forbidden")] * 5)
    storage = open_bucket(stub.settings())
    assert storage.stat("a").length == 3
    assert [found.name for found in storage.list()] == ["a"]
    assert storage.read_into("a", 0, bytearray(3)) == 3
    assert "create" not in stub.whats()
    storage.close()


def test_foreign_objects_are_neither_seen_nor_touched(stub: Stub) -> None:
    foreign = {"a/b/": b"", "a/b//x": b"1", "other/y": b"2", "a/bc": b"3", "a/b/../z": b"4"}
    for key, content in foreign.items():
        stub.store(key, content, age_s=1e6)
    storage = GcsChunkStorage(stub.settings(prefix="a/b"))
    storage.create("y", [b"mine"])
    assert [found.name for found in storage.list()] == ["y"]
    assert storage.used_space() == 4
    storage.delete("y")
    assert storage.sweep_leftovers("", 0.0) == 0
    assert stub.contents() == foreign
    storage.close()


def test_how_objects_are_kept_is_said_with_each(stub: Stub) -> None:
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    storage = GcsChunkStorage(
        stub.settings(kms_key_name=key, storage_class="NEARLINE", put_bytes_max=3)
    )
    storage.create("a", [b"x"])
    storage.create("b", [b"long"])
    storage.concat("c", [("a", 1)])
    made = [r for r in stub.asked if r.what in ("create", "begin", "compose")]
    assert {request.what for request in made} == {"create", "begin", "compose"}
    for request in made:
        assert request.query["kmsKeyName"] == key, request.what
        assert b'"NEARLINE"' in request.body, request.what
    storage.close()
