"""How verbs that change collections open them: at its end, each leaves nothing due to others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from siltstone.cli.session import Session

if TYPE_CHECKING:
    from siltstone.collections.blocking import Collections


@contextmanager
def changing(session: Session, *, dry_run: bool = False) -> Iterator[Collections]:
    """Open the collections, and settle what the body made due; with ``dry_run`` only open them."""
    with session.open_collections(reads=dry_run) as collections:
        yield collections
        if not dry_run:
            collections.settle()
