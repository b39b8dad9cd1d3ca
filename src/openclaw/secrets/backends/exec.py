"""`secret://exec/NAME`: what a configured command prints, without the last newline."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import ByteReceiveStream, Process

from openclaw.secrets.backends.support import Lookup
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

MAX_OUTPUT: Final = 1024 * 1024
_REAP_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Finished:
    """What a program left: its exit code and what it printed."""

    code: int
    output: str
    errors: str


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    """Where the program is, by the PATH of the environment that was handed in."""
    return shutil.which(name, path=environ.get("PATH") or os.defpath)


async def run_program(argv: Sequence[str], environ: Mapping[str, str]) -> Finished:
    """Run a program to its end; cancelled, it is killed with everything that it started."""
    try:
        process = await anyio.open_process(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            start_new_session=True,
        )
    except OSError as error:
        raise BackendFailure(f"cannot start {argv[0]}: {error.strerror}") from None
    collected: dict[str, bytes] = {}

    async def collect(name: str, stream: ByteReceiveStream | None) -> None:
        assert stream is not None
        collected[name] = await _read_all(stream)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(collect, "output", process.stdout, name="read output")
            group.start_soon(collect, "errors", process.stderr, name="read errors")
        code = await process.wait()
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    finally:
        await _end(process)
    try:
        output = collected["output"].decode("utf-8")
    except UnicodeDecodeError:
        raise BackendFailure(f"what {argv[0]} printed is not UTF-8 text") from None
    return Finished(code, output, collected["errors"].decode("utf-8", "replace"))


async def _read_all(stream: ByteReceiveStream) -> bytes:
    data = bytearray()
    async for piece in stream:
        data += piece
        if len(data) > MAX_OUTPUT:
            raise BackendFailure(f"it printed more than {MAX_OUTPUT} bytes")
    return bytes(data)


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    with anyio.move_on_after(_REAP_SECONDS, shield=True):
        await process.aclose()


# What a program needs to run at all; anything else has to be given to it in the configuration.
_INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ",
                     "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS",
                     "SSH_AUTH_SOCK", "GNUPGHOME", "GPG_TTY", "DISPLAY", "WAYLAND_DISPLAY")  # fmt: skip


class ExecBackend:
    """Runs the commands of `secrets.exec`; a reference only ever names one, it cannot add to it."""

    def __init__(
        self, commands: Mapping[str, Any], environ: Mapping[str, str], lookup: Lookup
    ) -> None:
        self._commands = commands
        self._environ = environ
        self._lookup = lookup

    async def read(self, ref: SecretRef) -> str:
        """The command's output."""
        command = self._commands.get(ref.name)
        if command is None:
            known = ", ".join(sorted(self._commands)) or "none"
            raise BackendFailure(
                f"no command '{ref.name}' is configured", hint=f"secrets.exec has: {known}"
            )
        program = find_program(command["command"], self._environ)
        if program is None:
            raise BackendFailure(f"the program {command['command']} was not found")
        environ = {key: self._environ[key] for key in _INHERITED if key in self._environ}
        given: Mapping[str, Any] = command.get("env") or {}
        for key, value in given.items():
            environ[key] = await self._lookup(str(value))
        limit = command.get("timeout_ms")
        with anyio.move_on_after(limit / 1000 if limit else None):
            finished = await run_program([program, *command.get("args", ())], environ)
            return _value(ref.name, finished.code, finished.output)
        raise BackendFailure(f"the command took longer than {limit} ms")


def _value(name: str, code: int, output: str) -> str:
    if code != 0:
        raise BackendFailure(f"the command '{name}' failed with exit code {code}")
    value = output.removesuffix("\n").removesuffix("\r")
    if not value:
        raise BackendFailure(f"the command '{name}' printed nothing")
    return value
