"""A line of bash as it is typed: its words, and how to write the rest of the last one."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SPECIAL: Final = re.compile(r"([ !\"#$&'()*;<>?\[\\\]^`{|}~])")
_IN_DOUBLE: Final = re.compile(r"([\"$`\\])")


class Typed(NamedTuple):
    """What stands before the cursor.

    Attributes:
        words: as the command will get them; the last one is to be completed, and may be empty.
        kept: beginning of the last word that the shell leaves as it is.
        quote: the quote that is open, or none.
    """

    words: list[str]
    kept: str
    quote: str


def typed(line: str, breaks: str) -> Typed:
    """Read a line up to the cursor.

    Args:
        line: of one command.
        breaks: characters after which bash completes on its own, besides quotes and blanks.
    """
    words: list[str] = []
    word, broken, opened, quote = "", "", "", ""
    begun = escaped = False
    for char in line:
        if escaped:
            escaped = False
            word += char if quote != '"' or char in '"$`\\' else f"\\{char}"
        elif char == "\\" and quote != "'":
            escaped = begun = True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char in "\"'":
            quote, opened, begun = char, word, True
        elif char in " \t\n":
            if begun:
                words.append(word)
            word, broken, begun = "", "", False
        else:
            word += char
            begun = True
            if char in breaks:
                broken = word
    return Typed([*words, word], opened if quote else broken, quote)


def quoted(text: str, quote: str) -> str:
    """Write ``text`` so that bash takes it literally, after an open ``quote`` or without."""
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote == '"':
        return _IN_DOUBLE.sub(r"\\\1", text)
    return _SPECIAL.sub(r"\\\1", text)
