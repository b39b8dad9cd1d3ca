"""Secrets in what is made of texts: arguments, schemas."""

from collections.abc import Callable
from typing import cast


def redacted_tree(value: object, redact: Callable[[str], str]) -> object:
    """A JSON value with `redact` applied to each of its texts, names included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list | tuple):
        return [redacted_tree(one, redact) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {redact(str(name)): redacted_tree(one, redact) for name, one in items}
    return value
