"""One rule that is left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule that is left out.

    Attributes:
        name: the rule.
        file: where it is, below ``siltstone``.
        old: its text, which is there once.
        new: what stands there instead.
        story: where it is seen: "long", or "short" if owners have to live for seconds, or "kafka"
            if logs have to be in a model of Kafka, or "collections", or "keyspaces".
    """

    name: str
    file: str
    old: str
    new: str
    story: Literal["long", "short", "kafka", "collections", "keyspaces"] = "long"
