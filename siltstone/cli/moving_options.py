"""What verbs share that move many bytes: where, how fast, by how many, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from siltstone.cli.output import progress_bar
from siltstone.cli.session import Session
from siltstone.store.settings.units import parse_size

if TYPE_CHECKING:
    from siltstone.migration.backup.create import Progress
    from siltstone.pipelines.work import Executor

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")

LOCAL: Final = "local"
SPARK: Final = "spark"
_WORKPLACES: Final = click.Choice([LOCAL, SPARK])


class SizeOption(click.ParamType[int]):
    """A number of bytes, at least one, such as ``20MiB``."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return bytes."""
        try:
            size = parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if size < 1:
            self.fail("at least one byte", param, ctx)
        return size


rate_option = click.option(
    "--rate", type=SizeOption(), help="Bytes a second at most, such as 20MiB, of all together."
)


threads_option = click.option(
    "--threads", type=click.IntRange(1, 256), metavar="N", help="Objects at a time."
)


on_option = click.option(
    "--on",
    type=_WORKPLACES,
    default=LOCAL,
    show_default=True,
    is_eager=True,
    help="Where the work is done: on threads of this process, or in tasks of Spark.",
)
executor_option = click.option(
    "--executor",
    "on",
    type=_WORKPLACES,
    default=SPARK,
    show_default=True,
    is_eager=True,
    help="Where the work is done: local needs no Spark.",
)


def on_options(verb: F) -> F:
    """Where a verb works, which is here unless it is told otherwise, and how fast.

    The verb gets ``rate``, and ``choice``, a dictionary for ``open_executor``.
    """
    return on_option(_spark_options(verb))


def executor_options(verb: F) -> F:
    """Where a verb works, which is on Spark unless it is told otherwise, and how fast."""
    return executor_option(_spark_options(verb))


def _spark_options(verb: F) -> F:
    for option in (
        rate_option,
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            callback=_for_spark,
            help="A setting of Spark; may be given several times.",
        ),
        click.option(
            "--master",
            metavar="URL",
            callback=_for_spark,
            help="Spark's master; local[*] by default.",
        ),
        click.option(
            "--threads",
            type=click.IntRange(1, 256),
            metavar="N",
            help="Items at a time: of this process, or of each task of Spark.",
        ),
    ):
        verb = option(verb)
    return verb


def _for_spark(context: click.Context, parameter: click.Parameter, value: V) -> V:
    """Refuse what nothing would heed."""
    if value and context.params["on"] != SPARK:
        raise click.UsageError(
            f"--master and --conf are for {_spelled(context)} spark: add it, or leave them out"
        )
    return value


def _spelled(context: click.Context) -> str:
    """The option of this verb that says where it works."""
    return next(option.opts[0] for option in context.command.params if option.name == "on")


@contextmanager
def open_executor(
    on: str, threads: int | None, master: str | None = None, conf: tuple[str, ...] = ()
) -> Iterator[Executor]:
    """Open what the options ask for, until the end of the block."""
    if on == LOCAL:
        from siltstone.pipelines.local_executor import LocalExecutor

        with closing(LocalExecutor(threads)) as local:
            yield local
        return
    try:
        from siltstone.spark import session
        from siltstone.spark.executor import SparkExecutor
    except ImportError as error:
        where = _spelled(click.get_current_context())
        raise click.UsageError(f"{error}; or {where} local, which needs no Spark") from error
    from concurrent.futures import ThreadPoolExecutor

    from siltstone.cli.deferred_signals import held_signals, told_once

    start = partial(
        session, master=master or "local[*]", name="siltstone-pipeline", settings=_settings(conf)
    )
    with told_once(), ExitStack() as stack:
        # On the main thread pyspark takes SIGINT for itself, and calls the JVM out of a call to it.
        with held_signals(), ThreadPoolExecutor(1) as starter:
            spark = SparkExecutor(starter.submit(start).result(), threads=threads or 1, stops=True)
            stack.callback(spark.close)
        yield spark


def _settings(conf: Iterable[str]) -> dict[str, str]:
    """Settings of Spark, as text."""
    settings = {}
    for text in conf:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise click.BadParameter("write KEY=VALUE", param_hint="--conf")
        settings[key] = value
    return settings


@contextmanager
def moving(session: Session, label: str, **choice: Any) -> Iterator[tuple[Executor, Progress]]:
    """What ``open_executor`` opens, and what moves a progress bar, until the end of the block."""
    with (
        open_executor(**choice) as executor,
        progress_bar(label, None, shown=not session.quiet) as advance,
    ):
        yield executor, advance
