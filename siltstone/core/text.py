"""Text for people and programs: counts of things, and the one form of every uuid."""

from __future__ import annotations


def counted(count: int, thing: str) -> str:
    """Return a count and what it counts: ``1 chunk``, ``2,000 chunks``. Plurals end in an s."""
    return f"{count:,} {thing if count == 1 else thing + 's'}"


def uuid_text(raw: bytes) -> str:
    """Write sixteen bytes as a uuid, in lower case and with dashes."""
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
