"""What to say where somebody names what is not there: the nearest name, or which there are."""

from collections.abc import Iterable
from difflib import get_close_matches

from openclaw.core.errors import NotFound
from openclaw.mcp_client.bounds import printable

_MOST_NAMED = 20
_LONGEST = 200  # a server may call its tools anything
_NEAR = 0.8  # a letter or two; names of one server's tools are often alike


def not_there(words: str, name: str, known: Iterable[str]) -> NotFound:
    """The error for `name`, which is none of the `known` ones."""
    names = list(known)
    near = get_close_matches(name, names, 1, _NEAR)
    if near:
        return NotFound(words, hint=f"did you mean '{printable(near[0], _LONGEST)}'?")
    there = ", ".join(printable(one, _LONGEST) for one in names[:_MOST_NAMED])
    return NotFound(words, hint=f"there are: {there}" if there else None)


def no_server(name: str, known: Iterable[str]) -> NotFound:
    """The error for a server of a name that nobody configured."""
    return not_there(f"no MCP server '{name}' is configured", name, known)
