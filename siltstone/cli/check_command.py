"""The verb ``check``."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import goes_on
from siltstone.cli.output import print_json, progress_bar, say
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session, json_option, pass_session, recover_option
from siltstone.container.models.check import CheckProgress

FILE_VERSION = 1
SEVERITIES = ("damage", "garbage", "warning")


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
        shown = not session.quiet
        with (
            goes_on(when=resume is not None),
            progress_bar("check", containers * _WHOLE, shown=shown, share=True) as advance,
        ):

            def told(progress: CheckProgress) -> None:
                kept.note(progress)
                share = progress.bytes_done / max(1, progress.bytes_total)
                advance(int((progress.container + share) * _WHOLE))

            for finding in store.check(deep=deep, after=kept.after, progress=told):
                kept.counts[finding.severity] += 1
                if as_json:
                    print_json(finding)
                else:
                    say(f"{finding.severity}: {finding.where}: {finding.message}")
        kept.end()
    if as_json:
        print_json({"found": {kind: kept.counts[kind] for kind in SEVERITIES}, "deep": deep})
    else:
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(kept.counts.items()))
        session.note(f"found {found}" if found else _clean(deep=deep))
    if kept.counts["damage"]:
        raise click.exceptions.Exit(ExitCode.DAMAGE)


_WHOLE = 1_000_000
"""Steps of the bar for each container."""


def _clean(*, deep: bool) -> str:
    if deep:
        return "everything is as it was written"
    return "everything is there; --deep also reads it"
