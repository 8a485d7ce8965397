"""What the verbs of ``spark`` share: where they work, what they write, how they end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from siltstone.cli.deferred_signals import held_signals, told_once
from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.moving_options import rate_option
from siltstone.cli.output import print_json, progress_bar, say
from siltstone.cli.path_text import PathText
from siltstone.cli.session import Session

if TYPE_CHECKING:
    from siltstone.pipelines.work import Executor, ItemOutcome

F = TypeVar("F", bound=Callable[..., Any])


class FolderOrAddress(PathText):
    """A path, as ``click.Path`` checks it, or the address of a bucket, which it lets pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The text as it is."""
        return value if "://" in str(value) else super().convert(value, param, ctx)


def executor_options(verb: F) -> F:
    """Where a verb works, and how fast.

    The verb gets ``rate``, and ``choice``, a dictionary for ``open_executor``.
    """
    for option in (
        rate_option,
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark; may be given several times.",
        ),
        click.option("--master", metavar="URL", help="Spark's master; local[*] by default."),
        click.option(
            "--threads",
            type=click.IntRange(1, 256),
            metavar="N",
            help="Items at a time: of this process, or of each task of Spark.",
        ),
        click.option(
            "--executor",
            type=click.Choice(["spark", "local"]),
            default="spark",
            show_default=True,
            help="Where the work is done: local needs no Spark.",
        ),
    ):
        verb = option(verb)
    return verb


@contextmanager
def open_executor(
    executor: str, threads: int | None, master: str | None, conf: tuple[str, ...]
) -> Iterator[Executor]:
    """Open what the options ask for, until the end of the block."""
    from siltstone.pipelines.local_executor import LocalExecutor

    if executor == "local":
        if master or conf:
            raise click.UsageError("--master and --conf are for --executor spark")
        local = LocalExecutor(threads)
        try:
            yield local
        finally:
            local.close()
        return
    try:
        from siltstone.spark import session
        from siltstone.spark.executor import SparkExecutor
    except ImportError as error:
        raise click.UsageError(f"{error}; or --executor local, which needs no Spark") from error
    start = partial(
        session, master=master or "local[*]", name="siltstone-pipeline", settings=_settings(conf)
    )
    with told_once(), ExitStack() as stack:
        # On the main thread pyspark takes SIGINT for itself, and calls the JVM out of a call to it.
        with held_signals(), ThreadPoolExecutor(1) as starter:
            spark = SparkExecutor(starter.submit(start).result(), threads=threads or 1, stops=True)
            stack.callback(spark.close)
        yield spark


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


def _settings(conf: Iterable[str]) -> dict[str, str]:
    """Settings of Spark, as text."""
    settings = {}
    for text in conf:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise click.BadParameter("write KEY=VALUE", param_hint="--conf")
        settings[key] = value
    return settings
