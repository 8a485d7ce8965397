"""What a person may set for the binding ``memory``."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from siltstone.core.chunk_storage import UNLIMITED


class MemorySettings(BaseModel):
    """Settings of the binding ``memory``: the profile of the service that it plays.

    Attributes:
        name: stores of one process that give the same name share their chunks, and find them again
            after closing; without a name the chunks are private and die with the store.
        append: play a service that can append; else every chunk is written once.
        concat: play a service that makes a chunk of existing ones.
        seal: play a service that can refuse further writes.
        concat_part_bytes_min: smallest part of a concat but the last.
        concat_part_bytes_max: largest part of a concat.
        concat_parts_max: most parts of a concat.
        appends_max: most writes to one chunk, the create included.
        chunk_bytes_max: largest chunk.
        list_page_count: chunks that one look at the service lists.
        latency_s: how long every call takes.
        capacity_bytes: when this much is stored, the service is full.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = Field(default=None, min_length=1)
    append: bool = True
    concat: bool = True
    seal: bool = True
    concat_part_bytes_min: int = Field(default=1, ge=1)
    concat_part_bytes_max: int = Field(default=UNLIMITED, ge=1)
    concat_parts_max: int = Field(default=UNLIMITED, ge=1)
    appends_max: int = Field(default=UNLIMITED, ge=1)
    chunk_bytes_max: int = Field(default=UNLIMITED, ge=1)
    list_page_count: int = Field(default=1_000, ge=1)
    latency_s: float = Field(default=0.0, ge=0)
    capacity_bytes: int = Field(default=UNLIMITED, ge=0)

    @model_validator(mode="after")
    def _parts_are_possible(self) -> Self:
        if self.concat_part_bytes_min > self.concat_part_bytes_max:
            raise ValueError(
                f"concat_part_bytes_min is {self.concat_part_bytes_min} and must not be above "
                f"concat_part_bytes_max, {self.concat_part_bytes_max}"
            )
        return self
