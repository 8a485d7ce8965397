"""What nearly every part of an owned container works with."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.container.commit.fence import Fence
from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.environment import Environment
from siltstone.core.storage.async_storage import AsyncChunkStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerContext:
    """What always travels together.

    Attributes:
        pipeline: commits what the parts change.
        storage: long-term storage.
        environment: gives time, chance and threads.
        settings: the knobs of the container.
        fence: precedes what destroys anything.
    """

    pipeline: Pipeline
    storage: AsyncChunkStorage
    environment: Environment
    settings: ContainerSettings
    fence: Fence
