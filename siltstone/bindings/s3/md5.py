"""Checksums for services that know none but MD5."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from siltstone.core.constants import Buffer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from types_boto3_s3 import S3Client


def md5_of(buffers: Iterable[Buffer]) -> str:
    """The value of the header ``Content-MD5``."""
    digest = hashlib.md5(usedforsecurity=False)
    for buffer in buffers:
        digest.update(buffer)
    return base64.b64encode(digest.digest()).decode()


def require_md5(client: S3Client) -> None:
    """Let bulk deletions, which must have a checksum, have this one and no newer one."""
    client.meta.events.register("before-call.s3.DeleteObjects", _add)


def _add(params: dict[str, Any], **_: Any) -> None:
    params["headers"]["Content-MD5"] = md5_of([params["body"]])
    params["context"].get("checksum", {}).pop("request_algorithm", None)
    params["context"].get("checksum", {}).pop("request_algorithm_header", None)
