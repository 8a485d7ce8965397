"""What is wrong with settings, in words: from what pydantic found, without the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from siltstone.core.near_names import meant


def in_order(errors: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put unknown keys first: one that is misspelt often is the reason why another is missing."""
    return sorted(errors, key=lambda error: error.get("type") != "extra_forbidden")


def reason_of(error: Mapping[str, Any], model: type[BaseModel] | None) -> str:
    """Return the reason of one error.

    Pydantic's whole text shows values, and these may be secrets; only its messages are used.

    Args:
        error: one of ``ValidationError.errors()``.
        model: what was validated, which knows the right keys; ``None`` if that is not known.
    """
    kind = error.get("type")
    if kind == "extra_forbidden":
        return f"unknown key{meant(str(error['loc'][-1]), _keys_beside(error['loc'], model))}"
    if kind == "missing":
        return "is missing"
    if kind in ("model_type", "dict_type"):
        return "must hold keys and values"
    if kind == "string_unicode":
        return "not valid UTF-8"
    text = str(error["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _keys_beside(place: Sequence[str | int], model: type[BaseModel] | None) -> list[str]:
    """The keys that are known where the last one of ``place`` stands."""
    for part in place[:-1]:
        field = None if model is None else model.model_fields.get(str(part))
        kind = None if field is None else field.annotation
        model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
    return [] if model is None else list(model.model_fields)
