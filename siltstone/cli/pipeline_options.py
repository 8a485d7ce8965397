"""What verbs share that are jobs over many items: what they write, and how they end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import print_json, progress_bar, say
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session

if TYPE_CHECKING:
    from siltstone.pipelines.work import ItemOutcome


class FolderOrAddress(PathText):
    """A path, as ``click.Path`` checks it, or the address of a bucket, which it lets pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is."""
        return value if "://" in str(value) else super().convert(value, param, ctx)


def told(
    session: Session,
    label: str,
    outcomes: Generator[ItemOutcome],
    total: int,
    *,
    as_json: bool,
    quiet: frozenset[str],
) -> Generator[ItemOutcome]:
    """Pass outcomes on, and write them: each with ``--json``, else those that are not ``quiet``.

    However it ends, the job has ended as well.
    """
    done = 0
    with closing(outcomes), progress_bar(label, total, shown=not session.quiet) as advance:
        for outcome in outcomes:
            done += outcome.length
            advance(done)
            if as_json:
                print_json(
                    {
                        "subject": outcome.subject,
                        "status": outcome.status,
                        "length": outcome.length,
                        "message": outcome.message,
                    }
                )
            elif outcome.status not in quiet:
                say(f"{outcome.status}: {outcome.subject}: {outcome.message}")
            yield outcome


def joined(known: Iterable[ItemOutcome], found: Generator[ItemOutcome]) -> Generator[ItemOutcome]:
    """What is known before a job, and then what the job finds; closing it ends the job."""
    yield from known
    yield from found


def one_by_one(*jobs: Generator[ItemOutcome]) -> Generator[ItemOutcome]:
    """What several jobs find, one job after the other; closing it ends the one at work."""
    for job in jobs:
        with closing(job):
            yield from job


def told_counts(
    session: Session,
    label: str,
    outcomes: Generator[ItemOutcome],
    total: int,
    *,
    as_json: bool,
    quiet: frozenset[str],
) -> Counter[str]:
    """Write outcomes as ``told`` does; return how many had which status."""
    with closing(told(session, label, outcomes, total, as_json=as_json, quiet=quiet)) as shown:
        return Counter(outcome.status for outcome in shown)


def finish(
    session: Session,
    what: str,
    counts: Counter[str],
    damage: frozenset[str],
    failed: str,
    *,
    conflict: str | None = None,
) -> None:
    """Say how many had which status, and end with the exit code that fits."""
    found = ", ".join(f"{count:,} {status}" for status, count in sorted(counts.items()))
    session.note(f"{what}: {found or 'nothing to do'}")
    if any(counts[status] for status in damage):
        raise click.exceptions.Exit(ExitCode.DAMAGE)
    if conflict is not None and counts[conflict]:
        raise click.exceptions.Exit(ExitCode.CONFLICT)
    if counts[failed]:
        raise click.exceptions.Exit(ExitCode.FAILED)
