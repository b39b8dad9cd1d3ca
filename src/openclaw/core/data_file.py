"""Reads lists and patterns that are stored as text files beside the code that uses them."""

import pkgutil
from functools import cache


def read_data(package: str, name: str) -> bytes:
    raw = pkgutil.get_data(package, name)
    assert raw is not None  # every loader of a package can read the package's files
    return raw


@cache
def sections(package: str, name: str) -> dict[str, dict[str, list[str]]]:
    """The lines of a file by the kind and the name in their section's head, which is `[kind name]`."""
    found: dict[str, dict[str, list[str]]] = {}
    lines: list[str] = []
    for line in read_data(package, name).decode().splitlines():
        if line.startswith("["):
            kind, _, head = line.strip("[]").partition(" ")
            lines = found.setdefault(kind, {}).setdefault(head, [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found
