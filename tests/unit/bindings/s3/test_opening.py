"""What is noticed before any work relies on the service."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from siltstone.bindings.s3.chunk_storage import S3ChunkStorage, open_bucket
from siltstone.core.errors import (
    CapabilityError,
    ChunkAccessDeniedError,
    ChunkExistsError,
    ChunkNotFoundError,
    ChunkUnavailableError,
    SettingsError,
)
from siltstone.core.storage.optional_verbs import create_whole
from tests.support.stubs.s3_stub import Reply, Stub, broken, refusal


def test_opening_is_one_request_and_writes_nothing(stub: Stub) -> None:
    open_bucket(stub.settings(prefix="a/b")).close()
    assert stub.whats() == ["GET?list-type"]
    assert stub.asked[0].query["prefix"] == "a/b/"
    assert stub.asked[0].query["max-keys"] == "1"


REDIRECT = refusal(301, "PermanentRedirect", x_amz_bucket_region="eu-west-9")


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (refusal(404, "NoSuchBucket"), SettingsError, "there is no bucket 'bucket'"),
        (refusal(400, "InvalidBucketName"), SettingsError, "s3.bucket: 'bucket' is no name"),
        (REDIRECT, SettingsError, "in region 'eu-west-9', not 'us-east-1'"),
        (refusal(400, "AuthorizationHeaderMalformed"), SettingsError, "another region"),
        (refusal(403, "AccessDenied"), ChunkAccessDeniedError, "AccessDenied"),
        (refusal(403, "InvalidAccessKeyId"), ChunkAccessDeniedError, "credentials"),
        (refusal(403, "RequestTimeTooSkewed"), ChunkAccessDeniedError, "clock"),
        (refusal(503, "SlowDown"), ChunkUnavailableError, "fewer"),
        (broken, ChunkUnavailableError, "no whole answer"),
        (Reply(200, b"<html>hello</html>"), ChunkUnavailableError, "no answer of the service"),
    ],
)
def test_what_is_wrong_with_the_bucket_is_said(
    stub: Stub, answer: Any, kind: type[Exception], said: str
) -> None:
    stub.fail("GET?list-type", answer)
    with pytest.raises(kind, match=said):
        open_bucket(stub.settings())
    assert len(stub.asked) == 1, "nothing is sent again, also not to another region"


def test_a_name_that_the_sdk_does_not_take(stub: Stub) -> None:
    with pytest.raises(SettingsError, match=r"s3\.bucket: 'some/thing' is no name of a bucket"):
        open_bucket(stub.settings(bucket="some/thing"))
    assert not stub.asked


def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    stub = Stub()
    stub.endpoint = "http://127.0.0.1:1"
    settings = stub.settings(access_key_id=None, secret_access_key=None, profile="none-such")
    with pytest.raises(SettingsError, match="none-such"):
        open_bucket(settings)


def test_a_service_without_conditional_creates_is_refused(stub: Stub) -> None:
    stub.conditional = False
    storage = S3ChunkStorage(stub.settings())
    for _ in range(2):
        with pytest.raises(CapabilityError, match="unsafe_without_conditional_create"):
            storage.create("a", [b"x"])
    with pytest.raises(CapabilityError):
        storage.concat("t", [("a", 1)])
    assert stub.objects == {}
    storage.close()


def test_a_service_without_encryption_is_not_taken_for_one_without_conditions(stub: Stub) -> None:
    stub.fail("PUT", *[refusal(501, "NotImplemented")] * 2)
    storage = open_bucket(stub.settings(encryption="s3"))
    with pytest.raises(CapabilityError, match=r"does not know s3\.encryption"):
        storage.create("chunk", [b"content"])
    assert not stub.objects
    storage.close()


def test_a_service_that_does_not_know_the_condition_is_refused(stub: Stub) -> None:
    stub.fail("PUT", refusal(501, "NotImplemented"))
    storage = S3ChunkStorage(stub.settings())
    with pytest.raises(CapabilityError, match="If-None-Match"):
        storage.create("a", [b"x"])
    storage.close()


def test_a_proof_that_fails_is_tried_again(stub: Stub) -> None:
    stub.fail("PUT", broken, refusal(503, "SlowDown"))
    storage = S3ChunkStorage(stub.settings())
    for _ in range(2):
        with pytest.raises(ChunkUnavailableError):
            storage.create("a", [b"x"])
    storage.create("a", [b"x"])
    assert stub.objects == {"a": b"x"}
    storage.close()


def test_the_risk_can_be_taken(stub: Stub) -> None:
    stub.conditional = False
    storage = S3ChunkStorage(stub.settings(unsafe_without_conditional_create=True))
    storage.create("a", [b"x"])
    assert stub.whats() == ["HEAD", "PUT"]
    assert "if-none-match" not in stub.asked[-1].headers
    with pytest.raises(ChunkExistsError):
        storage.create("a", [b"y"])
    with pytest.raises(ChunkExistsError):
        storage.concat("a", [("a", 1)])
    with pytest.raises(ChunkNotFoundError):
        storage.concat("b", [("c", 1)])
    assert not storage.capabilities.whole
    for call in (storage.create_whole, partial(create_whole, storage)):
        with pytest.raises(CapabilityError):
            call("d", [b"x"])
    assert stub.objects == {"a": b"x"}
    storage.close()


def test_readers_need_no_right_to_write(stub: Stub) -> None:
    stub.objects["a"] = b"abc"
    stub.fail("PUT", *[refusal(403, "AccessDenied")] * 5)
    storage = open_bucket(stub.settings())
    assert storage.stat("a").length == 3
    assert [found.name for found in storage.list()] == ["a"]
    assert storage.read_into("a", 0, bytearray(3)) == 3
    assert "PUT" not in stub.whats()
    storage.close()


def test_foreign_objects_are_neither_seen_nor_touched(stub: Stub) -> None:
    foreign = {"a/b/": b"", "a/b//x": b"1", "other/y": b"2", "a/bc": b"3", "a/b/../z": b"4"}
    stub.objects = dict(foreign)
    storage = S3ChunkStorage(stub.settings(prefix="a/b"))
    storage.create("y", [b"mine"])
    assert [found.name for found in storage.list()] == ["y"]
    assert storage.used_space() == 4
    assert storage.delete_many(["y", "gone"]) == {}
    assert stub.objects == foreign
    storage.close()


def test_how_objects_are_kept_is_said_with_each(stub: Stub) -> None:
    storage = S3ChunkStorage(
        stub.settings(encryption="kms", kms_key_id="k1", storage_class="STANDARD_IA",
                      put_bytes_max=3)
    )  # fmt: skip
    storage.create("a", [b"x"])
    storage.create("b", [b"long"])
    made = [r for r in stub.asked if r.what == "POST?uploads" or (r.what == "PUT" and r.key == "a")]
    assert len(made) == 2
    for request in made:
        assert request.headers["x-amz-server-side-encryption"] == "aws:kms"
        assert request.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "k1"
        assert request.headers["x-amz-storage-class"] == "STANDARD_IA"
    storage.close()


@pytest.mark.parametrize("kind", ["md5", "none"])
def test_other_checksums(stub: Stub, kind: str) -> None:
    storage = S3ChunkStorage(stub.settings(checksums=kind, put_bytes_max=3))
    storage.create("a", [b"abc"])
    storage.create("b", [b"long"])
    storage.delete_many(["a"])
    for request in stub.asked:
        assert not [name for name in request.headers if name.startswith("x-amz-checksum")]
        if request.what == "PUT" and request.key == "a":
            assert ("content-md5" in request.headers) == (kind == "md5")
        if request.what == "POST?delete":
            assert request.headers["content-md5"]
    assert stub.objects == {"b": b"long"}
    storage.close()
