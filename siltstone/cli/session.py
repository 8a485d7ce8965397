"""What every verb shares: which store is meant, how it is opened, and common options."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from siltstone.store.settings_file import FILE_NAME

if TYPE_CHECKING:
    from siltstone.store.store import Store

STORE_VARIABLE: Final = "SILTSTONE_STORE"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The options that stand before the verb.

    Attributes:
        store: what ``--store`` says; ``None`` when it is not given.
        quiet: no progress bars and no notes.
        verbose: tracebacks with errors.
    """

    store: str | None
    quiet: bool
    verbose: bool

    def store_path(self) -> Path:
        """Return the store that is meant: ``--store``, else $SILTSTONE_STORE, else this folder."""
        return Path(self.store or os.environ.get(STORE_VARIABLE) or FILE_NAME)

    def open_reader(self) -> Store:
        """Open the store beside a running owner."""
        return _open(self.store_path(), read_only=True)

    def open_owner(self, *, takeover: bool) -> Store:
        """Claim the store."""
        return _open(self.store_path(), takeover=takeover)

    def note(self, text: str) -> None:
        """Say something to a person who did not ask for quiet."""
        if not self.quiet:
            click.echo(text, err=True)


def _open(path: Path, *, read_only: bool = False, takeover: bool = False) -> Store:
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.store import open_store

    return open_store(path, read_only=read_only, takeover=takeover)


pass_session = click.make_pass_decorator(Session)

json_option: Callable[[F], F] = click.option(
    "--json", "as_json", is_flag=True, help="Write JSON, one value a line."
)
takeover_option: Callable[[F], F] = click.option(
    "--takeover", is_flag=True, help="Claim the store although a live owner is known; it is fenced."
)
