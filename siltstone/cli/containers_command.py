"""The verb ``containers``: who owns each, and what only its log has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from siltstone.cli.error_codes import exit_code
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json, print_table, say
from siltstone.cli.session import Session, json_option, pass_session
from siltstone.core.errors import ChunkUnavailableError, SiltstoneError

if TYPE_CHECKING:
    from siltstone.container.health.monitor import ContainerHealth
    from siltstone.container.models.log_views import LogHead
    from siltstone.container.models.segments import ContainerStats
    from siltstone.store.admin.inspection import Inspection


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What was seen of one container; what an error hid is ``None``."""

    container: int
    head: LogHead | None = None
    stats: ContainerStats | None = None
    health: ContainerHealth | None = None
    error: SiltstoneError | OSError | None = None

    @property
    def code(self) -> ExitCode:
        """The exit code that this container asks for."""
        if self.error is not None:
            return exit_code(self.error) or ExitCode.FAILED
        away = self.health is not None and self.health.state == "unavailable"
        return ExitCode.UNAVAILABLE if away else ExitCode.DONE

    def row(self) -> dict[str, object]:
        """What is shown of it."""
        head, stats, health = self.head, self.stats, self.health
        return {
            "container": self.container,
            "epoch": head and head.epoch,
            "alive": head and head.alive,
            "owner": head and head.owner,
            "unflushed_bytes": stats and stats.unflushed_bytes + stats.unflushed_table_bytes,
            "unflushed_age_s": health and round(health.unflushed_age_s, 3),
            "safe_index": stats and stats.safe_index,
            "log_end": stats and stats.log_end,
            "held_by": stats and stats.log_held_by,
            "state": health.state.value if health else "failed",
            "error": None if self.error is None else str(self.error),
            "doubts": list(head.doubts) if head else [],
        }


@click.command()
@json_option
@pass_session
def containers(session: Session, *, as_json: bool) -> int:
    """Show the owner of each container, what is unflushed, and what holds its log.

    It claims nothing. To see whether an owner on another machine lives may take some seconds.
    Exits with 8 when long-term storage is away. Of a container that cannot be opened it shows
    why, and exits as that error does, after the others.
    """
    # Imported here, so that help and completion do not wait for what only a store needs.
    from siltstone.store.admin.inspection import open_inspection

    try:
        with open_inspection(session.store_path()) as inspection:
            looks = _looks(session, inspection)
    except ChunkUnavailableError as error:
        say(f"siltstone: {error}", err=True)
        return ExitCode.UNAVAILABLE
    if as_json:
        for look in looks:
            print_json(look.row())
    else:
        _show(looks)
    return max(look.code for look in looks)


def _looks(session: Session, inspection: Inspection) -> list[_Look]:
    """Look at all containers at a time; if that fails, at each alone, to see which are well."""
    try:
        heads = inspection.log_heads()
        with session.open_reader() as store:
            found = zip(heads, store.stats(), store.health(), strict=True)
            return [_Look(container=h.container, head=h, stats=s, health=w) for h, s, w in found]
    except ChunkUnavailableError:
        raise
    except (SiltstoneError, OSError):
        return [_look(session, inspection, container) for container in inspection.containers]


def _look(session: Session, inspection: Inspection, container: int) -> _Look:
    head = None
    try:
        head = inspection.log_head(container)
        with session.open_reader([container]) as store:
            (stats,), (health,) = store.stats(), store.health()
    except ChunkUnavailableError:
        raise
    except (SiltstoneError, OSError) as error:
        return _Look(container=container, head=head, error=error)
    return _Look(container=container, head=head, stats=stats, health=health)


def _show(looks: list[_Look]) -> None:
    print_table(
        ("CONTAINER", "EPOCH", "ALIVE", "UNFLUSHED", "AGE (s)", "SAFE", "END", "HELD BY", "STATE"),
        (_cells(look) for look in looks),
    )
    for look in looks:
        if look.head:
            say(f"container {look.container}: {look.head.owner or 'no owner'}")
            for doubt in look.head.doubts:
                say(f"container {look.container}: {doubt}")


def _cells(look: _Look) -> tuple[object, ...]:
    row, health = look.row(), look.health
    cells = (
        row["container"],
        row["epoch"],
        look.head and ("yes" if look.head.alive else "no"),
        row["unflushed_bytes"],
        health and round(health.unflushed_age_s),
        row["safe_index"],
        row["log_end"],
        row["held_by"] or "-",
        row["state"] if look.error is None else f"{row['state']}: {look.error}",
    )
    return tuple("-" if cell is None else cell for cell in cells)
