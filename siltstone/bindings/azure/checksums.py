"""The checksums that go with what is sent, as the settings have it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from siltstone.bindings.azure.settings import Checksums
from siltstone.core.constants import Buffer


def of_body(kind: Checksums, buffers: Sequence[Buffer]) -> dict[str, Any]:
    """Return the arguments that go with a body."""
    if kind is Checksums.NONE:
        return {}
    digest = hashlib.md5(usedforsecurity=False)
    for buffer in buffers:
        digest.update(buffer)
    # The SDK would read the body again, and copy it.
    return {"transactional_content_md5": bytearray(digest.digest())}
