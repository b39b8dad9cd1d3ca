"""Runs the command that the arguments name, and turns errors into messages and exit codes."""

import asyncio
import errno
import json
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from inspect import iscoroutinefunction
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, TypeVarTuple

import anyio

from openclaw.cli import parser
from openclaw.cli.build_version import version_text
from openclaw.cli.environment import Environment
from openclaw.cli.logging_setup import configure_for
from openclaw.cli.terminal import visible
from openclaw.config.state_version import record_version
from openclaw.core import errors

if TYPE_CHECKING:
    from anyio import CancelScope


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_OPTIONS = ("-v", "--verbose", "--log-json", "--config")
EXIT_INTERRUPTED = 130  # as a shell reports SIGINT
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
EXIT_BROKEN_PIPE = 141  # as a shell reports SIGPIPE


def dispatch(program: str, arguments: list[str]) -> int:
    if (wrong := _not_text(arguments)) is not None:
        sys.stderr.write(f"{program}: {wrong}\n")
        _usage_as_json(wrong, arguments)
        return errors.EXIT_USAGE
    at = _command_index(arguments)
    if at is None:
        return _no_command(program, arguments)
    name = arguments[at]
    rest = arguments[:at] + arguments[at + 1 :]
    if name == "help":
        return dispatch(program, [*rest, "--help"])
    if name not in parser.COMMANDS:
        return _unknown(program, "command", name, parser.COMMANDS)
    try:
        args = parser.parse(parser.command_parser(program, name), rest)
    except parser.WrongUsage as error:
        _usage_as_json(error.message, rest)
        return errors.EXIT_USAGE
    except SystemExit as finished:  # argparse has already printed help or what is wrong
        return finished.code if isinstance(finished.code, int) else errors.EXIT_USAGE
    return guarded(program, partial(_run_prepared, name), args)


# They report what is wrong with the state, or repair it, or don't use it.
_WITHOUT_STATE = ("completion", "doctor", "upgrade")


def _run_prepared(name: str, args: Namespace, env: "Environment") -> int:
    if name in _WITHOUT_STATE:
        return run_command(name, args, env)
    env.prepare_state(may_wait=name == "gateway")
    try:
        return run_command(name, args, env)
    finally:
        with suppress(errors.OperatorFacing):  # such as a directory that cannot be written
            record_version(env.paths.root)


def run_command(name: str, args: Namespace, env: "Environment") -> int:
    """Run the action that the arguments name, or the command itself; either may be async."""
    action: Any = getattr(args, "action", None) or parser.command_module(name).run
    if isinstance(action, str):  # imported only when this action runs
        module, _, function = action.partition(":")
        action = getattr(parser.command_module(module), function)
    if iscoroutinefunction(action):
        return run_interruptible(env, action, args, env) or errors.EXIT_OK
    return action(args, env) or errors.EXIT_OK


def _not_text(arguments: list[str]) -> str | None:
    """What is wrong with an argument that is not UTF-8: Python keeps its bytes as lone surrogates."""
    for word in arguments:
        if any("\ud800" <= char <= "\udfff" for char in word):
            decoded = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            return f"the argument '{visible(decoded)}' is not UTF-8 text"
    return None


def _command_index(arguments: list[str]) -> int | None:
    words = iter(enumerate(arguments))
    for index, word in words:
        if word == "--config":
            next(words, None)
        elif not word.startswith("-"):
            return index
    return None


def _help(program: str) -> str:
    width = max(map(len, parser.COMMANDS))
    lines = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in parser.COMMANDS.items())
    return f"""\
usage: {program} COMMAND [options]

A personal agent that plugs into any MCP server and that any MCP client can
delegate to. Start with: {program} init

commands:
{lines}

options:
  --version      show the version
  -h, --help     show this help; after a command, that command's help

on every command:
  --config PATH  the configuration file (default: ~/.openclaw/openclaw.json)
  -v, --verbose  log in detail, on stderr
  --log-json     log as JSON lines
"""


