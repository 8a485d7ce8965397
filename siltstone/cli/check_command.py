"""The verb ``check``."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from siltstone.cli.findings import tell_finding, tell_found
from siltstone.cli.interrupts import goes_on
from siltstone.cli.output import share_bar
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session, json_option, pass_session, recover_option
from siltstone.container.models.check import CheckProgress

FILE_VERSION = 1


class _Kept:
    """The file of ``--resume``: how far a check came, and how much it found."""

    def __init__(self, path: Path | None, uuid: str, *, deep: bool) -> None:
        self._path = path
        self._head = {"version": FILE_VERSION, "store": uuid, "deep": deep}
        self.after: CheckProgress | None = None
        self.counts: Counter[str] = Counter()
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            head = {key: found[key] for key in self._head}
            self.after = CheckProgress(**found["after"])
            self.counts.update(found["counts"])
        except (ValueError, KeyError, TypeError) as error:
            raise click.UsageError(f"{path} is not the file of a check") from error
        if head != self._head:
            raise click.UsageError(f"{path} is of another check: {head}, not {self._head}")

    def note(self, progress: CheckProgress) -> None:
        """Keep how far it came; a crash leaves the file before or this one."""
        if self._path is None:
            return
        content = {**self._head, "after": asdict(progress), "counts": dict(self.counts)}
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(json.dumps(content), encoding="utf-8")
        os.replace(new, self._path)

    def end(self) -> None:
        """The check came to its end: the next one begins again."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@click.command()
@click.option("--deep", is_flag=True, help="Read every chunk and compare it with its checksums.")
@click.option(
    "--resume",
    type=PathText(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep in FILE how far it came, and continue from there; the end removes it.",
)
@recover_option
@json_option
@pass_session
def check(session: Session, resume: Path | None, *, deep: bool, as_json: bool) -> None:
    """Compare metadata with long-term storage, both ways. Exits with 6 on damage.

    Without --deep only presence and lengths of chunks are looked at.
    """
    with session.open_reader() as store:
        kept = _Kept(resume, store.uuid, deep=deep)
        containers = store.container_count
        with (
            goes_on(when=resume is not None),
            share_bar("check", shown=not session.quiet) as advance,
        ):

            def told(progress: CheckProgress) -> None:
                kept.note(progress)
                share = progress.bytes_done / max(1, progress.bytes_total)
                advance((progress.container + share) / containers)

            for finding in store.check(deep=deep, after=kept.after, progress=told):
                tell_finding(finding, kept.counts, as_json=as_json)
        kept.end()
    tell_found(session, kept.counts, deep=deep, as_json=as_json)
