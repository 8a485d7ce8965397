"""The error for a server that is not available on this machine."""

from __future__ import annotations


class UnavailableError(Exception):
    """Why a server is not available: a toolchain is missing, or fetching it failed."""
