"""The verb ``containers``: who owns each, and what only its log has."""

from __future__ import annotations

import click

from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import Session, json_option, pass_session


@click.command()
@json_option
@pass_session
def containers(session: Session, *, as_json: bool) -> None:
    """Show the owner of each container, what is unflushed, and what holds its log.

    It claims nothing. To see whether an owner on another machine lives may take some seconds.
    """
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.inspection import open_inspection

    with open_inspection(session.store_path()) as inspection:
        heads = inspection.log_heads()
    with session.open_reader() as store:
        states = list(zip(heads, store.stats(), store.health(), strict=True))
    rows = [
        {
            "container": head.container,
            "epoch": head.epoch,
            "alive": head.alive,
            "owner": head.owner,
            "unflushed_bytes": stats.unflushed_bytes + stats.unflushed_table_bytes,
            "unflushed_age_s": round(health.unflushed_age_s, 3),
            "safe_index": stats.safe_index,
            "log_end": stats.log_end,
            "held_by": stats.log_held_by,
            "state": health.state.value,
        }
        for head, stats, health in states
    ]
    if as_json:
        for row in rows:
            print_json(row)
        return
    print_table(
        ("CONTAINER", "EPOCH", "ALIVE", "UNFLUSHED", "AGE (s)", "SAFE", "END", "HELD BY", "STATE"),
        (
            (
                row["container"],
                row["epoch"],
                "yes" if row["alive"] else "no",
                row["unflushed_bytes"],
                round(float(str(row["unflushed_age_s"]))),
                row["safe_index"],
                row["log_end"],
                row["held_by"] or "-",
                row["state"],
            )
            for row in rows
        ),
    )
    for head, _, _ in states:
        say(f"container {head.container}: {head.owner or 'nobody'}")
