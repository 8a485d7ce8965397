"""Lets ``python -m siltstone`` be the command."""

from __future__ import annotations

from siltstone.cli.main import main

main()
