"""What a shell completes: names of segments, tables, collections, plugins and verbs, and paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from siltstone.cli.session import Session

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from siltstone.store.store import Store

NAMES_MAX: Final = 1_000
"""More are no help, and a store may have millions."""

Lookup = Callable[[click.Context, str], Iterable[str]]


class Named(click.types.StringParamType):
    """Text that a shell completes.

    Args:
        lookup: gives the names that begin with what was typed.
    """

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Return the first names that fit, but for those that stand there already."""
        from click.shell_completion import CompletionItem

        there = ctx.params.get(param.name or "")
        names = islice(self._lookup(ctx, incomplete), NAMES_MAX)
        given = there if isinstance(there, tuple) else ()
        return [CompletionItem(name) for name in names if name not in given]


class PathOrAddress(click.types.StringParamType):
    """A path, or an address of another kind, so that ``click.Path`` would refuse it.

    Args:
        kind: what a shell offers: ``dir`` or ``file``.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        """Leave it to the shell."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=self._kind)]


def _in_store(look: Callable[[Store, str], Iterable[str]]) -> Lookup:
    def lookup(context: click.Context, prefix: str) -> Iterator[str]:
        with _session(context).open_reader() as store:
            yield from look(store, prefix)

    return lookup


def _session(context: click.Context) -> Session:
    """What opens the store of the line, or the one that a copy reads."""
    source = context.params.get("source")
    if isinstance(source, Path):
        return Session(store=str(source))
    return context.find_object(Session) or Session()


def _segments(store: Store, prefix: str) -> Iterator[str]:
    return (info.name for info in store.list(prefix))


def _adoptions(store: Store, prefix: str) -> Iterator[str]:
    return (one.name for one in store.adoptions() if one.name.startswith(prefix))


def _keyspaces(store: Store, prefix: str) -> Iterator[str]:
    from siltstone.objects import names

    return (name for name in names(store) if name.startswith(prefix))


def _buckets(context: click.Context, prefix: str) -> Iterator[str]:
    """Those of the keyspace of the line."""
    from siltstone.objects import open as open_keyspace

    with _session(context).open_reader() as store:
        for bucket in open_keyspace(store, context.params["keyspace"]).buckets():
            if bucket.startswith(prefix):
                yield bucket


def _collections(context: click.Context, prefix: str) -> list[str]:
    session = _session(context)
    with session.open_collections(reads=True) as collections:
        return [name for name in collections.list() if name.startswith(prefix)]


def _kept(kind: str) -> Lookup:
    """Names that the collection of the line keeps."""

    def lookup(context: click.Context, prefix: str) -> list[str]:
        session = context.find_object(Session) or Session()
        with session.open_collections(reads=True) as collections:
            info = collections.collection(context.params["collection"]).info()
        return sorted(row.name for row in getattr(info, kind) if row.name.startswith(prefix))

    return lookup


def _plugins(group: str) -> Lookup:
    def lookup(context: click.Context, prefix: str) -> list[str]:
        from importlib.metadata import entry_points

        return sorted(name for name in entry_points(group=group).names if name.startswith(prefix))

    return lookup


def _verbs(context: click.Context, prefix: str) -> list[str]:
    command = context.find_root().command
    for verb in context.params.get("verbs") or ():
        found = command.get_command(context, verb) if isinstance(command, click.Group) else None
        if found is None:
            return []
        command = found
    names = command.list_commands(context) if isinstance(command, click.Group) else []
    return [name for name in names if name.startswith(prefix)]


SEGMENT: Final = Named(_in_store(_segments))
TABLE: Final = Named(_in_store(lambda store, prefix: store.list_tables(prefix)))
ADOPTION: Final = Named(_in_store(_adoptions))
COLLECTION: Final = Named(_collections)
KEYSPACE: Final = Named(_in_store(_keyspaces))
BUCKET: Final = Named(_buckets)
BOOKMARK: Final = Named(_kept("bookmarks"))
WRITER: Final = Named(_kept("writers"))
BINDING: Final = Named(_plugins("siltstone.bindings"))
LOG: Final = Named(_plugins("siltstone.tier1"))
VERB: Final = Named(_verbs)
FOLDER: Final = PathOrAddress("dir")
FILE: Final = PathOrAddress("file")

_EVERYWHERE: Final[dict[str, Named | PathOrAddress]] = {
    "segment": SEGMENT,
    "segments": SEGMENT,
    "binding": BINDING,
    "log": LOG,
    "adoption": ADOPTION,
    "collection": COLLECTION,
    "collections": COLLECTION,
    "keyspace": KEYSPACE,
    "keyspaces": KEYSPACE,
    "bucket": BUCKET,
    "folder": FOLDER,
    "prefix": SEGMENT,
    "sources": FILE,
}
"""Parameters that mean the same in every verb, by name."""

_NEW: Final = {
    ("collection create", "collection"),
    ("create", "segment"),
    ("import", "segment"),
    ("objects create", "keyspace"),
    ("rename", "new_name"),
}
"""Names of what is not there yet, by verb and parameter."""

_ONLY: Final[dict[tuple[str, str], Named | PathOrAddress]] = {
    ("adoption finalise", "name"): ADOPTION,
    ("adoption release", "name"): ADOPTION,
    ("collection bookmark rm", "name"): BOOKMARK,
    ("collection bookmark set", "name"): BOOKMARK,
    ("collection copy", "prefix"): COLLECTION,
    ("collection ls", "pattern"): COLLECTION,
    ("collection writer rm", "name"): WRITER,
    ("concat", "source"): SEGMENT,
    ("concat", "target"): SEGMENT,
    ("help", "verbs"): VERB,
    ("ls", "pattern"): SEGMENT,
    ("objects ls", "pattern"): KEYSPACE,
    ("retention remove", "name"): SEGMENT,
    ("retention set", "name"): SEGMENT,
    ("table clear", "name"): TABLE,
    ("table follow", "name"): TABLE,
    ("table get", "name"): TABLE,
    ("table ls", "pattern"): TABLE,
    ("table put", "name"): TABLE,
    ("table rm", "name"): TABLE,
    ("table scan", "name"): TABLE,
    ("table update", "name"): TABLE,
}
"""Parameters whose name says less, by verb and name."""


def complete_names(command: click.Command, verb: str) -> None:
    """Let every parameter of ``verb``, or below it, that takes such a name be completed."""
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            complete_names(below, f"{verb} {name}")
        return
    for parameter in command.params:
        known = named_type(verb, parameter.name or "")
        if known is not None and parameter.type is click.STRING:
            parameter.type = known


def named_type(verb: str, parameter: str) -> Named | PathOrAddress | None:
    """What a parameter of a verb is the name of; ``None`` for anything else."""
    if (verb, parameter) in _NEW:
        return None
    return _ONLY.get((verb, parameter)) or _EVERYWHERE.get(parameter)
