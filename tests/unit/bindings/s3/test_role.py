"""A role is assumed with the given credentials, and again before it expires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from moto import mock_aws

from services.s3_server import KEY_ID
from siltstone.bindings.s3.chunk_storage import S3ChunkStorage, open_bucket
from siltstone.bindings.s3.settings import S3Settings
from siltstone.core.errors import ChunkAccessDeniedError, Outcome
from tests.support.services.s3_services import MotoService

ROLE = "arn:aws:iam::123456789012:role/archive"


def credentials_of(storage: S3ChunkStorage) -> Any:
    client: Any = storage.service.client
    return client._request_signer._credentials


@pytest.mark.slow
@mock_aws()
def test_a_role_is_assumed_and_assumed_again() -> None:
    service = MotoService(
        more={"role_arn": ROLE, "role_session_name": "archive", "role_external_id": "canary"}
    )
    storage = open_bucket(service.settings)
    storage.create("a", [b"x"])
    credentials = credentials_of(storage)
    assert credentials.method == "assume-role"
    first = credentials.get_frozen_credentials()
    assert first.token
    assert first.access_key != KEY_ID
    assert credentials.get_frozen_credentials() == first
    credentials._refresh_using.__self__._cache.clear()
    credentials._expiry_time = datetime.now(UTC) + timedelta(seconds=30)
    storage.create("b", [b"x"])
    assert credentials.get_frozen_credentials() != first
    assert "canary" not in repr(storage) + repr(service.settings)
    storage.close()


def test_a_role_that_is_refused_is_no_unknown_outcome() -> None:
    settings = S3Settings.model_validate(
        {
            "bucket": "bucket", "region": "us-east-1", "access_key_id": "a",
            "secret_access_key": "canary", "role_arn": ROLE, "insecure": True,
            "sts_endpoint": "http://127.0.0.1:1", "connect_timeout_s": 1,
            "unsafe_without_conditional_create": True,
        }
    )  # fmt: skip
    storage = S3ChunkStorage(settings)
    with pytest.raises(Exception, match="could not be reached") as caught:
        storage.create("a", [b"x"])
    assert getattr(caught.value, "outcome", None) is Outcome.NOT_APPLIED
    storage.close()


def test_no_credentials_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    settings = {"bucket": "bucket", "region": "us-east-1"}
    with pytest.raises(ChunkAccessDeniedError, match="no credentials"):
        open_bucket(S3Settings.model_validate(settings))
