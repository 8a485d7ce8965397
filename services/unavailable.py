"""The error for a server that cannot be had on this machine."""

from __future__ import annotations


class UnavailableError(Exception):
    """Why a server cannot be had: a toolchain is missing, or its fetching failed."""
