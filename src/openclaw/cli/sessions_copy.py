"""Copy every conversation of one store to another.

It may be stopped at any time and started again: it goes on where it was. FROM is only read.
"""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from openclaw.cli.environment import Environment
from openclaw.core.errors import InvalidRequest
from openclaw.core.wire import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from openclaw.sessions.copying import Archive, CopyReport

_TELL_EVERY = 100
"""Sessions between two lines where there is no terminal to show each step on."""


async def copy(args: argparse.Namespace, env: Environment) -> int:
    """Copy, show how far it is, and say what became of it."""
    from openclaw.sessions.copying import copy_sessions

    if args.source == args.target:
        raise InvalidRequest("FROM and TO are the same store")
    async with _source(args.source, env) as source, _target(args.target, env) as target:
        shown = _Progress(env, await source.count_sessions())
        report = await copy_sessions(source, target, shown)
        shown.end()
    _say(args, env, report)
    return EXIT_FAILED if report.refused else EXIT_OK


@asynccontextmanager
async def _source(spec: str, env: Environment) -> "AsyncGenerator[Archive]":
    from openclaw.cli.sessions_store import open_server
    from openclaw.sessions.errors import StoreMissing
    from openclaw.sessions.opening import is_server, open_store, store_path

    if is_server(spec):
        async with open_server(spec, env) as store:
            yield cast("Archive", store)
        return
    path = store_path(spec, env.paths)
    if not path.exists():
        raise StoreMissing(f"there is no session store at {path}")
    async with open_store(spec, env.paths) as store:
        yield cast("Archive", store)


@asynccontextmanager
async def _target(spec: str, env: Environment) -> "AsyncGenerator[Archive]":
    from openclaw.cli.sessions_store import open_server
    from openclaw.sessions.opening import is_server, open_store

    opened = open_server(spec, env, create=True) if is_server(spec) else open_store(spec, env.paths)
    async with opened as store:
        yield cast("Archive", store)


class _Progress:
    """A line that counts up on a terminal, and one now and then elsewhere; on stderr."""

    def __init__(self, env: Environment, total: int) -> None:
        self._env = env
        self._total = total
        self._terminal = env.stderr.isatty()

    def __call__(self, report: "CopyReport") -> None:
        line = f"{report.seen} of {self._total} conversations, {report.entries} entries copied"
        if self._terminal:
            self._env.stderr.write(f"\r{line}\x1b[K")
            self._env.stderr.flush()
        elif report.seen % _TELL_EVERY == 0:
            self._env.warn(line)

    def end(self) -> None:
        """Leave the terminal's line empty."""
        if self._terminal:
            self._env.stderr.write("\r\x1b[K")


def _say(args: argparse.Namespace, env: Environment, report: "CopyReport") -> None:
    from openclaw.cli.sessions_view import one_line

    if args.json:
        env.say_json(
            {
                "copied": report.copied,
                "unchanged": report.unchanged,
                "entries": report.entries,
                "refused": [
                    {"id": info.id, "agent": info.agent, "key": info.key, "reason": reason}
                    for info, reason in report.refused
                ],
            }
        )
        return
    env.say(
        f"Copied {report.copied} conversations with {report.entries} entries; "
        f"{report.unchanged} were there already."
    )
    for info, reason in report.refused:
        env.warn(f"not copied: '{one_line(info.key)}' of agent '{info.agent}': {reason}")
