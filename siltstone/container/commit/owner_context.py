"""What several parts of an owned container work with, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from siltstone.container.commit.fence import Fence
from siltstone.container.commit.pipeline import Pipeline
from siltstone.container.models.settings import ContainerSettings
from siltstone.core.environment import Environment
from siltstone.core.storage.async_storage import AsyncChunkStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerContext:
    """What parts of an owner need to commit, to reach storage, and to see a newer owner.

    Attributes:
        pipeline: commits what the parts change.
        storage: long-term storage.
        environment: gives time, randomness and threads.
        settings: those of the container.
        fence: precedes what destroys anything.
    """

    pipeline: Pipeline
    storage: AsyncChunkStorage
    environment: Environment
    settings: ContainerSettings
    fence: Fence
