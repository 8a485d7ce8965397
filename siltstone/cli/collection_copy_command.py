"""The verb ``collection copy``: collections of one store in another one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.interrupts import goes_on
from siltstone.cli.moving_options import on_options, open_executor
from siltstone.cli.path_text import PathText
from siltstone.cli.pipeline_options import finish, told_counts
from siltstone.cli.session import (
    Session,
    check_collections_installed,
    json_option,
    pass_session,
)

if TYPE_CHECKING:
    from collections import Counter

    from siltstone.migration.relocate.collection_copy import CollectionCopies
    from siltstone.pipelines.work import Executor

STORE = PathText(exists=True, path_type=Path)


@click.command("copy")
@click.argument("source", type=STORE)
@click.argument("target", type=STORE)
@click.argument("collections", nargs=-1)
@click.option("--prefix", default="", help="Copy all collections whose names begin so.")
@click.option(
    "--no-bookmarks",
    is_flag=True,
    help="Leave bookmarks out, which hold history in the copy until they are moved or removed.",
)
@on_options
@json_option
@pass_session
@goes_on()
def copy_collection(
    session: Session,
    /,
    source: Path,
    target: Path,
    collections: tuple[str, ...],
    prefix: str,
    *,
    no_bookmarks: bool,
    rate: int | None,
    as_json: bool,
    **choice: Any,
) -> None:
    """Copy COLLECTIONS of the store SOURCE, or all, with their history, into the store TARGET.

    Each store is a settings file or its folder, of any binding, and both may be in use; but TARGET
    not where its collections are in a table. A copy has another id; what is there stays.
    """
    if collections and prefix:
        raise click.UsageError("name collections, or give --prefix, not both")
    check_collections_installed()
    from siltstone.migration.relocate.collection_copy import CollectionCopies
    from siltstone.pipelines.scrub import DAMAGE
    from siltstone.pipelines.work import FAILED

    chosen = CollectionCopies(
        names=collections, prefix=prefix, bookmarks=not no_bookmarks, rate=rate
    )
    with open_executor(**choice) as executor:
        counts = copied(session, source, target, executor, chosen, as_json=as_json)
    finish(session, "copy", counts, frozenset(DAMAGE), FAILED, conflict="conflict")


def copied(
    session: Session,
    source: Path,
    target: Path,
    executor: Executor,
    chosen: CollectionCopies,
    *,
    made: list[str] | None = None,
    as_json: bool,
) -> Counter[str]:
    """Copy collections, write what became of each, and return how many had which status.

    The names of those that the target has now are added to ``made``, if given.
    """
    from siltstone.migration.relocate.collection_copy import copy_collections, lacking_bytes
    from siltstone.pipelines.work import OK, SAME

    total = lacking_bytes(source, chosen)
    outcomes = copy_collections(source, target, executor, chosen, made=made)
    quiet = frozenset((OK, SAME))
    return told_counts(session, "copy", outcomes, total, as_json=as_json, quiet=quiet)
