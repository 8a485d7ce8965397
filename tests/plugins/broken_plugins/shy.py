"""The binding ``shy``, which does not answer to its own name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from siltstone.core.hooks import hookimpl


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> None:
    return None


@hookimpl
def siltstone_fenced_log(name: str, settings: Mapping[str, Any], container: int) -> None:
    return None


@hookimpl
def siltstone_consensus(name: str, settings: Mapping[str, Any]) -> None:
    return None
