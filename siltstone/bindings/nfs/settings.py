"""What a person may set for the binding ``nfs``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class NfsSettings(BaseModel):
    """Settings of the binding ``nfs``.

    Attributes:
        path: the folder that holds the chunks; ``~`` is the home folder. The first chunk makes it,
            that is ``siltstone init``; opening a store never does, so a wrong path is noticed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str = Field(min_length=1)
