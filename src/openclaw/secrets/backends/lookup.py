"""Backends that need a secret to get at secrets."""

from collections.abc import Awaitable, Callable

Lookup = Callable[[str], Awaitable[str]]
"""Takes a configured value and gives it with its own references replaced."""
