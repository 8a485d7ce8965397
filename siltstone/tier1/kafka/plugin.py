"""The entry point of the log ``kafka``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from siltstone.core.fenced_log import FencedLog
from siltstone.core.hooks import checked_settings, hookimpl

NAME = "kafka"


@hookimpl
def siltstone_fenced_log(
    name: str, settings: Mapping[str, Any], container: int
) -> FencedLog | None:
    """Build the Kafka log of one container, if it is the one that is meant."""
    if name != NAME:
        return None
    from siltstone.tier1.kafka.fenced_log import KafkaFencedLog
    from siltstone.tier1.kafka.settings import KafkaLogSettings

    checked = checked_settings(NAME, settings, KafkaLogSettings)
    return KafkaFencedLog(checked, container)


@hookimpl
def siltstone_settings(name: str) -> type[BaseModel] | None:
    """Return what checks the settings, if it is this log that is meant."""
    if name != NAME:
        return None
    from siltstone.tier1.kafka.settings import KafkaLogSettings

    return KafkaLogSettings
