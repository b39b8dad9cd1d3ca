"""What the program is waiting for, in a few words, as the events tell it."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from openclaw.cli.environment import Environment
from openclaw.cli.logs import visible
from openclaw.cli.render.terminal import console
from openclaw.core.events import Event, ServerChanged, ToolFinished, ToolStarted, TurnStarted

if TYPE_CHECKING:
    from rich.status import Status

THINKING = "thinking…"
_CONNECTING = "connecting"
_NAMED = 3


class Doing:
    """Follows the events of a turn, and of the servers before it."""

    def __init__(self) -> None:
        self._starting: dict[str, None] = {}
        self._running: dict[str, str] = {}
        self._begun = False

    def note(self, event: Event) -> None:
        """Something happened."""
        match event:
            case ServerChanged():
                self._starting.pop(event.server, None)
                if event.state == _CONNECTING:
                    self._starting[event.server] = None
            case TurnStarted():
                self._begun = True
                self._running.clear()
            case ToolStarted():
                self._running[event.call_id] = event.label
            case ToolFinished():
                self._running.pop(event.call_id, None)
            case _:
                pass

    @property
    def words(self) -> str:
        """What is waited for now."""
        if self._running:
            return f"running {named(list(self._running.values()))}…"
        if self._starting and not self._begun:
            return f"starting {named(list(self._starting))}…"
        return THINKING


def named(names: Sequence[str]) -> str:
    """The first few of these names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def counted(number: int, what: str) -> str:
    """So many of these, with its plural where there is not one of them."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


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
