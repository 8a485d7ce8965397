"""How verbs that change collections open them: at its end, each leaves nothing due to others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click

from siltstone.cli.session import Session, check_collections_installed

if TYPE_CHECKING:
    from siltstone.collections.blocking import Collections

_READ: Final = "this command reads them, such as by collection stat and collection read"


@contextmanager
def changing(session: Session, *, dry_run: bool = False) -> Iterator[Collections]:
    """Open the collections, and settle what the body made due; with ``dry_run`` only open them.

    Raises:
        click.UsageError: no command can change the collections of this store; a dry run says it
            like the verb itself.
    """
    check_not_owned(session, dry_run=dry_run)
    with session.open_collections(reads=dry_run) as collections:
        yield collections
        if not dry_run:
            collections.settle()


def check_not_owned(session: Session, *, dry_run: bool = False, instead: str = _READ) -> None:
    """Refuse a store whose collections are in a table: only its owner changes them.

    Args:
        session: says which store.
        dry_run: whether the verb changes nothing, so that a URL needs no settings here.
        instead: what the command can do.

    Raises:
        click.UsageError: they are in a table.
        click.ClickException: the package of collections is not installed.
    """
    check_collections_installed()
    from siltstone.collections.blocking.read_collections import are_in_table

    path, recover = session.for_reading() if dry_run else (session.store_path(), None)
    if are_in_table(path, recover):
        raise click.UsageError(
            "collections of this store are in a table of its owner (collections.consensus is "
            f"table), so only the program that owns the store changes them; {instead}"
        )
