"""Names of what belongs to keyspaces: verbs that delete refuse it, as objects would be lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import click

from siltstone.objects.space_names import PREFIX

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

_OF_KEYSPACE: Final = re.compile(re.escape(PREFIX) + r"\{([^{}/]+)\}/.+")


def check_no_keyspace(names: Iterable[str]) -> None:
    """Refuse names of segments and tables that belong to keyspaces, unless ``--force`` was given.

    Raises:
        click.UsageError: one does; it names both.
    """
    forced = click.get_current_context().meta.get(_FORCED, False)
    for name in names:
        found = None if forced else _OF_KEYSPACE.fullmatch(name)
        if found is not None:
            raise click.UsageError(
                f"{name} belongs to the keyspace {found[1]}, whose objects would be lost; "
                "--force does it all the same"
            )
