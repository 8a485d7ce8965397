"""What a shell is answered when it asks to complete a word of the command."""

from __future__ import annotations

import os
from typing import Any, Final

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from siltstone.cli.exit_codes import ExitCode
from siltstone.cli.output import printable
from siltstone.cli.session import COMPLETE_VARIABLE
from siltstone.cli.typed_words import Typed, quoted, typed

BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' type value line
    COMPREPLY=()
    while IFS= read -r line; do
        type=${line%%%%,*} value=${line#*,}
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_TYPED="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "${1/#\\~/$HOME}" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Bash, which breaks words at colons and puts in what it is given as it is."""

    source_template = BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one to be completed, and that."""
        words = self._typed().words
        return words[1:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line for one answer: what takes the place of the last piece of the word."""
        if item.type != "plain":
            return super().format_completion(item)
        asked = self._typed()
        value = str(item.value)
        # Of --option=value the option stands in the word, and not in the answer.
        kept = asked.kept.partition("=")[2] if asked.words[-1].startswith("-") else asked.kept
        return f"{item.type},{quoted(value[len(kept) :], asked.quote)}"

    def _typed(self) -> Typed:
        return typed(os.environ["COMP_TYPED"], os.environ["COMP_BREAKS"])


SHELLS: Final[dict[str, type[BashComplete | FishComplete | ZshComplete]]] = {
    "bash": Bash,
    "fish": FishComplete,
    "zsh": ZshComplete,
}


def script_for(shell: str, root: click.Command) -> str:
    """Return what lets ``shell`` complete the command."""
    return SHELLS[shell](root, {}, "siltstone", COMPLETE_VARIABLE).source()


def complete(root: click.Command, instruction: str, obj: object) -> ExitCode:
    """Answer a shell. A failure is no answer: what it says would stand in the line one types.

    Args:
        root: the command.
        instruction: the shell and what it asks for, such as ``bash_complete``.
        obj: of the context of the command.
    """
    shell, _, verb = instruction.partition("_")
    if shell not in SHELLS or verb not in ("complete", "source"):
        return ExitCode.FAILED
    asked = SHELLS[shell](root, {"obj": obj}, "siltstone", COMPLETE_VARIABLE)
    try:
        if verb == "source":
            click.echo(asked.source())
            return ExitCode.DONE
        args, incomplete = asked.get_completion_args()
        items = asked.get_completions(args, incomplete)
        # A name with a line break or another control character cannot be typed either.
        lines = [asked.format_completion(one) for one in items if _is_typed(one)]
    except Exception:  # noqa: BLE001 - see above
        return ExitCode.FAILED
    if lines:
        click.echo("\n".join(lines))
    return ExitCode.DONE


def _is_typed(item: CompletionItem[Any]) -> bool:
    return printable(str(item.value)) == str(item.value)
