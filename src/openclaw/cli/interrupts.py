"""Ctrl-C: the first stops the work and says so at once, the second leaves without waiting."""

import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import anyio

from openclaw.cli.dispatch import EXIT_INTERRUPTED
from openclaw.cli.environment import Environment

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STOPPING = "\nStopping… (Ctrl-C again to quit at once)\n"
_SHOW_CURSOR = "\x1b[?25h"


def run_interruptible(env: Environment, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run an async function to its end, or raise KeyboardInterrupt when everything is put away.

    Whoever presses Ctrl-C twice does not wait: what is left of servers is ended from outside.
    """
    # Windows' event loop has no signal handlers, and nor has any outside of the main thread.
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return anyio.run(_awaited, function, args)
    return anyio.run(_watched, env, function, args)


async def _awaited(function: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]) -> T:
    return await function(*args)


async def _watched(
    env: Environment, function: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]
) -> T:
    result: list[T] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        work = anyio.CancelScope()
        tasks.start_soon(_watch, env, work, name="interrupts")
        with work:
            try:
                result.append(await function(*args))
            except Exception as error:  # noqa: BLE001 - raised in here, it would come out in a group
                failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not result:
        raise KeyboardInterrupt
    return result[0]


async def _watch(env: Environment, work: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT) as signals:
        async for _ in signals:
            if work.cancel_called:
                leave(env)
            env.stderr.write(STOPPING)
            env.stderr.flush()
            work.cancel()


def leave(env: Environment) -> None:
    """End the program without waiting for anything."""
    if env.stderr.isatty():
        env.stderr.write(_SHOW_CURSOR)
        env.stderr.flush()
    os._exit(EXIT_INTERRUPTED)
