"""What people are told of a verb that leaves collections out; also where they asked for quiet."""

from __future__ import annotations

from siltstone.cli.output import say


def tell_left_by_backup() -> None:
    """Say that a store was made of a backup that lacks collections of its store."""
    say(
        "siltstone: warning: the backup lacks collections of its store, so the new store has none "
        "of these; copy them from that store with collection copy, or restore a generation that "
        "has them",
        err=True,
    )


def tell_left_out(verb: str) -> None:
    """Say on standard error that collections of the store are not part of what was made."""
    say(
        f"siltstone: warning: the collections of the store are not part of the {verb}; copy them "
        "with collection copy",
        err=True,
    )
