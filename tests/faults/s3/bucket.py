"""Buckets of the servers of tests, and settings for them."""

from __future__ import annotations

import os
from typing import Any

from services.s3_server import REGION, S3Server
from siltstone.bindings.s3.settings import S3Settings
from tests.contract.raw_s3 import RawS3


def new_bucket(server: S3Server) -> str:
    """Make a bucket that nobody used."""
    name = f"b-{os.urandom(6).hex()}"
    RawS3(server.endpoint, name, server.key_id, server.secret).make_bucket()
    return name


def options_of(server: S3Server, bucket: str, **more: Any) -> dict[str, Any]:
    """Settings of the binding, as they stand in a file."""
    options: dict[str, Any] = {
        "bucket": bucket,
        "endpoint": server.endpoint,
        "insecure": server.certificate is None,
        "path_style": True,
        "region": REGION,
        "access_key_id": server.key_id,
        "secret_access_key": server.secret,
    }
    return options | more


def settings_of(server: S3Server, bucket: str, **more: Any) -> S3Settings:
    """Settings of the binding, checked."""
    return S3Settings.model_validate(options_of(server, bucket, **more))
