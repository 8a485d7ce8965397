"""The command ``siltstone``: its verbs, and how failures and signals end it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, NoReturn

import click

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.interrupts import Interrupted, Terminated, end_text
from siltstone.cli.listed_verbs import ListedVerbs
from siltstone.cli.output import printable
from siltstone.cli.process import end_at_once
from siltstone.cli.session import COMPLETE_VARIABLE, Session
from siltstone.cli.standard_files import fill_closed_files, write_whole
from siltstone.cli.verb_options import add_common_options_to_root
from siltstone.cli.verbs import VERBS, LoadedVerbs

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_python_text = warnings.formatwarning


class Verbs(ListedVerbs):
    """All verbs. A closed pipe ends them quietly, with the code of a shell's own tools."""

    def make_context(self, *given: Any, **named: Any) -> click.Context:
        """Read the options; a help whose reader stops early is written here too."""
        with _own_ends():
            return super().make_context(*given, **named)

    def invoke(self, context: click.Context) -> Any:
        """Run the verb."""
        with _own_ends(), _traced(context):
            return super().invoke(context)

    def summary(self, ctx: click.Context, name: str) -> str:
        """The first sentence of the help of a verb, which is not loaded for it."""
        return VERBS[name].summary

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the name of a verb, or an option of the command itself; loads no verb."""
        from click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        items = [CompletionItem(name, help=_shortened(name)) for name in names]
        return items + click.Command.shell_complete(self, ctx, incomplete)


def _shortened(name: str) -> str:
    """A summary as click shows it next to a name that it completes."""
    return click.Command(name, help=VERBS[name].summary).get_short_help_str()


@contextmanager
def _own_ends() -> Iterator[None]:
    """Of a closed pipe click itself makes a plain failure, and of an interrupt an empty line."""
    try:
        yield
    except BrokenPipeError as error:
        _forget(sys.stdout)
        raise click.exceptions.Exit(ExitCode.PIPE_CLOSED) from error
    except KeyboardInterrupt as error:
        raise Interrupted from error


@contextmanager
def _traced(context: click.Context) -> Iterator[None]:
    """Show the traceback of a failure to those who asked for it."""
    try:
        yield
    except Exception as error:
        session = context.find_object(Session)
        if session is not None and session.verbosity:
            from siltstone.cli.error_codes import exit_code

            # The last place shows an unforeseen error in any case.
            if exit_code(error) is not None:
                _complain("".join(traceback.format_exception(error)).rstrip())
        raise


@click.group(
    cls=Verbs, commands=LoadedVerbs(), context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="siltstone")
def siltstone() -> None:
    """Append to segments; keep their bytes in plain chunks on cheap storage."""


add_common_options_to_root(siltstone)


def run(arguments: Sequence[str]) -> int:
    """Run the command with ``arguments`` and return its exit code; errors are one line of text."""
    try:
        code = _called(arguments)
        sys.stdout.flush()
        return int(code or 0)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (Interrupted, click.Abort, KeyboardInterrupt) as stop:
        return _stopped("interrupted", stop.__cause__ or stop, ExitCode.INTERRUPTED)
    except Terminated as stop:
        return _stopped("terminated", stop, ExitCode.TERMINATED)
    except BrokenPipeError:
        _forget(sys.stdout)
        return ExitCode.PIPE_CLOSED
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        help_wanted.show()
        return ExitCode.USAGE
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        page = "siltstone" if context is None else context.command_path
        text = printable(error.format_message())
        _complain(f"siltstone: {text} ({page} --help tells more)")
        return ExitCode.USAGE
    except BaseException as error:  # noqa: BLE001 - the last place before the person
        from siltstone.cli.error_codes import exit_code
        from siltstone.cli.ways_out import way_out

        code_found = exit_code(error)
        if code_found is None:
            _complain("".join(traceback.format_exception(error)).rstrip())
        told = "; ".join([_one_line(error), *_notes(error)])
        _complain(f"siltstone: {told}{way_out(error)}")
        return ExitCode.FAILED if code_found is None else code_found


def _called(arguments: Sequence[str]) -> int | None:
    asked = os.environ.get(COMPLETE_VARIABLE)
    if asked:  # click would answer too, and then raise SystemExit
        from siltstone.cli.completion import complete

        return complete(siltstone, asked, Session())
    code: int | None = siltstone.main(
        list(arguments), prog_name="siltstone", standalone_mode=False, obj=Session()
    )
    return code


def _stopped(what: str, stop: BaseException, code: ExitCode) -> ExitCode:
    """The end by a signal."""
    _complain(end_text(what, _notes(stop)))
    return code


def _complain(text: str) -> None:
    """Write to standard error; where no one can read it, the exit code tells."""
    try:
        click.echo(text, err=True)
    except OSError:
        _forget(sys.stderr)


def _warning_text(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> str:
    """A warning for users is one line, as an error is; others say where in the code they are."""
    if issubclass(category, FutureWarning):
        return f"siltstone: {printable(str(message))}\n"
    return _python_text(message, category, *place, **more)


def main() -> NoReturn:
    """Run the command of this process. While there is a verb to end, signals are exceptions."""
    fill_closed_files()
    write_whole()
    warnings.formatwarning = _warning_text
    try:
        _unwind_on_signals()
        code = run(sys.argv[1:])
    except (KeyboardInterrupt, Interrupted):  # of a second one, while the first was told
        code = ExitCode.INTERRUPTED
    except Terminated:
        code = ExitCode.TERMINATED
    end_at_once(code)
    try:
        sys.stdout.flush()
    except OSError:  # what is left cannot be written; the failure was told
        _forget(sys.stdout)
    sys.exit(code)


def _unwind_on_signals() -> None:
    """Let signals raise. What one meets on its way to the loop was never begun: no warning."""
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Terminated


def _forget(file: IO[str]) -> None:
    """Point a standard file to nowhere: at its end the interpreter flushes it again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, file.fileno())
        os.close(nowhere)


def _notes(error: BaseException) -> list[str]:
    return [printable(note) for note in getattr(error, "__notes__", ())]


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return printable(f"{error.filename}: {error.strerror}")
    if isinstance(error, UnicodeEncodeError):
        return f"not valid UTF-8: '{printable(error.object)}'"
    text = " ".join(str(error).split())
    return printable(text) or type(error).__name__
