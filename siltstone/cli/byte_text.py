"""Bytes at a shell: text, or with ``--base64`` any."""

from __future__ import annotations

import base64
import binascii

import click


def raw_bytes(text: str, *, as_base64: bool) -> bytes:
    """Return the bytes that an argument stands for.

    Raises:
        click.UsageError: it is not base64, and should be.
    """
    if not as_base64:
        return text.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise click.UsageError(f"not base64: {text!r}") from error
