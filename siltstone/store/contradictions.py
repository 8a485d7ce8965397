"""Settings that are each possible and together are not, and folders that must not be one.

What one knob alone may be is checked where it is defined. Here is what two of them must agree on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from siltstone.container.settings import ContainerSettings
from siltstone.store.units import format_size, format_time

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """``low`` must not be above ``high``, or must be below it.

    Attributes:
        low, high: knobs of a container.
        below: equal is too much as well.
        if_written: only if the file says ``low``; its default gives way by itself.
        why: what would come of it.
    """

    low: str
    high: str
    below: bool = False
    if_written: bool = False
    why: str


_RULES: Final = (
    _Rule(
        low="flush_bytes",
        high="unflushed_bytes_max",
        why="appends would wait before a flush by size begins",
    ),
    _Rule(
        low="table_flush_bytes",
        high="unflushed_table_bytes_max",
        why="updates would wait before a flush by size begins",
    ),
    _Rule(
        low="optimiser_small_bytes",
        high="chunk_bytes",
        if_written=True,
        why="every chunk would be small",
    ),
    _Rule(
        low="relocation_chunk_bytes_min",
        high="relocation_chunk_bytes_max",
        why="no chunk would be in between",
    ),
    _Rule(
        low="relocation_live_bytes_max",
        high="relocation_chunk_bytes_max",
        if_written=True,
        why="no chunk that is looked at holds so much",
    ),
    _Rule(low="pack_bytes", high="chunk_bytes", why="what is packed has to fit in a chunk"),
    _Rule(low="late_s", high="late_s_max", below=True, why="a throttle needs room to grow"),
    _Rule(
        low="throttle_s_max",
        high="append_deadline_s",
        below=True,
        why="no append that is held back would come in time",
    ),
    _Rule(
        low="slow_call_s", high="storage_deadline_s", below=True, why="no call could ever be slow"
    ),
)


def contradiction(
    values: Mapping[str, object], written: frozenset[Key], keys: Mapping[str, Key]
) -> tuple[Key, str] | None:
    """Return the first pair of settings that contradict each other: the key and the reason.

    Args:
        values: the knobs of a container by their names.
        written: the keys that the file holds.
        keys: the key of each knob.
    """
    defaults = ContainerSettings()
    for rule in _RULES:
        low, high = values[rule.low], values[rule.high]
        if not isinstance(low, int | float) or not isinstance(high, int | float):
            continue  # none is set
        if low < high or (low == high and not rule.below):
            continue
        if rule.if_written and keys[rule.low] not in written:
            continue
        is_size = isinstance(getattr(defaults, rule.high), int)
        shown = [format_size(int(v)) if is_size else format_time(float(v)) for v in (low, high)]
        must = "be below" if rule.below else "not be above"
        other = ".".join(keys[rule.high])
        reason = f"is {shown[0]} and must {must} {other}, {shown[1]}: {rule.why}"
        return keys[rule.low], reason
    return None


def shared_folder(folders: Mapping[Key, Path | None]) -> tuple[Key, str] | None:
    """Return the first folder that is, or lies in, another one: its key and the reason.

    Args:
        folders: absolute folders of different parts of the store; ``None`` where there is none.
    """
    found = [(key, path.resolve()) for key, path in folders.items() if path is not None]
    for key, path in found:
        for other, above in found:
            if key != other and path.is_relative_to(above):
                where = "is" if path == above else "lies in"
                return key, f"{where} the folder of {'.'.join(other)}: each part needs its own"
    return None
