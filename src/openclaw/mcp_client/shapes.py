"""Whether what a server answered has the shape that the protocol gives it: cheap, and no more."""

from typing import Any, cast


def unheard(progress: float, total: float | None, message: str | None) -> None:
    """Progress that nobody asked for; it still keeps the call alive."""


def are_objects(value: Any) -> bool:
    """Whether this is a list of objects."""
    return type(value) is list and all(type(item) is dict for item in cast("list[Any]", value))


def are_blocks(value: Any) -> bool:
    """Whether this is a list of content blocks, which all have a type."""
    return are_objects(value) and all(type(block.get("type")) is str for block in value)
