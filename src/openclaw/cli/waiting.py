"""A line that says what is waited for, on a terminal and after a moment; nothing elsewhere."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from openclaw.cli.colours import console
from openclaw.cli.environment import Environment
from openclaw.cli.logs import visible

if TYPE_CHECKING:
    from rich.status import Status

_AFTER_SECONDS = 0.5
_TICK_SECONDS = 0.2


@asynccontextmanager
async def waiting(
    env: Environment, words: Callable[[], str], *, quiet: bool = False
) -> AsyncGenerator[None]:
    """While this lasts, a person sees `words`, and how they change."""
    if quiet or not env.stderr.isatty():
        yield
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_show, env, words, name="waiting")
        try:
            yield
        finally:
            tasks.cancel_scope.cancel()


async def _show(env: Environment, words: Callable[[], str]) -> None:
    await anyio.sleep(_AFTER_SECONDS)
    with console(env.stderr, env.environ).status(_line(env, words)) as status:
        while True:
            await anyio.sleep(_TICK_SECONDS)
            _update(status, _line(env, words))


def _update(status: "Status", line: str) -> None:
    status.update(line)


def _line(env: Environment, words: Callable[[], str]) -> str:
    from rich.markup import escape

    return escape(visible(env.redactor.redact(words())))
