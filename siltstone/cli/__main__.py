"""Lets ``python -m siltstone.cli`` be the command."""

from __future__ import annotations

from siltstone.cli.main import main

main()
