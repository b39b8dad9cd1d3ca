"""Values from this machine: the environment, files, the desktop's keyring, and programs.

- `secret://env/VAR`: a variable of the environment this program was started in
- `secret://file/PATH[#FIELD]`: a file, or one field of a JSON file
- `secret://keyring/KEYRING_SERVICE/USER`: the desktop's keyring
- `secret://exec/NAME`: what a configured command prints, without the last newline
- `secret://op/VAULT/ITEM/FIELD`: 1Password, through its `op` command
"""

import asyncio
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process

from openclaw.core.errors import MissingExtra
from openclaw.core.tools import json_list, json_object
from openclaw.secrets.refs import KEYRING_SERVICE, STORE_FILE, SecretRef, read_store
from openclaw.secrets.resolver import BackendFailure

T = TypeVar("T")

_MOST_LEFT_BEHIND: Final = 16


class BlockingCalls:
    """Runs a library's blocking calls in daemon threads, so that a hanging call blocks nothing."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._slots = threading.Semaphore(_MOST_LEFT_BEHIND)

    async def run(self, call: Callable[[], T]) -> T:
        if not self._slots.acquire(blocking=False):
            raise BackendFailure(f"{_MOST_LEFT_BEHIND} earlier calls to {self._what} still hang")
        outcome: Future[T] = Future()
        outcome.set_running_or_notify_cancel()  # it can no longer be cancelled

        def body() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:  # noqa: BLE001 - re-raised in the caller
                outcome.set_exception(error)
            finally:
                self._slots.release()

        threading.Thread(target=body, name=f"{self._what} call", daemon=True).start()
        return await asyncio.wrap_future(outcome)


def not_empty(value: str, what: str = "the secret") -> str:
    if not value:
        raise BackendFailure(f"{what} is empty")
    return value


def field_of(text: str, path: str, *, what: str) -> str:
    """The field at `path` as text; a key that contains dots is tried before the path is split."""
    try:
        value = _walk(json.loads(text), path)
    except ValueError:
        raise BackendFailure(f"{what} is not JSON, so it has no fields") from None
    if value is None:
        raise BackendFailure(f"{what} has no field '{path}'")
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _walk(document: Any, path: str) -> Any:
    table = json_object(document) or {str(at): one for at, one in enumerate(json_list(document))}
    if path in table:
        return table[path]
    heads = [path[:at] for at, character in enumerate(path) if character == "."]
    known = next((head for head in reversed(heads) if head in table), None)
    return None if known is None else _walk(table[known], path[len(known) + 1 :])


Lookup = Callable[[str], Awaitable[str]]  # replaces the references in a configured value


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class EnvBackend:
    environ: Mapping[str, str]

    async def read(self, ref: SecretRef) -> str:
        value = self.environ.get(ref.name)
        if value:
            return value
        if value is None and not _NAME.fullmatch(ref.name):
            raise BackendFailure(
                "this is not the name of an environment variable",
                hint="if more text follows a reference, write <secret://env/VAR>",
            )
        state = "empty" if value == "" else "not set"
        raise BackendFailure(
            f"the environment variable {ref.name} is {state}",
            hint=f"set {ref.name}, or change what refers to it",
        )


# An absolute path is written with its own slash (`secret://file//run/secrets/token`) or
# without (`secret://file/run/secrets/token`): both mean `/run/secrets/token`. `~/…` is the home
# directory, and `./…` starts at `secrets.file.directory`, else at the state directory.

_NOT_BLOCKING: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
MAX_BYTES: Final = 1024 * 1024


class FileBackend:
    """Reads files of up to 1 MiB, and trims the newline that editors add at the end."""

    def __init__(self, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._home = Path(environ.get("HOME") or "/")
        directory = options.get("directory") or environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw"
        self._directory = self._home / str(directory).removeprefix("~/")

    async def read(self, ref: SecretRef) -> str:
        path = self._path(ref.name)
        text = await anyio.to_thread.run_sync(_read_file, path, abandon_on_cancel=True)
        if ref.fragment is None:
            return not_empty(text.removesuffix("\n").removesuffix("\r"), str(path))
        return not_empty(field_of(text, ref.fragment, what=str(path)), str(path))

    def _path(self, name: str) -> Path:
        if name == "~" or name.startswith("~/"):
            return self._home / name[2:]
        if name.startswith("~"):
            raise BackendFailure("only ~/ is understood, not another user's home")
        if name.startswith("./"):
            return self._directory / name
        return Path("/" + name.lstrip("/"))


def _read_file(path: Path) -> str:
    try:
        # Non-blocking, so that a pipe without a writer is refused at once.
        descriptor = os.open(path, os.O_RDONLY | _NOT_BLOCKING)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BackendFailure(f"{path} is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BackendFailure(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise BackendFailure(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BackendFailure(f"{path} is not UTF-8 text") from None


class KeyringBackend:
    def __init__(self, options: Mapping[str, Any]) -> None:
        self._service = str(options.get("service") or "openclaw")
        self._calls = BlockingCalls("the keyring")

    async def read(self, ref: SecretRef) -> str:
        service, slash, user = ref.name.rpartition("/")
        value = await self._calls.run(
            lambda: read_keyring(service if slash else self._service, user)
        )
        if not value:
            raise BackendFailure("the keyring has no such entry")
        return value


def read_keyring(service: str, user: str) -> str | None:
    try:
        import keyring
        from keyring.errors import KeyringError, KeyringLocked, NoKeyringError
    except ImportError:
        raise MissingExtra("secret://keyring/…", "keyring") from None
    try:
        return keyring.get_password(service, user)
    except NoKeyringError:
        raise BackendFailure("this machine has no keyring") from None
    except KeyringLocked:
        raise BackendFailure("the keyring is locked") from None
    except KeyringError as error:
        raise BackendFailure(f"the keyring failed with {type(error).__name__}") from None


MAX_OUTPUT: Final = 1024 * 1024
_REAP_SECONDS: Final = 2.0


def find_program(name: str, environ: Mapping[str, str]) -> str | None:
    program = shutil.which(name, path=environ.get("PATH") or os.defpath)
    return None if program is None else str(Path(program).absolute())


Reasons = Sequence[tuple[str, str]]


def _own_directory(environ: Mapping[str, str]) -> str | None:
    """The home directory: what lies in a project must not decide what a program does."""
    home = environ.get("HOME") or environ.get("USERPROFILE")
    return home if home and Path(home).is_dir() else None


async def output_of(
    argv: Sequence[str], environ: Mapping[str, str], what: str, reasons: Reasons = ()
) -> str:
    """A program's output; on cancellation it is killed with everything it started.

    `reasons` maps lower-case phrases in its error output to our messages: the output itself might
    reveal more than the reason.
    """
    process: Process | None = None
    try:
        # Cancelling during the start would leave the program's children running.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environ),
                cwd=_own_directory(environ),
                start_new_session=True,
            )
    except OSError as error:
        raise BackendFailure(f"cannot start {argv[0]}: {error.strerror}") from None
    assert process is not None
    output, errors = bytearray(), bytearray()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_all, process.stdout, output, name="read output")
            group.start_soon(_read_all, process.stderr, errors, name="read errors")
        code = await process.wait()
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    finally:
        await _end(process)
    if code != 0:
        said = errors.decode("utf-8", "replace").lower()
        known = next((reason for words, reason in reasons if words in said), None)
        raise BackendFailure(known or f"{what} failed with exit code {code}")
    try:
        return output.decode("utf-8")
    except UnicodeDecodeError:
        raise BackendFailure(f"what {argv[0]} printed is not UTF-8 text") from None


async def _read_all(stream: ByteReceiveStream | None, into: bytearray) -> None:
    assert stream is not None
    async for piece in stream:
        into += piece
        if len(into) > MAX_OUTPUT:
            raise BackendFailure(f"it printed more than {MAX_OUTPUT} bytes")


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


@dataclass(frozen=True, slots=True)
class ExecBackend:
    """Runs the commands in `secrets.exec`; a reference can name one but not add arguments."""

    commands: Mapping[str, Any]
    environ: Mapping[str, str]
    lookup: Lookup

    async def read(self, ref: SecretRef) -> str:
        command = self.commands.get(ref.name)
        if command is None:
            known = ", ".join(sorted(self.commands)) or "none"
            raise BackendFailure(
                f"no command '{ref.name}' is configured", hint=f"secrets.exec has: {known}"
            )
        program = find_program(command["command"], self.environ)
        if program is None:
            raise BackendFailure(f"the program {command['command']} was not found")
        environ = {key: self.environ[key] for key in _INHERITED if key in self.environ}
        given: Mapping[str, Any] = command.get("env") or {}
        for key, value in given.items():
            environ[key] = await self.lookup(str(value))
        limit = command.get("timeout_ms")
        with anyio.move_on_after(limit / 1000 if limit else None):
            what = f"the command '{ref.name}'"
            output = await output_of([program, *command.get("args", ())], environ, what)
            value = output.removesuffix("\n").removesuffix("\r")
            if not value:
                raise BackendFailure(f"{what} printed nothing")
            return value
        raise BackendFailure(f"the command took longer than {limit} ms")


_OP_REASONS: Final = (
    ("isn't a vault", "there is no such vault"),
    ("isn't an item", "there is no such item"),
    ("isn't a field", "the item has no such field"),
    ("does not have a field", "the item has no such field"),
    ("signed in", "nobody is signed in to 1Password"),
    ("session expired", "the 1Password session has expired"),
    ("authorization", "1Password refused"),
)


@dataclass(frozen=True, slots=True)
class OpBackend:
    options: Mapping[str, Any]
    environ: Mapping[str, str]

    async def read(self, ref: SecretRef) -> str:
        program = find_program("op", self.environ)
        if program is None:
            raise BackendFailure(
                "the 1Password command 'op' is not installed",
                hint="see https://developer.1password.com/docs/cli",
            )
        named = self.options.get("account")
        account = ["--account", str(named)] if named else []
        argv = [program, "read", "--no-newline", *account, f"op://{self._path(ref.name)}"]
        return not_empty(await output_of(argv, self.environ, "op", _OP_REASONS), "the field")

    def _path(self, name: str) -> str:
        parts, vault = name.strip("/").split("/"), self.options.get("vault")
        if len(parts) == 2 and vault:
            parts.insert(0, str(vault))
        if len(parts) not in (3, 4) or not all(parts):
            raise BackendFailure("write secret://op/VAULT/ITEM/FIELD")
        return "/".join(parts)


class StoreBackend:
    """Secrets stored with `openclaw secrets set`; read every time, since they may have changed."""

    def __init__(self, state: Path) -> None:
        self._path = state / STORE_FILE

    async def read(self, ref: SecretRef) -> str:
        return await anyio.to_thread.run_sync(self._read, ref.name, abandon_on_cancel=True)

    def _read(self, name: str) -> str:
        found = read_store(self._path)
        if name not in found:
            raise BackendFailure(
                f"nothing is stored as {name}", hint=f"store it with: openclaw secrets set {name}"
            )
        value = found[name]
        try:
            value = read_keyring(KEYRING_SERVICE, name) if value is None else value
        except MissingExtra:
            raise BackendFailure("its value is in the keyring, which cannot be used now") from None
        if not value:
            raise BackendFailure("the keyring no longer has it")
        return value
