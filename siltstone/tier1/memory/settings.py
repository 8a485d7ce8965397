"""What a person may set for the log ``memory``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class MemoryLogSettings(BaseModel):
    """Settings of the log ``memory``.

    Attributes:
        name: stores of one process that give the same name share their logs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(default="default", min_length=1)