def _no_command(program: str, arguments: list[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(_help(program))
        return errors.EXIT_OK
    if "--version" in arguments:
        sys.stdout.write(f"{program} {version_text()}\n")
        return errors.EXIT_OK
    unknown = [word for word in arguments if word.startswith("-") and word not in _OPTIONS]
    if unknown:
        return _unknown(program, "option", unknown[0], (*_OPTIONS, "--version", "--help"))
    sys.stderr.write(_help(program))
    return errors.EXIT_USAGE


def _unknown(program: str, what: str, word: str, known: Iterable[str]) -> int:
    near = parser.nearest(word, known)
    guess = f" Did you mean '{near}'?" if near else ""
    sys.stderr.write(f"{program}: Unknown {what} {word!r}.{guess} See '{program} --help'.\n")
    return errors.EXIT_USAGE


def _usage_as_json(message: str, arguments: list[str]) -> None:
    """Report wrong usage to a program that asked for JSON; stderr already has it."""
    if "--json" in arguments:
        error = {"type": errors.InvalidRequest.__name__, "message": message}
        sys.stdout.write(json.dumps({"error": error}, indent=2) + "\n")


def guarded(program: str, action: Any, args: Namespace) -> int:
    """Run a command; errors become a message on stderr and an exit code."""
    runs_until_stopped = getattr(args, "runs_until_stopped", False)
    env = Environment(
        program=program, config_option=args.config, runs_until_stopped=runs_until_stopped
    )
    write_whatever_it_is(env.stdout)
    configure_for(env, args)
    try:
        code = action(args, env)
        env.stdout.flush()
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
        ended = _ended(env, errors.cause_of(error), as_json=getattr(args, "json", False))
        if ended is None:
            raise
        return ended
    else:
        return code


def write_whatever_it_is(stream: TextIO) -> None:
    """Escape what the stream cannot encode, such as lone surrogates in a file name."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _ended(env: Any, error: BaseException, *, as_json: bool) -> int | None:
    match error:
        case errors.OpenClawError():
            return _report(env, error, as_json=as_json)
        case KeyboardInterrupt():
            return EXIT_INTERRUPTED
        case OSError() if output_fails(error):
            return cannot_write(env.program, error)
        case OSError() if error.errno in NO_ROOM:
            message = f"cannot write to the disk: {error.strerror}"
            full = errors.OperatorFacing(message, hint="free some space and try again")
            return _report(env, full, as_json=as_json)
        case _:
            return None


def output_fails(error: OSError) -> bool:
    """Whether stdout has failed: a full disk elsewhere raises the same error."""
    if isinstance(error, BrokenPipeError):
        return True
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"")
    except ValueError:  # a stream without a descriptor
        return False
    except OSError:
        return True
    return False


def cannot_write(program: str, error: OSError) -> int:
    """Say on stderr that the output is lost, unless its reader left; returns the exit code."""
    # Otherwise writing the rest of the buffer fails again on exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return EXIT_BROKEN_PIPE
    sys.stderr.write(f"{program}: Cannot write the output: {error.strerror}.\n")
    return errors.EXIT_FAILED


def _report(env: Any, error: errors.OpenClawError, *, as_json: bool) -> int:
    if as_json:
        body: dict[str, Any] = {"type": type(error).__name__, "message": error.message}
        body |= {"hint": error.hint} if error.hint else {}
        if isinstance(error, errors.InvalidConfig):
            body["problems"] = [asdict(one) for one in error.problems]
        try:
            env.say_json({"error": body})
            env.stdout.flush()
        except OSError as lost:
            return cannot_write(env.program, lost)
    else:
        said = errors.describe(error) if isinstance(error, errors.InvalidConfig) else error.message
        env.warn(f"{env.program}: {errors.sentence(said)}")
        if error.hint:
            env.warn(f"  {errors.sentence(error.hint)}")
    return errors.exit_code(error) or errors.EXIT_FAILED


# ---- Ctrl-C: the first stops the work and says so at once, the second exits without waiting

STOPPING = "\nStopping… (Ctrl-C again to quit at once)\n"
_SHOW_CURSOR = "\x1b[?25h"


def run_interruptible(env: "Environment", function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run an async function to its end, or raise KeyboardInterrupt after its cleanup.

    A second Ctrl-C exits without waiting: remaining servers are ended from outside.
    """

    def tell() -> None:
        env.stderr.write(STOPPING)
        env.stderr.flush()

    async def watched() -> T:
        with stopped_by_interrupt(tell, lambda: exit_interrupted(env)) as work, work:
            return await function(*args)
        raise KeyboardInterrupt

    return anyio.run(watched)


@contextmanager
def stopped_by_interrupt(
    stopping: Callable[[], object], leave: Callable[[], None]
) -> "Generator[CancelScope]":
    """A scope that Ctrl-C cancels instead of the program; a second Ctrl-C doesn't wait."""
    scope = anyio.CancelScope()

    def interrupted() -> None:
        if scope.cancel_called:
            leave()
        stopping()
        scope.cancel()

    # There are no signal handlers on Windows' event loop or outside the main thread.
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield scope
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield scope
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def exit_interrupted(env: "Environment") -> None:
    if env.stderr.isatty():
        env.stderr.write(_SHOW_CURSOR)
        env.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)  # so that a shell sees an interrupted program
