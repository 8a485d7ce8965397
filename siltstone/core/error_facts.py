"""Facts that an error lacks, since the code that raised it did not know them."""

from __future__ import annotations

from collections.abc import Mapping

from siltstone.core.errors import SiltstoneError


def add_facts(error: SiltstoneError, facts: Mapping[str, str]) -> None:
    """Add what is known further out, such as a folder or a bucket, to the message, each once."""
    known = str(error)
    for key, value in facts.items():
        if value and f" {key}=" not in known:
            known = f"{known} {key}={value}"
    error.args = (known, *error.args[1:])
