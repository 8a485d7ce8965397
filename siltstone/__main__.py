"""Lets ``python -m siltstone`` be the command."""

from __future__ import annotations

from siltstone.cli.process import main

main()
