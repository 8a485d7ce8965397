"""The log of the program on standard error, for those who asked for it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from siltstone.cli.output import printable

LOG_VARIABLE: Final = "SILTSTONE_LOG"
_LEVELS: Final = {
    name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")
}
_OWN: Final = "siltstone"


class _Lines(logging.Formatter):
    """Control characters of names are escaped: a name begins no line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return printable(super().formatMessage(record))


class _Shown(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error; known again by its class."""


def log_levels(verbosity: int, wanted: str | None) -> dict[str, int]:
    """Return the level of each logger that is to be shown.

    Args:
        verbosity: how often ``-v`` stands in the command.
        wanted: what the variable says: a level, or ``LOGGER=LEVEL``, several with commas between;
            ``None`` if it is not set. It counts before ``-v``.

    Raises:
        click.UsageError: there is no such level.
    """
    levels = {}
    if verbosity:
        levels[_OWN] = logging.INFO if verbosity == 1 else logging.DEBUG
    for part in (wanted or "").split(","):
        name, sign, level = part.rpartition("=")
        if not part.strip():
            continue
        if level.strip().lower() not in _LEVELS or (sign and not name.strip()):
            known = ", ".join(_LEVELS)
            raise click.UsageError(
                f"${LOG_VARIABLE} is a level ({known}), or LOGGER=LEVEL with commas between, "
                f"not {wanted!r}"
            )
        levels[name.strip() or _OWN] = _LEVELS[level.strip().lower()]
    return levels


@contextmanager
def logs_shown(verbosity: int, wanted: str | None) -> Iterator[None]:
    """Show what is logged until the end of the block; see ``log_levels``."""
    handler = _Shown(sys.stderr)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    found = {logging.getLogger(name): lvl for name, lvl in log_levels(verbosity, wanted).items()}
    before = {logger: logger.level for logger in found}
    for logger, level in found.items():
        for other in [one for one in logger.handlers if isinstance(one, _Shown)]:
            logger.removeHandler(other)
        logger.addHandler(handler)
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.removeHandler(handler)
            logger.setLevel(level)
