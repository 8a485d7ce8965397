"""One rule that is left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule that is left out.

    Attributes:
        name: the rule.
        file: where it is, below ``siltstone``.
        old: its text, which is there once.
        new: what stands there instead.
        kafka: whether it is seen only where logs are in a model of Kafka.
    """

    name: str
    file: str
    old: str
    new: str
    kafka: bool = False
