"""The verb ``health``: how long-term storage does, told from here and by what tier 1 holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import Session, json_option, pass_session
from siltstone.core.errors import ChunkUnavailableError

if TYPE_CHECKING:
    from siltstone.container.health import ContainerHealth


@click.command()
@json_option
@pass_session
def health(session: Session, *, as_json: bool) -> int:
    """Show how long-term storage does. Exits with 7 when it is degraded or full, with 8 when away.

    It asks storage from here, and sees in tier 1 what a running owner could not flush yet.
    """
    try:
        with session.open_reader() as store:
            found = store.health()
    except ChunkUnavailableError as error:
        # It can not even be opened for reading.
        if as_json:
            print_json({"state": "unavailable", "containers": [], "error": str(error)})
        else:
            click.echo("long-term storage is unavailable")
            session.note(f"siltstone: {error}")
        return ExitCode.UNAVAILABLE
    state = _worst(found)
    if as_json:
        print_json({"state": state, "containers": list(found)})
    else:
        _show(state, found)
    if state == "unavailable":
        return ExitCode.UNAVAILABLE
    if state == "degraded" or any(one.safe_mode for one in found):
        return ExitCode.DEGRADED
    return ExitCode.DONE


def _worst(found: Sequence[ContainerHealth]) -> str:
    order = ("ok", "slow", "degraded", "unavailable")
    return max((one.state.value for one in found), key=order.index, default="ok")


def _show(state: str, found: Sequence[ContainerHealth]) -> None:
    say(f"long-term storage is {state}")
    print_table(
        ("CONTAINER", "STATE", "CALLS", "UNANSWERED", "SLOW", "LATENCY (ms)", "UNFLUSHED (s)"),
        (
            (
                one.container,
                one.state,
                one.calls,
                one.unanswered,
                one.slow_calls,
                round(one.latency_s * 1000),
                round(one.unflushed_age_s),
            )
            for one in found
        ),
    )
    for one in found:
        for reason in (*one.reasons, *(["safe mode: too little room"] if one.safe_mode else [])):
            say(f"container {one.container}: {reason}")
