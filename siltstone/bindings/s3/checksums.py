"""The checksums that go with what is sent, as the settings have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from siltstone.bindings.s3.md5 import md5_of
from siltstone.bindings.s3.settings import Checksums
from siltstone.core.checksums import crc32c_of, crc_text
from siltstone.core.constants import Buffer


def of_body(kind: Checksums, buffers: Sequence[Buffer]) -> tuple[dict[str, Any], int]:
    """Return the arguments that go with a body, and its CRC32C, or 0 where it is not used."""
    if kind is Checksums.CRC32C:
        crc = crc32c_of(buffers)
        return {"ChecksumCRC32C": crc_text(crc)}, crc
    if kind is Checksums.MD5:
        return {"ContentMD5": md5_of(buffers)}, 0
    return {}, 0


def of_upload(kind: Checksums) -> dict[str, Any]:
    """Return the arguments that begin an upload in parts: one checksum for the whole object."""
    if kind is Checksums.CRC32C:
        return {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
    return {}
