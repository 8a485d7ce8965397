"""The error for a server that can not be had on this machine."""

from __future__ import annotations


class UnavailableError(Exception):
    """Why a server can not be had: a toolchain is missing, or its fetching failed."""
