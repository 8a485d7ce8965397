"""The text of a new store's settings file: what must be said, and every default as a comment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, get_args

import yaml
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from siltstone.store.settings.model import LongTermStorage, Settings, Tier1
from siltstone.store.settings.units import format_size, format_time, parse_size, parse_time

CHUNKS_FOLDER: Final = "chunks"
LOG_FOLDER: Final = "tier1"
INDEX_FOLDER: Final = "index"

_HEAD: Final = """\
# Settings of a siltstone store. Every key is explained in docs/settings.md.
# What is commented out is the default. Sizes: 64MiB (KiB, MiB, GiB, TiB, or bytes). Times: 30s
# (ms, s, min, h, d). Relative paths start at the folder of this file. ${NAME} and ${NAME:-default}
# stand for environment variables.

# Which store this is: storage that holds another one is refused. Do not change it.
uuid: "%s"

"""

_MADE_FROM: Final = "# Made from "

CHUNKS_BESIDE: Final[Mapping[str, Any]] = {"path": f"./{CHUNKS_FOLDER}"}
"""Options of the binding ``nfs`` that keep the chunks in a folder next to the settings."""
LOG_BESIDE: Final[Mapping[str, Any]] = {"path": f"./{LOG_FOLDER}"}
"""Options of the log ``file`` that keep it there too."""


def settings_text(
    uuid: str,
    binding: str = "nfs",
    options: Mapping[str, Any] = CHUNKS_BESIDE,
    log: str = "file",
    log_options: Mapping[str, Any] = LOG_BESIDE,
    made_from: str | None = None,
) -> str:
    """Return the settings file of a new store, whose index is in a folder next to it.

    Args:
        uuid: of the store.
        binding: name of the binding that speaks to long-term storage.
        options: what stands under its name: plain values by key.
        log: name of the tier-1 log.
        log_options: what stands under its name.
        made_from: what the store was filled from; ``None`` if it began empty.
    """
    parts = [_HEAD % uuid]
    if made_from is not None:
        parts.append(f"{_MADE_FROM}{made_from}\n\n")
    parts.append("# Where the chunks settle, the bytes of all segments.\n")
    chosen = {"long_term_storage": {"binding": binding, binding: dict(options)}}
    parts.append(yaml.safe_dump(chosen, sort_keys=False, allow_unicode=True, width=1_000_000))
    parts.append(_keys(LongTermStorage, skip={"binding"}))
    parts.append("\n# The log that makes an append durable. On a fast local disk, never on NFS.\n")
    tier1 = {"tier1": {"log": log, log: dict(log_options)}}
    parts.append(yaml.safe_dump(tier1, sort_keys=False, allow_unicode=True, width=1_000_000))
    parts.append(_keys(Tier1, skip={"log"}))
    for name, info in Settings.model_fields.items():
        section = info.annotation
        if name == "uuid" or not isinstance(section, type) or info.is_required():
            continue
        if issubclass(section, BaseModel) and section.model_fields:
            parts.append(f"\n# {(section.__doc__ or '').splitlines()[0]}\n")
            parts.append(f"#{name}:\n{_keys(section)}")
    return "".join(parts)


def made_from_of(settings: Path) -> str | None:
    """What a settings file says its store was filled from; ``None`` if it says nothing."""
    with suppress(OSError, UnicodeDecodeError):
        for line in settings.read_text(encoding="utf-8").splitlines():
            if line.startswith(_MADE_FROM):
                return line.removeprefix(_MADE_FROM)
    return None


def default_text(info: FieldInfo) -> str:
    """Write a field's default as the file would have it; empty when there is none."""
    if info.is_required():
        return ""
    value = setting_value(info, info.default)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def setting_value(info: FieldInfo, value: Any) -> str | int | float | None:
    """Return a field's value as the file would have it: sizes and times with a unit."""
    if value is None or isinstance(value, bool):
        return value
    parser = _parser(info)
    if parser is parse_size:
        return format_size(value)
    if parser is parse_time:
        return format_time(value)
    return value if isinstance(value, int | float) else str(value)


def _parser(info: FieldInfo) -> object:
    """What reads a field's text; of one that may be unset, its type within says so."""
    inner = [
        note for kind in get_args(info.annotation) for note in getattr(kind, "__metadata__", ())
    ]
    for note in (*info.metadata, *inner):
        if isinstance(note, BeforeValidator):
            return note.func
    return None


def _keys(section: type[BaseModel], skip: set[str] | None = None) -> str:
    lines = []
    for key, info in section.model_fields.items():
        if key == "options" or key in (skip or ()):
            continue
        lines.append(f"#  {key}: {default_text(info)}".ljust(26) + f"  # {info.description}\n")
    return "".join(lines)
