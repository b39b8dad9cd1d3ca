"""Importing what a turn needs before there is one: the libraries take seconds on a busy machine."""

from collections.abc import Iterable
from importlib import import_module

_LIBRARIES = {
    "openai-completions": ("openai", "pydantic_ai.models.openai", "pydantic_ai.providers.openai"),
    "openai-responses": ("openai", "pydantic_ai.models.openai", "pydantic_ai.providers.openai"),
    "anthropic-messages": (
        "anthropic",
        "pydantic_ai.models.anthropic",
        "pydantic_ai.providers.anthropic",
    ),
}


def preload(apis: Iterable[str]) -> None:
    """Import what speaks these interfaces; for a thread of its own, so that nobody waits for it."""
    for name in ("pydantic_ai", *(name for api in apis for name in _LIBRARIES.get(api, ()))):
        import_module(name)
