"""The binding ``needy``, whose package was not installed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from siltstone.core.hooks import hookimpl


@hookimpl
def siltstone_chunk_storage(name: str, settings: Mapping[str, Any]) -> object:
    return importlib.import_module("a_package_that_nobody_has")


@hookimpl
def siltstone_fenced_log(name: str, settings: Mapping[str, Any], container: int) -> object:
    return importlib.import_module("a_package_that_nobody_has")


@hookimpl
def siltstone_consensus(name: str, settings: Mapping[str, Any]) -> object:
    return importlib.import_module("a_package_that_nobody_has")
