"""The verb ``health``: how long-term storage does, told from here and by what tier 1 holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from siltstone.cli.collection_look import collection_warnings
from siltstone.cli.each_container import UnopenedContainer, each_container, worst_code
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.keyspace_look import KeyspaceLook
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import Session, json_option, pass_session
from siltstone.container.models.health import HealthReason
from siltstone.core.errors import ChunkUnavailableError

if TYPE_CHECKING:
    from siltstone.collections.state.state_warnings import CollectionWarning
    from siltstone.container.health.monitor import ContainerHealth
    from siltstone.store.store import Store


@click.command()
@json_option
@pass_session
def health(session: Session, *, as_json: bool) -> int:
    """Show how long-term storage does. Exits with 7 when it is degraded or full, with 8 when away.

    It asks storage from here, and sees in tier 1 what a running owner could not flush yet. Of a
    container that cannot be opened it shows why, and exits as that error does. Warnings of
    collections and keyspaces change no exit code.
    """
    keyspaces = KeyspaceLook()

    def look(store: Store) -> Sequence[ContainerHealth]:
        found = store.health()
        keyspaces.look(store)
        return found

    try:
        found = each_container(session, look)
    except ChunkUnavailableError as error:
        # It cannot even be opened for reading.
        if as_json:
            print_json({"state": "unavailable", "containers": [], "error": str(error)})
        else:
            click.echo("long-term storage is unavailable")
            session.note(f"siltstone: {error}")
        return ExitCode.UNAVAILABLE
    state = _worst(found)
    warnings = collection_warnings(session)
    if as_json:
        rows = [one.row() if isinstance(one, UnopenedContainer) else one for one in found]
        print_json(
            {
                "state": state,
                "containers": rows,
                "collections": _warning_rows(warnings),
                "keyspaces": keyspaces.rows(),
            }
        )
    else:
        _show(state, found)
        for row in _warning_rows(warnings):
            whose = (
                "collections" if row["collection"] is None else f"collection {row['collection']}"
            )
            say(f"{whose}: {row['message']}")
        for row in keyspaces.rows():
            whose = "keyspaces" if row["keyspace"] is None else f"keyspace {row['keyspace']}"
            say(f"{whose}: {row['message']}")
    return worst_code(found, _code(state, found))


def _warning_rows(
    warnings: Sequence[CollectionWarning] | str | None,
) -> list[dict[str, str | None]]:
    """Warnings for JSON; where they are not known, one of no collection says why."""
    if isinstance(warnings, str):
        return [{"collection": None, "kind": "unknown", "message": warnings}]
    return [
        {"collection": one.collection, "kind": one.kind.value, "message": one.message}
        for one in warnings or ()
    ]


def _code(state: str, found: Sequence[ContainerHealth | UnopenedContainer]) -> ExitCode:
    if state == "unavailable":
        return ExitCode.UNAVAILABLE
    short = any(one.safe_mode for one in found if not isinstance(one, UnopenedContainer))
    return ExitCode.DEGRADED if state == "degraded" or short else ExitCode.DONE


def _worst(found: Sequence[ContainerHealth | UnopenedContainer]) -> str:
    """The worst state that was seen; ``unknown`` when no container could be opened."""
    order = ("ok", "slow", "degraded", "unavailable")
    states = (one.state.value for one in found if not isinstance(one, UnopenedContainer))
    return max(states, key=order.index, default="unknown")


def _show(state: str, found: Sequence[ContainerHealth | UnopenedContainer]) -> None:
    say(f"long-term storage is {state}")
    print_table(
        ("CONTAINER", "STATE", "CALLS", "UNANSWERED", "SLOW", "LATENCY (ms)", "UNFLUSHED (s)"),
        (_cells(one) for one in found),
    )
    for one in found:
        if isinstance(one, UnopenedContainer):
            say(f"container {one.container}: {one.failure}")
            continue
        for reason in (*one.reasons, *(["safe mode: too little room"] if one.safe_mode else [])):
            say(f"container {one.container}: {reason}{_how_far(one, reason)}")


def _how_far(one: ContainerHealth, reason: str) -> str:
    """By how much a clock differs, for the text after the reason."""
    if reason == HealthReason.CLOCK_JUMPED:
        return f" by_s={one.clock_jump_s:+.0f}"
    return f" by_s={one.clock_behind_s:.0f}" if reason == HealthReason.CLOCK_BEHIND else ""


def _cells(one: ContainerHealth | UnopenedContainer) -> tuple[object, ...]:
    if isinstance(one, UnopenedContainer):
        return (one.container, "failed", "-", "-", "-", "-", "-")
    return (
        one.container,
        one.state,
        one.calls,
        one.unanswered,
        one.slow_calls,
        round(one.latency_s * 1000),
        round(one.unflushed_age_s),
    )
