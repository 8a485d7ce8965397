"""What answers of a service by HTTP mean for a chunk, where that is the same for all services."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple

from siltstone.core.errors import (
    ChunkError,
    ChunkThrottledError,
    ChunkUnavailableError,
    Outcome,
)
from siltstone.core.open_files import chunk_lack, is_lack, is_lack_now

NOT_APPLIED, UNKNOWN = Outcome.NOT_APPLIED, Outcome.UNKNOWN

DISAGREEMENTS: Final = ("CERTIFICATE", "HANDSHAKE", "WRONG_VERSION", "doesn't match")
"""What errors of TLS say that come before the first request; the last one of another host."""


def shown(code: str) -> str:
    """A code as it may be shown: a word, and nothing that a service might put there instead."""
    return code if code.replace("-", "").isalnum() and len(code) <= 64 else "unknown"


class Meaning(NamedTuple):
    """What one kind of answer means: the error, in words, and the outcome of a change."""

    kind: type[ChunkError]
    reason: str
    outcome: Outcome = NOT_APPLIED


def error_of(
    answer: Meaning,
    chunk: str,
    operation: str,
    headers: Mapping[str, str],
    *,
    changes: bool,
    **facts: Any,
) -> ChunkError:
    """Return the error of the contract for an answer.

    Args:
        answer: what it means.
        chunk: the name.
        operation: the verb.
        headers: of the answer, by their names in lower case.
        changes: whether the request may change what others see.
        facts: whatever else the error tells.
    """
    if answer.kind is ChunkThrottledError:
        facts["retry_after_s"] = retry_after(headers)
    return answer.kind(
        answer.reason,
        chunk=chunk,
        operation=operation,
        outcome=answer.outcome if changes else NOT_APPLIED,
        **facts,
    )


def no_answer(
    chunk: str, operation: str, *, changes: bool, unsent: bool, cause: BaseException, error: str
) -> ChunkUnavailableError:
    """Return the error of the contract for a call that came to no answer.

    Args:
        chunk: the name.
        operation: the verb.
        changes: whether the request may change what others see.
        unsent: whether nothing of it can have arrived.
        cause: what the SDK raised.
        error: the class of that.
    """
    outcome = UNKNOWN if changes and not unsent else NOT_APPLIED
    if is_lack_now(cause) if unsent else is_lack(cause):
        return chunk_lack(chunk=chunk, operation=operation, outcome=outcome, error=error)
    return ChunkUnavailableError(
        "the service could not be reached" if unsent else "no whole answer of the service",
        chunk=chunk,
        operation=operation,
        outcome=outcome,
        error=error,
    )


def whole(
    answer: Any, keys: Sequence[str], chunk: str, operation: str, *, changes: bool = False
) -> Any:
    """Return a success of the service, if it is one: a proxy on the way may answer in its place.

    An empty page that calls itself a success would otherwise be a chunk that was made, or a listing
    of nothing.
    """
    found = answer if hasattr(answer, "get") else {}
    missing = [key for key in keys if found.get(key) is None]
    if missing:
        raise ChunkUnavailableError(
            "this is no answer of the service",
            chunk=chunk,
            operation=operation,
            outcome=UNKNOWN if changes else NOT_APPLIED,
            missing=",".join(missing),
        )
    return answer


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait, if it says so and can be understood."""
    text = str(headers.get("retry-after", "")).strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        until, now = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, IndexError):
        return None
    return max(0.0, (until - now).total_seconds())
