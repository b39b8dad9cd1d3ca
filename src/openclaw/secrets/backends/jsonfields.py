"""One field of a JSON document, by a path with dots."""

import json
from typing import Any, cast

from openclaw.secrets.resolver import BackendFailure


def field_of(document: Any, path: str, *, what: str) -> str:
    """The field at `path` as text.

    A key that itself contains dots is tried before the path is taken apart; a number in the path
    is an index into a list. Strings come as they are, anything else as compact JSON.
    """
    value = _walk(document, path)
    if value is None:
        raise BackendFailure(f"{what} has no field '{path}'")
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _walk(document: Any, path: str) -> Any:
    if isinstance(document, dict):
        table = cast("dict[str, Any]", document)
        if path in table:
            return table[path]
        heads = [path[:i] for i, character in enumerate(path) if character == "."]
        for head in reversed(heads):
            if head in table:
                return _walk(table[head], path[len(head) + 1 :])
        return None
    if isinstance(document, list):
        index, _, rest = path.partition(".")
        items = cast("list[Any]", document)
        if not index.isdecimal() or int(index) >= len(items):
            return None
        return _walk(items[int(index)], rest) if rest else items[int(index)]
    return None
