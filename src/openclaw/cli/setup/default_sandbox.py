"""The sandbox that a server gets when it is added, unless the person says otherwise."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from openclaw.cli.setup.import_servers import ImportedServer

DEFAULT = "auto"

ELSEWHERE = frozenset({"docker", "podman", "nerdctl", "finch", "ssh", "wsl", "wsl.exe"})
"""Commands that start the server somewhere else, where no sandbox of ours is around it."""

EXPLAINED = (
    "It runs in a sandbox: it can write to the workspace and to paths in its arguments, and "
    "the rest of your home directory is hidden. `sandbox.read` and `sandbox.write` give access "
    "to more; --no-sandbox turns it off."
)


def with_sandbox(entry: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The entry of a server with the default sandbox, if it can have one and has none yet."""
    command = entry.get("command")
    if not isinstance(command, str) or "sandbox" in entry:
        return dict(entry)
    if PurePath(command).name in ELSEWHERE or not _machine_can(environ):
        return dict(entry)
    return {**entry, "sandbox": DEFAULT}


def all_with_sandbox(
    servers: Sequence[ImportedServer], environ: Mapping[str, str]
) -> tuple[ImportedServer, ...]:
    return tuple(replace(one, entry=with_sandbox(one.entry, environ)) for one in servers)


def _machine_can(environ: Mapping[str, str]) -> bool:
    from openclaw.mcp_client.sandbox.confinement import find_means

    return find_means(environ.get("PATH", "")).best is not None
