"""Names of what belongs to keyspaces: verbs that delete refuse it, as objects would be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import click

from siltstone.core.constants import keyspace_of
from siltstone.core.errors import SegmentNameError

F = TypeVar("F", bound=Callable[..., object])
_FORCED: Final = f"{__name__}.force"


def _keep(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[_FORCED] = value


force_option: Callable[[F], F] = click.option(
    "--force",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="Take what belongs to a keyspace, too; its objects are lost.",
)


def is_forced() -> bool:
    """Whether ``--force`` was given to this verb."""
    return bool(click.get_current_context().meta.get(_FORCED, False))


def check_no_keyspace(names: Iterable[str]) -> None:
    """Refuse names of segments and tables that belong to keyspaces, unless ``--force`` was given.

    Raises:
        SegmentNameError: one does; it names both. Handles raise it, too; this is before anything
            is done, or shown by ``--dry-run``.
    """
    for name in names if not is_forced() else ():
        keyspace = keyspace_of(name)
        if keyspace is not None:
            raise SegmentNameError(
                "it belongs to a keyspace, whose objects would be lost; --force does it all the "
                "same",
                segment=name,
                keyspace=keyspace,
            )
