"""The settings of the binding for a bucket of a server."""

from __future__ import annotations

from typing import Any

import pytest

from services.s3_server import S3Server
from tests.support.services.s3_services import options_of


def options(versitygw: S3Server, bucket: str, **more: Any) -> dict[str, Any]:
    chosen = {
        "prefix": "stores/one",
        "access_key_id": "${TEST_KEY_ID}",
        "secret_access_key": "${TEST_SECRET}",
    }
    return options_of(versitygw, bucket) | chosen | more


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch, s3_plugin: None, versitygw: S3Server) -> None:
    monkeypatch.setenv("TEST_KEY_ID", versitygw.key_id)
    monkeypatch.setenv("TEST_SECRET", versitygw.secret)
