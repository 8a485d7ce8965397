"""What every verb shares: which store is meant, how it is opened, and common options."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from siltstone.cli.output import say

if TYPE_CHECKING:
    from siltstone.collections.blocking import Collections
    from siltstone.store.opening import Recover
    from siltstone.store.store import Store

_log = logging.getLogger(__name__)

STORE_VARIABLE: Final = "SILTSTONE_STORE"

COMPLETE_VARIABLE: Final = "_SILTSTONE_COMPLETE"
"""What a shell asks with, such as ``bash_complete``."""

F = TypeVar("F", bound=Callable[..., Any])


def check_collections_installed() -> None:
    """Raise ``click.ClickException``, which says what to install, if collections cannot be used."""
    try:
        from siltstone.collections import rows
    except ImportError as error:
        raise click.ClickException(str(error)) from error
    del rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What the options say that every verb knows.

    Attributes:
        store: what ``--store`` says; ``None`` when it is not given.
        quiet: no progress bars and no notes.
        verbosity: how often ``--verbose`` stands there: tracebacks and the log, then more of it.
        as_json: write JSON.
        recover: what ``--recover`` after a verb that reads says; ``None`` when it is not given.
    """

    store: str | None = None
    quiet: bool = False
    verbosity: int = 0
    as_json: bool = False
    recover: Recover | None = None

    def store_path(self) -> Path:
        """Return the store that is meant: ``--store``, else $SILTSTONE_STORE, else this folder."""
        from siltstone.store.settings.file import FILE_NAME
        from siltstone.store.settings.store_url import is_url

        named = self.store or os.environ.get(STORE_VARIABLE)
        if named and is_url(named):
            from siltstone.cli.url_settings import home_settings

            return home_settings(named)
        if not named and not Path(FILE_NAME).exists():
            from siltstone.core.errors import StoreNotFoundError

            raise StoreNotFoundError(
                f"which store? give --store or ${STORE_VARIABLE}; there is no ./{FILE_NAME}"
            )
        return Path(named or FILE_NAME)

    def for_reading(self) -> tuple[Path, Recover | None]:
        """Return the store for a verb that reads, and how it is opened.

        Of one that is named by a URL and has no settings on this machine, long-term storage alone
        is read.
        """
        from siltstone.store.settings.store_url import is_url

        named = self.store or os.environ.get(STORE_VARIABLE)
        if named and is_url(named):
            from siltstone.cli.url_settings import borrowed_settings

            if path := borrowed_settings(named, quiet=self.quiet):
                return path, "read-only"
        return self.store_path(), self.recover

    def open_reader(self, containers: Sequence[int] | None = None) -> Store:
        """Open the store next to a running owner, or without its tier 1; then say what is missing.

        Args:
            containers: indexes of those to open; ``None`` means all.
        """
        path, recover = self.for_reading()
        store = _open(path, read_only=True, recover=recover, containers=containers)
        if recover is not None:
            for stats in store.stats():
                for warning in stats.warnings:
                    self.note(f"siltstone: container {stats.container}: {warning}")
        return store

    def open_owner(self, *, takeover: bool) -> Store:
        """Claim the store."""
        return _open(self.store_path(), takeover=takeover)

    def open_changing(self, *, takeover: bool, dry_run: bool) -> Store:
        """Claim the store; or open it next to its owner, to show what would be done."""
        if not dry_run:
            return self.open_owner(takeover=takeover)
        if takeover:
            raise click.UsageError("--takeover and --dry-run exclude each other")
        return self.open_reader()

    def open_collections(self, *, reads: bool = False) -> AbstractContextManager[Collections]:
        """Open the collections of the store, which claims nothing.

        Args:
            reads: the verb changes nothing, so a store on a URL needs no settings here, and those
                in a table are read next to the owner of the store.

        Raises:
            click.ClickException: their package is not installed.
        """
        check_collections_installed()
        from siltstone.collections.blocking import open_collections
        from siltstone.collections.blocking.read_collections import collections_to_read

        if reads:
            path, recover = self.for_reading()
            _log.info("reads the collections of the store %s", path)
            return collections_to_read(path, recover)
        path = self.store_path()
        _log.info("opens the collections of the store %s", path)
        return open_collections(path)

    def note(self, text: str) -> None:
        """Say something to a person who did not ask for quiet."""
        if not self.quiet:
            say(text, err=True)


def _open(
    path: Path,
    *,
    read_only: bool = False,
    takeover: bool = False,
    recover: Recover | None = None,
    containers: Sequence[int] | None = None,
) -> Store:
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.store import open_store

    _log.info("opens the store %s", path)
    return open_store(
        path, read_only=read_only, takeover=takeover, recover=recover, containers=containers
    )


def _keep_recover(
    context: click.Context, parameter: click.Parameter, value: Recover | None
) -> None:
    session = context.find_object(Session)
    if value is not None and session is not None:
        context.obj = replace(session, recover=value)


def _or_before_the_verb(
    context: click.Context,
    parameter: click.Parameter,
    value: bool,
) -> bool:
    session = context.find_object(Session)
    return value or (session is not None and session.as_json)


pass_session = click.make_pass_decorator(Session)

json_option: Callable[[F], F] = click.option(
    "--json",
    "as_json",
    is_flag=True,
    callback=_or_before_the_verb,
    help="Write JSON, one value a line.",
)
takeover_option: Callable[[F], F] = click.option(
    "--takeover", is_flag=True, help="Claim the store although a live owner is known; it is fenced."
)
dry_run_option: Callable[[F], F] = click.option(
    "--dry-run", is_flag=True, help="Only show what would be done; claims and changes nothing."
)
recover_option: Callable[[F], F] = click.option(
    "--recover",
    type=click.Choice(["read-only"]),
    expose_value=False,
    callback=_keep_recover,
    help="Read what long-term storage alone holds; tier 1 may be gone.",
)
